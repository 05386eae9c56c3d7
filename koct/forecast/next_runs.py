"""Which runs to add to a pilot: those that should narrow the interval of the answer at the least cost.

The replicates of a forecast tell how the number of samples that reaches the target goes together with the error at
every N. If both were Gaussian in the log, a measurement would narrow the answer by a known amount whatever it shows.
Every plan of one or two N is judged that way, and none needs a new forecast.

Who adds runs until an interval is narrow stops where it is so by chance, and such intervals hold too seldom.
Intervals are therefore wider here than those of a forecast: both ends are moved outward by a factor, with which nine of
ten hold on other learning curves (benchmarks/next.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.errors import KoctError
from koct.forecast.budget import Answer, Forecast
from koct.forecast.ensemble import MAX_RATIO
from koct.forecast.runs import MIN_SPREAD, FloatArray, Pilot

STOP = 1.4  # by which both ends of an interval are moved outward, since one stops where it is narrow
FACTOR = 4.0  # upper over lower end of the interval, by default
AHEAD = 4  # largest N of a plan over that of the pilot, by default
LEAST_SEEDS, MOST_SEEDS = 3, 5  # new runs at an N; the N of the pilot may get fewer
SEEDS = np.arange(1, MOST_SEEDS + 1)
NEVER_RATIO = 64  # times the pilot's largest N, or the interval's lower end: what is above, or never, counts as this
PILOT_SIZES = 12  # of the pilot's N that may get more runs
ENOUGH = 0.8  # of the narrowing that is possible, where the wanted factor is out of reach
LITTLE = 0.9  # a plan that leaves more of the log width than this does not help much
NO_NOISE = 1e-12  # variance, for matrices that would be singular


@dataclass(frozen=True)
class RunCost:
    """What a run costs: scale · N^slope; by default, a sample costs 1.

    Parameters
    ----------
    scale : cost at N = 1
    slope : power of N
    column : of the pilot, that both were fitted to

    Examples
    --------
    >>> from koct.forecast.next_runs import RunCost
    >>> RunCost(slope=2.0).of([1, 10])
    array([  1., 100.])
    """

    scale: float = 1.0
    slope: float = 1.0
    column: str | None = None

    @classmethod
    def fitted(cls, N: ArrayLike, cost: ArrayLike, column: str) -> "RunCost":
        """Return a line in log-log through the costs of runs, each of shape (n_runs,); it never falls."""
        x, y = np.log(np.asarray(N, dtype=float)), np.log(np.asarray(cost, dtype=float))
        centred = x - x.mean()
        slope = max(0.0, float(centred @ y / (centred @ centred))) if np.any(centred) else 1.0
        return cls(float(np.exp(y.mean() - slope * x.mean())), slope, column)

    def of(self, N: ArrayLike) -> FloatArray:
        """Return the cost of a run at each N, in the shape of `N`."""
        return self.scale * np.asarray(N, dtype=float) ** self.slope


@dataclass(frozen=True)
class NewRuns:
    """New runs at one N, their cost together, and the factor of the interval expected after them.

    The factor is None if the interval has no upper end now, or a very far one: then it cannot be told.
    """

    N: int
    seeds: int
    cost: float
    factor: float | None


@dataclass(frozen=True)
class RunPlan:
    """The result of `plan`."""

    answer: Answer  # how many samples the target takes, as far as is known without the runs
    wanted: float  # the factor between the ends of the answer's interval to get down to
    present: float  # this factor now; infinite if the interval has no upper end
    steps: tuple[NewRuns, ...]  # the runs to add; empty if the interval is narrow enough, or if no runs would help much
    largest: int  # N that was considered

    @property
    def cost(self) -> float:
        return sum(step.cost for step in self.steps)

    @property
    def interval_after(self) -> tuple[int, int] | None:
        """The ends of the interval that the steps should leave, if N is what it seems to be now; None as `expected`."""
        n, low, high = self.answer.n, self.answer.n_low, self.answer.n_high
        if self.expected is None or not np.isfinite(self.expected) or n is None or low is None or high is None:
            return None
        kept = np.log(self.expected) / np.log(high / low) if high > low else 1.0
        return round(n * (low / n) ** kept), round(n * (high / n) ** kept)

    @property
    def expected(self) -> float | None:
        """The factor after all steps; None if it cannot be told."""
        return self.steps[-1].factor if self.steps else self.present

    @property
    def done(self) -> bool:
        return self.present <= self.wanted

    @property
    def enough(self) -> bool:
        """Whether the steps should get down to the wanted factor."""
        return self.expected is not None and self.expected <= self.wanted


def plan(
    forecast: Forecast,
    target: float,
    cost: RunCost | None = None,
    factor: float = FACTOR,
    budget: float = np.inf,
    largest: int | None = None,
    candidates: Sequence[int] | None = None,
) -> RunPlan:
    """Return the cheapest runs after which the ends of the answer's interval should be within `factor` of each other.

    If no runs within the budget achieve that, the plan is the cheapest one that comes near the best of them. Plan
    again when its runs are done.

    Parameters
    ----------
    forecast : from the pilot
    target : the error to reach
    cost : of a run
    factor : the wanted ratio of the interval's upper to its lower end
    budget : what all added runs may cost
    largest : of the N to consider; by default, four times the pilot's
    candidates : the N to consider; by default, those of the pilot, and more by factors of √2

    Returns
    -------
    plan : its `steps` are the runs to add

    Examples
    --------
    >>> from koct import Forecast, Pilot
    >>> from koct.forecast.next_runs import plan
    >>> pilot = Pilot.from_points(N=[16, 16, 32, 32, 64, 64], error=[0.4, 0.44, 0.3, 0.27, 0.2, 0.21])
    >>> [(step.N, step.seeds) for step in plan(Forecast(pilot), target=0.05).steps]
    [(256, 3)]
    """
    cost = cost or RunCost()
    if not 1 < factor < np.inf:
        raise KoctError(f"factor = {factor!r} must be above 1 and finite, for example 4")
    if not budget > 0:
        raise KoctError(f"budget = {budget!r} must be above 0; give what the new runs may cost together")
    N = np.array(candidates if candidates is not None else sizes(forecast.pilot, largest), dtype=float)
    samples = forecast.samples([target])
    answer = widened(forecast.answers([target], samples)[0], forecast.pilot.N[0])
    present = np.inf if answer.n_low is None or answer.n_high is None else answer.n_high / answer.n_low
    design = RunPlan(answer, factor, present, (), int(N.max()))
    if design.done:
        return design
    return replace(design, steps=_steps(forecast, design, samples[:, 0], N, cost, budget))


def widened(answer: Answer, smallest: float, by: float = STOP) -> Answer:
    """Return an answer with the interval that holds where one stops; no N is below the pilot's smallest one."""
    low, high = answer.n_low, answer.n_high
    low = None if low is None else max(int(low / by), min(low, int(smallest)))
    return replace(answer, n_low=low, n_high=None if high is None else int(np.ceil(high * by)))


