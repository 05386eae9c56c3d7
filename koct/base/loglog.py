"""Where a curve comes down to a level, by lines in logarithms between its points, whose N ascend."""

import math

import numpy as np
from numpy.typing import ArrayLike


def first_at(N: ArrayLike, error: ArrayLike, target: float) -> float:
    """Return the first N at which an error is at the target; infinite if it does not get there."""
    N, error = np.asarray(N, float), np.asarray(error, float)
    below = np.flatnonzero(error <= target)
    if not len(below):
        return math.inf
    k = below[0]
    if k == 0:
        return float(N[0])
    part = math.log(error[k - 1] / target) / math.log(error[k - 1] / error[k])
    return float(N[k - 1] * (N[k] / N[k - 1]) ** part)


def below_from(N: ArrayLike, log_ratio: ArrayLike) -> float:
    """Return the N from which on the logarithm of a ratio is below zero; infinite if it is not at the largest N."""
    N, log_ratio = np.asarray(N, float), np.asarray(log_ratio, float)
    above = np.flatnonzero(log_ratio >= 0)
    if not len(above):
        return float(N[0])
    k = above[-1]
    if k == len(N) - 1:
        return math.inf
    return float(N[k] * (N[k + 1] / N[k]) ** (log_ratio[k] / (log_ratio[k] - log_ratio[k + 1])))
