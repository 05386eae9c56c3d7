"""From pilot runs to the number of samples that reaches a target error, with a 90 % interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from koct.bound.calibration import calibrate
from koct.errors import KoctError
from koct.forecast.ensemble import Ensemble, rounded
from koct.forecast.laws import LAWS, Law, Priors, Theory, learned
from koct.forecast.runs import ASSUMED_SPREAD, MAX_ERROR, MIN_ERROR, FloatArray, Pilot, Points

if TYPE_CHECKING:
    from koct.prediction.curve import Curve

LEVEL = 0.9  # of every interval
REPLICATES = 1000
EXTRAPOLATION_RATIO = 4  # an answer above this many times the pilot's largest N is called an extrapolation
THEORY_PROBABILITY = 0.9  # of the curve that pairs predict, before the pilot; the rest is for all laws together
MENTIONED = 0.1  # probability of a law that is named
RISE = 3.0  # times its uncertainty: a rise of the error within the pilot that is no chance
SURE = 0.9  # probability that the error falls over the pilot, below which a warning says so
HELD_OUT = 2  # of the largest N, at most, to be predicted from the others
LEAST_KEPT = 3  # N that are kept, if two are held out; if one is, two are enough
MAX_LOG_RATIO = 50.0  # of an error to that at the pilot's largest N: cut off here, so that errors stay finite


@dataclass(frozen=True)
class Answer:
    """The result of `Forecast.required`; all intervals are 90 % intervals."""

    target: float  # the error to reach
    law: str  # the most probable one
    n: int | None  # samples required, the median; None if the target is probably out of reach
    n_low: int | None  # None for an end that is out of reach, here and below
    n_high: int | None
    probability: float  # that the target is reached, with at most a million times the pilot's largest N
    at: int  # the N of the predicted error: `n`, or the pilot's largest N if `n` is None
    error: float  # predicted mean error there, and its interval
    error_low: float
    error_high: float
    extrapolation: float | None  # `n` divided by the pilot's largest N
    reason: str  # remarks on the answer; may be empty

    @property
    def reachable(self) -> bool:
        return self.n is not None


class Forecast:
    """What a pilot and the learning curves of others tell about the errors at larger N.

    Every law is weighed by how well it explains the pilot (`koct.forecast.ensemble`); replicates are curves drawn from
    all that remains plausible. The forecast is their median, and intervals are their quantiles. An answer about N and
    one about the error agree, since both are about the error that a curve has reached by N.

    The curve that pairs predict is a law as well, and the most probable one unless the pilot speaks against it.

    Parameters
    ----------
    pilot : the pilot runs
    law : "auto" for all of `laws.LAWS`, one of them, or "theory" for the curve that pairs predict
    replicates : number of replicates
    seed : seed of their random numbers
    theory : the curve that pairs predict, if there are any
    priors : what other learning curves look like; by default, those that koct has learned from

    Attributes
    ----------
    law_ : name of the most probable law
    weights_ : {name: probability} of all laws
    formula_ : the laws for people to read
    warnings_ : what is wrong with the pilot, one sentence each
    curves_ : the replicates
    spreads_ : for each of them, the standard deviation of the log error of single runs, shape (replicates,)
    """

    @np.errstate(all="ignore")  # here and below: what overflows is out of reach, and comes out as infinite
    def __init__(
        self,
        pilot: Pilot,
        law: str = "auto",
        replicates: int = REPLICATES,
        seed: int = 0,
        theory: "Curve | None" = None,
        priors: Priors | None = None,
    ) -> None:
        self.pilot, self._theory = pilot, None if theory is None else Theory(theory)
        self.priors, self._points = priors or learned(), pilot.points()
        self._rises_from = _rise(self._points)
        if self._rises_from is not None:  # no law is near, so the walk is not small
            sizes = self.priors.misfit
            self.priors = replace(self.priors, misfit={size: sizes[size] for size in sizes if size > min(sizes)})
        # the shares of replicates below the lower end of an interval, its median, and its upper end
        ends = (self.priors.error_ends, self.priors.n_ends)
        self._error_shares, self.n_shares = ((low, 0.5, high) for low, high in ends)
        ensemble = Ensemble(self._points, self._laws(law), self.priors, pilot.freedom)
        rng = np.random.default_rng(seed)
        self.curves_ = ensemble.draw(replicates, rng)
        if pilot.floor is not None:
            self.curves_ = self.curves_.above(np.log(max(pilot.floor, MIN_ERROR)))
        freedom = max(1, pilot.degrees_of_freedom)
        spread = pilot.spread()[-1] * np.sqrt(freedom / rng.chisquare(freedom, replicates))  # which is an estimate
        self.spreads_ = rounded(np.sqrt(np.log1p(spread**2)))
        self.weights_ = dict(sorted(ensemble.weights.items(), key=lambda item: -item[1]))
        self.law_ = next(iter(self.weights_))
        self.formula_ = self._formula(law)
        first, last = self.replicates(pilot.N[[0, -1]]).T
        self.warnings_ = []
        if self._rises_from is not None:
            self.warnings_ = [
                f"the error rises from N = {self._rises_from:.0f} on; the forecast does not follow a rise"
            ]
        elif np.mean(last < first) < SURE:
            self.warnings_ = ["the error does not clearly fall over the pilot, so it tells little about larger N"]

    def __repr__(self) -> str:
        N = self.pilot.N
        return (
            f"Forecast(law_={self.law_!r}, N={N[0]:.0f}..{N[-1]:.0f}, runs={self.pilot.runs.sum()}, "
            f"replicates={len(self.spreads_)})"
        )

    def _laws(self, law: str) -> dict[str, tuple[Law, float]]:
        """The laws to weigh, and the prior probability of each."""
        if law == "theory":
            if self._theory is None:
                raise KoctError("law = 'theory' is the curve that pairs predict, and there are none; give --pairs")
            return {"theory": (self._theory, 1.0)}
        if law in LAWS:
            return {law: (LAWS[law], 1.0)}
        if law != "auto":
            raise KoctError(f"law = {law!r} is unknown; choose one of auto, {', '.join(LAWS)}")
        laws = {name: (each, self.priors.laws.get(name, each.weight)) for name, each in LAWS.items()}
        if self._theory is None or self._theory.flaw(self.pilot.N[-1]):
            return laws
        weight = THEORY_PROBABILITY / (1 - THEORY_PROBABILITY) * sum(each for _, each in laws.values())
        return {**laws, "theory": (self._theory, weight)}

    def predict(self, N: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (error, low, high) at each N ≥ 2, each of shape (n,): the median, and the ends of the interval."""
        low, middle, high = quantiles(self.replicates(N), self._error_shares)
        return middle, low, high

    @np.errstate(all="ignore")
    def replicates(self, N: ArrayLike) -> FloatArray:
        """Return the error of every replicate at each N ≥ 2, shape (replicates, n)."""
        N = np.atleast_1d(np.asarray(N, dtype=float))
        if not np.all(valid := N >= 2):
            raise KoctError(f"N = {N[~valid][0]:g} must be at least 2; choose a larger N")
        return self._errors(self.curves_.at(N))

    def _errors(self, log_error: FloatArray) -> FloatArray:
        """Errors that stay finite, and rates that stay rates."""
        centre = self._points.log_mean[-1]
        error = np.exp(np.clip(log_error, centre - MAX_LOG_RATIO, centre + MAX_LOG_RATIO))
        return error if self.pilot.test_size is None else np.minimum(error, 1.0)

    def required(self, target: float, assurance: float | None = None) -> Answer:
        """Return the number of samples that brings the error down to `target`.

        Without `assurance` this is the mean error; with it, that share of single runs has to reach the target.
        """
        return self.answers([target], self.samples([target], assurance))[0]

    def answers(self, targets: Sequence[float], N: FloatArray) -> list[Answer]:
        """Return what `required` does for each of many targets; `N` are their `samples`."""
        largest = int(self.pilot.N[-1])
        ends = quantiles(N, self.n_shares).T  # rounded up to integers, or infinite
        counts = [[int(np.ceil(n - 1e-9)) if np.isfinite(n) else None for n in each] for each in ends]
        at = [largest if n is None else n for _, n, _ in counts]
        errors = quantiles(
            self._errors(self.curves_.reached_at(np.array(at, dtype=float))), self._error_shares
        ).T.tolist()
        answers = []
        for i, (target, (n_low, n, n_high), (low, error, high)) in enumerate(zip(targets, counts, errors, strict=True)):
            probability, ratio = float(np.mean(np.isfinite(N[:, i]))), None if n is None else n / largest
            reason = "; ".join([*self.warnings_, *self.remarks(n, n_high)])
            number, predicted = (n, n_low, n_high, probability), (at[i], error, low, high)
            answers.append(Answer(target, self.law_, *number, *predicted, ratio, reason))
        return answers

    @np.errstate(all="ignore")
    def samples(self, target: ArrayLike, assurance: float | None = None) -> FloatArray:
        """Return the real N that every replicate needs, shape (replicates,); inf if it never reaches the target.

        Of several targets, shape (replicates, n_targets).
        """
        targets = np.asarray(target, dtype=float)
        for each in targets.ravel().tolist():
            if not MIN_ERROR <= each <= MAX_ERROR:
                ends = f"from {MIN_ERROR:g} to {MAX_ERROR:g}"
                raise KoctError(f"target = {each!r} must be finite and above 0; choose a positive error {ends}")
        aims = np.log(targets.ravel()) - self._margins(assurance)[:, None]
        return self.curves_.reach(aims, self.pilot.N[0]).reshape(-1, *targets.shape)

    def chance(self, target: float, N: ArrayLike, assurance: float | None = None) -> FloatArray:
        """Return the probability that each N reaches the target, shape (n,); `required` says what `assurance` is."""
        return np.mean(self.samples(target, assurance)[:, None] <= np.atleast_1d(np.asarray(N, dtype=float)), axis=0)

    def _margins(self, assurance: float | None) -> FloatArray:
        """By how much each curve's log mean must lie below the target for that share of runs to reach it."""
        if assurance is None:
            return np.zeros(len(self.spreads_))
        if not 0 < assurance < 1:
            raise KoctError(f"assurance = {assurance!r} must be between 0 and 1, for example 0.9")
        if not self.pilot.degrees_of_freedom:
            raise KoctError(f"assurance = {assurance!r} needs repeated runs at one N or more; add seeds to the pilot")
        from statistics import NormalDist

        return NormalDist().inv_cdf(assurance) * self.spreads_ - self.spreads_**2 / 2

    def _formula(self, law: str) -> str:
        if self._theory is not None and self.law_ == "theory":
            return f"predicted from {self._theory.pairs:,} pairs × {self._scale():.3g}"
        if law != "auto":
            return LAWS[law].text
        if self._rises_from is not None:
            return "no law: the error rises"
        named = [(name, weight) for name, weight in self.weights_.items() if weight >= MENTIONED]
        return ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in named)

    def _scale(self) -> float:
        """By how much the forecast at the largest N of the pilot is larger than what the pairs predict."""
        assert self._theory is not None
        largest = self.pilot.N[-1:]
        return float(Forecast.predict(self, largest)[0][0] / np.exp(self._theory.log_error(largest)[0]))

    def remarks(self, n: int | None = None, n_high: int | None = None) -> list[str]:
        """What to know about an answer, one sentence each; those that depend on it come last."""
        remarks = []
        if len(self.pilot.N) == 2:
            remarks.append("the pilot has only two N, so the laws rest on what other learning curves look like")
        if self._theory is not None and "theory" in self.weights_:
            weight, largest = self.weights_["theory"], n or self.pilot.N[-1]
            remarks += self._theory.remarks(weight, self._points, self._scale(), largest)
        elif self._theory is not None and (flaw := self._theory.flaw(self.pilot.N[-1])):
            remarks.append(flaw)
        if not self.pilot.degrees_of_freedom:
            remarks.append(f"no N has repeated runs, so {100 * ASSUMED_SPREAD:.0f} % noise is assumed")
        elif not self.pilot.replicated:
            remarks.append("no N has runs of two groups, so groups are assumed to differ as single runs do")
        if self.pilot.floor is not None:
            remarks.append(f"with fresh samples in every step the error is {self.pilot.floor:.3g}: no N goes below it")
        if np.any(self.pilot.mean == 0):
            remarks.append("where every run has an error of zero, half of the smallest error that could be seen counts")
        if n is None:
            return remarks
        if n_high is not None and n_high <= self.pilot.N[0]:
            remarks.append("already reached at the smallest N of the pilot")
        elif n > EXTRAPOLATION_RATIO * self.pilot.N[-1]:
            remarks.append(f"{n / self.pilot.N[-1]:,.0f} times the largest N of the pilot: an extrapolation")
        return remarks


