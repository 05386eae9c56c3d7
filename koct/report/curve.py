"""Report the learning curve that pairs predict: as text, as JSON or as a figure."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.errors import KoctError
from koct.risk.spectral import Prediction, Spectral

BEYOND = 8  # times the pairs at hand, up to where the curve is continued
DECADES = range(-8, 3)  # of λ, relative to the mean of ‖x‖²


class Required(NamedTuple):
    """How many samples a target takes; None where the curve does not get there within `BEYOND` times the pairs."""

    n: int | None
    n_low: int | None
    n_high: int | None

    @property
    def reachable(self) -> bool:
        return self.n is not None


class Curve:
    """The predicted curve of a pool, with the best λ at every N or a given one."""

    def __init__(self, theory: Spectral, lam: float | None = None):
        self.theory = theory
        mean = float(theory.values.mean())
        self.lambdas = [lam] if lam is not None else [mean * 10.0**power for power in DECADES]
        sizes = [2**k for k in range(1, 64) if 2**k < theory.M] + [theory.M]
        sizes += [theory.M * 2**k for k in range(1, BEYOND.bit_length())]
        self.octaves = self.at(sizes)

    def at(self, sizes: Sequence[int]) -> list[Prediction]:
        return self.theory.best_curve(sizes, self.lambdas)

    def required(self, target: float) -> Required:
        """By interpolation between octaves."""
        if not target > 0:
            raise KoctError(f"--target {target:g}: give an error above 0")
        return Required(*(self._crossing(name, target) for name in ("error", "low", "high")))

    def _crossing(self, name: str, target: float) -> int | None:
        N = np.log([point.N for point in self.octaves])
        error = np.minimum.accumulate([getattr(point, name) for point in self.octaves])
        below = np.flatnonzero(error <= target)
        if not len(below):
            return None
        last = int(below[0])
        if last == 0:
            return self.octaves[0].N
        falls = np.log(error[last - 1 : last + 1].clip(1e-300))
        share = (falls[0] - np.log(target)) / (falls[0] - falls[1])
        return int(np.ceil(np.exp(N[last - 1] + share * (N[last] - N[last - 1]))))


def read_pairs(paths: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """x and y from an .npz file, or from two .npy files."""
    if len(paths) > 2 or (len(paths) == 2 and any(path.endswith(".npz") for path in paths)):
        raise KoctError("give one .npz file with the arrays x and y, or two .npy files, that of x first")
    if len(paths) == 1:
        loaded = _load(paths[0])
        if isinstance(loaded, np.ndarray):
            raise KoctError(f"{paths[0]} holds one array; give a second .npy file with y, or an .npz with x and y")
        missing = [name for name in ("x", "y") if name not in loaded]
        if missing:
            raise KoctError(f"{paths[0]} has no array {missing[0]!r}, but {', '.join(loaded) or 'none'}; name it so")
        return _member(paths[0], loaded, "x"), _member(paths[0], loaded, "y")
    x, y = (_load(path) for path in paths)
    return x, y


def _load(path: str) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, OSError) and not os.path.isfile(path):
            raise
        raise KoctError(f"{path} is no NumPy file of numbers ({error}); write it with np.save or np.savez") from None


def _member(path: str, loaded: Any, name: str) -> np.ndarray:
    try:
        return loaded[name]
    except Exception as error:  # whatever zipfile, zlib or NumPy make of a damaged file
        raise KoctError(f"{path}: the array {name!r} cannot be read ({error})") from None


# As text, JSON and picture


def as_json(curve: Curve, points: Sequence[Prediction], target: float | None) -> str:
    shown = ("N", "lam", "error", "low", "high", "trusted", "reason")
    result: dict[str, Any] = {"pairs": curve.theory.M, "outputs": curve.theory.outputs}
    result["points"] = [{name: getattr(point, name) for name in shown} for point in points]
    if target is not None:
        required = curve.required(target)
        result |= {"target": target, **required._asdict(), "reachable": required.reachable}
    return json.dumps(result, indent=1, allow_nan=False)


def as_text(curve: Curve, points: Sequence[Prediction], target: float | None) -> str:
    rows = [["N", "λ", "error", "90 % interval", ""]]
    for point in points:
        interval = f"{point.low:.3g} to {point.high:.3g}"
        rows.append([f"{point.N:,}", f"{point.lam:.2g}", f"{point.error:.3g}", interval, point.reason])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines[:1] + [line for line in lines if line])))
    lines += ["", f"From {curve.theory.M:,} pairs with {curve.theory.outputs:,} outputs. {_more(curve)}"]
    if target is not None:
        lines.append(_sentence(curve.required(target), target, curve.theory.M))
    return "\n".join(lines) + "\n"


def _more(curve: Curve) -> str:
    """What twice the pairs would bring."""
    here = next(point for point in curve.octaves if point.N == curve.theory.M)
    there = next(point for point in curve.octaves if point.N == 2 * curve.theory.M)
    return (
        f"Training on all of them should give {here.error:.3g}; twice as many about {there.error:.3g}, "
        f"{1 - there.error / here.error:.0%} less.".replace("%", " %")
    )


def _sentence(required: Required, target: float, pairs: int) -> str:
    if required.n is None:
        low = f", {required.n_low:,} at best" if required.n_low else ""
        return f"An error of {target:g} is not reached with up to {BEYOND * pairs:,} samples{low}."
    high = f"{required.n_high:,}" if required.n_high else "more than can be told"
    beyond = f"; beyond the {pairs:,} pairs at hand the curve is continued as a line" if required.n > pairs else ""
    return f"An error of {target:g} takes about {required.n:,} samples (between {required.n_low:,} and {high}){beyond}."


def plot(curve: Curve, target: float | None, path: str | os.PathLike[str]) -> None:
    """The curve, its interval, and the target; dashed beyond the pairs at hand."""
    from koct.report import figures

    points = curve.octaves
    inside = [point for point in points if point.N <= curve.theory.M]
    outside = [point for point in points if point.N >= curve.theory.M]
    with figures.styled():
        figure, axes = figures.panels(1, 1, size=(3.4, 2.5), left=0.8, right=0.5, legend=0)
        axis = axes[0, 0]
        axis.fill_between(
            [point.N for point in points],
            [point.low for point in points],
            [point.high for point in points],
            color="C0",
            alpha=0.15,
            linewidth=0,
        )
        axis.plot([point.N for point in inside], [point.error for point in inside], "o-", color="C0", markersize=3)
        axis.plot([point.N for point in outside], [point.error for point in outside], "--", color="C0")
        flagged = [point for point in inside if not point.trusted]
        axis.plot([point.N for point in flagged], [point.error for point in flagged], "o", color="C3", markersize=4)
        if target is not None:
            axis.axhline(target, color="0.3", linestyle=":", linewidth=1)
            axis.text(1, target, " target", color="0.3", va="center", transform=axis.get_yaxis_transform())
            required = curve.required(target)
            if required.reachable:
                axis.plot([required.n], [target], "*", color="C0", markersize=8, zorder=4)
        axis.axvline(curve.theory.M, color="0.7", linewidth=0.7)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("training samples $N$")
        axis.set_ylabel("mean squared error")
        figures.save(figure, [path])
