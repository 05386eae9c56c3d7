"""Laws of learning curves: families of shapes in which the error may fall with N.

A shape is the log of the error relative to that at the pilot's largest N. A law is a grid of shapes with a prior
probability each, so that nothing is fitted: the planner asks how probable every shape is after the pilot
(`koct.forecast.ensemble`). Floors are given as their share of the error at the largest N.

`priors.json` tells what real learning curves look like; it is estimated by benchmarks/priors.py, from learning curves
of others and from those of koct's studies. The curve that pairs predict (`koct.prediction.curve`) is a law as well, of
which only the scale is unknown.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.errors import KoctError
from koct.forecast.runs import MIN_ERROR, FloatArray, Points
from koct.prediction.prediction import NORMAL, PER_OCTAVE

if TYPE_CHECKING:
    from koct.prediction.curve import Curve

ANY_SCALE = 10.0  # standard deviation of the log scale of a law

FLOORS = np.concatenate([np.linspace(0, 0.95, 20), 1 - np.geomspace(0.03, 1e-3, 4)])  # over the error there
EXPONENTS = np.geomspace(0.06, 3.0, 100)
FLOOR_BINS = np.array([0, 1e-9, 0.45, 0.78, 0.93])  # where the floors begin that `Priors.shapes` tells apart
FALLS = np.array([0.07, 0.25])  # the same for falls of the log error over the pilot's last octave
COARSE_FLOORS = FLOORS[[0, 2, 6, 10, 14, 17, 20, 22]]
COARSE_EXPONENTS = np.geomspace(0.1, 3.0, 9)
SHIFTS = np.array([0.03, 0.1, 0.3, 1.0, 3.0])  # of N, in units of the largest N
STEEPNESS = np.geomspace(0.3, 4.0, 8)
PLATEAUS = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])  # (largest N / N at half the plateau) ^ steepness
SLOPES = np.array([-0.1, 0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.6])
BREAKS = np.array([-4.0, -3.0, -2.0, -1.0, 0.0])  # octaves from the largest N
SOFTNESS = 0.5  # of a break, in octaves
USUAL_SLOPE, SLOPE_SPREAD = 0.2, 0.25  # fall of the log error per octave at the largest N: mean, standard deviation
FADES = 3.0  # octaves over which a slope fades

KNOWN_SCALE = 0.1  # standard deviation of the log scale around 0, if the pilot's error is the mean squared one
ODD_SCALE = 2.0  # or its inverse: a pilot whose errors are off by as much may be about something else
FLAGGED = np.log(2)  # by which the log of a prediction that is not to be trusted may be off
LEVELLING = 0.5  # standard deviation of the slope beyond the pairs, relative to it: some curves level off there
BEYOND = 1e24  # an N beyond all that the planner asks for
MISFIT = {0.01: 0.5, PER_OCTAVE: 0.5}  # as of `Priors`: a pilot that is off by more contradicts the predicted curve
CONTRADICTION = 3.0  # times its uncertainty: a difference between the falls of pilot and prediction that is no chance
USED = 0.5  # probability from which on a remark says that the predicted curve is used

Which = slice | NDArray[np.intp]  # of the shapes of a law
EVERY = slice(None)


@dataclass(frozen=True)
class Priors:
    """Probabilities before a pilot; misfit and drift are {standard deviation of the log error: probability}.

    And where nine of ten curves end up, as shares of the curves that a forecast draws.
    """

    laws: Mapping[str, float]  # of every law, by its name in `laws.LAWS`
    shapes: Mapping[str, Sequence[float]]  # of the bins of a law's shapes (`laws.GridLaw`)
    misfit: Mapping[float, float]  # per square root of an octave; no law is quite right
    drift: Mapping[float, float]  # per octave, two octaves beyond the pilot; it grows with their cube, up to four
    error_ends: Sequence[float]  # the shares of drawn curves below the two ends of an interval of the error
    n_ends: Sequence[float]  # the same for N


@cache
def learned() -> Priors:
    """Those that come with koct."""
    return from_json(files("koct.forecast").joinpath("priors.json").read_text(encoding="utf-8"))


def from_json(text: str) -> Priors:
    content = json.loads(text)
    sizes = {name: {float(size): share for size, share in content[name].items()} for name in ("misfit", "drift")}
    return Priors(**{field.name: content[field.name] for field in fields(Priors)} | sizes)


class Law(ABC):
    """A family of shapes.

    Attributes
    ----------
    name : what `--law` and `Priors` call it
    text : its formula for people to read
    words : what it says of a curve, for people who read no formulas
    weight : its probability among all laws, until `Priors` have one that is estimated
    """

    name: str
    text: str
    words: str
    weight = 0.1
    falls = True  # beyond the pilot: more samples then do no harm
    drifts = True  # beyond the pilot, in ways that only other curves can tell; otherwise `doubt` tells

    @abstractmethod
    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        """The log of some shapes at each N, shape (n_shapes, n)."""

    def log_prior(self, priors: Priors) -> FloatArray:
        """Log probability of every shape, given the law; shape (n_shapes,)."""
        return np.zeros(1)

    def scales(self, pilot: Points) -> list[tuple[float, float, float]]:
        """Priors of the log of the scale: mean, standard deviation, probability. A shape is 0 at the largest N."""
        return [(float(pilot.log_mean[-1]), ANY_SCALE, 1.0)]

    def misfit(self, priors: Priors) -> Mapping[float, float]:
        """{size of the random walk: probability}, as of `Priors`."""
        return priors.misfit

    def wander(self, octaves: FloatArray, others: FloatArray, start: float, size: float) -> FloatArray:
        """Covariance of the random walk around a shape, at octaves (rows) and others (columns) from the largest N.

        The walk has this size, and begins at the smallest N, at `start`.
        """
        return size**2 * np.maximum(0, np.minimum(octaves[:, None], others) - start)

    def doubt(self, N: FloatArray, pilot: Points) -> FloatArray:
        """Standard deviation of the log error that a law without drift knows of, shape (n,)."""
        return np.zeros(len(N))


class GridLaw(Law):
    """A law whose parameters take the values of a grid.

    `shape(N, largest, *parameters)` is the log of its shapes at N, relative to that at the largest N of the pilot.
    Priors tell bins of shapes apart: by how far they fall over the pilot's last octave, and by what they have ahead,
    `ahead(first, second)` of the parameters. Within a bin all shapes are as probable, and so are all bins of a law that
    the priors do not know.
    """

    def __init__(
        self,
        name: str,
        text: str,
        words: str,
        shape: Callable[..., FloatArray],
        ahead: Callable[[FloatArray, FloatArray], NDArray[np.intp]],
        *axes: ArrayLike,
    ) -> None:
        self.name, self.text, self.words, self._shape = name, text, words, shape
        self._parameters = [values.reshape(-1, 1) for values in np.meshgrid(*axes, indexing="ij")]
        octave_before, at_largest = shape(np.array([0.5, 1.0]), 1.0, *self._parameters).T
        fall = np.searchsorted(FALLS, octave_before - at_largest, side="right")
        future = np.ravel(ahead(*self._parameters[:2]))
        _, self.bins = np.unique((len(FALLS) + 1) * future + fall, return_inverse=True)  # numbered without gaps

    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        return self._shape(N, pilot.N[-1], *(values[which] for values in self._parameters))

    def log_prior(self, priors: Priors) -> FloatArray:
        sizes = np.bincount(self.bins)
        shares = np.array(priors.shapes.get(self.name, np.ones(len(sizes))))
        return np.log(shares / shares.sum() / sizes)[self.bins]


def _floor(share: FloatArray, exponent: FloatArray) -> NDArray[np.intp]:
    """Which floor a shape has ahead."""
    return np.searchsorted(FLOOR_BINS, share, side="right") - 1


def _bend(before: FloatArray, after: FloatArray) -> NDArray[np.intp]:
    """Whether a broken line gets flatter, goes on, or gets steeper."""
    return np.sign(after - before).astype(int) + 1


def _power(
    N: FloatArray, largest: float, share: FloatArray, exponent: FloatArray, shift: FloatArray | float = 0.0
) -> FloatArray:
    """A power law, which may begin late."""
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


def _above_floor(share: FloatArray, falling: FloatArray) -> FloatArray:
    """Log of floor and falling part; the latter is 1 at the largest N."""
    return np.log(share + (1 - share) * falling)


class Last(Law):
    """No law: the error stays what it was, but for a random walk."""

    name, text, words = "last", "the last error", "no further fall"

    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        return np.zeros((1, len(N)))


class Slope(Law):
    """The slope at the pilot's largest N goes on, or fades; the slope itself is a random walk.

    A pilot that is straight there tells the slope well, whatever the curve did before.
    """

    def __init__(self, name: str, text: str, words: str, octaves: float = np.inf) -> None:
        self.name, self.text, self.words, self._octaves = name, text, words, octaves  # over which the slope fades

    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        return -USUAL_SLOPE * self._fading(np.log2(N / pilot.N[-1]))[None, :]

    def _fading(self, octaves: FloatArray) -> FloatArray:
        if np.isinf(self._octaves):
            return octaves
        return np.where(octaves > 0, -self._octaves * np.expm1(-np.abs(octaves) / self._octaves), octaves)

    def wander(self, octaves: FloatArray, others: FloatArray, start: float, size: float) -> FloatArray:
        """Return the covariance of an uncertain slope, and of its integrated random walk to either side of octave 0."""
        octaves, others = np.maximum(octaves, start)[:, None], np.maximum(others, start)
        slope = SLOPE_SPREAD**2 * (self._fading(octaves) * self._fading(others))
        near, far = np.minimum(abs(octaves), abs(others)), np.maximum(abs(octaves), abs(others))
        same_side = octaves * others > 0
        walk = np.where(same_side, near**2 * (3 * far - near) / 6, 0.0)
        return slope + size**2 * walk


# A new law is one more line here; benchmarks/priors.py then estimates its probability.
_ALL: tuple[Law, ...] = (
    GridLaw("power", "floor + a N^(−b)", "a power of N, down to a floor", _power, _floor, FLOORS, EXPONENTS),
    GridLaw(
        "pow4",
        "floor + a (N + d)^(−b)",
        "a power of N with a slow start, down to a floor",
        *(_power, _floor, COARSE_FLOORS, COARSE_EXPONENTS, SHIFTS),
    ),
    GridLaw(
        "mmf4",
        "floor + a / (1 + (N/m)^q)",
        "a plateau, a fall and a floor",
        *(_sigmoid, _floor, COARSE_FLOORS, STEEPNESS, PLATEAUS),
    ),
    GridLaw(
        "broken",
        "a N^(−b), then another b",
        "a power of N whose exponent changes once",
        *(_broken, _bend, SLOPES, SLOPES, BREAKS),
    ),
    Last(),
    Slope("slope", "the last slope goes on", "the fall of the last octave goes on"),
    Slope("fading", "the last slope fades", "the fall of the last octave fades", FADES),
)
LAWS: dict[str, Law] = {law.name: law for law in _ALL}


# The curve that pairs predict


class Theory(Law):
    """scale · the predicted error. Between octaves, and beyond the last one, it is a line in log-log."""

    name, text, words = "theory", "predicted from pairs", "the curve that pairs predict"
    falls = False  # it may have a peak
    drifts = False

    def __init__(self, curve: Curve) -> None:
        self.pairs, self.points = curve.theory.M, curve.octaves
        N, error, low, high = (
            np.array([getattr(point, name) for point in curve.octaves], dtype=float)
            for name in ("N", "error", "low", "high")
        )
        if not np.isfinite([error, low, high]).all():
            raise KoctError(f"the {self.pairs:,} pairs predict no finite error; rescale x and y")
        error, low, high = (np.log(np.maximum(values, MIN_ERROR)) for values in (error, low, high))
        flagged = np.array([not point.trusted for point in self.points])
        flagged[self.pairs < N] = flagged[self.pairs >= N][-1]  # of being beyond the pairs, what follows knows
        levelling = LEVELLING * (error[-2] - error[-1]) * np.maximum(0, np.log2(N / self.pairs))
        deviation = np.sqrt(((high - low) / (2 * NORMAL)) ** 2 + np.where(flagged, FLAGGED, 0) ** 2 + levelling**2)
        self._N = np.append(N, BEYOND)
        self._log_error, self._deviation = (_continued(np.log(self._N), values) for values in (error, deviation))

    def log_error(self, N: ArrayLike) -> FloatArray:
        """Log of the predicted error, at scale 1."""
        return np.interp(np.log(N), np.log(self._N), self._log_error)

    def shapes(self, N: FloatArray, pilot: Points, which: Which = EVERY) -> FloatArray:
        return (self.log_error(N) - self.log_error(pilot.N[-1]))[None, :]

    def misfit(self, priors: Priors) -> Mapping[float, float]:
        return MISFIT

    def scales(self, pilot: Points) -> list[tuple[float, float, float]]:
        """The pilot's error may be the mean squared one of the pairs, or any multiple of it."""
        return [(float(self.log_error(pilot.N[-1])), KNOWN_SCALE, 0.5), (float(pilot.log_mean[-1]), ANY_SCALE, 0.5)]

    def doubt(self, N: FloatArray, pilot: Points) -> FloatArray:
        """That of the predicted curve beyond the pilot; at its largest N there is none, since the scale takes it up."""
        deviation = np.interp(np.log(N), np.log(self._N), self._deviation)
        return deviation * (1 - pilot.N[-1] / np.maximum(N, pilot.N[-1]))

    def flaw(self, largest: float) -> str:
        """Why the predicted curve is not to be trusted beyond a pilot; empty if it is."""
        following = [point for point in self.points if largest < point.N <= self.pairs]
        if not following or following[0].trusted:
            return ""
        return (
            f"the curve predicted from {self.pairs:,} pairs is not to be trusted beyond the pilot: "
            f"{following[0].reason}"
        )

    def remarks(self, weight: float, pilot: Points, scale: float, N: float) -> list[str]:
        """What to know about a forecast at N in which the predicted curve has this probability."""
        name = f"the curve predicted from {self.pairs:,} pairs"
        against = self._contradiction(pilot)
        if weight < USED:
            remark = f"the pilot speaks against {name} (probability {100 * weight:.0f} %)"
            return [f"{remark}: {against}" if against else remark]
        used = f"{name} is used, scaled by {scale:.3g}"
        if abs(np.log(scale)) > np.log(ODD_SCALE):
            used += "; check that the pilot's error is a mean squared one, and its network a dense linear one"
        if against:
            used += f"; the pilot contradicts it: {against}"
        flaw = next((point.reason for point in self.points if point.N >= N), self.points[-1].reason)
        return [used, flaw] if flaw else [used]

    def _contradiction(self, pilot: Points) -> str:
        """How the pilot, from its smallest N to its largest, changes otherwise than predicted; empty if it may not."""
        N, log_mean, covariance = pilot
        expected, measured = self.log_error(N[-1]) - self.log_error(N[0]), log_mean[-1] - log_mean[0]
        noise = np.sqrt(covariance[0, 0] + covariance[-1, -1] - 2 * covariance[0, -1])
        if abs(measured - expected) < CONTRADICTION * np.hypot(noise, PER_OCTAVE * np.sqrt(np.log2(N[-1] / N[0]))):
            return ""
        return (
            f"from N = {N[0]:.0f} to {N[-1]:.0f} the predicted error changes by a factor of {np.exp(expected):.2g}, "
            f"the measured one by {np.exp(measured):.2g}"
        )


def _continued(x: FloatArray, y: FloatArray) -> FloatArray:
    """y with one more value for the last x, on the line through the last two."""
    slope = (y[-1] - y[-2]) / (x[-2] - x[-3])
    return np.append(y, y[-1] + slope * (x[-1] - x[-2]))
