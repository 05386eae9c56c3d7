"""Fits against slower solvers that cannot be wrong in the same way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koct.errors import KoctError
from koct.metrics import metrics
from koct.networks import fc, ko
from koct.networks.linalg import cholesky_solve
from koct.operators.algebra import Matrix
from koct.problems.known import Known

LAMBDAS = (1e-6, 1e-4, 1e-2, 1.0, 1e2)


def random_problem(seed, N, measurements, pixels):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((pixels, measurements))
    known = Known(Matrix(R), 1 + rng.random(measurements), R.T @ R)
    return rng.standard_normal((N, measurements)), rng.standard_normal((N, pixels)), known


def stacked_ridge(design, target, lam, toward=0.0):
    """argmin ‖design·u − target‖² + lam‖u − toward‖² by least squares with the penalty as extra rows."""
    rows = np.vstack([design, np.sqrt(lam) * np.eye(design.shape[1])])
    prior = np.sqrt(lam) * (np.zeros((design.shape[1], *target.shape[1:])) + toward)
    right = np.concatenate([target, prior])
    return np.linalg.lstsq(rows, right, rcond=None)[0]


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.integers(2, 12),
    st.integers(2, 20),
    st.sampled_from(["zero", "analytic"]),
)
def test_ko_by_hadamard_equals_stacked_least_squares(seed, N, measurements, pixels, toward):
    x, y, known = random_problem(seed, N, measurements, pixels)
    x[:, 0] = 0  # a measurement that never lights up
    design = np.vstack([known.operator.values * sinogram for sinogram in x])
    prior = known.weights if toward == "analytic" else np.zeros(measurements)
    spec = {"lambdas": LAMBDAS, "ko": {"solver": "ridge", "toward": toward}}
    for expected_lam, (lam, network) in zip(LAMBDAS, ko.Network.fit(x, y, spec, known), strict=True):
        assert lam == expected_lam
        expected = stacked_ridge(design, y.ravel(), lam, prior)
        np.testing.assert_allclose(design @ network.w, design @ expected, rtol=1e-8, atol=1e-8)
        assert network.w[0] == prior[0]
        if lam >= 1e-2:  # below, w itself is ill-conditioned and only its effect is determined to 1e-8
            np.testing.assert_allclose(network.w, expected, rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(2, 12), st.integers(2, 20))
def test_fc_in_dual_form_equals_primal_ridge(seed, N, measurements, pixels):
    x, y, _ = random_problem(seed, N, measurements, pixels)
    new = np.random.default_rng(seed + 1).standard_normal((5, measurements))
    gram = x @ x.T if seed % 2 else None  # a matrix that is known already changes nothing
    spec = {"lambdas": LAMBDAS, "nonnegative": False}
    for lam, network in fc.Network.fit(x, y, spec, gram=gram):
        M = stacked_ridge(x, y, lam).T
        # what rounding leaves in the null space of the Gram matrix, about 1e-14, is divided by λ
        np.testing.assert_allclose(network.predict(x), x @ M.T, rtol=1e-8, atol=max(1e-8, 1e-13 / lam))
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
    np.testing.assert_allclose(ko.Network.untrained(known).predict(x), (x * known.weights) @ known.operator.values.T)


def test_parameter_counts_are_the_papers():
    assert ko.Network.parameters(512, 180, 512) == 92_160
    assert fc.Network.parameters(512, 180, 512) == 24_159_191_040
    assert fc.Network.parameters(8, 10, 8) == 5_120


def test_a_singular_ridge_names_the_lambda():
    x, y, known = random_problem(0, 1, 40, 3)
    with pytest.raises(KoctError, match="lambda = 1e-300 is singular"):
        list(ko.Network.fit(x, y, {"lambdas": [1e-300], "ko": {"solver": "ridge", "toward": "zero"}}, known))


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
