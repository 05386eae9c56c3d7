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
FARTHEST = 1e9  # samples; beyond, the answer is "out of reach"


@dataclass(frozen=True)
class Pilot:
    """Errors of pilot runs: `errors[s, k]` is run s at `N[k]`, NaN where there is none. Seeds are the rows."""

    N: np.ndarray
    errors: np.ndarray

    @classmethod
    def from_points(cls, N, error, seed=None):
        """From one row per run; without seeds, the i-th run of each N counts as seed i."""
        N, error = np.asarray(N), np.asarray(error, dtype=float)
        sizes, column = np.unique(N, return_inverse=True)
        if len(sizes) < 2:
            raise KoctError(f"a pilot needs runs at two N at least, it has N = {', '.join(map(str, sizes))} only")
        if seed is None:
            order = np.argsort(column, kind="stable")
            first = np.searchsorted(column[order], np.arange(len(sizes)))
            row = np.empty(len(N), dtype=int)
            row[order] = np.arange(len(N)) - first[column[order]]
        else:
            _, row = np.unique(seed, return_inverse=True)
        errors = np.full((row.max() + 1, len(sizes)), np.nan)
        errors[row, column] = error
        return cls(sizes, errors)

    @property
    def mean(self):
        return np.nanmean(self.errors, axis=0)

    def spread(self):
        """Standard deviation of log error from run to run at each N, the N lending each other strength."""
        log = np.log(self.errors)
        runs = np.sum(~np.isnan(log), axis=0)
        square = np.nansum((log - np.nanmean(log, axis=0)) ** 2, axis=0)
        if not np.any(runs > 1):
            return None
        pooled = square.sum() / np.maximum(runs - 1, 0).sum()
        return np.sqrt((square + BORROWED * pooled) / (np.maximum(runs - 1, 0) + BORROWED))


