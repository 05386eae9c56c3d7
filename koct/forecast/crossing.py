"""Where two learning curves cross."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from koct.base.loglog import below_from


@dataclass(frozen=True)
class Stretch:
    """A run of consecutive sample sizes over which the order of two curves does not change."""

    first: int  # the smallest N
    last: int  # the largest
    below: int | None  # which curve is lower, 0 or 1; None where they are equal


def order(N: Iterable[int], error: Iterable[float], other: Iterable[float]) -> list[Stretch]:
    """Split N into stretches of constant order; curves that never cross give a single stretch.

    `N`, `error` (curve 0) and `other` (curve 1) have the same length, in any order of N.
    """
    stretches = []
    points = sorted(zip(N, error, other, strict=True))
    for below, group in groupby(points, lambda point: None if point[1] == point[2] else int(point[2] < point[1])):
        sizes = [int(n) for n, _, _ in group]
        stretches.append(Stretch(sizes[0], sizes[-1], below))
    return stretches


def overtaken(N: ArrayLike, error: ArrayLike, other: ArrayLike) -> float | None:
    """The N from which on curve 1 (`other`) is below curve 0 (`error`); None if it is not at the largest N.

    Between two N of the curves by lines in the logarithms of N and error. The smallest N if it is below everywhere.
    """
    N, error, other = (np.asarray(values, float)[np.argsort(N)] for values in (N, error, other))
    last = int(np.flatnonzero(np.append(True, other >= error))[-1]) - 1  # at which it is not below
    if last in (-1, len(N) - 1):
        return float(N[0]) if last < 0 else None
    near = slice(last, last + 2)
    if min(error[near].min(), other[near].min()) <= 0:  # no logarithm
        return float(N[last + 1])
    return below_from(N[near], np.log(other[near] / error[near]))
