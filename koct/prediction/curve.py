"""Pairs on disk, the curve that they predict at every octave, and how many samples a target takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.base.arrays import blocks
from koct.base.loglog import first_at
from koct.errors import KoctError
from koct.prediction.prediction import Prediction, checked
from koct.prediction.spectral import Spectral

FARTHEST = 8  # times the pairs at hand, up to where the curve is continued
DECADES = range(-8, 3)  # of λ, relative to the mean of ‖x‖²
MATRICES = 6  # of samples × samples in float64 that a prediction holds at a time; 5.5 were measured


class SamplesForTarget(NamedTuple):
    """How many samples a target takes; None where the curve does not get there within `FARTHEST` times the pairs.

    `reason` says why n is not to be trusted; it is empty if it is.
    """

    n: int | None
    n_low: int | None
    n_high: int | None
    reason: str = ""

    @property
    def reachable(self) -> bool:
        return self.n is not None


class Curve:
    """The predicted curve of a pool, with the best λ at every N.

    Parameters
    ----------
    theory : fitted to the pool
    lambdas : ridge strengths to choose from; by default eleven decades around the mean of ‖x‖²

    Attributes
    ----------
    octaves : predictions at powers of two, and up to eight times the pool
    """

    def __init__(self, theory: Spectral, lambdas: Sequence[float] | None = None):
        self.theory = theory
        mean = float(theory.values.mean())
        self.lambdas = list(lambdas or (mean * 10.0**power for power in DECADES))
        sizes = [2**k for k in range(1, 64) if 2**k < theory.M] + [theory.M]
        sizes += [theory.M * 2**k for k in range(1, FARTHEST.bit_length())]
        with np.errstate(all="ignore"):
            self.octaves = self.at(sizes)
        if not all(np.isfinite(point.error) for point in self.octaves):
            raise KoctError("x or y has numbers too large or too small to be squared; divide each by its largest")

    def at(self, sizes: Sequence[int]) -> list[Prediction]:
        """Return predictions at every N, each with its best λ."""
        return self.theory.best_curve(sizes, self.lambdas)

    def required(self, target: float) -> SamplesForTarget:
        """Return how many samples a mean squared error takes, by interpolation between octaves.

        n_low ≤ n ≤ n_high are where the ends of the interval get there.
        """
        if not target > 0:
            raise KoctError(f"--target {target:g}: give an error above 0")
        N = [point.N for point in self.octaves]
        ends = ([getattr(point, name) for point in self.octaves] for name in ("error", "low", "high"))
        n, n_low, n_high = (crossing(N, errors, target) for errors in ends)
        if n is None:
            return SamplesForTarget(n, n_low, n_high, f"the curve is above {target:g} up to N = {N[-1]}")
        lam = self.octaves[int(np.searchsorted(N, n))].lam
        return SamplesForTarget(n, n_low, n_high, self.theory.predict(n, lam).reason)


def crossing(N: Sequence[int], errors: Sequence[float], target: float) -> int | None:
    """Return the first N at which a curve is at the target, rounded up; None if it does not get there."""
    lowest = np.minimum.accumulate(np.asarray(errors, float)).clip(1e-300)
    n = first_at(N, lowest, target)
    return int(np.ceil(n - 1e-9)) if np.isfinite(n) else None


def read_pairs(paths: Sequence[str], memory: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y from an .npz file, or from two .npy files, which are mapped and read in blocks.

    `memory`: bytes that there are; pairs whose matrices need more are refused before any is read. Values that cannot be
    squared are refused too.
    """
    if len(paths) > 2 or (len(paths) == 2 and any(path.endswith(".npz") for path in paths)):
        raise KoctError("give one .npz file with the arrays x and y, or two .npy files, that of x first")
    arrays = {name: _load(paths[-1 if name == "y" else 0], name, len(paths) == 1) for name in "xy"}
    count = max(len(array) if array.ndim else 0 for array in arrays.values())
    if memory is not None and (needed := 8.0 * MATRICES * count**2) > memory:
        raise KoctError(
            f"{count:,} pairs need about {needed / 2**30:,.0f} GiB of memory, for matrices of samples × samples, "
            f"and there are {memory / 2**30:,.1f}; give at most {int(np.sqrt(memory / MATRICES / 8)):,} of them"
        )
    for name, array in arrays.items():
        _check_squares(name, checked(name, array))
    return arrays["x"], arrays["y"]


def _load(path: str, name: str, alone: bool) -> Any:
    """The array in a .npy file, unless it is given `alone`, or that of this name in an .npz file."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray):
            names, array = ["one without a name"], None if alone else found
        else:
            with found:
                names, array = list(found), found.get(name)
    except Exception as error:  # whatever zipfile, tokenize or NumPy make of a damaged file
        if isinstance(error, OSError) and not os.path.isfile(path):
            raise
        raise KoctError(f"{path} is no NumPy file of numbers ({error}); write it with np.save or np.savez") from None
    if array is None:
        fix = "give an .npz file with x and y, or two .npy files"
        raise KoctError(f"{path} has no array {name!r}, but {', '.join(names) or 'none'}; {fix}")
    return array


def _check_squares(name: str, array: np.ndarray) -> None:
    """Refuse finite values that are all zero, or whose squares are not numbers of the same precision."""
    width = array.size // len(array)
    parts = (array[rows] for rows in blocks(len(array), width))
    largest = max(abs(float(end)) for part in parts for end in (part.min(), part.max()))
    if largest == 0:
        raise KoctError(f"{name} is zero in all pairs, so there is nothing to learn; give {name} that vary")
    limits = np.finfo(array.dtype if array.dtype == np.float32 else float)
    if not np.sqrt(limits.tiny) < largest < np.sqrt(limits.max / width):
        raise KoctError(f"{name} has values up to {largest:.2g}, whose squares {limits.dtype} cannot hold; rescale it")
