"""From pilot runs to the number of samples that reaches a target error, with an honest interval.

from koct.risk.budget import Forecast, Pilot
forecast = Forecast(Pilot.from_points(N, error, seed))
forecast.required(target=0.01)
"""

import math
from dataclasses import dataclass

import numpy as np

from koct.errors import KoctError
from koct.risk.laws import LAWS

LEVEL = 0.9  # of every interval
REPLICATES = 400
FAR = 4  # beyond this many times the largest N of the pilot an answer is called an extrapolation
FARTHEST = 1e6  # beyond this many times the largest N the answer is "out of reach"

BORROWED = 4  # the spread of all N together counts as much as this many runs of each
LEAST_SPREAD = 0.01  # of log mean error: no curve is known better than to a per cent
ASSUMED_SPREAD = 0.1  # of log error, when no N was run twice
UNTESTED_DRIFT = 0.1  # of log error per doubling, when the pilot is too small to show how laws miss
MOST_SPLITS = 8  # of a pilot into smaller N and held-out larger ones


@dataclass(frozen=True)
class Pilot:
    """Errors of pilot runs: `errors[s, k]` is run s at `N[k]`, NaN where there is none. Seeds are the rows."""

    N: np.ndarray
    errors: np.ndarray

    @classmethod
    def from_points(cls, N, error, seed=None):
        """From one row per run; without seeds, the i-th run of each N counts as seed i."""
        N, error = np.asarray(N, dtype=float), np.asarray(error, dtype=float)
        if N.shape != error.shape or N.ndim != 1:
            raise KoctError(f"N and error must be lists of one length, got {N.shape} and {error.shape}")
        if not np.all((N >= 2) & (np.round(N) == N)):
            raise KoctError("every N must be a whole number from 2 on")
        if not np.all((error > 0) & np.isfinite(error)):
            raise KoctError("every error must be a finite number above zero")
        sizes, column = np.unique(N, return_inverse=True)
        if len(sizes) < 2:
            raise KoctError(f"a pilot needs runs at two N at least, it has N = {sizes[0]:.0f} only")
        if seed is None:
            order = np.argsort(column, kind="stable")
            first = np.searchsorted(column[order], np.arange(len(sizes)))
            row = np.empty(len(N), dtype=int)
            row[order] = np.arange(len(N)) - first[column[order]]
        else:
            _, row = np.unique(np.asarray(seed).astype(str), return_inverse=True)
            if len(np.unique(row * len(sizes) + column)) < len(row):
                raise KoctError("a seed was run twice at the same N; keep one of the runs")
        errors = np.full((row.max() + 1, len(sizes)), np.nan)
        errors[row, column] = error
        return cls(sizes, errors)

    @property
    def mean(self):
        return np.nanmean(self.errors, axis=0)

    @property
    def runs(self):
        """How many runs each N has."""
        return np.sum(~np.isnan(self.errors), axis=0)

    @property
    def freedom(self):
        """Degrees of freedom of the spread: runs beyond the first of their N."""
        return int(np.sum(self.runs - 1))

    def spread(self):
        """Standard deviation of log error from run to run at each N, the N lending each other strength."""
        if not self.freedom:
            return np.full(len(self.N), ASSUMED_SPREAD)
        log = np.log(self.errors)
        square = np.nansum((log - np.nanmean(log, axis=0)) ** 2, axis=0)
        pooled = square.sum() / self.freedom
        return np.sqrt((square + BORROWED * pooled) / (self.runs - 1 + BORROWED))

    def log_variance(self):
        """Variance of log mean error at each N."""
        return np.maximum(self.spread() ** 2 / self.runs, LEAST_SPREAD**2)


@dataclass(frozen=True)
class Answer:
    """What `Forecast.required` says; `n_low`, `n_high` and the errors at `at` are ends of 90 % intervals.

    `n` is None when the law does not reach the target, `n_high` when the interval has no upper end.
    """

    target: float
    law: str
    n: int | None
    n_low: int | None
    n_high: int | None
    at: int
    error: float
    error_low: float
    error_high: float
    extrapolation: float | None
    reason: str

    @property
    def reachable(self):
        return self.n is not None


