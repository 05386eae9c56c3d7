"""Least squares and total variation against other solvers, optimality conditions and limits."""

import numpy as np
import pytest
from scipy.optimize import nnls

from koct.networks import variational
from koct.networks.unlabelled import ABSORBED, Risk, least, model_error, strongest
from koct.networks.variational import EarlyStopping, LeastSquares, TotalVariation, divergence, gradient, lengths
from koct.operators.algebra import Matrix

SOLVERS = {
    "tv": (lambda A: TotalVariation(A, True, 1.0, 1000, 1e-3), 2.0),
    "nnls": (lambda A: EarlyStopping(A, True), 50),
}


@pytest.fixture(autouse=True, params=[2**21, 0], ids=["dense", "operator"])
def kind(request, monkeypatch):
    """Whether operators are multiplied out, as small ones are, or applied."""
    monkeypatch.setattr(variational, "SMALL", request.param)


def random_problem(pixels=(6, 5), measurements=40, n=3, noise=0.1):
    rng = np.random.default_rng(0)
    A = Matrix(rng.standard_normal((measurements, np.prod(pixels))), pixels, (measurements,))
    y = rng.standard_normal((n, *pixels)).clip(min=0)
    return A, (A(y) + noise * rng.standard_normal((n, measurements))).astype(np.float32)


def test_fista_is_least_squares_without_negative_pixels():
    A, x = random_problem()
    y = EarlyStopping(A, True)(x, 2000)
    expected = np.stack([nnls(A.values, row.astype(float))[0] for row in x])
    assert (expected == 0).any()
    condition = np.linalg.cond(A.values) ** 2
    np.testing.assert_allclose(y, expected, atol=condition * 2**-23)
    free = EarlyStopping(A, False)(x, 2000)
    np.testing.assert_allclose(free, np.linalg.lstsq(A.values, x.T)[0].T, atol=condition * 2**-23)


@pytest.mark.parametrize("pixels", [(6, 5), (4, 4, 2)])
def test_total_variation_has_no_duality_gap(pixels):
    """Feasible dual points bound the minimum from below.

    From q = A y − x and |p| ≤ λ, with Aᵀq = div p where images may be negative: −½‖q‖² − ⟨q, x⟩ ≤ min. Here y is the
    free minimiser, so that q is nearly feasible, and p is found by projected gradients on ‖Aᵀq − div p‖².
    """
    A, x = random_problem(pixels)
    lam = 2.0
    y = TotalVariation(A, False, 1.0, 4000, 1e-7)(x, lam).astype(float)
    images = y.reshape(-1, *A.domain)
    q = A(images) - x
    shape = A.domain if len(A.domain) == 3 else (*A.domain, 1)
    right = A.T(q).reshape(-1, *shape)
    p = before = gradient(right) * 0
    t = 1.0
    for _ in range(4000):
        t, last = (1 + (1 + 4 * t * t) ** 0.5) / 2, t
        ahead = p + (last - 1) / t * (p - before)
        before, p = p, ahead + gradient(divergence(ahead) - right) / 8
        p = p / (lengths(p) / lam).clip(min=1)
    assert abs(divergence(p) - right).max() < 2e-3 * abs(right).max()
    below = -0.5 * (q**2).sum(1) - (q * x).sum(1)
    variation = lengths(gradient(images.reshape(-1, *shape))).sum((1, 2, 3, 4))
    np.testing.assert_allclose(0.5 * (q**2).sum(1) + lam * variation, below, rtol=1e-3)


def test_total_variation_of_a_signal_with_one_edge_moves_both_its_levels_toward_each_other():
    """By λ over the length of each."""
    signal = np.repeat([1.0, 3.0], [4, 8])
    A, x = Matrix(np.eye(12), (12,), (12,)), signal[None]
    found = TotalVariation(A, False, 3.0, 4000, 1e-7)(x, 0.4)
    np.testing.assert_allclose(found[0], np.repeat([1 + 0.4 / 4, 3 - 0.4 / 8], [4, 8]), atol=1e-4)


@pytest.mark.parametrize("name", SOLVERS)
def test_an_image_depends_neither_on_its_batch_nor_on_its_library(name):
    """Neither on images that take more iterations, nor on how many are solved together."""
    torch = pytest.importorskip("torch")
    (A, x), (solver, strength) = random_problem(n=4), SOLVERS[name]
    x[1] *= 100
    together = solver(A)(x, strength)
    for i in range(4):
        alone = solver(A)(x[i : i + 1], strength)[0]
        np.testing.assert_allclose(alone, together[i], atol=1e-5 * abs(x[i]).max())
    assert solver(A)(x[:0], strength).shape == (0, 30)
    tensors = solver(A)(torch.as_tensor(x), strength)
    assert tensors.dtype == torch.float32
    np.testing.assert_allclose(tensors[[0, 2, 3]], together[[0, 2, 3]], atol=1e-4)


def test_the_estimated_risk_of_a_linear_reconstruction_is_its_error():
    """But for the sum of the variances, in the mean over noise."""
    rng = np.random.default_rng(0)
    clean, deviation = rng.standard_normal((1, 12)), np.linspace(0.1, 1, 12)
    x = clean + deviation * rng.standard_normal((20000, 12))
    risk = Risk(x, np.broadcast_to(deviation**2, x.shape))
    for kept in (0, 4, 12):
        matrix = np.diag(np.arange(12) < kept) * 0.7
        error = ((x @ matrix - clean) ** 2).sum() + len(x) * (deviation**2).sum()
        assert risk(risk.both @ matrix) == pytest.approx(error, rel=0.02)


def test_what_the_operator_gets_wrong_shows_in_the_residual():
    A, x = random_problem(measurements=80, n=100, noise=0.0)
    assert model_error(LeastSquares(A), x.astype(float), True, 0.0) == 0
    noise = np.random.default_rng(1).standard_normal(x.shape)
    known, unknown = (model_error(LeastSquares(A), x + noise, True, size) for size in (x.size, 0.0))
    assert known < 0.1 * x.size
    assert unknown == pytest.approx(ABSORBED * x.size, rel=0.1)


@pytest.mark.parametrize("power", [-6.3, -3.0, -0.55, 1.2])
def test_searches_for_a_power_of_ten_end_near_it(power):
    ends = (-8, 2)
    assert least(lambda each: (each - power) ** 2, -3, ends) == (pytest.approx(power, abs=0.1), False)
    found = strongest(lambda each: 10 ** (2 * each), 10 ** (2 * power), -3, ends)
    assert power - 0.1 <= found.power <= power
    assert not found.edge
    assert least(lambda each: each, -3, ends) == strongest(lambda each: 10.0**each, 0, -3, ends) == (-8, True)
    assert least(lambda each: -each, -3, ends) == strongest(lambda each: 10.0**each, 1e9, -3, ends) == (2, True)
    floor = strongest(lambda each: 10 ** (2 * each) + 1e-6, 1e-9, -3, ends)  # it never comes below
    assert not floor.edge
    assert 10 ** (2 * floor.power) < 0.3e-6
