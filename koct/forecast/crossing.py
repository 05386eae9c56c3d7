"""Where two learning curves cross."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from koct.base.crossing import below_from


@dataclass(frozen=True)
class Stretch:
    """A run of consecutive sample sizes over which the order of two curves does not change."""

    first: int  # the smallest N
    last: int  # the largest
    below: int | None  # which curve is lower, 0 or 1; None where they are equal


def order(N: ArrayLike, error: ArrayLike, other: ArrayLike) -> list[Stretch]:
    """Split N into stretches of constant order; curves that never cross give a single stretch.

    `N`, `error` (curve 0) and `other` (curve 1) have shape (n_sizes,), in any order of N.
    """
    N, error, other = np.asarray(N), np.asarray(error, dtype=float), np.asarray(other, dtype=float)
    if not len(N) or N.shape != error.shape or N.shape != other.shape or len(set(N.tolist())) < len(N):
        raise ValueError("both curves need one error for every N, and each N may appear only once")
    if not np.isfinite([error, other]).all():
        raise ValueError("both curves must be finite at every N; leave out the N where one is not")
    stretches: list[Stretch] = []
    for i in np.argsort(N):
        n, below = int(N[i]), None if error[i] == other[i] else int(other[i] < error[i])
        if stretches and stretches[-1].below == below:
            stretches[-1] = Stretch(stretches[-1].first, n, below)
        else:
            stretches.append(Stretch(n, n, below))
    return stretches


def overtaken(N: ArrayLike, error: ArrayLike, other: ArrayLike) -> float | None:
    """The N from which on curve 1 (`other`) is below curve 0 (`error`); None if it is not at the largest N.

    Between two N of the curves by lines in the logarithms of N and error. The smallest N if it is below everywhere.
    """
    N, error, other = (np.asarray(values, float)[np.argsort(N)] for values in (N, error, other))
    last = order(N, error, other)[-1]
    if last.below != 1:
        return None
    change = N[last.first >= N][-2:]
    near = np.isin(N, change)
    if min(error[near].min(), other[near].min()) <= 0:  # no logarithm
        return float(last.first)
    return below_from(change, np.log(other[near] / error[near]))
