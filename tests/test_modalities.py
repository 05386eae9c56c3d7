"""Radial MRI and deblurring: what a pair is, one weight per complex sample, pools, and networks of small sweeps."""

import numpy as np
import pytest
from conftest import Pairs
from test_fourier import dot_test, relative

from koct.base.files import read_json
from koct.config.study_file import read
from koct.contracts import Sizes
from koct.contracts.spec import Cell
from koct.networks.ko import KO
from koct.networks.solvers import Known
from koct.problems import phantoms, pools
from koct.problems.deblur import Deblur
from koct.problems.mri import MRI
from koct.study import cells, evaluation, predictions

SIZES = Sizes(train=70, val=5, test=6)
PROBLEMS = {
    "mri": MRI(H=8, spokes=5, samples=8, noise=0.01),
    "complex": MRI(H=8, spokes=5, samples=8, noise=0.01, phase=1.0),
    "deblur": Deblur(H=16, blur=0.8, noise=0.01, vignetting=0.3),
}


# One weight for the real and the imaginary part of a sample


def pairs_of(problem, N=20):
    chunks = problem.pairs(1, Sizes(train=N, val=1, test=1))
    _, x, y = next(chunks)
    x, y = (array.reshape(N, -1).astype(float) for array in (x, y))
    return Pairs(x, y, layers=problem.layers({}), normal=problem.normal_matrix({}), lambdas=[1e-3, 1.0])


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("toward", ["zero", "analytic"])
def test_the_ridge_is_dense_least_squares(name, toward):
    """Written out: the columns of the least-squares problem are the images of one weight at a time."""
    problem = PROBLEMS[name]
    data = pairs_of(problem)
    known = Known(data.layers, False)
    size = len(known.analytic)
    columns = np.stack([known.reconstruct(known.weighted(unit, data.x)).ravel() for unit in np.eye(size)], axis=1)
    start = known.analytic if toward == "analytic" else np.zeros(size)
    for lam, network in KO(toward=toward).fit(data):
        A = np.vstack([columns, np.sqrt(lam) * np.eye(size)])
        b = np.concatenate([data.y.ravel(), np.sqrt(lam) * start])
        np.testing.assert_allclose(network.learned["w"], np.linalg.lstsq(A, b)[0], rtol=1e-8, atol=1e-8)
        assert network.parameters == size
        np.testing.assert_allclose(network.predict(data.x).ravel(), columns @ network.learned["w"], atol=1e-10)


# Problems


def test_with_enough_spokes_gridding_gives_the_image():
    """A smooth image, sampled finely: density compensation and the adjoint are its inverse, and its mean is right."""
    problem = MRI(H=32, spokes=80, samples=128)
    axis = phantoms.grid(32)
    image = np.exp(-8 * (axis[:, None] ** 2 + (axis - 0.2) ** 2))
    weights, adjoint = (layer.operator for layer in problem.layers({}))
    found = adjoint(weights(problem.transform()(image)))
    assert relative(found, image) < 5e-4
    assert found.mean() == pytest.approx(image.mean(), rel=1e-3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_layers_and_normal_matrix(name):
    problem = PROBLEMS[name]
    layers = cells.checked_layers(problem, {})
    R = Known(layers, False).R
    assert dot_test(R) < 1e-12
    np.testing.assert_allclose(problem.normal_matrix({}), R.matrix().T @ R.matrix(), atol=1e-10)


def drawn(problem, seed=1, sizes=SIZES):
    found = {}
    for part, x, y in problem.pairs(seed, sizes):
        found.setdefault(part, []).append((x, y))
    return {part: tuple(map(np.concatenate, zip(*chunks, strict=True))) for part, chunks in found.items()}


@pytest.mark.parametrize("name", PROBLEMS)
def test_pools(name):
    """Nested in their size, the same held-out pairs for all seeds, none of them in two parts."""
    problem = PROBLEMS[name]
    one, again, other = drawn(problem), drawn(problem), drawn(problem, seed=2)
    fewer = drawn(problem, sizes=Sizes(train=30, val=2, test=3))
    for part, count in (("train", 70), ("val", 5), ("test", 6)):
        for a, b, c, d, shape in zip(
            one[part], again[part], other[part], fewer[part], (problem.x_shape, problem.y_shape), strict=True
        ):
            assert a.shape == (count, *shape)
            assert a.dtype == np.float32
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a[: len(d)], d)
            assert np.array_equal(a, c) == (part != "train")
    images = np.concatenate([y for _, y in [*one.values(), other["train"]]])
    assert len(np.unique(images.reshape(len(images), -1), axis=0)) == len(images)


# Small sweeps

COMMON = {
    "pool": {"train": 64, "val": 16, "test": 16},
    "N": [4, 64],
    "seeds": [1],
    "archs": ["untrained", "ko", "fc"],
    "ko": {"toward": "analytic"},
    "lambdas": [1e-4, 1e-2, 1.0],
    "metric": "mse",
    "targets": [0.01],
}
SMALL = {
    "study": "small",
    "studies": {"small": ["mri", "complex", "deblur"]},
    "sweeps": {
        "mri": {**COMMON, "problem": "mri", "H": 12, "spokes": 6, "samples": 16, "noise": 0.02},
        "complex": {**COMMON, "problem": "mri", "H": 8, "spokes": 5, "samples": 16, "phase": 1.0, "theory": False},
        "deblur": {**COMMON, "problem": "deblur", "H": 12, "blur": 0.7, "noise": 0.01, "vignetting": 0.5},
    },
}


@pytest.mark.parametrize(("name", "weights"), [("mri", 6 * 16), ("complex", 5 * 16), ("deblur", 144)])
def test_networks_of_small_sweeps(name, weights, tmp_path):
    """KO learns from four samples what FC needs more for; weights that two measurements share have no fixed point."""
    (sweep,) = (sweep for sweep in read(SMALL) if sweep.name == name)
    inputs = {"pool": str(tmp_path / "pool.npy")}
    pools.make(sweep.problem, 1, sweep.pool, inputs["pool"])
    error = {}
    for arch in sweep.archs:
        for N in (4, 64) if arch.trained else (0,):
            data = cells.Data(Cell(name, sweep.problem, arch, N, 1, tuple(COMMON["lambdas"])), inputs)
            about, network = cells.fit(data)
            error[arch.name, N] = evaluation.errors(network, data)["mse"]
        assert about["p"] == {"untrained": 0, "ko": weights}.get(arch.name, sweep.problem.x_size * sweep.problem.y_size)
        if (name, arch.name) == ("mri", "ko"):
            assert arch.predicted == "fixed point"
            spec = {**data.cell.encode(), "at": [8], "tests": 16, "metric": "mse"}
            predictions.predict(spec, inputs, tmp_path / "theory.json")
            assert {row["method"] for row in read_json(tmp_path / "theory.json")[0]["rows"]} == {"subsets"}
    assert error["ko", 4] < error["fc", 4]
    assert error["ko", 64] < min(error["untrained", 0], error["ko", 4])
    assert error["fc", 64] < error["fc", 4]


# What goes wrong
