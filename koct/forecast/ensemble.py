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

import numpy as np

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
        """Curves that the pilot leaves plausible."""
        N = grid(self.pilot.N)
        largest, at_pilot = self.pilot.N[-1], np.searchsorted(N, self.pilot.N)
        octaves = np.log2(N / largest)
        # Systematic sampling: of every shape as many curves as its probability asks for, rounded.
        chosen = np.searchsorted(np.cumsum(self._weights), (np.arange(count) + rng.random()) / count)
        chosen = np.minimum(chosen, len(self._weights) - 1)
        starts = np.cumsum([0, *(len(member.log_weight) for member in self.members)])
        place = np.searchsorted(starts, chosen, side="right") - 1
        walks = rng.standard_normal((count, len(N)))
        noise = rng.standard_normal((count, len(self.pilot.N))) @ np.linalg.cholesky(self.pilot.covariance).T
        tails = np.sqrt(self.freedom / rng.chisquare(self.freedom, (count, 1)))
        scales, normals = rng.standard_normal((2, count, 1))
        values, shares = (np.array(list(each)) for each in zip(*self.priors.drift.items(), strict=True))
        beyond = np.maximum(0, octaves)
        drift = rng.choice(values, size=(count, 1), p=shares / shares.sum()) * drift_growth(beyond)
        wider = 1 + MORE_INSIDE * np.maximum(0, 1 - FADING * beyond)
        log_error, falls = np.empty((count, len(N))), np.empty(count, dtype=bool)
        for i in np.unique(place):
            member, rows = self.members[i], np.flatnonzero(place == i)
            which, back = np.unique(chosen[rows] - starts[i], return_inverse=True)
            # A curve from the prior is moved to what the pilot has measured (Matheron's rule).
            curve = member.centre + member.law.shapes(N, self.pilot, which)[back]
            kind = member.law, member.walk, member.spread
            own = member.law.wander(octaves, octaves, self._octaves[0], member.walk)
            root = np.linalg.cholesky(own + NO_NOISE * (1 + np.trace(own)) * np.eye(len(own)))
            off = member.spread * scales[rows] + walks[rows] @ root.T
            gain = np.linalg.solve(self._covariance(*kind), self._prior(*kind, self._octaves, octaves))
            curve += (self.pilot.log_mean - curve[:, at_pilot]) @ gain
            curve += wider * tails[rows] * (off - (off[:, at_pilot] + noise[rows]) @ gain)
            curve += normals[rows] * (drift[rows] if member.law.drifts else member.law.doubt(N, self.pilot))
            log_error[rows], falls[rows] = curve, member.law.falls
        inside, outside = slice(None, at_pilot[-1] + 1), slice(at_pilot[-1], None)
        reached = log_error.copy()
        reached[falls, inside] = falling(log_error[falls, inside], np.ones(at_pilot[-1] + 1))
        log_error[falls, outside] = falling(log_error[falls, outside], largest / N[outside])
        reached[falls, outside] = np.minimum(reached[falls, at_pilot[-1], None], log_error[falls, outside])
        reached[~falls] = np.minimum.accumulate(reached[~falls], axis=1)
        order = rng.permutation(count)
        return Curves(N, rounded(log_error[order]), rounded(reached[order]))


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
    """The closest curves that never rise (isotonic regression); `curves` has shape (n_curves, n), `weights` (n,).

    By pooling adjacent violators, for all curves at once: the last two blocks of a curve are merged while it rises.
    """
    count, n = curves.shape
    mean, weight, length = np.empty((count, n)), np.empty((count, n)), np.ones((count, n), dtype=int)
    last = np.full(count, -1)  # block of each curve
    for k in range(n):
        rows = np.arange(count)
        last += 1
        mean[rows, last], weight[rows, last], length[rows, last] = curves[:, k], weights[k], 1
        while True:
            block = last[rows]
            rising = (block > 0) & (mean[rows, block] > mean[rows, block - 1])
            if not rising.any():
                break
            rows, block = rows[rising], block[rising]
            one, two = weight[rows, block - 1], weight[rows, block]
            mean[rows, block - 1] = (one * mean[rows, block - 1] + two * mean[rows, block]) / (one + two)
            weight[rows, block - 1] = one + two
            length[rows, block - 1] += length[rows, block]
            last[rows] -= 1
    blocks = np.arange(n) <= last[:, None]
    return np.repeat(mean[blocks], length[blocks]).reshape(count, n)
