"""log, exp and the normal quantile from arithmetic alone, and what is computed with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from koct import Forecast, Pilot
from koct.forecast import portable
from koct.forecast.ensemble import STEP


@given(st.floats(1e-300, 1e300))
def test_log_is_within_a_unit_in_the_last_place(x):
    assert portable.log(x) == pytest.approx(np.log(x), rel=2.3e-16, abs=0)


@given(st.floats(-690, 690))
def test_exp_is_within_a_unit_in_the_last_place(x):
    assert portable.exp(x) == pytest.approx(np.exp(x), rel=2.3e-16, abs=0)


@given(st.one_of(st.floats(1e-300, 0.5), st.floats(0.5, 1 - 1e-15)))
def test_the_normal_quantile_is_scipys(p):
    assert portable.normal_quantile(p) == pytest.approx(ndtri(p), rel=1e-14, abs=1e-16)


def test_arrays_have_the_bits_of_their_numbers():
    """Whatever instructions NumPy chooses for a long array."""
    x = np.random.default_rng(0).lognormal(0, 20, 1001)
    assert portable.log(x).tolist() == [float(portable.log(value)) for value in x]
    y = portable.log(x)
    assert portable.exp(y).tolist() == [float(portable.exp(value)) for value in y]


def test_exact_values():
    assert portable.log(1.0) == 0
    assert portable.exp(0.0) == 1
    assert portable.normal_quantile(0.5) == 0
    assert portable.log(2.0**40) == 40 * np.log(2)


def falling(first):
    N = first * np.array([1.0, 2.0, 4.0, 8.0] * 3)
    noise = np.random.default_rng(1).lognormal(0, 0.05, len(N))
    return Forecast(Pilot.from_points(N, noise * (N / first) ** -0.5, np.repeat([1, 2, 3], 4)))


def test_curves_are_multiples_of_a_step():
    forecast = falling(4)
    for values in (forecast.curves_.log_error, forecast.curves_.reached, forecast.spreads_):
        assert np.all(values / STEP == np.round(values / STEP))


def test_what_is_reached_at_once_is_reached_at_the_smallest_N():
    """Not at the exponential of its logarithm, which is another number."""
    for first in (10, 10**9, 10**12 + 1, 10**15 // 8):
        answer = falling(first).required(100.0)
        assert (answer.n_low, answer.n, answer.n_high) == (first, first, first)
