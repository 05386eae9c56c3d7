"""What every prediction of a learning curve has, and what it is made from: pairs that can be used."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from koct.base.arrays import blocks, double, is_torch, to_numpy
from koct.errors import KoctError

NORMAL = 1.6448536269514722  # standard deviations on either side of a 90 % interval
PER_OCTAVE = 0.05  # relative error that every octave beyond the pool adds to the interval


class Prediction(NamedTuple):
    """The error after training on N samples with a ridge; `low` and `high` are for a single draw of them (90 %)."""

    N: int
    lam: float
    error: float  # mean squared error on new samples, over outputs
    low: float
    high: float
    per_sample: np.ndarray  # expected errors of the pool's samples, as if they were new
    trusted: bool
    reason: str  # why not, if not
    train_error: float = float("nan")  # where it is known: up to the size of the pool, of `Spectral`
    df: float = float("nan")  # degrees of freedom of the fit; likewise


def checked_pairs(x: Any, y: Any) -> tuple[Any, Any]:
    """x and y as arrays of real, finite numbers and of one length."""
    x, y = checked("x", x), checked("y", y)
    if len(x) != len(y):
        raise KoctError(f"x has {len(x)} samples and y has {len(y)}; give as many of one as of the other")
    return x, y


def checked(name: str, array: Any) -> Any:
    """An array (samples, ...) of real, finite numbers."""
    if not is_torch(array):
        array = np.asarray(array)
        if array.dtype.kind not in "fiub":
            raise KoctError(f"{name} holds {array.dtype}; give real numbers")
    if array.ndim == 0 or 0 in array.shape:
        raise KoctError(f"{name} has no numbers; give an array of shape (samples, ...)")
    for rows in blocks(len(array), int(np.prod(array.shape[1:]))):
        part = array[rows]
        if not np.isfinite([float(part.min()), float(part.max())]).all():
            first = rows.start + int(np.isfinite(to_numpy(part).reshape(len(part), -1)).all(1).argmin())
            problem = f"entries that are no finite numbers, first in pair {first} (counted from 0)"
            raise KoctError(f"{name} has {problem}; remove such pairs")
    return array


def flat(array: Any) -> Any:
    """(samples, everything else), in float32 or float64."""
    array = array.reshape(len(array), -1)
    return array if str(array.dtype).rpartition(".")[2] == "float32" else double(array)


def checked_size(N: int) -> int:
    if N < 1 or int(N) != N:
        raise KoctError(f"N = {N}: give a whole number of samples, 1 or more")
    return int(N)


def checked_ridge(lam: float) -> float:
    if not (np.isfinite(lam) and lam > 0):
        raise KoctError(f"lambda = {lam}: give a number above 0; for no ridge, one far below the smallest eigenvalue")
    return float(lam)