def sizes(pilot: Pilot, largest: int | None = None) -> list[int]:
    """Return the N that may get new runs: those of the pilot, and larger ones by factors of √2."""
    last = int(pilot.N[-1])
    if largest is None:
        largest = AHEAD * last
    if not pilot.N[0] <= largest <= MAX_RATIO * last:
        raise KoctError(
            f"largest = {largest} must be between {pilot.N[0]:.0f} and {MAX_RATIO * last:.0f}, the smallest N of the "
            "pilot and a million times its largest"
        )
    place = np.linspace(0, len(pilot.N) - 1, min(len(pilot.N), PILOT_SIZES)).round().astype(int)
    octaves = np.log2(max(largest, last) / last)
    beyond = np.round(last * 2 ** np.append(np.arange(0, octaves, 0.5), octaves))
    return sorted({int(n) for n in [*pilot.N[place], *beyond] if n <= largest})


def _steps(
    forecast: Forecast, now: RunPlan, samples: FloatArray, N: FloatArray, cost: RunCost, budget: float
) -> tuple[NewRuns, ...]:
    """Return the steps of the best plan of runs at one or two of the N; none if no plan is worth it."""
    interval = _Interval(forecast, now, samples, N)
    costs = cost.of(N)[:, None] * SEEDS  # of 1, 2, ... runs at each N
    plans, total = _plans(forecast.pilot, N, costs, budget)
    if not len(total) or interval.variance < NO_NOISE:  # too little money, or no replicate reaches the target
        return ()
    expected = interval.after(*plans)
    narrowest = expected.min()
    if narrowest > LITTLE * interval.width:
        return ()
    known = now.present <= NEVER_RATIO  # beyond that, its width is not known
    wanted = np.log(now.wanted) if known else 0.0
    if narrowest > wanted:
        wanted = interval.width - ENOUGH * (interval.width - narrowest)
    good = np.flatnonzero(expected <= wanted)
    cheapest = good[np.lexsort([expected[good], total[good]])[0]]
    i, j, m, n = plans[:, cheapest].tolist()
    steps = [(i, m)] if i == j else [(i, m), (j, n)]
    parts = np.array([(i, i, m, 0), (i, j, m, n)][: len(steps)])  # the plan up to each step
    factors = np.exp(interval.after(*parts.T)).tolist()
    return tuple(
        NewRuns(int(N[k]), more + 1, float(costs[k, more]), factor if known else None)
        for (k, more), factor in zip(steps, factors, strict=True)
    )