BORROWED = 4  # the pooled spread counts as much as this many runs of each N
LEAST_SPREAD = 0.01  # of log mean error: no curve is known better than to a per cent


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

    The law is the one that best predicts the pilot's larger N from its smaller ones (`law_` its name, `scores_` the
    mean squared log error of each), unless one is given. Intervals come from a bootstrap over seeds, since pools are
    nested and the runs of one seed belong together; each replicate chooses its own law, and beyond the pilot it also
    drifts by as much as the chosen law missed the held-out points by more than noise explains.
    """

    def __init__(self, pilot, law="auto", replicates=REPLICATES, seed=0):
        if law != "auto" and law not in LAWS:
            raise KoctError(f"law = {law!r} is not known; choose auto, {', '.join(LAWS)}")
        self.pilot = pilot
        rng = np.random.default_rng(seed)
        self._curves = np.vstack([pilot.mean, _replicates(pilot, replicates, rng)])
        self._weights = 1 / _log_variance(pilot)
        self._misses, self.scores_ = _held_out(pilot.N, self._curves, self._weights)
        names = list(LAWS)
        if law != "auto":
            chosen = np.full(len(self._curves), names.index(law))
        elif self.scores_ is None:
            chosen = np.full(len(self._curves), names.index("power"))
        else:
            chosen = rng.choice(len(names), size=len(self._curves), p=_plausibility(self._misses))
            chosen[0] = np.argmin([self.scores_[name] for name in names])
        self.law_ = names[chosen[0]]
        self.tested_ = self.scores_ is not None
        self._groups = [
            (LAWS[name], members, LAWS[name].fit(pilot.N, self._curves[members], self._weights))
            for i, name in enumerate(names)
            if len(members := np.flatnonzero(chosen == i))
        ]
        drifts = [_drift(pilot.N, self._misses[name]) if self.tested_ else UNTESTED_DRIFT for name in names]
        self.drift_ = drifts[chosen[0]]
        self._drifts = np.take(drifts, chosen) * rng.standard_normal(len(self._curves))
        self._drifts[0] = 0

    def predict(self, N):
        """(error, low, high) at each N."""
        curves = self._evaluate(np.atleast_1d(np.asarray(N, dtype=float)))
        low, high = np.quantile(curves[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return curves[0], np.minimum(low, curves[0]), np.maximum(high, curves[0])

    def required(self, target, assurance=None):
        """The samples that bring the mean error down to `target` or, with `assurance`, that share of single runs."""
        if not (target > 0 and math.isfinite(target)):
            raise KoctError(f"target = {target!r} must be a positive error")
        aim = target / self._margin(assurance)
        N = self.samples(target, assurance)
        low, high = np.quantile(N[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
        n, low, high = (_whole(value) for value in (N[0], min(low, N[0]), max(high, N[0])))
        largest = int(self.pilot.N[-1])
        at = largest if n is None else n
        error, error_low, error_high = (float(values[0]) for values in self.predict([at]))
        ratio = None if n is None else n / largest
        reason = self._reason(aim, n, ratio)
        return Answer(target, self.law_, n, low, high, at, error, error_low, error_high, ratio, reason)

    def samples(self, target, assurance=None):
        """The real N of the forecast (first) and of every replicate; inf where the target is out of reach."""
        return self._solve(target / self._margin(assurance))

    def _margin(self, assurance):
        """By what factor the mean must lie below the target so that a share of the runs reaches it."""
        if assurance is None:
            return 1.0
        if not 0 < assurance < 1:
            raise KoctError(f"assurance = {assurance!r} must be between 0 and 1, like 0.9")
        spread = self.pilot.spread()
        if spread is None:
            raise KoctError("assurance needs several runs at one N at least: add seeds to the pilot")
        from scipy.special import ndtri

        return float(np.exp(ndtri(assurance) * spread[-1] - spread[-1] ** 2 / 2))

    def _reason(self, aim, n, ratio):
        said = [] if self.tested_ else ["the pilot has two N only, so no law could be tested on held-out points"]
        if n is None and self.law_ == "last":
            said.append(f"no law foretold the pilot's larger N better than its last error, which is above {aim:.3g}")
        elif n is None:
            said.append(f"the curve levels off above {aim:.3g}")
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

    def _solve(self, target):
        """The N at which each curve comes down to the target; inf if it never does."""
        N = np.empty(len(self._curves))
        for law, members, theta in self._groups:
            N[members] = law.solve(theta, target)
        largest = self.pilot.N[-1]
        drifting = np.flatnonzero((largest < N) & (self._drifts != 0))
        if len(drifting):
            grid = np.geomspace(largest, FARTHEST, 2000)
            reached = self._evaluate(grid)[drifting] <= target
            first = np.argmax(reached, axis=1)
            N[drifting] = np.where(reached.any(axis=1), grid[first], np.inf)
        return np.where(N > FARTHEST, np.inf, N)


UNTESTED_DRIFT = 0.1  # a tenth per doubling, when the pilot is too small to show how laws miss


def _replicates(pilot, count, rng):
    """Mean curves of pilots resampled by seed, spread out to what that many seeds really tell."""
    errors = pilot.errors
    seeds = len(errors)
    if seeds == 1:
        sd = np.sqrt(_log_variance(pilot))
        return pilot.mean * np.exp(sd * rng.standard_normal((count, len(sd))))
    seen = ~np.isnan(errors)
    filled = np.where(seen, errors, 0.0)
    curves = np.empty((count, errors.shape[1]))
    for i in range(count):
        weight = np.bincount(rng.integers(0, seeds, seeds), minlength=seeds)
        with np.errstate(invalid="ignore", divide="ignore"):
            curves[i] = (weight @ filled) / (weight @ seen)
    curves = np.where(np.isnan(curves), pilot.mean, curves)
    from scipy.special import ndtri, stdtrit

    # the bootstrap of a few blocks is too narrow: by the bias of its variance, and by not knowing that variance
    upper = (1 + LEVEL) / 2
    widen = np.sqrt(seeds / (seeds - 1)) * stdtrit(seeds - 1, upper) / ndtri(upper)
    return pilot.mean * (curves / pilot.mean) ** widen


def _log_variance(pilot):
    """Variance of log mean error at each N."""
    spread = pilot.spread()
    if spread is None:
        return np.full(len(pilot.N), ASSUMED_SPREAD**2)
    runs = np.sum(~np.isnan(pilot.errors), axis=0)
    return np.maximum(spread**2 / runs, LEAST_SPREAD**2)


ASSUMED_SPREAD = 0.1  # of log error, when no N was run twice


def _held_out(N, curves, weights):
    """How each law, fitted to the smaller N, misses the larger ones: log misses by law, and their mean squares."""
    splits = range(min(3, len(N) - 1), len(N))  # three points for the three numbers of a law, if there are so many
    if len(N) < 3:
        return None, None
    misses = {name: [] for name in LAWS}
    for split in splits:
        for name, law in LAWS.items():
            theta = law.fit(N[:split], curves[:, :split], weights[:split])
            misses[name].append((split, np.log(law.predict(theta, N[split:]) / curves[:, split:])))
    scores = {name: float(np.mean(np.concatenate([miss[0] for _, miss in each]) ** 2)) for name, each in misses.items()}
    return misses, scores


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
    return None if not np.isfinite(n) else max(1, int(np.ceil(n - 1e-9)))
