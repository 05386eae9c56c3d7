"""Strengths of smoothing from measurements alone, of which no image is known.

Where there is noise, Stein's unbiased estimate of the risk chooses (Ramani, Blu and Unser, 2008): in the mean over
noise n of the variance of x, ‖A ŷ(x) − x‖² + 2 ⟨n, A ŷ(x + n) − A ŷ(x)⟩ is ‖A ŷ(x) − A y‖² and a constant. Morozov's
discrepancy principle, ‖A ŷ − x‖² = E‖n‖², smooths more, and small images lose by it.

Without noise that principle chooses: images are as smooth as can be with ‖A ŷ − x‖² no larger than what A gets wrong,
such as the lines that it draws through pixels. That is estimated from the least ‖A y − x‖² which images have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from koct.base.arrays import library, like
from koct.contracts import Array
from koct.networks.variational import LeastSquares, fista, norm

EXACT = 1e-4  # share of the measurements: a smaller residual is none
STALLED = 0.95  # residual after twice as many iterations, as a share: it has come to its end
FIRST, MOST = 40, 1000  # iterations after which it may have
ADDED = 0.5  # noise that is added to measurements, as a share of the residual
ABSORBED = 2.0  # how much more images follow what A gets wrong than they follow noise, measured for analytic rays
PRECISION = 0.1  # of the search for a strength, in powers of ten
FALLEN = 1.5  # factor by which a power of ten has to lower the residual: else it has come to its end
SLACK = 1.1  # residual that is as good as the least, where none is small enough


class Risk:
    """Stein's estimate for measurements x (n, size) whose errors have this variance, by one draw of noise."""

    def __init__(self, x: Array, variance: Array) -> None:
        self.x, self.noise = x, like(_normal(x) * variance**0.5, x)
        self.both = library(x).concatenate([x, x + self.noise])

    def __call__(self, projected: Array) -> float:
        """Return the risk of what A makes of the images of `both`."""
        one, other = projected[: len(self.x)], projected[len(self.x) :]
        return norm(one - self.x) ** 2 + 2 * float((self.noise * (other - one)).sum())


def _normal(x: Array) -> Array:
    """Normal numbers in the shape of x, always the same."""
    return like(np.random.default_rng(0).standard_normal(tuple(x.shape)), x)


def residuals(term: LeastSquares, x: Array, nonnegative: bool) -> Iterator[float]:
    """Yield ‖A y − x‖² after every iteration of FISTA, of all measurements x (n, size) together."""
    term.prepare(x)
    for y in fista(term, x, nonnegative):
        yield norm(term.A.flat(y) - x) ** 2


def model_error(term: LeastSquares, x: Array, nonnegative: bool, noise: float) -> float:
    """Return an estimate of ‖A y − x‖² − noise for the true images y of measurements x (n, size).

    `noise` is the sum of the variances of x. Where least squares do not come down to a residual of zero, they leave of
    noise the share 1 − degrees of freedom / measurements, which the residuals of x plus and minus further noise show.
    What is left above that share of `noise` was not noise.
    """
    seen: list[float] = []
    for least in itertools.islice(residuals(term, x, nonnegative), MOST):
        seen.append(least)
        done, odd = divmod(len(seen), 2)
        if least <= (EXACT * norm(x)) ** 2:
            break
        if len(seen) >= FIRST and not odd and least > STALLED**2 * seen[done - 1]:
            added = ADDED * (least / x.shape[0] / x.shape[1]) ** 0.5 * _normal(x)
            both = sum(_item(residuals(term, x + sign * added, nonnegative), len(seen)) for sign in (1, -1))
            share = (both - 2 * least) / (2 * norm(added) ** 2)
            return ABSORBED * max(least / share - noise, 0.0)
    return 0.0


def _item(values: Iterator[float], number: int) -> float:
    return next(itertools.islice(values, number - 1, None))


class Search(NamedTuple):
    """A power of ten that was chosen, and whether the search ended at the first or the last that there is."""

    power: float
    edge: bool


def least(risk: Callable[[float], float], first: int, ends: tuple[int, int]) -> Search:
    """Return the power of ten with the least risk, to `PRECISION`: first whole powers, then between them."""
    at = {float(power): risk(power) for power in (first, first - 1, first + 1)}
    while (best := min(at, key=at.__getitem__)) in (min(at), max(at)):
        if best in ends:
            return Search(best, True)
        beyond = best - 1 if best == min(at) else best + 1
        at[beyond] = risk(beyond)
    step = 0.5
    while step > PRECISION:
        at |= {power: risk(power) for power in (best - step, best + step)}
        best, step = min(at, key=at.__getitem__), step / 2
    return Search(best, False)


def strongest(residual: Callable[[float], float], limit: float, first: int, ends: tuple[int, int]) -> Search:
    """Return the largest power of ten, to `PRECISION`, whose residual is within a limit.

    Residuals fall with the power. Where they stop falling above the limit, the limit is a little more than the least.
    """
    at = {float(first): residual(first)}
    while at[weakest := min(at)] > limit:
        if weakest == ends[0]:
            return Search(weakest, True)
        at[weakest - 1] = residual(weakest - 1)
        if at[weakest - 1] > at[weakest] / FALLEN**2:
            limit = max(limit, SLACK**2 * min(at.values()))
    while at[top := max(at)] <= limit:
        if top == ends[1]:
            return Search(top, True)
        at[top + 1] = residual(top + 1)
    low = max(power for power in at if at[power] <= limit)
    high = min(power for power in at if power > low)
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if residual(middle) <= limit else (low, middle)
    return Search(low, False)
