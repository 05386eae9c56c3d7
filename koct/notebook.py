"""What a notebook uses: pilots from tables, plots, and tables where an object is shown.

from koct import Forecast
forecast = Forecast(frame)  # a DataFrame with the columns N and error, and seed where there is one
forecast.plot(target=0.01)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from koct.bound import theorem
from koct.errors import KoctError
from koct.forecast import budget, runs
from koct.prediction import curve
from koct.prediction.spectral import Spectral

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEYOND = (1, 2, 4, 8)  # times the largest N, in a table
COLOUR = "#0b6e4f"
Bound = theorem.BoundNetwork


class Pilot(runs.Pilot):
    __doc__ = runs.Pilot.__doc__

    @classmethod
    def from_table(cls, table: Any, error: str = "error", test_size: int | None = None) -> Pilot:
        """From a DataFrame, or {column: values}: N, the column `error`, and where there are some, seed and group."""
        missing = [name for name in ("N", error) if name not in table]
        if missing:
            raise KoctError(f"the table has no column {missing[0]}, but {', '.join(map(str, table))}; name it so")
        if "arch" in table and len(archs := set(np.asarray(table["arch"]))) > 1:
            raise KoctError(f"the table has runs of {', '.join(sorted(map(str, archs)))}; take those of one network")
        given = {name: np.asarray(table[name]) for name in ("seed", "group") if name in table}
        return cls.from_points(np.asarray(table["N"]), np.asarray(table[error]), **given, test_size=test_size)  # type: ignore[return-value]

    def _repr_html_(self) -> str:
        return _html(("N", "runs", "mean error"), zip(self.N.astype(int), self.runs, self.mean, strict=True))


class Forecast(budget.Forecast):
    __doc__ = budget.Forecast.__doc__

    def __init__(self, pilot: Any, *settings: Any, **named: Any) -> None:
        super().__init__(pilot if isinstance(pilot, runs.Pilot) else Pilot.from_table(pilot), *settings, **named)

    def plot(self, target: float | None = None, axis: Axes | None = None) -> Axes:
        """Draw the runs and the forecast with its 90 % interval, and where it reaches a target; the axes."""
        n = None if target is None else self.required(target).n
        N = np.geomspace(self.pilot.N[0], max(4 * self.pilot.N[-1], 1.5 * (n or 0)), 200)
        axis = _draw(axis, N, *self.predict(N), label="forecast")
        axis.plot(self.pilot.N, self.pilot.errors.T, "_", color=COLOUR, alpha=0.5)
        axis.plot(self.pilot.N, self.pilot.mean, "o", color=COLOUR, label="pilot")
        return _with_target(axis, target, n, "error")

    def _repr_html_(self) -> str:
        N = self.pilot.N[-1] * np.array(BEYOND)
        rows = zip(N.astype(int), *self.predict(N), strict=True)
        return _html(("N", "error", "from", "to"), rows, f"{self.formula_}; 90 % intervals")


class Curve(curve.Curve):
    """The curve that pairs predict before any training: of arrays x and y, or of a fitted `Spectral`."""

    def __init__(self, x: Any, y: Any = None, lam: float | None = None) -> None:
        theory = x if isinstance(x, Spectral) else Spectral().fit(np.asarray(x), np.asarray(y))
        super().__init__(theory, None if lam is None else [lam])

    def plot(self, target: float | None = None, axis: Axes | None = None) -> Axes:
        """Draw the mean squared error at every octave with its 90 % interval, dashed beyond the pairs; the axes."""
        N, error, low, high = (np.array([getattr(point, key) for point in self.octaves]) for key in POINT)
        within = self.theory.M >= N
        axis = _draw(axis, N[within], error[within], low[within], high[within], label="predicted")
        axis.plot(N[within.sum() - 1 :], error[within.sum() - 1 :], "--", color=COLOUR, label="beyond the pairs")
        return _with_target(axis, target, None if target is None else self.required(target).n, "mean squared error")

    def _repr_html_(self) -> str:
        rows = ([*(getattr(point, key) for key in POINT), point.reason] for point in self.octaves)
        return _html(("N", "mean squared error", "from", "to", "remark"), rows, f"from {self.theory.M:,} pairs")


POINT = ("N", "error", "low", "high")


def _draw(axis: Axes | None, N: Any, error: Any, low: Any, high: Any, label: str) -> Axes:
    if axis is None:
        import matplotlib.pyplot as plt

        _, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axis.fill_between(N, low, high, color=COLOUR, alpha=0.15, linewidth=0, label="90 % interval")
    axis.plot(N, error, color=COLOUR, label=label)
    axis.set(xscale="log", yscale="log")
    return axis


def _with_target(axis: Axes, target: float | None, n: int | None, what: str) -> Axes:
    if target is not None:
        axis.axhline(target, color="0.3", linestyle=":", label=f"target {target:g}")
        if n is not None:
            axis.plot([n], [target], "*", color=COLOUR, markersize=10, label=f"N = {n:,}")
    axis.set(xlabel="training samples N", ylabel=what)
    axis.legend(frameon=False)
    return axis


def _html(head: Sequence[str], rows: Iterable[Iterable[Any]], caption: str = "") -> str:
    lines = ["".join(f"<th>{escape(name)}</th>" for name in head)]
    lines += ["".join(f"<td>{escape(_shown(value))}</td>" for value in row) for row in rows]
    return f"<table><caption>{escape(caption)}</caption>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int | np.integer) else f"{value:.3g}"
