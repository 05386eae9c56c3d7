"""Curves of networks in closed form, by subsets and by the fixed point: exact cases, brute force, cells, bad input."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT

from koct.config.study_file import build
from koct.contracts import Layer
from koct.errors import KoctError
from koct.networks.solvers import Known, weights_by_ridge
from koct.operators.algebra import Matrix
from koct.prediction.fixed_point import FixedPoint
from koct.prediction.subsets import Subsets
from koct.problems import pools
from koct.study import cells

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
SWEEPS = {name: build(name, CONFIG["sweeps"][name]) for name in ("H8", "H16")}


def mean_of(x, y):
    """A network that knows only the mean of its training images: its errors are known exactly."""
    mean = y.mean(0)
    yield None, lambda x: mean + 0 * x[:, :1]


def ridge(x, y, lambdas=(0.1, 10.0)):
    for lam in lambdas:
        M = y.T @ x @ np.linalg.inv(x.T @ x + lam * np.eye(x.shape[1]))
        yield lam, lambda x, M=M: x @ M.T


def noise(M, outputs=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((M, 1)), 3 + 0.5 * rng.standard_normal((M, outputs))


# Subsets: exact cases


@pytest.mark.parametrize("N", [1, 2, 8, 64, 150])
def test_the_error_of_a_mean_is_known(N):
    (found,) = Subsets(mean_of).fit(*noise(256)).curve([N])
    assert found.error == pytest.approx(0.25 * (1 + 1 / N), rel=0.02 + 0.1 / N)
    assert found.low < found.error < found.high
    assert (len(found.per_sample), found.per_sample.mean()) == (256, pytest.approx(found.error))
    assert found.trusted, found.reason
    assert np.isnan(found.lam)


def test_beyond_two_thirds_of_the_pairs_the_curve_goes_on_as_a_line_and_says_so():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((96, 30))
    y = x @ rng.standard_normal((30, 5)) + rng.standard_normal((96, 5))
    subsets = Subsets(ridge).fit(x, y)
    half, last, beyond = (subsets.curve([N])[0] for N in (32, 64, 256))
    assert (last.trusted, beyond.trusted) == (True, False)
    assert "N = 256 is beyond two thirds of the 96 pairs" in beyond.reason
    assert beyond.error == pytest.approx(last.error * max(last.error / half.error, 0.5) ** 2)


@pytest.mark.parametrize(
    ("fitting", "options", "words"),
    [
        (mean_of, {"N": 0}, "N = 0"),
        (mean_of, {"draws": 2}, "draws = 2"),
        (mean_of, {"validation": 0}, "validation = 0"),
        (lambda x, y: [], {}, "yielded nothing"),
        (lambda x, y: [(1.0, lambda x: x[:, 0])], {}, r"shape \(.*,\) for .* samples; give"),
        (lambda x, y: [(1.0, lambda x: x + np.inf)], {}, "lambda = 1.0 predicts numbers that are not finite"),
        (lambda x, y: [(x.sum(), lambda x: 0 * x)], {}, r"yielded lambdas \[.*\], then \[.*\]; yield the same"),
    ],
)
def test_bad_fits_and_questions_get_one_sentence(fitting, options, words):
    N, draws, validation = (options.get(name, 3) for name in ("N", "draws", "validation"))
    with pytest.raises(KoctError, match=words):
        Subsets(fitting, draws).fit(*noise(20, 1)).best_curve([N], validation=validation)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A sweep's known layers, RᵀR and all pairs of a seed that no study uses."""

    @cache
    def of(name):
        problem, sizes = SWEEPS[name].problem, SWEEPS[name].sizes
        path = str(tmp_path_factory.mktemp("pool") / f"{name}.npy")
        pools.make(problem, 101, sizes, path)
        made, shared = pools.Pool(path, problem, 101), problem.shared()
        x, y = (np.concatenate([read(part) for part in ("train", "val", "test")]) for read in (made.x, made.y))
        known = Known(cells.checked_layers(problem, shared), problem.nonnegative)
        return known, cells.normal_matrix(problem, shared), x.reshape(len(x), -1), y.reshape(len(y), -1)

    return of


def fitting_of(known, normal, lambdas, toward=None):
    def fitting(x, y):
        for lam, w in weights_by_ridge(known, x, y, normal, lambdas, toward):
            yield lam, lambda x, w=w: known.reconstruct(x * w)

    return fitting


