"""The learning curve from the data alone: exact cases, brute force, and `koct curve`."""

import json

import numpy as np
import pytest
from scipy.optimize import brentq

from koct.prediction.spectral import Spectral

SPECTRUM = 1.0 / np.arange(1, 81) ** 1.5


def gaussian(M, spectrum=SPECTRUM, noise=0.1):
    """Pairs with a known spectrum, y = W x + noise, and W."""
    W, rng = np.random.default_rng(99).standard_normal((8, len(spectrum))), np.random.default_rng(0)
    x = rng.standard_normal((M, len(spectrum))) * np.sqrt(spectrum)
    return x, x @ W.T + noise * rng.standard_normal((M, len(W))), W


def closed_form(spectrum, W, noise, N, lam):
    """The deterministic equivalent with the true spectrum, per output."""
    kappa = brentq(lambda k: (spectrum / (spectrum + k)).sum() + lam / k - N, 1e-12, 1e6, xtol=1e-15, rtol=1e-12)
    learned = spectrum / (spectrum + kappa)
    bias = ((1 - learned) ** 2 * spectrum * (W**2).sum(0)).sum() + noise**2 * len(W)
    return bias * N / (N - (learned**2).sum()) / len(W)


def test_gaussian_data_follow_the_closed_form_of_their_spectrum():
    x, y, W = gaussian(1024)
    theory = Spectral().fit(x, y)
    for N, lam in ((8, 1.0), (128, 1e-3), (512, 1.0)):
        found = theory.predict(N, lam)
        assert found.error == pytest.approx(closed_form(SPECTRUM, W, 0.1, N, lam), rel=0.05)
        assert found.trusted, found.reason


def test_the_ridge_goes_to_zero_smoothly_and_the_peak_at_the_rank_is_flagged():
    x, y, _ = gaussian(512, np.ones(80), noise=0.5)
    theory = Spectral().fit(x, y)
    for N in (20, 200):
        errors = [theory.predict(N, lam).error for lam in (1e-4, 1e-8, 1e-12)]
        assert errors == pytest.approx([errors[-1]] * 3, rel=1e-3)
    near = theory.predict(80, 1e-6)
    assert not near.trusted
    assert "close to the rank" in near.reason
    assert near.error > 5 * theory.predict(40, 1e-6).error


def test_ridges_below_rounding_are_none():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 12))
    fitted = Spectral().fit(x, x @ rng.normal(size=(12, 3)) + 0.5 * rng.normal(size=(30, 3)))
    small, *smaller = (fitted.curve([4, 20], [lam]) for lam in (1e-9, 1e-15, 1e-20, 1e-150, 1e-300))
    for points in smaller:
        np.testing.assert_allclose([one.error for one in points], [one.error for one in small], rtol=1e-6)


def test_at_its_own_size_the_pool_gives_leave_one_out():
    x, y, _ = gaussian(200)
    theory = Spectral().fit(x, y)
    fold = [
        ((y[m] - y[rest].T @ np.linalg.solve(x[rest] @ x[rest].T + np.eye(199), x[rest] @ x[m])) ** 2).mean()
        for m in range(0, 200, 20)
        for rest in [np.arange(200) != m]
    ]
    assert theory._residuals(1.0)[::20] * theory.unit**2 == pytest.approx(fold, rel=1e-5)  # single precision
    values, found = np.linalg.eigvalsh(x @ x.T), theory.predict(200, 1.0)
    assert found.df == pytest.approx((values / (values + 1)).sum(), rel=1e-6)
    own = y - x @ np.linalg.solve(x.T @ x + np.eye(80), x.T @ y)
    assert found.train_error == pytest.approx((own**2).mean(), rel=0.1)


def test_beyond_the_pairs_the_curve_goes_on_as_a_line_and_says_so():
    x, y, W = gaussian(256)
    theory = Spectral().fit(x, y)
    last, *beyond = (theory.predict(N, 1.0) for N in (256, 512, 2048))
    for found in beyond:
        assert not found.trusted
        assert "beyond the 256 pairs" in found.reason
        assert found.error == pytest.approx(closed_form(SPECTRUM, W, 0.1, found.N, 1.0), rel=0.25)
    assert beyond[1].high / beyond[1].error > last.high / last.error
    few = Spectral().fit(x[:8], y[:8]).predict(4, 1.0)
    assert not few.trusted
    assert "8 pairs are too few" in few.reason


def test_a_kernel_matrix_and_torch_give_the_same_as_pairs():
    x, y, _ = gaussian(128)
    pairs = Spectral(nonnegative=True).fit(x, y).predict(32, 1.0)
    kernel = Spectral(nonnegative=True).fit_gram(x @ x.T, y).predict(32, 1.0)
    assert kernel.error == pytest.approx(pairs.error, rel=1e-10)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensors = Spectral(nonnegative=True).fit(torch.as_tensor(x), torch.as_tensor(y)).predict(32, 1.0)
    assert tensors.error == pytest.approx(pairs.error, rel=1e-5)  # products are in single precision
    assert (tensors.low, tensors.high) == pytest.approx((pairs.low, pairs.high), rel=1e-5)


def test_a_cut_at_zero_is_foreseen():
    """Images that are zero in half of the places, as behind a ReLU."""
    rng = np.random.default_rng(0)
    y = np.maximum(rng.standard_normal((500, 20)) @ rng.standard_normal((20, 60)), 0)
    x = y @ rng.standard_normal((60, 30)) + 5 * rng.standard_normal((500, 30))
    errors = []
    for _ in range(50):
        order = rng.permutation(500)
        train, test = order[:60], order[60:]
        D = np.linalg.solve(x[train] @ x[train].T + 100 * np.eye(60), x[train] @ x[test].T)
        predicted = D.T @ y[train]
        errors.append([((cut - y[test]) ** 2).mean() for cut in (predicted, predicted.clip(0))])
    plain, cut = np.mean(errors, axis=0)
    assert cut < 0.95 * plain
    assert Spectral().fit(x, y).predict(60, 100.0).error == pytest.approx(plain, rel=0.05)
    assert Spectral(nonnegative=True).fit(x, y).predict(60, 100.0).error == pytest.approx(cut, rel=0.05)


def test_koct_curve_tells_points_and_the_samples_for_a_target(koct):
    x, y, _ = gaussian(200)
    np.savez("pairs.npz", x=x.reshape(200, 8, 10), y=y)
    np.save("x.npy", x)
    np.save("y.npy", y)
    found = json.loads(koct("curve", "pairs.npz", "--target", 0.5, "--at", "16,64,400", "--json")[1])
    assert [point["N"] for point in found["points"]] == [16, 64, 400]
    assert set(found["points"][0]) == {"N", "lam", "error", "low", "high", "trusted", "reason"}
    assert [point["trusted"] for point in found["points"]] == [True, True, False]
    assert found["n_low"] <= found["n"] <= found["n_high"]
    assert found["reachable"] is True
    theory = Spectral().fit(x, y)
    lambdas = [float(theory.values.mean()) * 10.0**power for power in range(-8, 3)]
    assert theory.best_curve([found["n"]], lambdas)[0].error == pytest.approx(0.5, rel=0.1)
    (point,) = json.loads(koct("curve", "x.npy", "y.npy", "--at", 16, "--lam", 1, "--json")[1])["points"]
    assert point["lam"] == 1
    assert point["error"] == pytest.approx(theory.predict(16, 1.0).error)
