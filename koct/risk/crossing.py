"""Where two learning curves change order."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stretch:
    """Neighbouring N, from `first` to `last`, with one order: `below` is the lower curve (0 or 1), None where equal."""

    first: int
    last: int
    below: int | None


def order(N, error, other):
    """The order of two curves over N, as stretches: one alone if it never changes, else each new one is a crossing."""
    N, error, other = np.asarray(N), np.asarray(error, dtype=float), np.asarray(other, dtype=float)
    if not len(N) or N.shape != error.shape or N.shape != other.shape or len(set(N.tolist())) < len(N):
        raise ValueError("two curves need one error each for every N, and every N once")
    if not np.isfinite([error, other]).all():
        raise ValueError("two curves can be compared only where both errors are finite")
    found = []
    for i in np.argsort(N):
        n, below = int(N[i]), None if error[i] == other[i] else int(other[i] < error[i])
        if found and found[-1].below == below:
            found[-1] = Stretch(found[-1].first, n, below)
        else:
            found.append(Stretch(n, n, below))
    return found
