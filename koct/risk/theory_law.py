"""The curve that pairs predict (`koct.risk.curve`), as a law of the planner: only its scale is fitted to the pilot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from koct.errors import KoctError
from koct.risk.laws import LAWS, FloatArray, Law, Parameters, first_crossing
from koct.risk.prediction import NORMAL, PER_OCTAVE

if TYPE_CHECKING:
    from koct.risk.curve import Curve

SCALE_PRIOR = 0.1  # standard deviation of the log scale around 0
ODD_SCALE = 2.0  # or its inverse: a pilot whose errors are off by as much may be about something else
FLAT = 2.0  # times its noise: a pilot that falls by less tells no law
CONTRADICTION = 3.0  # times its uncertainty: a difference between the falls of pilot and prediction that is no chance
TIED = 0.1  # a law that beats the prediction in all but this share of the replicates is better
FLAGGED = np.log(2)  # by which the log of a prediction that is not to be trusted may be off
SMALLEST_ERROR = 1e-60  # as of a pilot
BEYOND = 1e24  # an N beyond all that the planner asks for


class Theory(Law):
    """scale · the predicted error. Between octaves, and beyond the last one, it is a line in log-log."""

    text = "predicted from pairs"

    def __init__(self, curve: Curve) -> None:
        self.pairs, self.points = curve.theory.M, curve.octaves
        N, error, low, high = (
            np.array([getattr(point, name) for point in curve.octaves], dtype=float)
            for name in ("N", "error", "low", "high")
        )
        if not np.isfinite([error, low, high]).all():
            raise KoctError(f"the {self.pairs:,} pairs predict no finite error; rescale x and y")
        error, low, high = (np.log(np.maximum(values, SMALLEST_ERROR)) for values in (error, low, high))
        flagged = np.array([not point.trusted for point in self.points])
        flagged[self.pairs < N] = flagged[self.pairs >= N][-1]  # the interval knows of being beyond the pairs
        deviation = np.hypot((high - low) / (2 * NORMAL), np.where(flagged, FLAGGED, 0))
        self._N = np.append(N, BEYOND)
        self._log_error, self._deviation = (_continued(np.log(self._N), values) for values in (error, deviation))

    def log_error(self, N: ArrayLike) -> FloatArray:
        """Log of the predicted error, at scale 1."""
        return np.interp(np.log(N), np.log(self._N), self._log_error)

    def fit(self, N: FloatArray, mean: FloatArray, weights: FloatArray) -> Parameters:
        """The first curve is the pilot's own, the others are replicates of it."""
        off = PER_OCTAVE * np.log2(N[-1] / N)  # the scale is for larger N, so that smaller ones count less
        weights = 1 / (1 / weights + off**2)
        log_scale = (np.log(mean) - self.log_error(N)) @ weights / weights.sum()
        # Shrunk toward 0 as far as the pilot is noisy. The pilot's error may be any multiple of the mean squared one,
        # so the prior of a large scale is as wide as the scale itself. The spread of the replicates becomes that of
        # the posterior.
        prior = max(SCALE_PRIOR, abs(log_scale[0])) ** 2
        shrinkage = prior / (prior + 1 / weights.sum())
        log_scale = shrinkage * log_scale[0] + np.sqrt(shrinkage) * (log_scale - log_scale[0])
        return {"scale": np.exp(log_scale), "smallest": np.full(len(mean), float(N[0]))}

    def predict(self, theta: Parameters, N: ArrayLike) -> FloatArray:
        return theta["scale"][:, None] * np.exp(self.log_error(N))

    def solve(self, theta: Parameters, target: float | FloatArray) -> FloatArray:
        smallest = theta["smallest"][0]  # of the pilot: a curve with a peak may have been lower before
        knots = np.append(smallest, self._N[smallest < self._N])
        error = np.exp(self.log_error(knots))
        return np.array([first_crossing(knots, error, aim) for aim in target / theta["scale"]])

    def formula(self, theta: Parameters) -> str:
        return f"predicted from {self.pairs:,} pairs × {theta['scale'][0]:.3g}"

    def doubt(self, N: FloatArray, largest: float) -> FloatArray:
        """That of the predicted curve. At the largest N of the pilot there is none, since the scale takes it up."""
        deviation = np.interp(np.log(N), np.log(self._N), self._deviation)
        return deviation * (1 - largest / np.maximum(N, largest))

    def remarks(self, theta: Parameters, N: float) -> list[str]:
        """The scale, and why the prediction at N, which leans on that of the next octave, is not to be trusted."""
        scale = f"it is scaled by {theta['scale'][0]:.3g}"
        if abs(np.log(theta["scale"][0])) > np.log(ODD_SCALE):
            scale += ", so check that the pilot's error is a mean squared one, and its network a dense linear one"
        flaw = next((point.reason for point in self.points if point.N >= N), self.points[-1].reason)
        return [scale, flaw] if flaw else [scale]


def judge(
    theory: Theory, N: FloatArray, curves: FloatArray, scores: Mapping[str, FloatArray] | None
) -> tuple[bool, str]:
    """Whether the predicted curve is to be used, and a remark on that.

    It is unless it is flagged, or the pilot's fall contradicts it, or the pilot is long enough to tell more: it goes
    beyond the pairs, or another law predicts the next N better in nearly all replicates.
    `curves` are the pilot's own (first) and its replicates, `scores` theirs with every law, None with two N only.
    """
    name = f"the curve predicted from {theory.pairs:,} pairs"
    following = [point for point in theory.points if N[-1] < point.N <= theory.pairs]
    if following and not following[0].trusted:
        return False, f"{name} is not to be trusted beyond the pilot: {following[0].reason}"
    falls = np.log(curves[:, 0] / curves[:, -1])
    noise = falls[1:].std()
    expected = float(np.subtract(*theory.log_error(N[[0, -1]])))
    if abs(falls[0] - expected) > CONTRADICTION * np.hypot(noise, PER_OCTAVE * np.log2(N[-1] / N[0])):
        return False, (
            f"the pilot contradicts {name}: from N = {N[0]:.0f} to {N[-1]:.0f} the predicted error changes by a factor "
            f"of {np.exp(-expected):.2g}, the measured one by {np.exp(-falls[0]):.2g}"
        )
    if scores is None:
        return True, f"{name} is used"
    if falls[0] < FLAT * noise:
        return True, f"the pilot falls by less than twice its noise, too little to tell a law, so {name} is used"
    if N[-1] > theory.pairs:
        return False, f"the pilot goes beyond the {theory.pairs:,} pairs, and tells more than their predicted curve"
    best = min(LAWS, key=lambda law: scores[law][0])
    if scores["theory"][0] <= scores[best][0]:
        return True, f"{name} predicted the next N best"
    if np.mean(scores["theory"][1:] <= scores[best][1:]) >= TIED:
        return True, f"the pilot is too noisy to tell a law, so {name} is used"
    return False, f"{name} predicted the next N worse than {LAWS[best].text}"


def _continued(x: FloatArray, y: FloatArray) -> FloatArray:
    """y with one more value for the last x, on the line through the last two."""
    slope = (y[-1] - y[-2]) / (x[-2] - x[-3])
    return np.append(y, y[-1] + slope * (x[-1] - x[-2]))
