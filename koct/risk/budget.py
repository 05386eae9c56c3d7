"""From pilot runs to the number of samples that reaches a target error, with a 90 % interval.

from koct.risk.budget import Forecast, Pilot
forecast = Forecast(Pilot.from_points(N, error, seed))
forecast.required(target=0.01)
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.errors import KoctError
from koct.risk.held_out import MIN_SPREAD, drift, held_out, plausibility, score
from koct.risk.laws import LAWS, FloatArray, Law, Parameters
from koct.risk.theory_law import Theory, judge

if TYPE_CHECKING:
    from koct.risk.curve import Curve

LEVEL = 0.9  # of every interval
REPLICATES = 400
EXTRAPOLATION_RATIO = 4  # an answer above this many times the pilot's largest N is called an extrapolation
MAX_RATIO = 1e6  # a target that needs more than this many times the pilot's largest N is out of reach

POOLED_RUNS = 4  # the spread pooled over all N counts as this many runs at each N
ASSUMED_SPREAD = 0.1  # of the log error, when no N has repeated runs
UNTESTED_DRIFT = 0.1  # of the log error per doubling of N, when the pilot is too small for held-out tests
MIN_ERROR, MAX_ERROR = 1e-60, 1e60  # of a run, and of a target: the laws then stay far from the ends of float64
MAX_CHANGE = 100.0  # of a log error, in a bootstrap replicate or by drift
MAX_SIZES = 500  # different N of a pilot
MAX_TABLE = 10_000_000  # seeds times different N: what fits into memory several times


@dataclass(frozen=True)
class Pilot:
    """The errors of pilot runs.

    Parameters
    ----------
    N : increasing sample sizes, shape (n_sizes,)
    errors : `errors[s, k]` is the error of seed s at `N[k]`, NaN where there is no run; shape (n_seeds, n_sizes)
    """

    N: FloatArray
    errors: FloatArray

    @classmethod
    def from_points(cls, N: ArrayLike, error: ArrayLike, seed: ArrayLike | None = None) -> "Pilot":
        """From one entry per run, each argument of shape (n_runs,); without seeds, the i-th run at each N is seed i."""
        N, error = np.asarray(N, dtype=float), np.asarray(error, dtype=float)
        if N.shape != error.shape or N.ndim != 1:
            raise KoctError(
                f"N and error must be 1-D and of equal length; they have shapes {N.shape} and {error.shape}"
            )
        if not len(N):
            raise KoctError("N is empty; a pilot needs runs at two or more N")
        if not np.all(valid := (N >= 2) & (np.round(N) == N)):
            raise KoctError(f"N = {N[~valid][0]:.16g} must be an integer of at least 2; correct or remove the run")
        if not np.all(valid := (error > 0) & np.isfinite(error)):
            raise KoctError(f"error = {error[~valid][0]:g} must be finite and above 0; correct or remove the run")
        if not np.all(valid := (error >= MIN_ERROR) & (error <= MAX_ERROR)):
            raise KoctError(
                f"error = {error[~valid][0]:g} is too small or too large to compute with; rescale the errors"
            )
        sizes, column = np.unique(N, return_inverse=True)
        if len(sizes) < 2:
            raise KoctError(f"N = {sizes[0]:.0f} in every run; a pilot needs runs at two or more N")
        if len(sizes) > MAX_SIZES:
            raise KoctError(
                f"N has {len(sizes):,} different values, and a pilot at most {MAX_SIZES}; keep some of them"
            )
        if seed is None:
            order = np.argsort(column, kind="stable")
            first = np.searchsorted(column[order], np.arange(len(sizes)))
            row = np.empty(len(N), dtype=int)
            row[order] = np.arange(len(N)) - first[column[order]]
        else:
            _, row = np.unique(np.asarray(seed).astype(str), return_inverse=True)
            if len(np.unique(row * len(sizes) + column)) < len(row):
                raise KoctError("seed has two runs at the same N; keep one of them")
        if (row.max() + 1) * len(sizes) > MAX_TABLE:
            raise KoctError(
                f"seed has {row.max() + 1:,} different values at {len(sizes):,} different N, too many to compute with; "
                f"number the runs at each N from 1"
            )
        errors = np.full((row.max() + 1, len(sizes)), np.nan)
        errors[row, column] = error
        return cls(sizes, errors)

    @property
    def mean(self) -> FloatArray:
        """The mean error at each N."""
        return np.nanmean(self.errors, axis=0)

    @property
    def runs(self) -> NDArray[np.int_]:
        """The number of runs at each N."""
        return np.sum(~np.isnan(self.errors), axis=0)

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the spread: the number of runs beyond the first at each N."""
        return int(np.sum(self.runs - 1))

    def spread(self) -> FloatArray:
        """Standard deviation of the log error between runs at each N, shrunk towards the value pooled over all N."""
        if not self.degrees_of_freedom:
            return np.full(len(self.N), ASSUMED_SPREAD)
        log = np.log(self.errors)
        square = np.nansum((log - np.nanmean(log, axis=0)) ** 2, axis=0)
        pooled = square.sum() / self.degrees_of_freedom
        return np.sqrt((square + POOLED_RUNS * pooled) / (self.runs - 1 + POOLED_RUNS))

    def log_variance(self) -> FloatArray:
        """Variance of the log mean error at each N."""
        return np.maximum(self.spread() ** 2 / self.runs, MIN_SPREAD**2)


