"""What needs no sample: reconstructions with p = 0 at N = 0, through the files of a cell."""

import json

import numpy as np
import pytest

from koct import cli, metrics
from koct.base.files import read_json
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.problems import pools
from koct.study import cells, evaluation

SIZES = Sizes(train=1, val=3, test=3)
PROBLEMS = {
    "surrogate": {"H": 8, "V": 10, "B": 8, "tikhonov": 0.1},
    "fanbeam": {"H": 12, "V": 10, "B": 16, "rays": "exact"},
    "parallelbeam": {"H": 12, "V": 10, "B": 16, "photons": 1e4, "truncation": 0.25},
    "mri": {"H": 8, "spokes": 5, "samples": 8, "noise": 0.01},
    "complex": {"H": 8, "spokes": 5, "samples": 8, "noise": 0.01, "phase": 1.0},
    "deblur": {"H": 16, "blur": 0.8, "noise": 0.01, "vignetting": 0.3},
}


def problem_of(name, **options):
    return registry.problem("mri" if name == "complex" else name)(**{**PROBLEMS[name], **options})


def cell_of(problem, arch, **options):
    return Cell("S", problem_of(problem), registry.architecture(arch)(**options), 0, 1, ())


def files_of(problem, folder):
    """The pool of a problem, and what it computes once per sweep."""
    inputs = {"pool": str(folder / "pool.npy")}
    pools.make(problem, 1, SIZES, inputs["pool"])
    if problem.has_shared:
        inputs["shared"] = str(folder / "shared.npy")
        cells.write_shared(problem, inputs["shared"])
    return inputs


@pytest.mark.parametrize("arch", ["untrained", "fbp", "nnls", "tv"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_cell_without_samples_is_fitted_restored_and_the_same_twice(problem, arch, tmp_path, monkeypatch):
    monkeypatch.setattr(cells.Data, "x", None)  # no training pair is read
    cell = cell_of(problem, arch)
    inputs = files_of(cell.problem, tmp_path)
    spec = {**cell.encode(), "inputs": list(inputs)}
    rows = []
    for name in ("one", "two"):
        row, fit = (str(tmp_path / f"{name}.{end}") for end in ("json", "npy"))
        arguments = ["--spec", json.dumps(spec), "--inputs", *inputs.values(), "--outputs", row, fit]
        assert cli.main(["fit", *arguments]) == 0
        rows.append({**read_json(row)[0], "fit_seconds": None, "image_seconds": None})
    assert rows[0] == rows[1]
    assert (rows[0]["N"], rows[0]["p"]) == (0, 0)
    assert rows[0]["mse"] > 0
    _, network, data = evaluation.load(fit, inputs)
    again = {**evaluation.errors(network(), data), "image_seconds": None}
    assert {name: rows[0][name] for name in again} == again


CLEAN = {"parallelbeam": {"photons": None}, "mri": {"noise": 0.0}, "complex": {"noise": 0.0}}
CLEAN["deblur"] = {"noise": 0.0, "vignetting": 0.0}


@pytest.mark.parametrize("name", PROBLEMS)
def test_measurements_without_noise_are_what_the_forward_operator_says_and_held_out_pairs_are_kept(name):
    problem = problem_of(name, **CLEAN.get(name, {}))
    A = problem.forward(problem.shared())
    for _, x, stored in problem.pairs(1, SIZES):
        y = problem.decode(stored)
        np.testing.assert_allclose(A(y), x, atol=1e-5 * abs(x).max())
        assert problem.nonnegative_images is not (name == "complex") or problem.nonnegative
        if problem.nonnegative_images:
            assert y.min() >= 0
    problem = problem_of(name)
    one, other = ([x for part, x, _ in problem.pairs(seed, SIZES) if part != "train"] for seed in (1, 2))
    assert all(np.array_equal(*both) for both in zip(one, other, strict=True)) == problem.same_held_out


@pytest.mark.parametrize(
    ("arch", "what"), [("untrained", "layers"), ("fbp", "layers"), ("nnls", "forward"), ("tv", "forward")]
)
def test_pairs_of_which_nothing_is_known_are_refused(arch, what, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "pairs.npz", x=rng.random((9, 4)), y=rng.random((9, 3, 3)))
    problem = registry.problem("pairs")(data=str(tmp_path / "pairs.npz"))
    (text,) = registry.architecture(arch)().check(problem)
    assert what in text
    assert f"remove {arch} from archs" in text


@pytest.mark.parametrize("arch", ["fbp", "nnls", "tv"])
def test_the_validation_pairs_choose(arch, tmp_path):
    """Of noisy measurements the best strength is not the weakest, and it is what the row says."""
    cell = cell_of("deblur", arch)._replace(problem=problem_of("deblur", noise=0.1))
    data = cells.Data(cell, files_of(cell.problem, tmp_path))
    about, network = cells.fit(data)
    strengths = cell.arch.strengths(data, cell.arch.solver(data))
    assert about["lam"] == network.strength
    weakest = max(strengths) if arch == "nnls" else min(strengths)
    assert about["lam"] != weakest
    y, error = data.read("y", "val"), metrics.load("mse").error
    scores = [error(data.predict(other, "val"), y) for _, other in cell.arch.fit(data)]
    assert strengths[int(np.argmin(scores))] == about["lam"]
