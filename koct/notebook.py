"""What a notebook uses: pilots from tables, plots, and tables where an object is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from koct.base.messages import listed, printable
from koct.bound import theorem
from koct.errors import KoctError
from koct.forecast import budget, runs, scores
from koct.forecast.laws import Priors
from koct.forecast.pilot import PilotFile
from koct.forecast.runs import FloatArray
from koct.forecast.scores import Score
from koct.prediction import curve
from koct.prediction.spectral import Spectral

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

BEYOND = (1, 2, 4, 8)  # times the largest N, in a table
COLOUR = "#0b6e4f"
Table: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | pd.DataFrame"
Bound = theorem.BoundNetwork


class Pilot(runs.Pilot):
    __doc__ = runs.Pilot.__doc__

    @classmethod
    def from_table(
        cls,
        table: Table,
        error: str | None = None,
        test_size: int | None = None,
        *,
        arch: str | None = None,
        higher: float | None = None,
        group: str | None = None,
        sweep: str | None = None,
        columns: str | Mapping[str, str] | None = None,
    ) -> Pilot:
        """Return the pilot of one architecture in a table.

        Parameters
        ----------
        table : the path of a CSV or Parquet file, a DataFrame, or {column: values}
        error : the metric
        test_size, arch, higher, group, sweep, columns : as of `Forecast`

        Returns
        -------
        pilot : its runs
        """
        return cls._read(PilotFile(table), arch, error, sweep, higher, group, test_size, columns)

    @classmethod
    def _read(cls, file: PilotFile, arch: str | None, *reading: Any) -> Pilot:
        pilots = file.pilots(*reading)
        if arch is None and len(pilots) > 1:
            example = f'Forecast(…, arch="{next(iter(pilots))}")'
            raise KoctError(printable(f"{file.path} has runs of {listed(list(pilots))}; choose one, like {example}"))
        if arch is not None and arch not in pilots:
            raise KoctError(printable(f"{file.path} has no arch {arch}; choose one of {listed(list(pilots))}"))
        pilot = pilots[next(iter(pilots)) if arch is None else arch]
        return cls(pilot.N, pilot.errors, pilot.groups, pilot.test_size, pilot.floor)

    def _repr_html_(self) -> str:
        return _html(("N", "runs", "mean error"), zip(self.N.astype(int), self.runs, self.mean, strict=True))


class Forecast(budget.Forecast):
    """What a pilot and the learning curves of others tell about the errors at larger N.

    Every law is weighed by how well it explains the pilot; replicates are curves drawn from all that remains plausible.
    The forecast is their median, and intervals are their quantiles.

    Parameters
    ----------
    pilot : the pilot runs: the path of a CSV or Parquet file, a DataFrame, {column: values}, or a `Pilot`
    law : "auto" for all laws together, one of `koct.forecast.laws.LAWS`, or "theory" for the curve that pairs predict
    replicates : number of replicates
    seed : seed of their random numbers
    theory : the curve that pairs predict, if there are any
    priors : what other learning curves look like; by default, those that koct has learned from
    metric : the column of errors, or of a score such as "accuracy" or "psnr"; by default the only one there is. Of a
        score, targets and predictions are scores.
    higher : the metric is a score, where higher is better, and this is the best one
    arch : the architecture, if the table has several
    columns : what the columns are, where synonyms do not tell: {"N": "n_train", "arch": "model"}
    group, test_size, sweep : as of `koct.forecast.pilot.PilotFile.pilots`

    Attributes
    ----------
    law_ : name of the most probable law
    weights_ : {name: probability} of all laws
    formula_ : the laws for people to read
    warnings_ : what is wrong with the pilot, one sentence each
    notes_ : what was understood of the table, and what was not used, one sentence each
    score_ : the score, if the metric is one
    curves_ : the replicates
    spreads_ : for each of them, the standard deviation of the log error of single runs, shape (replicates,)

    Examples
    --------
    >>> from koct import Forecast
    >>> table = {"n_train": [16, 32, 64, 128], "val_loss": [0.2, 0.14, 0.1, 0.07], "notes": ["", "", "", "slow"]}
    >>> forecast = Forecast(table)
    >>> forecast.notes_
    ['N from n_train, error from val_loss; not used: notes']
    >>> answer = forecast.required(0.05)
    >>> answer.n_low < 256 < answer.n < 300
    True
    >>> error, low, high = forecast.predict([256, 512])
    >>> error.shape
    (2,)
    """

    def __init__(
        self,
        pilot: runs.Pilot | Table,
        law: str = "auto",
        replicates: int = budget.REPLICATES,
        seed: int = 0,
        theory: curve.Curve | None = None,
        priors: Priors | None = None,
        *,
        metric: str | None = None,
        higher: float | None = None,
        arch: str | None = None,
        columns: str | Mapping[str, str] | None = None,
        group: str | None = None,
        test_size: int | None = None,
        sweep: str | None = None,
    ) -> None:
        reading = (metric, sweep, higher, group, test_size, columns)
        self.notes_: list[str] = []
        self.score_: Score | None = None
        if not isinstance(pilot, runs.Pilot):
            file = PilotFile(pilot)
            self.score_, self.notes_ = scores.named(file.metric(metric, sweep, higher, columns), higher), file.notes
            pilot = Pilot._read(file, arch, *reading)
        elif any(each is not None for each in (*reading, arch)):
            raise KoctError(
                "metric, arch, columns and the like say how to read a table, and a Pilot is read; omit them"
            )
        super().__init__(pilot, law, replicates, seed, theory, priors)

    def predict(self, N: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the error, or the score, at each N.

        Parameters
        ----------
        N : numbers of samples from 2 on, shape (n,)

        Returns
        -------
        error, low, high : the median and the ends of the 90 % interval, shape (n,) each
        """
        error, low, high = super().predict(N)
        return (error, low, high) if self.score_ is None else tuple(map(self.score_.score, (error, high, low)))  # type: ignore[return-value]

    def required(self, target: float, assurance: float | None = None) -> budget.Answer:
        """Return the number of samples that brings the mean error down to `target`, or the score up to it.

        Parameters
        ----------
        target : the error or score to reach
        assurance : the share of single runs that has to reach it, for example 0.9; by default the mean over runs has to

        Returns
        -------
        answer : `n` samples with the interval from `n_low` to `n_high`; errors of a score are scores
        """
        answer = super().required(self._error(target), assurance)
        if self.score_ is None:
            return answer
        error, low, high = (float(self.score_.score(e)) for e in (answer.error, answer.error_high, answer.error_low))
        return replace(answer, target=target, error=error, error_low=low, error_high=high)

    def chance(self, target: float, N: ArrayLike, assurance: float | None = None) -> FloatArray:
        """Return the probability that each N reaches the target, shape (n,); `required` says what `assurance` is."""
        return super().chance(self._error(target), N, assurance)

    def _error(self, target: float) -> float:
        return target if self.score_ is None else self.score_.target(target)

    def plot(self, target: float | None = None, axis: Axes | None = None) -> Axes:
        """Draw the runs and the forecast with its 90 % interval, and where it reaches a target; return the axes."""
        n = None if target is None else self.required(target).n
        N = np.geomspace(self.pilot.N[0], max(4 * self.pilot.N[-1], 1.5 * (n or 0)), 200)
        axis = _draw(axis, N, *self.predict(N), label="forecast")
        errors, mean = self.pilot.errors, self.pilot.mean
        if self.score_ is not None:
            errors, mean = self.score_.score(errors), self.score_.score(mean)
            axis.set_yscale("linear")
        axis.plot(self.pilot.N, errors.T, "_", color=COLOUR, alpha=0.5)
        axis.plot(self.pilot.N, mean, "o", color=COLOUR, label="pilot")
        return _with_target(axis, target, n, "error" if self.score_ is None else self.score_.label)

    def _repr_html_(self) -> str:
        N = self.pilot.N[-1] * np.array(BEYOND)
        rows = zip(N.astype(int), *self.predict(N), strict=True)
        name = "error" if self.score_ is None else self.score_.name
        caption = "; ".join([self.formula_, "90 % intervals", *self.notes_])
        return _html(("N", name, "from", "to"), rows, caption)


class Curve(curve.Curve):
    """The curve that pairs predict before any training.

    Parameters
    ----------
    x : measurements of shape (samples, ...), or a fitted `Spectral`
    y : images of shape (samples, ...); none of a `Spectral`
    lam : ridge strength; by default the best of eleven decades at every N

    Examples
    --------
    >>> from koct import Curve
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((64, 8))
    >>> curve = Curve(x, x[:, :3] + 0.1 * rng.standard_normal((64, 3)))
    >>> curve.required(target=0.02).n < 32
    True
    """

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
