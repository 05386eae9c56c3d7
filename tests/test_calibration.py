"""The paper's calibration rule, and the averages over seeds that make curves from cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koct.bound.calibration import calibrate, rate
from koct.metrics.curve_metric import CurveMetric


@given(st.floats(1e-6, 1), st.floats(1e-6, 10))
def test_sigma_is_the_least_squares_slope(floor, sigma):
    N = np.array([4, 8, 16, 32, 64])
    error = floor + sigma * rate(N)
    fitted = calibrate(N, error)
    remainder = error - error.min()
    slopes = np.linspace(0.5, 1.5, 101) * fitted.sigma
    losses = [np.sum((remainder - slope * rate(N)) ** 2) for slope in slopes]
    assert fitted.floor == error.min()
    assert slopes[np.argmin(losses)] == pytest.approx(fitted.sigma)
    assert fitted.predict(4) == pytest.approx(fitted.floor + fitted.sigma * np.log(4) / 4)


def test_a_single_point_is_rejected():
    with pytest.raises(ValueError, match="N has length 1; a calibration needs at least two"):
        calibrate([4], [0.1])


def test_relative_errors_are_averaged_before_squaring():
    rows = [{"mse": 1.0, "rrmse_peak": 0.1}, {"mse": 3.0, "rrmse_peak": 0.3}]
    assert CurveMetric("mse").mean(rows) == 2.0
    assert CurveMetric("rrmse_peak2").mean(rows) == pytest.approx(0.2**2)
    assert CurveMetric("rrmse_peak2").of(rows[1]) == pytest.approx(0.09)