@dataclass(frozen=True)
class Answer:
    """The result of `Forecast.required`; all intervals are 90 % intervals.

    Attributes
    ----------
    target : the error to reach
    law : name of the law
    n : the number of samples required; None if the target is out of reach
    n_low, n_high : interval of `n`; None for an end that is out of reach
    at : the N of the predicted error: `n`, or the pilot's largest N if `n` is None
    error, error_low, error_high : predicted mean error at `at`, and its interval
    extrapolation : `n` divided by the pilot's largest N; None if `n` is None
    reason : remarks on the answer, such as why the target is out of reach; may be empty
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
    def reachable(self) -> bool:
        return self.n is not None


class Forecast:
    """A learning curve fitted to a pilot and extrapolated.

    By default the law is the one that best predicts each next N of the pilot from the smaller ones. Intervals come
    from a bootstrap over seeds: the pools of a seed are nested, so its runs are not independent and are resampled
    together. Each replicate follows one of the laws that the pilot leaves plausible. Beyond the pilot it also drifts,
    by as much as that law missed held-out points in excess of noise.

    The curve that pairs predict is a law as well. It needs less of the pilot than the others, and is used unless the
    pilot speaks against it; if it does, the forecast is the one without pairs.

    Parameters
    ----------
    pilot : the pilot runs
    law : "auto", a key of `koct.risk.laws.LAWS`, or "theory" for the curve that pairs predict
    replicates : number of bootstrap replicates
    seed : seed of the bootstrap's random numbers
    theory : the curve that pairs predict, if there are any

    Attributes
    ----------
    law_ : name of the law
    formula_ : the law for people to read
    scores_ : mean squared log error of each law's predictions of the next N; None if the pilot has only two N
    """

    @np.errstate(all="ignore")  # here and below: what overflows is out of reach, and comes out as infinite
    def __init__(
        self,
        pilot: Pilot,
        law: str = "auto",
        replicates: int = REPLICATES,
        seed: int = 0,
        theory: "Curve | None" = None,
    ) -> None:
        predicted = None if theory is None else Theory(theory)
        laws: dict[str, Law] = LAWS if predicted is None else {**LAWS, "theory": predicted}
        if law == "theory" and predicted is None:
            raise KoctError("law = 'theory' is the curve that pairs predict, and there are none; give --pairs")
        if law != "auto" and law not in laws:
            raise KoctError(f"law = {law!r} is unknown; choose one of auto, {', '.join(laws)}")
        self.pilot = pilot
        self._given = law != "auto"
        self._rng = np.random.default_rng(seed)
        self._curves = np.vstack([pilot.mean, _replicates(pilot, replicates, self._rng)])
        weights = 1 / pilot.log_variance()
        misses = held_out(pilot.N, self._curves, weights, laws)
        scores = None if misses is None else {name: score(each) for name, each in misses.items()}
        self.scores_ = None if scores is None else {name: float(each[0]) for name, each in scores.items()}
        names, use, self._verdict = list(laws), False, ""
        if predicted is not None and law in ("auto", "theory"):
            use, self._verdict = judge(predicted, pilot.N, self._curves, scores)
        if self._given or use:
            chosen = np.full(len(self._curves), names.index(law if self._given else "theory"))
        elif misses is None or self.scores_ is None:
            chosen = np.full(len(self._curves), names.index("power"))
        else:
            chosen = self._rng.choice(len(LAWS), size=len(self._curves), p=plausibility(misses))
            chosen[0] = np.argmin([self.scores_[name] for name in LAWS])
        self.law_ = names[chosen[0]]
        self._groups: list[tuple[Law, NDArray[np.intp], Parameters]] = [
            (laws[name], members, laws[name].fit(pilot.N, self._curves[members], weights))
            for i, name in enumerate(names)
            if len(members := np.flatnonzero(chosen == i))
        ]
        self._law, _, self._theta = next(group for group in self._groups if group[1][0] == 0)
        self.formula_ = self._law.formula(self._theta)
        if misses is None:  # a predicted curve has doubts of its own
            drifts = [0.0 if name == "theory" else UNTESTED_DRIFT for name in names]
        else:
            drifts = [drift(pilot.N, misses[name]) for name in names]
        self._normals = self._rng.standard_normal(len(self._curves))
        self._normals[0] = 0
        self._drifts = np.take(drifts, chosen) * self._normals
        self._spreads = _spread_factors(pilot, len(self._curves), self._rng)

    def __repr__(self) -> str:
        N = self.pilot.N
        return (
            f"Forecast(law_={self.law_!r}, N={N[0]:.0f}..{N[-1]:.0f}, runs={self.pilot.runs.sum()}, "
            f"replicates={len(self._curves) - 1})"
        )

    @np.errstate(all="ignore")
    def predict(self, N: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(error, low, high) at each N ≥ 2, each of shape (n,); `low` and `high` are the ends of the interval."""
        N = np.atleast_1d(np.asarray(N, dtype=float))
        if not np.all(valid := N >= 2):
            raise KoctError(f"N = {N[~valid][0]:g} must be at least 2; choose a larger N")
        curves = self._evaluate(N)
        low, high = np.quantile(curves[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return curves[0], np.minimum(low, curves[0]), np.maximum(high, curves[0])

    @np.errstate(all="ignore")
    def required(self, target: float, assurance: float | None = None) -> Answer:
        """The number of samples that brings the error down to `target`.

        Without `assurance` this is the mean error; with it, that share of single runs has to reach the target.
        """
        N = self.samples(target, assurance)
        low, high = np.quantile(N[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
        n, n_low, n_high = (_whole(value) for value in (N[0], min(low, N[0]), max(high, N[0])))
        largest = int(self.pilot.N[-1])
        at = largest if n is None else n
        error, error_low, error_high = (float(values[0]) for values in self.predict([at]))
        ratio = None if n is None else n / largest
        reason = self._reason(target / self._margins(assurance)[0], n, ratio)
        return Answer(target, self.law_, n, n_low, n_high, at, error, error_low, error_high, ratio, reason)

    @np.errstate(all="ignore")
    def samples(self, target: float, assurance: float | None = None) -> FloatArray:
        """The real N of the forecast (first) and of every replicate, shape (1 + replicates,); inf if out of reach."""
        if not (target > 0 and math.isfinite(target)):
            raise KoctError(f"target = {target!r} must be finite and above 0; choose a positive error")
        if not MIN_ERROR <= target <= MAX_ERROR:
            raise KoctError(f"target = {target!r} is too small or too large to compute with; choose another error")
        aims = target / self._margins(assurance)
        N = np.empty(len(self._curves))
        for law, members, theta in self._groups:
            N[members] = law.solve(theta, aims[members])
        smallest, largest = self.pilot.N[0], self.pilot.N[-1]
        drifting = np.flatnonzero((largest < N) & (self._deviations(np.array([2 * largest]))[:, 0] != 0))
        if len(drifting):
            grid = np.geomspace(largest, MAX_RATIO * largest, 2000)
            reached = self._evaluate(grid)[drifting] <= aims[drifting, None]
            N[drifting] = np.where(reached.any(axis=1), grid[np.argmax(reached, axis=1)], np.inf)
        return np.where(MAX_RATIO * largest < N, np.inf, np.maximum(N, smallest))

    def _margins(self, assurance: float | None) -> FloatArray:
        """The factor by which each curve's mean must lie below the target for that share of runs to reach it."""
        if assurance is None:
            return np.ones(len(self._curves))
        if not 0 < assurance < 1:
            raise KoctError(f"assurance = {assurance!r} must be between 0 and 1, for example 0.9")
        if not self.pilot.degrees_of_freedom:
            raise KoctError(f"assurance = {assurance!r} needs repeated runs at one N or more; add seeds to the pilot")
        from scipy.special import ndtri

        spread = self.pilot.spread()[-1] * self._spreads
        return np.exp(ndtri(assurance) * spread - spread**2 / 2)

    def _reason(self, aim: float, n: int | None, ratio: float | None) -> str:
        remarks = []
        if self.scores_ is None:
            remarks.append("the pilot has only two N, so no law could be tested on held-out points")
        remarks += [self._verdict] if self._verdict else []
        remarks += self._law.remarks(self._theta, n or self.pilot.N[-1])
        if not self.pilot.degrees_of_freedom:
            remarks.append(f"no N has repeated runs, so {ASSUMED_SPREAD:.0%} noise is assumed".replace("%", " %"))
        if n is None or ratio is None:
            if self.law_ != "last":
                remarks.append(f"the predicted curve does not fall to {aim:.3g}")
            else:
                better = "" if self._given else "no law predicted the next N better than the last error, and "
                remarks.append(f"{better}the last error is above {aim:.3g}")
        elif n <= self.pilot.N[0]:
            remarks.append("already reached at the smallest N of the pilot")
        elif ratio > EXTRAPOLATION_RATIO:
            remarks.append(f"{ratio:.0f} times the largest N of the pilot: an extrapolation")
        return "; ".join(remarks)

    def _evaluate(self, N: FloatArray) -> FloatArray:
        """The error of every curve at each N, including drift; shape (n_curves, n)."""
        curves = np.empty((len(self._curves), len(N)))
        for law, members, theta in self._groups:
            curves[members] = law.predict(theta, N)
        return curves * np.exp(np.clip(self._deviations(N), -MAX_CHANGE, MAX_CHANGE))

    def _deviations(self, N: FloatArray) -> FloatArray:
        """The log of what every curve deviates from its law by at each N beyond the pilot; shape (n_curves, n).

        By drift, or by what the law doubts itself, whichever is larger: held-out points have shown a part of both.
        """
        largest = self.pilot.N[-1]
        deviations = self._drifts[:, None] * np.maximum(0, np.log2(N / largest))
        for law, members, _ in self._groups:
            own = self._normals[members, None] * law.doubt(N, largest)
            deviations[members] = np.where(np.abs(own) > np.abs(deviations[members]), own, deviations[members])
        return deviations


# "np.random.Generator" is quoted below because NumPy would import numpy.random to evaluate it.


def _replicates(pilot: Pilot, count: int, rng: "np.random.Generator") -> FloatArray:
    """Mean curves of pilots resampled by seed, widened to the uncertainty that so few runs leave."""
    from scipy.special import ndtri, stdtrit

    seeds = len(pilot.errors)
    seen = ~np.isnan(pilot.errors)
    filled = np.where(seen, pilot.errors, 0.0)
    curves = np.empty((count, len(pilot.N)))
    for i in range(count):
        weight = np.bincount(rng.integers(0, seeds, seeds), minlength=seeds)
        with np.errstate(invalid="ignore", divide="ignore"):
            curves[i] = (weight @ filled) / (weight @ seen)
    deviation = np.log(np.where(np.isnan(curves), pilot.mean, curves) / pilot.mean)
    # A bootstrap over few seeds is too narrow: its variance is biased low, and is itself uncertain (Student's t).
    upper = (1 + LEVEL) / 2
    if seeds > 1:
        deviation *= np.sqrt(seeds / (seeds - 1)) * stdtrit(seeds - 1, upper) / ndtri(upper)
    # An N with few runs, or with runs that agree by chance, is no better known than the pooled spread allows.
    freedom = pilot.degrees_of_freedom
    widening = stdtrit(freedom, upper) / ndtri(upper) if freedom else 1.0
    lacking = np.maximum(0, pilot.log_variance() * widening**2 - deviation.var(axis=0))
    deviation += np.sqrt(lacking) * rng.standard_normal(deviation.shape)
    return pilot.mean * np.exp(np.clip(deviation, -MAX_CHANGE, MAX_CHANGE))


def _spread_factors(pilot: Pilot, count: int, rng: "np.random.Generator") -> FloatArray:
    """Random ratios of the true spread between runs to its estimate, one per curve; 1 for the first."""
    freedom = max(1, pilot.degrees_of_freedom)
    factors = np.sqrt(freedom / rng.chisquare(freedom, count))
    factors[0] = 1
    return factors


def _whole(n: float) -> int | None:
    """`n` rounded up to an integer; None if it is infinite."""
    return None if not np.isfinite(n) else int(np.ceil(n - 1e-9))