def _rise(points: Points) -> float | None:
    """The N from which on the error rises to the pilot's largest N by more than chance; None if it does not."""
    N, log_mean, covariance = points
    lowest = int(np.argmin(log_mean))
    variance = covariance[lowest, lowest] + covariance[-1, -1] - 2 * covariance[lowest, -1]
    return float(N[lowest]) if log_mean[-1] - log_mean[lowest] > RISE * np.sqrt(variance) > 0 else None


def quantiles(values: FloatArray, shares: Sequence[float]) -> FloatArray:
    """Return quantiles over the first axis; values of replicates, so that N and error agree."""
    return np.sort(values, axis=0)[np.ceil(len(values) * np.array(shares)).astype(int) - 1]


# How well errors at large N are predicted from those at smaller N: by the calibrated bound, and by the forecast


class HeldOut(NamedTuple):
    """A mean error that was measured, and what smaller N say of it; the interval is the forecast's 90 %."""

    N: int
    measured: float
    bound: float
    forecast: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the interval contains what was measured."""
        return self.low <= self.measured <= self.high


def held_out(N: ArrayLike, error: ArrayLike, seed: ArrayLike, means: Mapping[int, float]) -> list[HeldOut]:
    """Predict the means at the largest N from runs and means at the others; empty if there are fewer than three N.

    `N`, `error` and `seed` are of single runs, shape (n_runs,), and `means` has the mean error at every N.
    """
    sizes = sorted(means)
    if len(sizes) < LEAST_KEPT:
        return []
    most = HELD_OUT if len(sizes) >= HELD_OUT + LEAST_KEPT else 1
    kept, held = sizes[:-most], sizes[-most:]
    sizes_of, errors, seeds = (np.asarray(values)[np.isin(N, kept)] for values in (N, error, seed))
    forecast = np.transpose(Forecast(Pilot.from_points(sizes_of, errors, seeds)).predict(held))
    bound = calibrate(kept, [means[size] for size in kept]).predict(held)
    return [
        HeldOut(size, means[size], float(by_bound), *map(float, predicted))
        for size, by_bound, predicted in zip(held, bound, forecast, strict=True)
    ]
