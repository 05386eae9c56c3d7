"""The paper's calibration rule, and how curves are made from cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koct.results import mean_over_seeds, per_seed
from koct.risk.calibration import calibrate, rate


@given(st.floats(1e-6, 1), st.floats(1e-6, 10))
def test_sigma_is_the_least_squares_slope(floor, sigma):
    N = np.array([4, 8, 16, 32, 64])
    error = floor + sigma * rate(N)
    fitted = calibrate(N, error)
    rest = error - error.min()
    slopes = np.linspace(0.5, 1.5, 101) * fitted.sigma
    losses = [np.sum((rest - slope * rate(N)) ** 2) for slope in slopes]
    assert fitted.floor == error.min()
    assert slopes[np.argmin(losses)] == pytest.approx(fitted.sigma)
    assert fitted.predict(4) == pytest.approx(fitted.floor + fitted.sigma * np.log(4) / 4)


def test_one_point_is_not_a_curve():
    with pytest.raises(ValueError, match="at least two N"):
        calibrate([4], [0.1])


def test_relative_errors_are_averaged_and_then_squared():
    rows = [{"mse": 1.0, "rrmse_peak": 0.1}, {"mse": 3.0, "rrmse_peak": 0.3}]
    assert mean_over_seeds("mse", rows) == 2.0
    assert mean_over_seeds("rrmse_peak2", rows) == pytest.approx(0.2**2)
    assert per_seed("rrmse_peak2", rows[1]) == pytest.approx(0.09)
