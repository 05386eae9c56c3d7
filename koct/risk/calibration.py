"""The calibrated bound, error ≈ floor + sigma · log N / N (Eq. calibrated-bound)."""

from dataclasses import dataclass

import numpy as np


def rate(N):
    """log N / N, natural logarithm."""
    N = np.asarray(N, dtype=float)
    return np.log(N) / N


@dataclass(frozen=True)
class Calibration:
    """Two numbers that turn the theorem into a predictor: `floor` and `sigma`."""

    floor: float
    sigma: float

    def predict(self, N):
        return self.floor + self.sigma * rate(N)


def calibrate(N, error):
    """The paper's rule: floor is the smallest mean error, sigma the no-intercept slope of the rest on log N / N."""
    t, error = rate(N), np.asarray(error, dtype=float)
    if len(t) < 2:
        raise ValueError("a calibration needs at least two N")
    floor = error.min()
    return Calibration(float(floor), float(t @ (error - floor) / (t @ t)))
