"""Fits against slower solvers that cannot be wrong in the same way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koct.errors import KoctError
from koct.learn import fc, ko
from koct.learn.linalg import cholesky_solve
from koct.learn.metrics import metrics

LAMBDAS = (1e-6, 1e-4, 1e-2, 1.0, 1e2)


def random_problem(seed, N, measurements, pixels):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((pixels, measurements))
    return rng.standard_normal((N, measurements)), rng.standard_normal((N, pixels)), {"operator": R, "gram": R.T @ R}


def stacked_ridge(design, target, lam):
    """argmin ‖design·u − target‖² + lam‖u‖² by least squares with the penalty as extra rows."""
    rows = np.vstack([design, np.sqrt(lam) * np.eye(design.shape[1])])
    right = np.concatenate([target, np.zeros((design.shape[1], *target.shape[1:]))])
    return np.linalg.lstsq(rows, right, rcond=None)[0]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(2, 12), st.integers(2, 20))
def test_ko_by_hadamard_equals_stacked_least_squares(seed, N, measurements, pixels):
    x, y, known = random_problem(seed, N, measurements, pixels)
    x[:, 0] = 0  # a measurement that never lights up
    design = np.vstack([known["operator"] * sinogram for sinogram in x])
    for lam, network in zip(LAMBDAS, ko.Network.fit(x, y, LAMBDAS, known), strict=True):
        expected = stacked_ridge(design, y.ravel(), lam)
        np.testing.assert_allclose(design @ network.w, design @ expected, rtol=1e-8, atol=1e-8)
        assert network.w[0] == 0
        if lam >= 1e-2:  # below, w itself is ill-conditioned and only its effect is determined to 1e-8
            np.testing.assert_allclose(network.w, expected, rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(2, 12), st.integers(2, 20))
def test_fc_in_dual_form_equals_primal_ridge(seed, N, measurements, pixels):
    x, y, _ = random_problem(seed, N, measurements, pixels)
    new = np.random.default_rng(seed + 1).standard_normal((5, measurements))
    for lam, network in zip(LAMBDAS, fc.Network.fit(x, y, LAMBDAS), strict=True):
        M = stacked_ridge(x, y, lam).T
        np.testing.assert_allclose(network.predict(x), x @ M.T, rtol=1e-8, atol=1e-8)
        if lam >= 1e-2:
            np.testing.assert_allclose(network.predict(new), new @ M.T, rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 300))
def test_cholesky_solve(seed, size):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((size, size))
    matrix, right = half @ half.T + np.eye(size), rng.standard_normal(size)
    np.testing.assert_allclose(matrix @ cholesky_solve(matrix, right), right, rtol=1e-8, atol=1e-8)


def test_untrained_network_is_the_known_operator():
    x, _, known = random_problem(0, 3, 6, 8)
    np.testing.assert_allclose(ko.Network.untrained(known).predict(x), x @ known["operator"].T)


def test_parameter_counts_are_the_papers():
    assert ko.Network.parameters(512, 180, 512) == 92_160
    assert fc.Network.parameters(512, 180, 512) == 24_159_191_040
    assert fc.Network.parameters(8, 10, 8) == 5_120


def test_a_singular_ridge_names_the_lambda():
    x, y, known = random_problem(0, 1, 40, 3)
    with pytest.raises(KoctError, match="lambda = 1e-300 is singular"):
        list(ko.Network.fit(x, y, [1e-300], known))


def test_metrics_by_hand():
    y = np.array([[0.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    predicted = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, 1.0]])
    got = metrics(predicted, y)
    assert got["mse"] == pytest.approx((1 + 9 + 2) / 6)
    assert got["rrmse_peak"] == pytest.approx((np.sqrt(1 / 2) / 2 + np.sqrt(9 / 2) / 4) / 2)
    assert got["rrmse_norm"] == pytest.approx((1 / 2 + 3 / 5) / 2)  # the empty phantom has no relative error


def test_metrics_of_nothing_but_empty_phantoms():
    with pytest.raises(KoctError, match="every phantom is empty"):
        metrics(np.ones((2, 3)), np.zeros((2, 3)))