class Forecast:
    """A pilot's learning curve, continued.

    The law is the one that best foretells each next N of the pilot from the smaller ones (`law_` its name, `scores_`
    the mean squared log miss of each), unless one is given. Intervals come from a bootstrap over seeds, since pools are
    nested and the runs of one seed belong together; each replicate follows one of the laws that the pilot leaves
    plausible, and beyond the pilot it drifts by as much as that law missed held-out points by more than noise explains.
    """

    def __init__(self, pilot, law="auto", replicates=REPLICATES, seed=0):
        if law != "auto" and law not in LAWS:
            raise KoctError(f"law = {law!r} is not known; choose auto, {', '.join(LAWS)}")
        self.pilot = pilot
        self._given = law != "auto"
        self._rng = np.random.default_rng(seed)
        self._curves = np.vstack([pilot.mean, _replicates(pilot, replicates, self._rng)])
        weights = 1 / pilot.log_variance()
        misses = _held_out(pilot.N, self._curves, weights)
        names = list(LAWS)
        self.scores_ = misses and {
            name: float(np.mean([miss[0, 0] ** 2 for _, miss in misses[name]])) for name in names
        }
        if self._given:
            chosen = np.full(len(self._curves), names.index(law))
        elif misses is None:
            chosen = np.full(len(self._curves), names.index("power"))
        else:
            chosen = self._rng.choice(len(names), size=len(self._curves), p=_plausibility(misses))
            chosen[0] = np.argmin([self.scores_[name] for name in names])
        self.law_ = names[chosen[0]]
        self._groups = [
            (LAWS[name], members, LAWS[name].fit(pilot.N, self._curves[members], weights))
            for i, name in enumerate(names)
            if len(members := np.flatnonzero(chosen == i))
        ]
        drifts = [UNTESTED_DRIFT if misses is None else _drift(pilot.N, misses[name]) for name in names]
        self._drifts = np.take(drifts, chosen) * self._rng.standard_normal(len(self._curves))
        self._drifts[0] = 0
        self._spreads = _spread_factors(pilot, len(self._curves), self._rng)

    def predict(self, N):
        """(error, low, high) at each N ≥ 2."""
        N = np.atleast_1d(np.asarray(N, dtype=float))
        if not np.all(N >= 2):
            raise KoctError("a curve can be foretold for N from 2 on")
        curves = self._evaluate(N)
        low, high = np.quantile(curves[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return curves[0], np.minimum(low, curves[0]), np.maximum(high, curves[0])

    def required(self, target, assurance=None):
        """The samples that bring the mean error down to `target` or, with `assurance`, that share of single runs."""
        N = self.samples(target, assurance)
        low, high = np.quantile(N[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
        n, low, high = (_whole(value) for value in (N[0], min(low, N[0]), max(high, N[0])))
        largest = int(self.pilot.N[-1])
        at = largest if n is None else n
        error, error_low, error_high = (float(values[0]) for values in self.predict([at]))
        ratio = None if n is None else n / largest
        reason = self._reason(target / self._margins(assurance)[0], n, ratio)
        return Answer(target, self.law_, n, low, high, at, error, error_low, error_high, ratio, reason)

    def samples(self, target, assurance=None):
        """The real N of the forecast (first) and of every replicate; inf where the target is out of reach."""
        if not (target > 0 and math.isfinite(target)):
            raise KoctError(f"target = {target!r} must be a positive error")
        aims = target / self._margins(assurance)
        N = np.empty(len(self._curves))
        for law, members, theta in self._groups:
            N[members] = law.solve(theta, aims[members])
        smallest, largest = self.pilot.N[0], self.pilot.N[-1]
        drifting = np.flatnonzero((largest < N) & (self._drifts != 0))
        if len(drifting):
            grid = np.geomspace(largest, FARTHEST * largest, 2000)
            reached = self._evaluate(grid)[drifting] <= aims[drifting, None]
            N[drifting] = np.where(reached.any(axis=1), grid[np.argmax(reached, axis=1)], np.inf)
        return np.where(FARTHEST * largest < N, np.inf, np.maximum(N, smallest))

    def _margins(self, assurance):
        """By what factor each curve's mean must lie below the target so that a share of the runs reaches it."""
        if assurance is None:
            return np.ones(len(self._curves))
        if not 0 < assurance < 1:
            raise KoctError(f"assurance = {assurance!r} must be between 0 and 1, like 0.9")
        if not self.pilot.freedom:
            raise KoctError("assurance needs several runs at one N at least: add seeds to the pilot")
        from scipy.special import ndtri

        spread = self.pilot.spread()[-1] * self._spreads
        return np.exp(ndtri(assurance) * spread - spread**2 / 2)

    def _reason(self, aim, n, ratio):
        said = []
        if self.scores_ is None:
            said.append("the pilot has two N only, so no law could be tested on held-out points")
        if not self.pilot.freedom:
            said.append(f"no N was run twice, so a noise of {ASSUMED_SPREAD:.0%} is assumed".replace("%", " %"))
        if n is None and self.law_ != "last":
            said.append(f"the curve is not foretold to come down to {aim:.3g}")
        elif n is None:
            better = "" if self._given else "no law foretold the next N better than the last error, and "
            said.append(f"{better}the last error is above {aim:.3g}")
        elif n <= self.pilot.N[0]:
            said.append("already reached at the smallest N of the pilot")
        elif ratio > FAR:
            said.append(f"{ratio:.0f} times the largest N of the pilot: an extrapolation")
        return "; ".join(said)

    def _evaluate(self, N):
        """The error of every curve at each N, drift included."""
        curves = np.empty((len(self._curves), len(N)))
        for law, members, theta in self._groups:
            curves[members] = law.predict(theta, N)
        beyond = np.maximum(0, np.log2(N / self.pilot.N[-1]))
        return curves * np.exp(self._drifts[:, None] * beyond)


def _replicates(pilot, count, rng):
    """Mean curves of pilots resampled by seed, spread out to what that many runs really tell."""
    from scipy.special import ndtri, stdtrit

    seeds = len(pilot.errors)
    seen = ~np.isnan(pilot.errors)
    filled = np.where(seen, pilot.errors, 0.0)
    curves = np.empty((count, len(pilot.N)))
    for i in range(count):
        weight = np.bincount(rng.integers(0, seeds, seeds), minlength=seeds)
        with np.errstate(invalid="ignore", divide="ignore"):
            curves[i] = (weight @ filled) / (weight @ seen)
    off = np.log(np.where(np.isnan(curves), pilot.mean, curves) / pilot.mean)
    # the bootstrap of a few blocks is too narrow: by the bias of its variance, and by not knowing that variance
    upper = (1 + LEVEL) / 2
    if seeds > 1:
        off *= np.sqrt(seeds / (seeds - 1)) * stdtrit(seeds - 1, upper) / ndtri(upper)
    # and an N with few runs, or with runs that happen to agree, is not known better than the others' spread allows
    unknown = stdtrit(pilot.freedom, upper) / ndtri(upper) if pilot.freedom else 1.0
    lacking = np.maximum(0, pilot.log_variance() * unknown**2 - off.var(axis=0))
    return pilot.mean * np.exp(off + np.sqrt(lacking) * rng.standard_normal(off.shape))


def _spread_factors(pilot, count, rng):
    """How far the run-to-run spread of each curve may be from its estimate; 1 for the first."""
    freedom = max(1, pilot.freedom)
    factors = np.sqrt(freedom / rng.chisquare(freedom, count))
    factors[0] = 1
    return factors


def _held_out(N, curves, weights):
    """How each law, fitted to the smaller N, misses the larger ones: (split, log misses of each curve) by law."""
    first = min(3, len(N) - 1)  # three points for the three numbers of a law, if there are so many
    if first < 2:
        return None
    splits = np.unique(np.linspace(first, len(N) - 1, min(MOST_SPLITS, len(N) - first)).astype(int))
    misses = {}
    for name, law in LAWS.items():
        misses[name] = []
        for split in splits:
            theta = law.fit(N[:split], curves[:, :split], weights[:split])
            misses[name].append((split, np.log(law.predict(theta, N[split:]) / curves[:, split:])))
    return misses


def _plausibility(misses):
    """How plausible each law is: its chances of the next N, given the smaller ones, multiplied up over the pilot."""
    evidence = []
    for each in misses.values():
        next_miss = np.stack([miss[:, 0] for _, miss in each])
        variance = next_miss[:, 1:].var(axis=1) + LEAST_SPREAD**2
        evidence.append(-0.5 * np.sum(next_miss[:, 0] ** 2 / variance + np.log(variance)))
    weight = np.exp(np.array(evidence) - np.max(evidence))
    return weight / weight.sum()


def _drift(N, misses):
    """How far a law strays per doubling of N beyond its data, noise taken off (standard deviation of log error)."""
    squares = []
    for split, miss in misses:
        doublings = np.log2(N[split:] / N[split - 1])
        squares += list((miss[0] ** 2 - miss[1:].var(axis=0)) / doublings**2)
    return float(np.sqrt(max(0.0, np.mean(squares))))


def _whole(n):
    return None if not np.isfinite(n) else int(np.ceil(n - 1e-9))
