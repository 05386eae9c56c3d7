"""Fits against slower solvers that cannot be wrong in the same way, and the errors of fits on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from koct import cli, metrics
from koct.base.files import read_json, read_record, write_record
from koct.contracts import Layer, Network, Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.networks.fc import FC
from koct.networks.fc_fsdp import Dense
from koct.networks.ko import KO
from koct.networks.solvers import cholesky_solve
from koct.operators.algebra import Diagonal, Matrix
from koct.operators.chain import normal_matrix
from koct.problems import pools
from koct.study import cells, evaluation

LAMBDAS = (1e-6, 1e-4, 1e-2, 1.0, 1e2)


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
@given(
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.integers(2, 12),
    st.integers(2, 20),
    st.sampled_from(["zero", "analytic"]),
)
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
        np.testing.assert_allclose(design @ network.w, design @ expected, rtol=1e-8, atol=1e-8)
        assert network.w[0] == prior[0]
        if lam >= 1e-2:  # below, w itself is ill-conditioned and only its effect is determined to 1e-8
            np.testing.assert_allclose(network.w, expected, rtol=1e-8, atol=1e-8)


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


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 300))
def test_cholesky_solve(seed, size):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((size, size))
    matrix, right = half @ half.T + np.eye(size), rng.standard_normal(size)
    np.testing.assert_allclose(matrix @ cholesky_solve(matrix, right), right, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 150])
def test_the_normal_matrix_by_basis_vectors_is_that_of_the_matrix(size):
    R = np.random.default_rng(size).standard_normal((40, size))
    domain = (5, size // 5) if size % 5 == 0 else (size,)
    normal = normal_matrix(Matrix(R, domain, (8, 5)))
    np.testing.assert_allclose(normal, R.T @ R, rtol=1e-12, atol=1e-12)


# Parameters


class Two(Network):
    """Has learned two arrays, as a network of a user's own might."""

    def predict(self, x):
        return x

    def state(self):
        return {"kernel": np.zeros((3, 4, 5)), "offset": np.zeros(7)}


def test_parameters_are_counted_from_what_was_learned():
    data = random_problem(0, 3, 6, 8)
    for _, network in KO(solver="ridge").fit(data):
        assert network.parameters == network.w.size == 6
    for _, network in FC().fit(data):
        assert network.parameters == 8 * 6
    assert Dense(np.zeros((4, 2, 6)), False).parameters == 8 * 6
    assert Two().parameters == 3 * 4 * 5 + 7


def test_parameter_counts_are_the_papers():
    for H, V, B, p_ko, p_fc in ((512, 180, 512, 92_160, 24_159_191_040), (8, 10, 8, 80, 5_120)):
        x, y = np.ones((1, V * B), np.float32), np.ones((1, H * H), np.float32)
        layers = [Layer("weights", Diagonal(np.ones(V * B))), Layer("R", Matrix(np.ones((1, V * B))))]
        data = Pairs(x, y, layers=layers, lambdas=(1.0,))
        assert KO().restore({"w": np.ones(V * B)}, data).parameters == p_ko
        ((_, network),) = FC().fit(data)
        assert network.parameters == p_fc


def test_a_singular_ridge_names_the_lambda():
    data = random_problem(0, 1, 40, 3)
    data.lambdas = (1e-300,)
    with pytest.raises(KoctError, match="lambda = 1e-300 is singular"):
        list(KO(solver="ridge", toward="zero").fit(data))


# Metrics


def test_metrics_by_hand():
    y = np.array([[0.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    predicted = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, 1.0]])
    images = metrics.each(predicted, y, (2,))
    got = metrics.errors(predicted, y, images)
    assert got["mse"] == pytest.approx((1 + 9 + 2) / 6)
    assert got["rrmse_peak"] == pytest.approx((np.sqrt(1 / 2) / 2 + np.sqrt(9 / 2) / 4) / 2)
    assert got["rrmse_norm"] == pytest.approx((1 / 2 + 3 / 5) / 2)  # the empty image has no relative error
    assert got["psnr"] == pytest.approx(10 * np.log10(2 * 4 * 16 * 2 / 9) / 2)
    assert got["ssim"] is None  # too small for a window
    np.testing.assert_allclose(images["mse"], [1 / 2, 9 / 2, 2 / 2])
    np.testing.assert_allclose(images["rrmse_norm"], [1 / 2, 3 / 5, np.nan])
    np.testing.assert_allclose(images["rrmse_peak"], [np.sqrt(1 / 2) / 2, np.sqrt(9 / 2) / 4, np.nan])


def test_metrics_of_nothing_but_empty_images():
    with pytest.raises(KoctError, match="every image is empty"):
        metrics.errors(np.ones((2, 3)), np.zeros((2, 3)), metrics.each(np.ones((2, 3)), np.zeros((2, 3)), (3,)))


# The errors of a fit on disk

ERRORS = ("val_mse", "mse", "rrmse_peak", "rrmse_norm")


@pytest.fixture
def fitted(tmp_path, monkeypatch):
    """A pool, and a fit of KO on it that evaluated itself with the code `today`."""
    problem = registry.problem("surrogate")(H=8, V=10, B=8, tikhonov=0.1)
    pool, shared, normal = (str(tmp_path / f"{name}.npy") for name in ("pool", "shared", "normal"))
    pools.make(problem, 1, Sizes(train=16, val=8, test=8), pool)
    cells.write_shared(problem, shared)
    cells.write_normal(problem, shared, normal)
    spec = Cell("H8", problem, registry.architecture("ko")(), 16, 1, LAMBDAS).encode()
    spec["inputs"] = ["pool", "shared", "normal"]
    monkeypatch.setenv("KOCT_EVALUATION", "today")
    outputs = ["--outputs", str(tmp_path / "row.json"), str(tmp_path / "fit.npy")]
    assert cli.main(["fit", "--spec", json.dumps(spec), "--inputs", pool, shared, normal, *outputs]) == 0
    return tmp_path


