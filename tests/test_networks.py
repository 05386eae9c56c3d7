"""Fits against slower solvers that cannot be wrong in the same way, and the errors of fits on disk."""

import json
import os

import numpy as np
import pytest
from conftest import Pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from koct import cli
from koct.base.files import read_json, read_record, write_record
from koct.contracts import Layer, Sizes, registry
from koct.contracts.spec import Cell
from koct.networks.fc import FC
from koct.networks.ko import KO
from koct.operators.algebra import Diagonal, Matrix
from koct.problems import pools
from koct.study import cells, evaluation

LAMBDAS = (1e-6, 1e-4, 1e-2, 1.0, 1e2)
TOWARD = st.sampled_from(["zero", "analytic"])


def random_problem(seed, N, measurements, pixels):
    """Pairs with a known operator R behind weights, both random."""
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((pixels, measurements))
    layers = [Layer("weights", Diagonal(1 + rng.random(measurements))), Layer("R", Matrix(R))]
    x, y = rng.standard_normal((N, measurements)), rng.standard_normal((N, pixels))
    return Pairs(x, y, layers=layers, normal=R.T @ R, lambdas=LAMBDAS)


def stacked_ridge(design, target, lam, toward=0.0):
    """argmin ‖design·u − target‖² + lam‖u − toward‖² by least squares with the penalty as extra rows."""
    rows = np.vstack([design, np.sqrt(lam) * np.eye(design.shape[1])])
    prior = np.sqrt(lam) * (np.zeros((design.shape[1], *target.shape[1:])) + toward)
    right = np.concatenate([target, prior])
    return np.linalg.lstsq(rows, right, rcond=None)[0]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(2, 12), st.integers(2, 20), TOWARD)
def test_ko_by_hadamard_equals_stacked_least_squares(seed, N, measurements, pixels, toward):
    data = random_problem(seed, N, measurements, pixels)
    weights, R = (layer.operator for layer in data.layers)
    data.x[:, 0] = 0  # a measurement that is zero in every sample
    design = np.vstack([R.values * sinogram for sinogram in data.x])
    prior = weights.weights if toward == "analytic" else np.zeros(measurements)
    fits = KO(solver="ridge", toward=toward).fit(data)
    for expected_lam, (lam, network) in zip(LAMBDAS, fits, strict=True):
        assert lam == expected_lam
        expected = stacked_ridge(design, data.y.ravel(), lam, prior)
        np.testing.assert_allclose(design @ network.learned["w"], design @ expected, rtol=1e-8, atol=1e-8)
        assert network.learned["w"][0] == prior[0]
        if lam >= 1e-2:  # below, w itself is ill-conditioned and only its effect is determined to 1e-8
            np.testing.assert_allclose(network.learned["w"], expected, rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(2, 12), st.integers(2, 20))
def test_fc_without_its_matrix_equals_the_ridge_with_it(seed, N, measurements, pixels):
    data = random_problem(seed, N, measurements, pixels)
    new = np.random.default_rng(seed + 1).standard_normal((5, measurements))
    data.gram = data.x @ data.x.T if seed % 2 else None  # a matrix that is known already changes nothing
    for expected_lam, (lam, network) in zip(LAMBDAS, FC().fit(data), strict=True):
        assert lam == expected_lam
        M = stacked_ridge(data.x, data.y, lam).T
        # what rounding leaves in the null space of the Gram matrix, about 1e-14, is divided by λ
        np.testing.assert_allclose(network.predict(data.x), data.x @ M.T, rtol=1e-8, atol=max(1e-8, 1e-13 / lam))
        if lam >= 1e-2:
            np.testing.assert_allclose(network.predict(new), new @ M.T, rtol=1e-8, atol=1e-8)


def test_parameters_are_the_papers():
    for H, V, B, p_ko, p_fc in ((512, 180, 512, 92_160, 24_159_191_040), (8, 10, 8, 80, 5_120)):
        x, y = np.ones((1, V * B), np.float32), np.ones((1, H * H), np.float32)
        layers = [Layer("weights", Diagonal(np.ones(V * B))), Layer("R", Matrix(np.ones((1, V * B))))]
        data = Pairs(x, y, layers=layers, lambdas=(1.0,))
        assert KO().restore({"w": np.ones(V * B)}, data).parameters == p_ko
        ((_, network),) = FC().fit(data)
        assert network.parameters == p_fc


# The errors of a fit on disk

PROBLEM = registry.problem("surrogate")(H=8, V=10, B=8, tikhonov=0.1)


@pytest.fixture
def fitted(tmp_path, monkeypatch):
    """A pool, and a fit of KO on it that evaluated itself with the code `today`."""
    pool, shared, normal = (str(tmp_path / f"{name}.npy") for name in ("pool", "shared", "normal"))
    pools.make(PROBLEM, 1, Sizes(train=16, val=8, test=8), pool)
    cells.write_shared(PROBLEM, shared)
    cells.write_normal(PROBLEM, shared, normal)
    spec = Cell("H8", PROBLEM, registry.architecture("ko")(), 16, 1, LAMBDAS).encode()
    spec["inputs"] = ["pool", "shared", "normal"]
    monkeypatch.setenv("KOCT_EVALUATION", "today")
    outputs = ["--outputs", str(tmp_path / "row.json"), str(tmp_path / "fit.npy")]
    assert cli.main(["fit", "--spec", json.dumps(spec), "--inputs", pool, shared, normal, *outputs]) == 0
    return tmp_path


def evaluated(folder, status=0):
    """The row that `koct evaluate` writes."""
    fit, pool, shared, out = (str(folder / name) for name in ("fit.npy", "pool.npy", "shared.npy", "again.json"))
    assert cli.main(["evaluate", "--spec", "{}", "--inputs", fit, pool, shared, "--outputs", out]) == status
    assert os.path.exists(out) == (status == 0)
    return None if status else {**read_json(out)[0], "image_seconds": 0}


@pytest.mark.parametrize(
    ("seed", "train", "message"),
    [(2, 16, "pool.npy is the pool of another seed than the cell's"), (1, 17, "was not fitted to the pairs of")],
)
def test_a_fit_is_not_evaluated_on_another_pool(fitted, capsys, seed, train, message):
    pools.make(PROBLEM, seed, Sizes(train=train, val=8, test=8), fitted / "pool.npy")
    evaluated(fitted, status=2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("now", ["today", "tomorrow", None])
def test_errors_of_other_code_are_computed_again_and_are_the_same(fitted, monkeypatch, now):
    """Without a hash, outside the workflow, nobody knows which code computed them."""
    row = {**read_json(fitted / "row.json")[0], "image_seconds": 0}
    monkeypatch.setenv("KOCT_EVALUATION", now) if now else monkeypatch.delenv("KOCT_EVALUATION")
    assert evaluated(fitted) == row
    if not now:
        assert evaluation.remember({}, row)["evaluation"] is None
    state, stamp = read_record(fitted / "fit.npy")
    write_record(fitted / "fit.npy", stamp, w=state["w"] * 1.5)  # the errors in the file stay
    if now == "today":
        monkeypatch.setattr(cells, "read_record", None)  # nothing else is read
        assert evaluated(fitted) == row
    else:
        again = evaluated(fitted)
        assert all(again[error] != row[error] for error in ("mse", "rrmse_peak", "rrmse_norm"))