def _plans(pilot: Pilot, N: FloatArray, costs: FloatArray, budget: float) -> tuple[NDArray[np.intp], FloatArray]:
    """Return all plans within the budget, shape (4, n_plans), and what each costs, shape (n_plans,).

    A plan is (i, j, m, n): m + 1 runs at N[i] and n + 1 runs at a larger N[j]; only the first if i = j, where n = 0.
    """
    plans = np.indices((len(N), len(N), MOST_SEEDS, MOST_SEEDS)).reshape(4, -1)
    i, j, m, n = plans
    total = costs[i, m] + np.where(i == j, 0.0, costs[j, n])
    allowed = np.isin(N, pilot.N)[:, None] | (SEEDS >= LEAST_SEEDS)  # numbers of runs at each N
    one_size, two_sizes = (i == j) & (n == 0), (i < j) & allowed[j, n]
    keep = allowed[i, m] & (one_size | two_sizes) & (total <= budget)
    return plans[:, keep], total[keep]


class _Interval:
    """How new runs narrow the interval of the answer, if it and the errors at all N are jointly Gaussian in the log."""

    fixed = 2 * np.log(STOP)  # part of the width, whatever is measured

    def __init__(self, forecast: Forecast, now: RunPlan, samples: FloatArray, N: FloatArray) -> None:
        largest = forecast.pilot.N[-1]
        answer = np.log(np.minimum(samples, NEVER_RATIO * max(now.answer.n_low or largest, largest)))
        low, _, high = np.quantile(answer, forecast.n_shares, method="inverted_cdf")
        self.width = high - low + self.fixed  # now
        joint = np.cov(np.column_stack([answer, np.log(forecast.replicates(N))]), rowvar=False)
        self.variance, self._cross, self._errors = joint[0, 0], joint[0, 1:], joint[1:, 1:]
        self._noise = _noise(forecast.pilot, N)

    def after(self, i: NDArray[np.intp], j: NDArray[np.intp], m: NDArray[np.intp], n: NDArray[np.intp]) -> FloatArray:
        """Return the expected width after each plan, by conditioning on one or two measurements."""
        a, b = self._errors[i, i] + self._noise[i, m], self._errors[j, j] + self._noise[j, n]
        c, p, q = self._errors[i, j], self._cross[i], self._cross[j]
        one = p**2 / a
        two = (p**2 * b - 2 * p * q * c + q**2 * a) / np.maximum(a * b - c**2, NO_NOISE * a * b)
        rest = np.clip(self.variance - np.where(i == j, one, two), 0.0, self.variance)
        return self.fixed + (self.width - self.fixed) * np.sqrt(rest / self.variance)


def _noise(pilot: Pilot, N: FloatArray) -> FloatArray:
    """Return the variance of a measurement of the log error by 1, 2, ... new runs at each N, shape (n, MOST_SEEDS).

    A new run is of a new group: it counts as much as a group of the pilot does.
    """
    near = np.minimum(np.searchsorted(pilot.N, N), len(pilot.N) - 1)
    of_one_group = (np.diag(pilot.covariance()) * pilot.counts)[near][:, None]
    groups = np.where(pilot.N[near] == N, pilot.counts[near], 0)[:, None]
    precision_before = np.minimum(groups / of_one_group, MIN_SPREAD**-2)
    precision_after = np.minimum((groups + SEEDS) / of_one_group, MIN_SPREAD**-2)
    return 1 / np.maximum(precision_after - precision_before, NO_NOISE)
