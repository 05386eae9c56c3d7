"""Numbers of a page in few letters; numbers.js reads them."""

import base64
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.forecast.ensemble import STEP


def letters(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def floats(values: ArrayLike) -> str:
    """float64 as they are."""
    return letters(np.asarray(values, dtype="<f8").tobytes())


def falling(values: NDArray[np.float64]) -> str:
    """Curves that never rise, shape (n_curves, n), multiples of `STEP`.

    The first value of each curve and how much it falls from one to the next, in units of `STEP`: point by point, the
    last bytes of all numbers first, since bytes of one kind are compressed best.
    """
    units = np.round(values / STEP).astype(np.int64)
    steps = np.concatenate([units[:, :1], -np.diff(units, axis=1)], axis=1)
    whole = np.ascontiguousarray(steps.T.astype("<i4"))
    if not np.array_equal(whole.T, steps) or np.any(steps[:, 1:] < 0):
        raise ValueError("curves must never rise and lie between -2048 and 2048")
    planes = whole.view(np.uint8).reshape(-1, 4).T
    return letters(zlib.compress(planes.tobytes()))
