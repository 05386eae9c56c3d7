"""The paper's calibration rule and its inverse, the two factors, and the averages over seeds that make curves."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from koct import Calibration, two_factors
from koct.bound.calibration import calibrate, rate
from koct.errors import KoctError
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
    with pytest.raises(ValueError, match="N has length 1; a calibration needs at least two"):
        calibrate([4], [floor])


@given(st.floats(0, 1e3), st.floats(1e-6, 1e3), st.floats(1e-9, 0.999))
def test_required_solves_the_bound_above_the_floor(floor, sigma, share):
    target = floor + share * sigma / np.e
    assume(target > floor)
    answer = Calibration(floor, sigma).required(target)
    assert answer.n / np.log(answer.n) == pytest.approx(sigma / (target - floor), rel=1e-9)
    assert answer.n > np.e
    assert answer.samples == max(3, np.ceil(answer.n))
    below = Calibration(floor + 1e-6, sigma).required(share * (floor + 1e-6))
    assert (below.reachable, below.n) == (False, None)
    assert "not above the floor" in below.reason


def test_two_factors_of_the_published_sweeps():
    known, dense = Calibration(2.48e-3, 8.51e-3), Calibration(5.81e-3, 6.86e-2)
    factors = two_factors(known, dense, 1e-2)
    assert factors.structural == pytest.approx(8.06, abs=0.01)
    assert factors.approximation == pytest.approx((1e-2 - 2.48e-3) / (1e-2 - 5.81e-3))
    assert known.required(1e-2).n is None  # for this target the operator-aware bound is low enough at every N
    target = 6e-3
    ratio = (dense.sigma / (target - dense.floor)) / (known.sigma / (target - known.floor))
    assert two_factors(known, dense, target).product == pytest.approx(ratio)
    with pytest.raises(KoctError, match=r"target = 0\.005 is not above the dense network's floor 0\.00581; choose a"):
        two_factors(known, dense, 5e-3)


def test_relative_errors_are_averaged_before_squaring():
    rows = [{"mse": 1.0, "rrmse_peak": 0.1}, {"mse": 3.0, "rrmse_peak": 0.3}]
    assert CurveMetric("mse").mean(rows) == 2.0
    assert CurveMetric("rrmse_peak2").mean(rows) == pytest.approx(0.2**2)
    assert CurveMetric("rrmse_peak2").of(rows[1]) == pytest.approx(0.09)
