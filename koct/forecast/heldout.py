"""How well errors at large N are predicted from those at smaller N: by the calibrated bound, and by the forecast."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from koct.bound.calibration import calibrate
from koct.forecast.budget import Forecast
from koct.forecast.runs import Pilot

MOST = 2  # of the largest N that are held out
LEAST_KEPT = 3  # N that are kept, if two are held out; if one is, two are enough


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
    most = MOST if len(sizes) >= MOST + LEAST_KEPT else 1
    kept, held = sizes[:-most], sizes[-most:]
    used = np.isin(N, kept)
    sample_size, of_run, number = (np.asarray(values)[used] for values in (N, error, seed))
    forecast = np.transpose(Forecast(Pilot.from_points(sample_size, of_run, number)).predict(held))
    bound = calibrate(kept, [means[size] for size in kept]).predict(held)
    return [
        HeldOut(size, means[size], float(by_bound), *map(float, predicted))
        for size, by_bound, predicted in zip(held, bound, forecast, strict=True)
    ]
