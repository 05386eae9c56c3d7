"""Pairs on disk, the curve that they predict at every octave, and how many samples a target takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.errors import KoctError
from koct.risk.spectral import Prediction, Spectral

FARTHEST = 8  # times the pairs at hand, up to where the curve is continued
DECADES = range(-8, 3)  # of λ, relative to the mean of ‖x‖²


class Required(NamedTuple):
    """How many samples a target takes; None where the curve does not get there within `FARTHEST` times the pairs."""

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
        sizes += [theory.M * 2**k for k in range(1, FARTHEST.bit_length())]
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
