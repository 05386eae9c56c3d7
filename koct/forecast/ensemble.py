"""How probable every shape of every law is after a pilot, and curves drawn from what remains plausible.

The model, in the log of the mean error y at the N of a pilot, with u = log₂ N:

    y = scale + shape(N) + walk(u) + noise

`walk` is a random walk, since no law is quite right; its size is unknown as well. `noise` has the covariance that the
runs of the pilot tell. All but the shape and the size of the walk is Gaussian, so that the probability of each pair of
them is known in closed form, and so is the distribution of the curve given them (`moments`).

Curves that are drawn have more: Student's tails, since the covariance is an estimate, a drift beyond the pilot, and no
rise there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koct.forecast.laws import Law, Priors
from koct.forecast.runs import FloatArray, Points

MAX_RATIO = 1e6  # curves are drawn up to this many times the pilot's largest N
POINTS_PER_OCTAVE = 4  # points of a drawn curve
MOST_INSIDE = 80  # of these points, within the pilot
NEAR = 5  # octaves beyond the pilot; from there on, one point each
DRIFT_OCTAVES = 4.0  # beyond the pilot, up to which the drift grows; farther out, no curve has shown it
MORE_INSIDE = 0.8  # by which curves vary more within the pilot than its runs tell; others' curves do
FADING = 3  # per octave beyond the pilot, of that
STEP = 2.0**-20  # drawn curves are multiples of it: a millionth of an error, which a pilot knows to a per cent
NO_NOISE = 1e-13  # variance, for matrices that would be singular
MOST = 500.0  # of a log error: beyond any that can be asked for


@dataclass(frozen=True)
class Member:
    """The shapes of a law with one size of the walk and one prior of the scale."""

    name: str  # of the law
    law: Law
    walk: float  # standard deviation of the walk per square root of an octave
    centre: float  # prior mean and standard deviation of the log scale
    spread: float
    log_weight: FloatArray  # log of prior probability times likelihood, shape (n_shapes,)


class Ensemble:
    """Laws and their shapes, weighed by a pilot.

    Parameters
    ----------
    pilot : what was measured
    laws : by name, with the prior probability of each
    priors : of shapes, misfit and drift
    freedom : degrees of freedom of the covariance
    """

    def __init__(self, pilot: Points, laws: Mapping[str, tuple[Law, float]], priors: Priors, freedom: float) -> None:
        self.pilot, self.priors, self.freedom = pilot, priors, freedom
        self._octaves = np.log2(pilot.N / pilot.N[-1])
        self.members: list[Member] = []
        for name, (law, weight) in laws.items():
            prior = law.log_prior(priors) + np.log(weight)
            rest = pilot.log_mean - law.shapes(pilot.N, pilot)
            for (centre, spread, share), (walk, chance) in product(law.scales(pilot), law.misfit(priors).items()):
                factor = np.linalg.cholesky(self._covariance(law, walk, spread))
                white = np.linalg.solve(factor, rest.T - centre)
                likelihood = -0.5 * np.sum(white**2, axis=0) - np.sum(np.log(np.diag(factor)))
                log_weight = prior + likelihood + np.log(chance * share)
                self.members.append(Member(name, law, walk, centre, spread, log_weight))
        log_weights = np.concatenate([member.log_weight for member in self.members])
        self._weights = np.exp(log_weights - log_weights.max())
        self._weights /= self._weights.sum()

    @property
    def weights(self) -> dict[str, float]:
        """The probability of every law."""
        weights = dict.fromkeys((member.name for member in self.members), 0.0)
        ends = np.cumsum([len(member.log_weight) for member in self.members])
        for member, part in zip(self.members, np.split(self._weights, ends[:-1]), strict=True):
            weights[member.name] += float(part.sum())
        return weights

    def _prior(self, law: Law, walk: float, spread: float, octaves: FloatArray, others: FloatArray) -> FloatArray:
        """Covariance of a curve's distance from its shape, at octaves (rows) and others (columns)."""
        return law.wander(octaves, others, self._octaves[0], walk) + spread**2

    def _covariance(self, law: Law, walk: float, spread: float) -> FloatArray:
        return self.pilot.covariance + self._prior(law, walk, spread, self._octaves, self._octaves)

    def moments(self, N: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(weight, mean, variance) of the log error at N for every shape of every member; for estimating priors."""
        means, variances = [], []
        octave = np.log2([N / self.pilot.N[-1]])
        for member in self.members:
            at_pilot, there = (member.law.shapes(n, self.pilot) for n in (self.pilot.N, np.array([N])))
            kind = member.law, member.walk, member.spread
            towards, own = (self._prior(*kind, rows, octave) for rows in (self._octaves, octave))
            gain = np.linalg.solve(self._covariance(*kind), towards)[:, 0]
            rest = self.pilot.log_mean - at_pilot - member.centre
            means.append(there[:, 0] + member.centre + rest @ gain)
            variances.append(np.full(len(rest), own[0, 0] - towards[:, 0] @ gain))
        return self._weights, np.concatenate(means), np.concatenate(variances)

    def draw(self, count: int, rng: "np.random.Generator") -> "Curves":
        """Return curves that the pilot leaves plausible."""
        N = grid(self.pilot.N)
        members, shapes = self._sampled(count, rng)
        randoms = self._randoms(count, len(N), rng)
        log_error, falls = np.empty((count, len(N))), np.empty(count, dtype=bool)
        for i in np.unique(members):
            rows = np.flatnonzero(members == i)
            log_error[rows] = self._curves(self.members[i], shapes[rows], N, randoms.of(rows))
            falls[rows] = self.members[i].law.falls
        log_error, reached = _without_rises(log_error, falls, N, int(np.searchsorted(N, self.pilot.N[-1])))
        order = rng.permutation(count)
        return Curves(N, rounded(log_error[order]), rounded(reached[order]))

    def _sampled(self, count: int, rng: "np.random.Generator") -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the member of every curve, and the shape within it, by their probabilities; shape (count,) each.

        Systematic sampling: of every shape as many curves as its probability asks for, rounded.
        """
        places = np.searchsorted(np.cumsum(self._weights), (np.arange(count) + rng.random()) / count)
        places = np.minimum(places, len(self._weights) - 1)
        starts = np.cumsum([0, *(len(member.log_weight) for member in self.members)])
        members = np.searchsorted(starts, places, side="right") - 1
        return members, places - starts[members]

    def _randoms(self, count: int, points: int, rng: "np.random.Generator") -> "Randoms":
        walks = rng.standard_normal((count, points))
        noise = rng.standard_normal((count, len(self.pilot.N))) @ np.linalg.cholesky(self.pilot.covariance).T
        tails = np.sqrt(self.freedom / rng.chisquare(self.freedom, (count, 1)))
        scales, beyond = rng.standard_normal((2, count, 1))
        sizes, shares = (np.array(list(each)) for each in zip(*self.priors.drift.items(), strict=True))
        drifts = rng.choice(sizes, size=(count, 1), p=shares / shares.sum())
        return Randoms(walks, noise, tails, scales, beyond, drifts)

    def _curves(self, member: Member, shapes: NDArray[np.intp], N: FloatArray, randoms: "Randoms") -> FloatArray:
        """Return the log error of a curve for each of the shapes: their mean given the pilot, and a random deviation.

        A deviation from the prior is conditioned on the pilot by Matheron's rule.
        """
        octaves, at_pilot = np.log2(N / self.pilot.N[-1]), np.searchsorted(N, self.pilot.N)
        kind = member.law, member.walk, member.spread
        gain = np.linalg.solve(self._covariance(*kind), self._prior(*kind, self._octaves, octaves))

        different, index = np.unique(shapes, return_inverse=True)
        prior_mean = member.centre + member.law.shapes(N, self.pilot, different)[index]
        mean = prior_mean + (self.pilot.log_mean - prior_mean[:, at_pilot]) @ gain

        walk = member.law.wander(octaves, octaves, self._octaves[0], member.walk)
        root = np.linalg.cholesky(walk + NO_NOISE * (1 + np.trace(walk)) * np.eye(len(walk)))
        deviation = member.spread * randoms.scales + randoms.walks @ root.T
        residual = deviation - (deviation[:, at_pilot] + randoms.noise) @ gain

        beyond = np.maximum(0, octaves)
        wider = 1 + MORE_INSIDE * np.maximum(0, 1 - FADING * beyond)
        drift = randoms.drifts * drift_growth(beyond) if member.law.drifts else member.law.doubt(N, self.pilot)
        return mean + wider * randoms.tails * residual + randoms.beyond * drift


class Randoms(NamedTuple):
    """The random numbers of drawn curves, one row each; normal with variance one unless a comment says otherwise."""

    walks: FloatArray  # shape (n_curves, n_grid)
    noise: FloatArray  # with the covariance of the pilot, shape (n_curves, n_sizes)
    tails: FloatArray  # factors of Student's distribution, shape (n_curves, 1), as those below
    scales: FloatArray
    beyond: FloatArray  # for what is uncertain beyond the pilot
    drifts: FloatArray  # standard deviations, by their probabilities

    def of(self, rows: NDArray[np.intp]) -> "Randoms":
        """Return those of some curves."""
        return Randoms(*(numbers[rows] for numbers in self))


def _without_rises(
    log_error: FloatArray, falls: NDArray[np.bool_], N: FloatArray, last: int
) -> tuple[FloatArray, FloatArray]:
    """Return log errors that do not rise beyond the pilot where a law `falls`, and what each curve has reached by N.

    `last` is the place of the pilot's largest N in the grid.
    """
    inside, outside = slice(None, last + 1), slice(last, None)
    curves = log_error[falls]
    reached_inside = falling(curves[:, inside], np.ones(last + 1))
    curves[:, outside] = falling(curves[:, outside], N[last] / N[outside])
    reached_outside = np.minimum(reached_inside[:, -1:], curves[:, outside])

    without, reached = log_error.copy(), np.minimum.accumulate(log_error, axis=1)
    without[falls], reached[falls] = curves, np.hstack([reached_inside[:, :-1], reached_outside])
    return without, reached


@dataclass(frozen=True)
class Curves:
    """Plausible learning curves, lines in log-log between the points of a grid.

    All log errors are multiples of `STEP`, so that machines whose last bits differ draw the same curves. `reached` is
    the log error that a curve has reached by each N, which never rises: ups and downs of a curve within the pilot are
    mostly noise, so this is the closest curve without them.
    """

    N: FloatArray  # the grid, shape (n_grid,)
    log_error: FloatArray  # of every curve, shape (n_curves, n_grid)
    reached: FloatArray  # the same shape

    def above(self, log_floor: float) -> "Curves":
        """The same curves where they are above a floor, and the floor elsewhere."""
        least = rounded(np.array(log_floor))
        return Curves(self.N, np.maximum(self.log_error, least), np.maximum(self.reached, least))

    def at(self, N: FloatArray) -> FloatArray:
        """The log error of every curve at each N, shape (n_curves, n)."""
        return self._between(self.log_error, N)

    def reached_at(self, N: FloatArray) -> FloatArray:
        """The log error that every curve has reached by each N, shape (n_curves, n)."""
        return self._between(self.reached, N)

    def _between(self, curves: FloatArray, N: FloatArray) -> FloatArray:
        log_grid, log_N = np.log(self.N), np.log(np.clip(N, self.N[0], self.N[-1]))
        left = np.clip(np.searchsorted(log_grid, log_N, side="right") - 1, 0, len(self.N) - 2)
        part = (log_N - log_grid[left]) / (log_grid[left + 1] - log_grid[left])
        return (1 - part) * curves[:, left] + part * curves[:, left + 1]

    def reach(self, aims: FloatArray, smallest: float) -> FloatArray:
        """Return the N, `smallest` or more, at which each curve has reached its aims (log errors); inf if never.

        `aims` and what is returned have shape (n_curves, n_aims).
        """
        first = int(np.searchsorted(self.N, smallest))
        curves, N = self.reached[:, first:], self.N[first:]
        log_N, rows = np.log(N), np.arange(len(curves))[:, None]
        k = np.array(
            [curve.searchsorted(own) for curve, own in zip(-curves, -aims, strict=True)]
        )  # at or below the aim
        never, k = k == len(N), np.minimum(k, len(N) - 1)
        before = curves[rows, np.maximum(k - 1, 0)]
        fall = before - curves[rows, k]
        part = np.divide(before - aims, fall, out=np.ones_like(fall), where=(k > 0) & (fall > 0))
        log_reached = log_N[np.maximum(k - 1, 0)] * (1 - part) + log_N[k] * part
        return np.where(never, np.inf, np.where(part == 1, N[k], np.exp(log_reached)))


def rounded(values: FloatArray) -> FloatArray:
    """Log errors as multiples of `STEP`."""
    return np.round(np.clip(values, -MOST, MOST) / STEP) * STEP


def drift_growth(octaves: FloatArray) -> FloatArray:
    """How the drift grows with the octaves beyond a pilot, relative to its size per octave two octaves beyond."""
    return np.minimum(octaves, DRIFT_OCTAVES) ** 3 / 4


def grid(sizes: FloatArray) -> FloatArray:
    """The N of drawn curves: those of the pilot, and others from 2 to far beyond it."""
    largest = sizes[-1]
    inside = np.geomspace(2, largest, min(MOST_INSIDE, 2 + int(POINTS_PER_OCTAVE * np.log2(largest / 2))))
    near = largest * 2 ** np.linspace(0, NEAR, NEAR * POINTS_PER_OCTAVE + 1)
    far = np.geomspace(near[-1], MAX_RATIO * largest, 1 + int(np.log2(MAX_RATIO * largest / near[-1])))
    return np.unique(np.concatenate([inside[inside < largest], sizes, near[1:], far[1:]]))


def falling(curves: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the closest curves that never rise (isotonic regression), shape (n_curves, n); `weights` has shape (n,).

    By pooling adjacent violators. SciPy has it too, but importing `scipy.optimize` takes longer than a forecast.
    """
    each = weights.tolist()
    return np.array([_falling(curve, each) for curve in curves.tolist()]).reshape(curves.shape)


def _falling(curve: list[float], weights: list[float]) -> list[float]:
    blocks: list[tuple[float, float, int]] = []  # mean, weight and length
    for mean, weight in zip(curve, weights, strict=True):
        length = 1
        while blocks and mean > blocks[-1][0]:
            mean_before, weight_before, length_before = blocks.pop()
            mean = (weight_before * mean_before + weight * mean) / (weight_before + weight)
            weight += weight_before
            length += length_before
        blocks.append((mean, weight, length))
    return [mean for mean, _, length in blocks for _ in range(length)]
