"""The curve that pairs predict (`koct.prediction.curve`), as a law of the planner: only its scale is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from koct.errors import KoctError
from koct.forecast.laws import ANY_SCALE, EVERY, Law, Which
from koct.forecast.priors import Priors
from koct.forecast.runs import MIN_ERROR, FloatArray, Points
from koct.prediction.prediction import NORMAL, PER_OCTAVE

if TYPE_CHECKING:
    from koct.prediction.curve import Curve

KNOWN_SCALE = 0.1  # standard deviation of the log scale around 0, if the pilot's error is the mean squared one
ODD_SCALE = 2.0  # or its inverse: a pilot whose errors are off by as much may be about something else
FLAGGED = np.log(2)  # by which the log of a prediction that is not to be trusted may be off
LEVELLING = 0.5  # standard deviation of the slope beyond the pairs, relative to it: some curves level off there
BEYOND = 1e24  # an N beyond all that the planner asks for
MISFIT = {0.01: 0.5, PER_OCTAVE: 0.5}  # as of `Priors`: a pilot that is off by more contradicts the predicted curve
CONTRADICTION = 3.0  # times its uncertainty: a difference between the falls of pilot and prediction that is no chance
USED = 0.5  # probability from which on a remark says that the predicted curve is used


class Theory(Law):
    """scale · the predicted error. Between octaves, and beyond the last one, it is a line in log-log."""

    text = "predicted from pairs"
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
