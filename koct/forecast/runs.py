"""The runs of a pilot study, and how well their means are known."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.base import FRESH
from koct.errors import KoctError

FloatArray = NDArray[np.float64]

POOLED_RUNS = 4  # the spread pooled over all N counts as this many runs at each N
ASSUMED_SPREAD = 0.1  # of the log error, when no N has repeated runs
ASSUMED_FREEDOM = 5.0  # its degrees of freedom: it may well be off by half
MIN_SPREAD = 0.01  # of the log mean error: no point of a curve is taken as known to better than one per cent
MAX_CORRELATION = 0.95  # between the means at two N
TINY = 1e-12
ZERO_SPREAD = 1.0  # of the log mean error where every run has an error of zero
RESOLUTION = 1e-4  # of the errors of a pilot that are all zero
MIN_ERROR, MAX_ERROR = 1e-60, 1e60  # of a run, and of a target: the laws then stay far from the ends of float64
MAX_SIZES = 500  # different N of a pilot
MAX_TABLE = 10_000_000  # seeds times different N: what fits into memory several times


def told_sizes(runs: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """Return the N of one network's runs in a study, by what those with fresh samples (N = -1) tell; None: nothing.

    Without `steps` such a run had all of a pool, `drawn` samples. Trainings by steps give the floor, and N stays -1, if
    each of them was done: it has the `gain` of its last doubling, and its `edge` is not set.
    """
    measured = {run["N"] for run in runs}
    by_steps = [run for run in runs if run["N"] == FRESH and run.get("steps") is not None]
    done = all(run.get("gain") is not None and str(run.get("edge")).lower() == "false" for run in by_steps)

    def size(run: Mapping[str, Any]) -> int | None:
        if run["N"] != FRESH:
            return int(run["N"])
        if run.get("steps") is not None:
            return FRESH if done else None
        drawn = int(float(run["drawn"])) if run.get("drawn") is not None else None
        return None if drawn in measured else drawn

    return [size(run) for run in runs]


class Points(NamedTuple):
    """What a pilot has measured: the log of the mean error at each N, and its covariance."""

    N: FloatArray
    log_mean: FloatArray
    covariance: FloatArray


@dataclass(frozen=True)
class Pilot:
    """The errors of pilot runs.

    Parameters
    ----------
    N : increasing sample sizes, shape (n_sizes,)
    errors : `errors[s, k]` is the error of seed s at `N[k]`, NaN where there is no run; shape (n_seeds, n_sizes)
    groups : the group of every seed, shape (n_seeds,): runs of a group share data, such as a patient or a test set,
        and are not independent. By default every seed is a group of its own.
    test_size : how many test samples an error rate was counted on; None for other kinds of error
    floor : the mean error with fresh samples in every step, or the smallest one measured if that is less: no number of
        samples goes below it; None: unknown

    Examples
    --------
    >>> from koct import Pilot
    >>> pilot = Pilot.from_points(N=[16, 16, 64, 64], error=[0.3, 0.34, 0.2, 0.22])
    >>> pilot.N, pilot.runs, pilot.mean
    (array([16., 64.]), array([2, 2]), array([0.32, 0.21]))
    """

    N: FloatArray
    errors: FloatArray
    groups: NDArray[np.intp] | None = None
    test_size: int | None = None
    floor: float | None = None

    @classmethod
    def from_points(
        cls,
        N: ArrayLike,
        error: ArrayLike,
        seed: ArrayLike | None = None,
        group: ArrayLike | None = None,
        test_size: int | None = None,
    ) -> "Pilot":
        """Return the pilot with one entry per run.

        Parameters
        ----------
        N : its number of samples, shape (n_runs,); -1: fresh ones in every step, which give the floor
        error : its error, shape (n_runs,)
        seed : its seed, shape (n_runs,); by default the i-th run at each N is seed i. Seeds of different groups differ.
        group : its group, shape (n_runs,)
        test_size : as of `Pilot`

        Returns
        -------
        pilot : with a column for every N
        """
        N, error = np.asarray(N, dtype=float), np.asarray(error, dtype=float)
        if N.shape != error.shape or N.ndim != 1:
            raise KoctError(f"N and error must be 1-D and of equal length; the shapes are {N.shape} and {error.shape}")
        if np.any(fresh := N == FRESH):
            own, whose = (None if each is None else np.asarray(each)[~fresh] for each in (seed, group))
            pilot = cls.from_points(N[~fresh], error[~fresh], own, whose, test_size)
            return replace(pilot, floor=min(float(error[fresh].mean()), float(pilot.mean.min())))
        if not len(N):
            raise KoctError("N is empty; a pilot needs runs at two or more N")
        if not np.all(valid := (N >= 2) & (np.round(N) == N)):
            raise KoctError(f"N = {N[~valid][0]:.16g} must be an integer of at least 2; correct or remove the run")
        if not np.all(valid := (error == 0) | ((error >= MIN_ERROR) & (error <= MAX_ERROR))):
            wrong = f"error = {error[~valid][0]:g} must be finite and not below 0, nor too small or too large"
            raise KoctError(f"{wrong}; correct it, remove the run, or rescale the errors")
        if test_size is not None:
            if not test_size >= 1:
                raise KoctError(f"test_size = {test_size} must be at least 1; give the number of test samples")
            if np.any(error > 1):
                raise KoctError(f"error = {error.max():g} is no error rate, but test_size is for rates; omit test_size")
        sizes, column = np.unique(N, return_inverse=True)
        if len(sizes) < 2:
            raise KoctError(f"N = {sizes[0]:.0f} in every run; a pilot needs runs at two or more N")
        if len(sizes) > MAX_SIZES:
            raise KoctError(f"N has {len(sizes):,} different values, and a pilot at most {MAX_SIZES}; keep some")
        part = np.zeros(len(N), dtype=int)
        if group is not None:
            _, part = np.unique(np.asarray(group).astype(str), return_inverse=True)
        if seed is None:
            numbers: defaultdict[int, Iterator[int]] = defaultdict(count)
            within = np.array([next(numbers[place]) for place in (part * len(sizes) + column).tolist()])
        else:
            _, within = np.unique(np.asarray(seed).astype(str), return_inverse=True)
        _, first, row = np.unique(part * (within.max() + 1) + within, return_index=True, return_inverse=True)
        if len(np.unique(row * len(sizes) + column)) < len(row):
            raise KoctError("seed has two runs at the same N; keep one of them")
        if (row.max() + 1) * len(sizes) > MAX_TABLE:
            raise KoctError(
                f"seed has {row.max() + 1:,} different values at {len(sizes):,} different N, too many to compute with; "
                f"number the runs at each N from 1"
            )
        errors = np.full((row.max() + 1, len(sizes)), np.nan)
        errors[row, column] = error
        return cls(sizes, errors, None if group is None else part[first], test_size)

    @cached_property
    def mean(self) -> FloatArray:
        """The mean error at each N: over the groups, each of which is a mean over its runs."""
        return np.nanmean(self._by_group(), axis=0)

    @cached_property
    def runs(self) -> NDArray[np.int_]:
        """The number of runs at each N."""
        return np.sum(~np.isnan(self.errors), axis=0)

    @cached_property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the spread: the number of runs beyond the first at each N."""
        return int(np.sum(self.runs - 1))

    @property
    def level(self) -> FloatArray:
        """The mean error at each N, positive: where every run has an error of zero, what it may well be instead."""
        if self.test_size is not None:  # the posterior mean under Jeffreys' prior
            return np.where(self.mean > 0, self.mean, 0.5 / (self.test_size * self.counts + 1))
        positive = self.errors[self.errors > 0]
        resolution = positive.min() if len(positive) else RESOLUTION
        return np.where(self.mean > 0, self.mean, np.maximum(0.5 * resolution / self.runs, MIN_ERROR))

    def spread(self) -> FloatArray:
        """Relative standard deviation of single runs at each N, shrunk towards the value pooled over all N."""
        if not self.degrees_of_freedom:
            return np.full(len(self.N), ASSUMED_SPREAD)
        square = np.nansum(_deviations(self.errors) ** 2, axis=0)
        pooled = square.sum() / self.degrees_of_freedom
        return np.sqrt((square + POOLED_RUNS * pooled) / (self.runs - 1 + POOLED_RUNS))

    def points(self) -> Points:
        return Points(self.N, np.log(self.level), self.covariance())

    def covariance(self) -> FloatArray:
        """Covariance of the log mean errors, shape (n_sizes, n_sizes).

        Runs of one group at different N are correlated; the means at two N are as far as they share groups. A group is
        a seed unless the pilot says otherwise: the training sets of a seed are nested.
        """
        own, correlation, _ = self._noise()
        seen = ~np.isnan(self._by_group())
        shared = seen.T.astype(float) @ seen / np.sqrt(np.outer(self.counts, self.counts))
        return np.outer(own, own) * np.where(np.eye(len(own), dtype=bool), 1.0, correlation * shared)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the covariance: correlated runs count once, independent ones each; at least 1."""
        return self._noise()[2]

    @property
    def replicated(self) -> bool:
        """Whether any N has runs of two or more groups; if none has, how far they vary is assumed."""
        return bool(np.any(self.counts > 1))

    def _by_group(self) -> FloatArray:
        """The mean error of every group at each N, NaN where it has no run; shape (n_groups, n_sizes)."""
        if self.groups is None:
            return self.errors
        seen, (_, index) = ~np.isnan(self.errors), np.unique(self.groups, return_inverse=True)
        total, count = (np.zeros((index.max() + 1, len(self.N))) for _ in range(2))
        np.add.at(total, index, np.where(seen, self.errors, 0.0))
        np.add.at(count, index, seen)
        return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)

    @property
    def counts(self) -> NDArray[np.int_]:
        """The number of groups at each N."""
        return np.sum(~np.isnan(self._by_group()), axis=0)

    def _noise(self) -> tuple[FloatArray, float, float]:
        """(standard deviation of the log mean error at each N, correlation within a group, degrees of freedom)."""
        table, groups = self._by_group(), self.counts
        seen, extra = ~np.isnan(table), groups - 1
        deviation = np.where(seen, _deviations(table), 0.0)
        spread, correlation, freedom = np.full(len(self.N), ASSUMED_SPREAD), 0.0, ASSUMED_FREEDOM
        if not extra.any() and self.degrees_of_freedom:  # one group: its runs differ, and groups by no less
            spread = self.spread()
        if extra.any():
            square = np.sum(deviation**2, axis=0)
            pooled = _trend(self.N, square, extra)
            spread = np.sqrt((square + POOLED_RUNS * pooled) / (extra + POOLED_RUNS))
            correlation = _correlation(deviation / np.maximum(spread, TINY), seen)
            freedom = max(1.0, correlation * extra.max() + (1 - correlation) * extra.sum())
        own = spread**2 / groups
        if self.test_size is not None:  # a rate above one half, such as that of chance, is known no worse than one half
            own = np.maximum(own, (1 - np.minimum(self.level, 0.5)) / (self.level * self.test_size * groups))
        own = np.sqrt(np.where(self.mean > 0, np.maximum(own, MIN_SPREAD**2), ZERO_SPREAD**2))
        return own, correlation, freedom


def _deviations(table: FloatArray) -> FloatArray:
    """Relative deviations from the mean over the rows; of first order in them, those of the log."""
    mean = np.nanmean(table, axis=0)
    return np.divide(table, mean, out=np.ones_like(table), where=mean > 0) - 1


def _correlation(deviation: FloatArray, seen: NDArray[np.bool_]) -> float:
    """Between the runs of a row, from standardised deviations of shape (n_rows, n_sizes), 0 where there is no run."""
    sizes, rows = seen.sum(axis=1), len(seen)
    if rows < 2 or sizes.mean() < 2:
        return 0.0
    variance = np.sum((deviation.sum(axis=1) / sizes) ** 2) / (rows - 1)  # of the mean over a row
    return float(np.clip((sizes.mean() * variance - 1) / (sizes.mean() - 1), 0.0, MAX_CORRELATION))


def _trend(N: FloatArray, square: FloatArray, freedom: NDArray[np.int_]) -> FloatArray:
    """Variances at each N on a line in log-log, for sums of squares with these degrees of freedom."""
    pooled = square.sum() / freedom.sum()
    if pooled == 0:
        return np.zeros(len(N))
    # An estimate from few runs is far below the truth more often than far above it, so each is shrunk first.
    log_variance = np.log((square + pooled) / (freedom + 1))
    weight = freedom / freedom.sum()
    known = N[freedom > 0]
    log_N = np.log(np.clip(N, known[0], known[-1]))  # no trend beyond what was repeated
    x = log_N - weight @ log_N
    slope = np.sum(weight * x * log_variance) / np.sum(weight * x**2) if np.sum(weight * x**2) > 0 else 0.0
    line = np.exp(slope * x)
    return line * pooled / (weight @ line)
