"""The learning curve of any network that is quick to fit, from fits on random subsets of a pool of pairs.

Some networks have a theory (`spectral`, `fixed_point`). Those with a closed form have at least
this: a dozen fits on N samples each, tested on others, tell the error and how much it depends on the draw. Nothing is
assumed of the network but that `fitting(x, y)` yields a pair (λ, predict) for every ridge.

A draw is N samples to fit and others to test: a third of the pool, or 128 if that is more. Training sets are disjoint
as long as the pool lasts. The error of sample m after draw d is taken apart into a_d · b_m: the spread of log a_d is
that of training sets, whatever samples tested them, and with b_m every sample of the pool counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.base.arrays import index, to_numpy
from koct.errors import KoctError
from koct.prediction.prediction import NORMAL, PER_OCTAVE, Prediction, checked_pairs, checked_size

Predict = Callable[[Any], Any]  # x (n, ...) to images (n, outputs)
Fitting = Callable[[Any, Any], Iterable[tuple[float | None, Predict]]]

TESTED = 128  # samples that test a draw, where the pool has them
LARGEST = 2 / 3  # of the pool may be fitted: beyond, the draws have too much in common
RARE = 0.01  # of the samples must not make
MOST = 0.5  # of the error
SWEEPS = 30  # over the table of errors, to take it apart


class Subsets:
    """Predicts the learning curve of a network on samples like those of a pool, by fitting it to subsets.

    Parameters
    ----------
    fitting : `fitting(x, y)` yields (λ, predict) for every ridge strength, the same ones each time; λ may be None
    draws : number of training sets, and so of fits, for every N; few make the intervals wider, not wrong
    seed : of the draws

    Examples
    --------
    >>> from koct.prediction.subsets import Subsets
    >>> def fitting(x, y):
    ...     M = np.linalg.lstsq(x, y)[0]
    ...     yield None, lambda new: new @ M
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((64, 8))
    >>> subsets = Subsets(fitting).fit(x, x[:, :3] + 0.1 * rng.standard_normal((64, 3)))
    >>> [point.N for point in subsets.curve([16, 32]) if point.error < 0.03]
    [16, 32]
    """

    def __init__(self, fitting: Fitting, draws: int = 16, seed: int = 0):
        if draws < 3 or int(draws) != draws:
            raise KoctError(f"draws = {draws}: give a whole number, 3 or more; fewer show no spread")
        self.fitting, self.draws, self.seed = fitting, int(draws), seed

    def fit(self, x: Any, y: Any) -> Subsets:
        """Keep the pairs, arrays of shape (samples, ...), NumPy's or torch's; return self."""
        self.x, self.y = checked_pairs(x, y)
        self.M = len(self.x)
        self.largest = int(LARGEST * self.M)
        if self.largest < 2:
            raise KoctError(f"{self.M} pairs are too few to fit some and test others; give at least 3")
        self._tables: dict[int, list[_Table]] = {}
        return self

    def curve(self, sizes: Iterable[int], tests: int | None = None) -> list[Prediction]:
        """Return predictions for every N and λ, in that order; λ = None becomes NaN.

        The interval is that of one training set, and with `tests` of an error that is measured on so many others.
        """
        return [point for N in sizes for point in self._points(checked_size(N), tests, self._fits)]

    def best_curve(self, sizes: Iterable[int], tests: int | None = None, validation: int = 32) -> list[Prediction]:
        """Return one prediction for every N: each draw takes the λ that is best on so many of its test samples.

        The others test it. `lam` is the one taken most often.
        """
        if validation < 1:
            raise KoctError(f"validation = {validation}: give 1 or more samples, which choose lambda")
        return [
            point
            for N in sizes
            for point in self._points(checked_size(N), tests, lambda n: [_chosen(self._fits(n), validation, self.seed)])
        ]

    def _points(self, N: int, tests: int | None, fits: Callable[[int], list[_Table]]) -> list[Prediction]:
        """Beyond the pool, on a line through its last octave, in the logarithms of N and of the error."""
        there = fits(min(N, self.largest))
        if N == there[0].N:
            return [_prediction(N, self.M, table, tests) for table in there]
        ratio = N / self.largest
        points = []
        for table, before in zip(there, fits(self.largest // 2), strict=True):
            falls = np.log(max(table.error, 1e-300) / max(before.error, 1e-300))
            slope = falls / np.log(self.largest / (self.largest // 2))
            factor = float(ratio ** np.clip(slope, -1, 0))
            found = _prediction(N, self.M, table, tests, factor, (PER_OCTAVE * np.log2(ratio)) ** 2)
            beyond = f"N = {N} is beyond two thirds of the {self.M} pairs: a line through the last octave"
            points.append(found._replace(trusted=False, reason="; ".join(filter(None, [found.reason, beyond]))))
        return points

    # The fits

    def _fits(self, N: int) -> list[_Table]:
        """What the draws of N samples gave, for every λ."""
        if N not in self._tables:
            tested, rows = min(self.M - N, max(TESTED, self.M // 3)), []
            for draw, (fitted, others) in enumerate(training_sets(self.M, N, self.draws, self.seed)):
                turned = np.roll(others, -draw * tested)  # so that every sample is tested about as often
                rows.append(self._draw(fitted, turned[:tested]))
            first, *more = ([lam for lam, _ in row] for row in rows)
            if not first:
                raise KoctError("fitting(x, y) yielded nothing; yield (lambda or None, predict)")
            if other := [found for found in more if found != first]:
                raise KoctError(f"fitting(x, y) yielded lambdas {first}, then {other[0]}; yield the same each time")
            tables = [np.stack([errors for _, errors in row]) for row in zip(*rows, strict=True)]
            self._tables[N] = [
                _Table(N, lam, errors, *take_apart(errors)) for lam, errors in zip(first, tables, strict=True)
            ]
        return self._tables[N]

    def _draw(self, fitted: np.ndarray, tested: np.ndarray) -> list[tuple[float | None, np.ndarray]]:
        """(λ, errors of all samples, NaN where not tested) for one training set."""
        outcomes = []
        x, wanted = rows_of(self.x, tested), rows_of(self.y, tested).reshape(len(tested), -1)
        for lam, predict in self.fitting(rows_of(self.x, fitted), rows_of(self.y, fitted)):
            predicted = predict(x)
            if tuple(predicted.shape) != tuple(wanted.shape):
                got, give = tuple(predicted.shape), tuple(wanted.shape)
                raise KoctError(f"predict gave an array of shape {got} for {len(x)} samples; give {give}")
            errors = np.full(self.M, np.nan)
            errors[tested] = to_numpy(((predicted - wanted) ** 2).mean(1))
            if not np.isfinite(errors[tested]).all():
                raise KoctError(f"the fit with lambda = {lam} predicts numbers that are not finite; leave it out")
            outcomes.append((lam, errors))
        return outcomes


class _Table(NamedTuple):
    """What the draws of N samples gave for one λ: errors ≈ a_d · b_m."""

    N: int
    lam: float | None
    errors: np.ndarray  # (draws, M), NaN where not tested
    draws: np.ndarray  # a_d, one on average
    samples: np.ndarray  # b_m
    joint: float  # relative variance of what is neither the draw's nor the sample's

    @property
    def error(self) -> float:
        return float(self.samples.mean())


def take_apart(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """a, b and the relative variance of what is left of a table ≈ a_d · b_m with gaps (NaN); a is one on average.

    Rows and columns of the product sum to those of the table. A column without entries gets the mean of the others.
    """
    there = np.isfinite(table)
    filled = np.where(there, table, 0.0)
    seen = there.any(0)
    a, b = np.ones(len(table)), np.zeros(table.shape[1])
    if not filled.any():
        return a, b, 0.0
    for _ in range(SWEEPS):
        b = filled.sum(0) / (a @ there).clip(1e-300)
        a = filled.sum(1) / (there @ b).clip(1e-300)
    b, a = b * a.mean(), a / a.mean()
    b[~seen] = b[seen].mean()
    left = np.where(there, table - np.outer(a, b), 0.0)
    freedom = max(1, int(there.sum()) - len(a) - int(seen.sum()) + 1)
    return a, b, float((left**2).sum() / freedom / b.mean() ** 2)


def _chosen(tables: Sequence[_Table], validation: int, seed: int) -> _Table:
    """The draws with the λ that is best on some of their tested samples, tested on the others."""
    every = np.stack([table.errors for table in tables])  # (λ, draws, M)
    tested = np.isfinite(every[0])
    validation = min(validation, int(tested[0].sum()) // 2)
    if not validation:
        raise KoctError("one sample tests a draw, and none is left to choose lambda; give more pairs")
    order = np.where(tested, np.random.default_rng(seed).random(tested.shape), 1.0)
    validates = order <= np.sort(order, axis=1)[:, validation - 1, None]
    best = np.where(validates, every, 0.0).sum(2).argmin(0)
    draws = np.arange(len(best))
    errors = np.where(validates, np.nan, every[best, draws])
    return _Table(tables[0].N, tables[int(np.bincount(best).argmax())].lam, errors, *take_apart(errors))


def _prediction(N: int, M: int, table: _Table, tests: int | None, factor: float = 1.0, more: float = 0.0) -> Prediction:
    """`factor` scales the errors; `more` is variance of their logarithm for other reasons."""
    lam = float("nan") if table.lam is None else float(table.lam)
    samples = factor * table.samples
    error = float(samples.mean())
    of_samples = (samples.std() / error) ** 2 if error > 0 else 0.0
    of_tests = of_samples / M + more
    if tests:
        tested = int(np.isfinite(table.errors[0]).sum())
        of_tests += of_samples / tests + table.joint * max(0.0, 1 / tests - 1 / tested)  # the draws hold the rest of it
    low, high = interval(error, table.draws, N, table.N, M, of_tests)
    reasons = ["a few rare samples make the error"] if rare(samples) else []
    if table.draws.max() > MOST * table.draws.sum():
        reasons.append("one draw makes the error")
    return Prediction(N, lam, error, low, high, samples, not reasons, "; ".join(reasons))


# What any prediction from a pool needs


def training_sets(M: int, N: int, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(N of M samples, the others), drawn so often; no two sets share a sample as long as the pool lasts."""
    rng = np.random.default_rng([seed, N])
    for draw in range(draws):
        place = draw % (M // N)
        if place == 0:
            order = rng.permutation(M)
        yield order[place * N : (place + 1) * N], np.concatenate([order[(place + 1) * N :], order[: place * N]])


def interval(error: float, draws: np.ndarray, N: int, size: int, M: int, of_tests: float) -> tuple[float, float]:
    """90 % of single errors, from those of `training_sets` of `size` and the variance of tests on few samples.

    Logarithms of errors are taken as normal, with a spread that goes as one over √N beyond `size`. Sets that are not
    disjoint have size/M of their samples in common, and so differ less.
    """
    logs = np.log((draws / max(draws.mean(), 1e-300)).clip(1e-12))
    rounds = np.arange(len(draws)) // (M // size)
    common = np.mean(rounds[:, None] != rounds) * len(draws) / (len(draws) - 1) * size / M
    single = logs.var(ddof=1) / (1 - common) * size / N
    of_training = single * (1 + 1 / min(len(draws), M / size))
    from scipy.special import stdtrit  # Student's quantile

    width = np.sqrt(stdtrit(len(draws) - 1, 0.95) ** 2 * of_training + NORMAL**2 * of_tests)
    middle = error * np.exp(logs.mean() * size / N)
    return float(middle * np.exp(-width)), float(middle * np.exp(width))


def rare(errors: np.ndarray) -> bool:
    """Whether one sample in a hundred makes half of the error."""
    few = max(1, int(RARE * len(errors)))
    return bool(np.sort(errors)[-few:].sum() > MOST * errors.sum())


def rows_of(array: Any, rows: np.ndarray) -> Any:
    return array[index(rows, array)]