def evaluated(folder, shared="shared.npy"):
    """The row that `koct evaluate` writes."""
    files = ["--pool", str(folder / "pool.npy"), "--shared", str(folder / shared), "--out", str(folder / "again.json")]
    assert cli.main(["evaluate", str(folder / "fit.npy"), *files]) == 0
    return read_json(folder / "again.json")[0]


def change_network(folder):
    """Change what was learned, and nothing else in the file of the fit."""
    state, stamp = read_record(folder / "fit.npy")
    write_record(folder / "fit.npy", stamp, w=state["w"] * 1.5)


def test_a_fit_whose_weights_were_changed_is_refused(fitted, monkeypatch, capsys):
    record = np.lib.format.open_memmap(fitted / "fit.npy", mode="r+")
    record["w"] *= 1.5
    record.flush()
    monkeypatch.setenv("KOCT_EVALUATION", "tomorrow")
    out = str(fitted / "again.json")
    files = ["--pool", str(fitted / "pool.npy"), "--shared", str(fitted / "shared.npy"), "--out", out]
    assert cli.main(["evaluate", str(fitted / "fit.npy"), *files]) == 2
    assert "fit.npy is damaged: its checksum is wrong; `rm " in capsys.readouterr().err
    assert not os.path.exists(out)


@pytest.mark.parametrize(
    ("seed", "train", "message"),
    [(2, 16, "pool.npy is the pool of another seed than the cell's"), (1, 17, "was not fitted to the pairs of")],
)
def test_a_fit_is_not_evaluated_on_another_pool(fitted, capsys, seed, train, message):
    problem = registry.problem("surrogate")(H=8, V=10, B=8, tikhonov=0.1)
    pools.make(problem, seed, Sizes(train=train, val=8, test=8), fitted / "pool.npy")
    files = ["--pool", str(fitted / "pool.npy"), "--out", str(fitted / "again.json")]
    assert cli.main(["evaluate", str(fitted / "fit.npy"), *files]) == 2
    assert message in capsys.readouterr().err


def test_errors_that_a_fit_has_kept_are_not_computed_again(fitted, monkeypatch):
    row, _ = read_json(fitted / "row.json")
    change_network(fitted)
    monkeypatch.setattr(cells, "read_record", None)  # nor is anything else read
    assert evaluated(fitted) == row


@pytest.mark.parametrize("now", ["tomorrow", None])
def test_errors_of_other_code_are_computed_again_and_are_the_same(fitted, monkeypatch, now):
    row, _ = read_json(fitted / "row.json")
    monkeypatch.setenv("KOCT_EVALUATION", now) if now else monkeypatch.delenv("KOCT_EVALUATION")
    again = evaluated(fitted)
    assert again == row
    change_network(fitted)
    for error in ERRORS:
        assert evaluated(fitted)[error] != row[error]  # so they do come from the network


def test_a_fit_outside_the_workflow_is_evaluated_every_time(fitted, monkeypatch):
    """Without a hash nobody knows which code computed its errors."""
    about, _ = cells.read_fit(fitted / "fit.npy")
    row, _ = read_json(fitted / "row.json")
    monkeypatch.delenv("KOCT_EVALUATION")
    state, stamp = read_record(fitted / "fit.npy")
    wrong = evaluation.remember(about, dict.fromkeys(about["errors"], 99.0))
    assert wrong["evaluation"] is None
    write_record(fitted / "fit.npy", stamp._replace(about=wrong), w=state["w"])
    assert evaluated(fitted) == row


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # importing it then fails
from koct import cli
sys.exit(cli.main(sys.argv[1:]))
"""
NEEDS_TORCH = '''
from koct.contracts import Architecture, Network


class Mean(Architecture):
    """The mean image; is restored by torch."""

    def fit(self, data):
        yield None, MeanNetwork(data.y.mean(0))

    def restore(self, state, data):
        import torch

        return MeanNetwork(torch.as_tensor(state["mean"].copy()).numpy())


class MeanNetwork(Network):
    def __init__(self, mean):
        self.mean = mean

    def predict(self, x):
        return self.mean + 0 * x[:, :1]

    def state(self):
        return {"mean": self.mean}
'''


def test_errors_that_a_fit_has_kept_need_no_torch(fitted, monkeypatch):
    (fitted / "mean.py").write_text(NEEDS_TORCH)
    problem = registry.problem("surrogate")(H=8, V=10, B=8, tikhonov=0.1)
    cell = Cell("H8", problem, registry.architecture(str(fitted / "mean.py"))(), 16, 1, ())
    pool, fit, row = (str(fitted / name) for name in ("pool.npy", "mean.npy", "mean.json"))
    spec = json.dumps({**cell.encode(), "inputs": ["pool"]})
    assert cli.main(["fit", "--spec", spec, "--inputs", pool, "--outputs", fit]) == 0

    def evaluate():
        command = [sys.executable, "-c", WITHOUT_TORCH, "evaluate", fit, "--pool", pool, "--out", row]
        return subprocess.run(command, capture_output=True, text=True)

    done = evaluate()
    assert done.returncode == 0, done.stderr
    assert json.loads(Path(row).read_text())["mse"] > 0
    monkeypatch.setenv("KOCT_EVALUATION", "tomorrow")
    done = evaluate()
    assert done.returncode == 2
    assert f"{fitted / 'mean.py'}, line 12: ModuleNotFoundError: " in done.stderr
