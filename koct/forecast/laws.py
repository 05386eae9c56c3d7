"""Laws of learning curves: families of shapes in which the error may fall with N.

A shape is the log of the error relative to that at the pilot's largest N. A law is a grid of shapes with a prior
probability each, so that nothing is fitted: the planner asks how probable every shape is after the pilot
(`koct.forecast.ensemble`). Floors are given as their share of the error at the largest N.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.bound.calibration import calibrate, rate
from koct.forecast.priors import Priors
from koct.forecast.runs import FloatArray, Points

ANY_SCALE = 10.0  # standard deviation of the log scale of a law
AS_IT_STANDS = 1e-3  # of one that says the error itself

FLOORS = np.concatenate([np.linspace(0, 0.95, 20), 1 - np.geomspace(0.03, 1e-3, 4)])  # over the error there
EXPONENTS = np.geomspace(0.06, 3.0, 100)
COARSE_FLOORS = FLOORS[[0, 2, 6, 10, 14, 17, 20, 22]]
COARSE_EXPONENTS = np.geomspace(0.1, 3.0, 9)
SHIFTS = np.array([0.03, 0.1, 0.3, 1.0, 3.0])  # of N, in units of the largest N
STEEPNESS = np.geomspace(0.3, 4.0, 8)
PLATEAUS = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])  # (largest N / N at half the plateau) ^ steepness
SLOPES = np.array([-0.1, 0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.6])
BREAKS = np.array([-4.0, -3.0, -2.0, -1.0, 0.0])  # octaves from the largest N
SOFTNESS = 0.5  # of a break, in octaves

Which = slice | NDArray[np.intp]  # of the shapes of a law
EVERY = slice(None)


class Law(ABC):
    """A family of shapes; `text` is its formula for people to read."""

    text: str
    falls = True  # beyond the pilot: more samples then do no harm
    drifts = True  # beyond the pilot, in ways that only other curves can tell; otherwise `doubt` tells

    @abstractmethod
    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        """The log of some shapes at each N, shape (n_shapes, n)."""

    @abstractmethod
    def log_prior(self, priors: Priors) -> FloatArray:
        """Log probability of every shape, given the law; shape (n_shapes,)."""

    def scales(self, pilot: Points) -> list[tuple[float, float, float]]:
        """Priors of the log of the scale: mean, standard deviation, probability. A shape is 0 at the largest N."""
        return [(float(pilot.log_mean[-1]), ANY_SCALE, 1.0)]

    def misfit(self, priors: Priors) -> Mapping[float, float]:
        """{size of the random walk: probability}, as of `Priors`."""
        return priors.misfit

    def doubt(self, N: FloatArray, pilot: Points) -> FloatArray:
        """Standard deviation of the log error that a law without drift knows of, shape (n,)."""
        return np.zeros(len(N))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class GridLaw(Law):
    """A law whose parameters take the values of a grid.

    `shape(N, largest, *parameters)` is the log of its shapes at N, relative to that at the largest N of the pilot. With
    `no_floor`, a name in `Priors.no_floor`, its first parameter is the floor; without, all shapes are as probable.
    """

    def __init__(self, text: str, shape: Callable[..., FloatArray], *axes: ArrayLike, no_floor: str | None = None):
        self.text, self._shape, self._no_floor = text, shape, no_floor
        self._parameters = [values.reshape(-1, 1) for values in np.meshgrid(*axes, indexing="ij")]

    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        return self._shape(N, pilot.N[-1], *(values[which] for values in self._parameters))

    def log_prior(self, priors: Priors) -> FloatArray:
        first = np.ravel(self._parameters[0])
        if self._no_floor is None:
            return np.full(len(first), -np.log(len(first)))
        none, floored = priors.no_floor[self._no_floor], first > 0
        return np.where(floored, np.log1p(-none) - np.log(np.sum(floored)), np.log(none) - np.log(np.sum(~floored)))


def _power(N: FloatArray, largest: float, share: FloatArray, exponent: FloatArray) -> FloatArray:
    return _above_floor(share, (N / largest) ** -exponent)


def _shifted(N: FloatArray, largest: float, share: FloatArray, exponent: FloatArray, shift: FloatArray) -> FloatArray:
    """A power law that begins late."""
    return _above_floor(share, ((N / largest + shift) / (1 + shift)) ** -exponent)


def _sigmoid(
    N: FloatArray, largest: float, share: FloatArray, steepness: FloatArray, plateau: FloatArray
) -> FloatArray:
    """From a plateau such as chance level; Morgan, Mercer and Flodin's curve."""
    return _above_floor(share, (1 + plateau) / (1 + plateau * (N / largest) ** steepness))


def _broken(N: FloatArray, largest: float, before: FloatArray, after: FloatArray, at: FloatArray) -> FloatArray:
    """Another slope before the break: the curve may have been flat, or even have risen."""
    octaves = np.log2(N / largest)
    beyond = SOFTNESS * (np.logaddexp(0, (octaves - at) / SOFTNESS))
    start = SOFTNESS * np.logaddexp(0, -at / SOFTNESS)
    return -np.log(2) * (before * (octaves - beyond + start) + after * (beyond - start))


def _rate(N: FloatArray, largest: float, share: FloatArray) -> FloatArray:
    return _above_floor(share, rate(N) / rate(largest))


def _above_floor(share: FloatArray, falling: FloatArray) -> FloatArray:
    """Log of floor and falling part; the latter is 1 at the largest N."""
    return np.log(share + (1 - share) * falling)


class Last(Law):
    """No law: the error stays what it was, but for a random walk."""

    text = "the last error"

    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        return np.zeros((1, len(N)))

    def log_prior(self, priors: Priors) -> FloatArray:
        return np.zeros(1)


class Paper(Law):
    """floor + σ log N / N by the paper's rule: the floor is the smallest error of the pilot."""

    text = "floor + σ log N / N, floor = smallest error"
    drifts = False

    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        curve = calibrate(pilot.N, np.exp(pilot.log_mean))
        return np.log(curve.floor + curve.sigma * rate(N))[None, :]

    def scales(self, pilot: Points) -> list[tuple[float, float, float]]:
        return [(0.0, AS_IT_STANDS, 1.0)]

    def misfit(self, priors: Priors) -> Mapping[float, float]:
        return {0.0: 1.0}

    def doubt(self, N: FloatArray, pilot: Points) -> FloatArray:
        """That of the smallest error, on which the rule rests."""
        return np.full(len(N), np.sqrt(pilot.covariance[-1, -1]))

    def log_prior(self, priors: Priors) -> FloatArray:
        return np.zeros(1)


LAWS: dict[str, Law] = {
    "power": GridLaw("floor + a N^(−b)", _power, FLOORS, EXPONENTS, no_floor="power"),
    "pow4": GridLaw("floor + a (N + d)^(−b)", _shifted, COARSE_FLOORS, COARSE_EXPONENTS, SHIFTS, no_floor="pow4"),
    "mmf4": GridLaw("floor + a / (1 + (N/m)^q)", _sigmoid, COARSE_FLOORS, STEEPNESS, PLATEAUS, no_floor="mmf4"),
    "broken": GridLaw("a N^(−b), then another b", _broken, SLOPES, SLOPES, BREAKS),
    "last": Last(),
}
ALONE: dict[str, Law] = {  # on request only
    "rate": GridLaw("floor + σ log N / N", _rate, FLOORS, no_floor="power"),
    "paper": Paper(),
}