def test_the_ko_cells_of_the_surrogate_sweeps_lie_in_their_intervals(pool):
    """With λ chosen anew in every draw; H32 takes half a minute, and test_theory.py has the intervals of single λ."""
    every = pd.read_parquet(ROOT / "results/reference/cells.parquet").set_index(["sweep", "arch"])
    inside, ratios = [], []
    for name, sweep in SWEEPS.items():
        (known, normal, x, y), measured = pool(name), every.loc[(name, "ko")]
        subsets = Subsets(fitting_of(known, normal, sorted(measured["lam"].unique()))).fit(x, y)
        for best in subsets.best_curve(sweep.N, tests=sweep.sizes.test, validation=sweep.sizes.val):
            errors = measured[measured["N"] == best.N]["mse"]
            ratios.append(best.error / errors.mean())
            inside += list(errors.between(best.low, best.high))
    assert 0.85 <= np.mean(inside) <= 0.97
    assert 0.9 < np.median(ratios) < 1.1
    assert 0.75 < min(ratios) <= max(ratios) < 1.35


# The fixed point


def held_out(fitting, x, y, N, draws):
    """Errors of fits on random N of the pool, on all others: (draws, lambdas)."""
    errors = []
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(x))
        a, b = order[:N], order[N:]
        predicts = [predict for _, predict in fitting(x[a], y[a])]
        errors.append([((predict(x[b]) - y[b]) ** 2).mean() for predict in predicts])
    return np.array(errors)


def test_fits_of_the_surrogate_are_foreseen(pool):
    known, normal, x, y = pool("H16")
    sizes, lambdas, w0 = [4, 8, 16, 64], [1.0, 100.0], known.analytic
    theory = FixedPoint(normal, known.adjoint, w0).fit(x, y)
    points = theory.curve(sizes, lambdas)
    assert [(point.N, point.lam) for point in points] == [(N, lam) for N in sizes for lam in lambdas]
    fits = [held_out(fitting_of(known, normal, lambdas, w0), x, y, N, 24) for N in sizes]
    for point, measured in zip(points, np.concatenate(fits, axis=1).T, strict=True):
        assert point.error == pytest.approx(measured.mean(), rel=0.05)
        assert np.mean((point.low <= measured) & (measured <= point.high)) >= 0.75
        assert point.trusted, point.reason


def test_the_fixed_point_says_where_it_does_not_hold(pool):
    """Pulled to zero, rays that no sample has lit keep the weight 0; with next to no ridge few samples overfit."""
    known, normal, x, y = pool("H16")
    few = FixedPoint(normal, known.adjoint).fit(x, y).predict(4, 1e-2)
    assert "measurements that are zero in all 4 samples make" in few.reason
    weak, beyond = FixedPoint(normal, known.adjoint, known.analytic).fit(x, y).curve([8, 1000], [1e-4])
    assert "fits on 8 samples gave" in weak.reason
    assert "N = 1000 is beyond the 416 pairs" in beyond.reason


def test_a_last_layer_that_cuts_at_zero_is_foreseen():
    """Images that are zero in many places, from rays with noise."""
    rng = np.random.default_rng(0)
    R = rng.standard_normal((40, 20)) / 5
    known = Known([Layer("R", Matrix(R))], nonnegative=False)
    images = np.maximum(rng.standard_normal((400, 8)) @ rng.standard_normal((8, 40)), 0)
    x = images @ np.linalg.pinv(R).T + 0.5 * rng.standard_normal((400, 20))

    def fitting(x, y, cut):
        for lam, w in weights_by_ridge(known, x, y, R.T @ R, [0.1], None):
            yield lam, lambda x, w=w: cut((x * w) @ R.T)

    found, measured = [], []
    for reconstruct, cut in ((None, lambda y: y), (lambda x: (x @ R.T).clip(0), lambda y: y.clip(0))):
        theory = FixedPoint(R.T @ R, lambda y: y @ R, reconstruct=reconstruct).fit(x, images)
        found.append(theory.predict(40, 0.1).error)
        measured.append(held_out(lambda x, y, cut=cut: fitting(x, y, cut), x, images, 40, 50).mean())
    assert found == pytest.approx(measured, rel=0.06)
    assert found[1] / found[0] == pytest.approx(measured[1] / measured[0], rel=0.04)


def test_tensors_give_the_same():
    T, rng = pytest.importorskip("torch", reason="torch is not installed").as_tensor, np.random.default_rng(99)
    x, R = rng.standard_normal((200, 30)), rng.standard_normal((3, 30)) / 2
    y = x @ R.T + 0.3 * rng.standard_normal((200, 3))
    x[:, 3] *= x[:, 3] > 0
    here, there = (Subsets(mean_of).fit(*pairs).curve([8], 20)[0] for pairs in ((x, y), (T(x), T(y))))
    assert there[2:5] == pytest.approx(here[2:5])
    here = FixedPoint(R.T @ R, lambda y: y @ R, np.ones(30), lambda x: (x @ R.T).clip(0))
    there = FixedPoint(R.T @ R, lambda y: y @ T(R), np.ones(30), lambda x: (x @ T(R).T).clip(0))
    (one,), (two,) = here.fit(x, y).curve([8], [1.0], 50), there.fit(T(x), T(y)).curve([8], [1.0], 50)
    assert two[2:5] == pytest.approx(one[2:5], rel=1e-8)
