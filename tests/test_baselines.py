"""What needs no sample: cells at N = 0, through their files; no fit of a curve sees them, and samples may beat them."""

import itertools
import json
import math

import numpy as np
import pytest
import yaml
from conftest import ROOT, TINY
from small_problems import drawn, small

from koct import cli, metrics
from koct.base.arrays import to_numpy
from koct.base.files import read_json
from koct.base.stamps import Stamp
from koct.config.study_file import build, read
from koct.contracts import Problem, Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.forecast.pilot import PilotFile
from koct.metrics.curve_metric import CurveMetric
from koct.networks import baselines, fbp
from koct.operators.algebra import Matrix
from koct.problems import pools
from koct.report.pages import answer_page
from koct.study import aggregation, cells, crossings, evaluation, fitting, ladder, results
from koct.study.results import Images

pytestmark = pytest.mark.thorough
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
N = (4, 16, 64, 256)
SEEDS = (1, 2, 3)
CURVES = {"ko": lambda n: 0.02 * n**-0.25, "fc": lambda n: 0.32 * n**-1.0}
FREE = {"fbp": 0.01, "tv": 1e-9}
SPEC = {"metrics": {"A": "mse"}}
SIZES = Sizes(train=1, val=3, test=3)
# problems, and what leaves them without noise
CLEAN = {"surrogate": {}, "fanbeam": {}, "parallelbeam": {"photons": None, "electronic": 0.0}, "mri": {"noise": 0.0}}
CLEAN |= {"mri with a phase": {"noise": 0.0}, "deblur": {"noise": 0.0, "vignetting": 0.0}}


def cell_of(problem, arch, **options):
    return Cell("S", small(problem), registry.architecture(arch)(**options), 0, 1, ())


def files_of(problem, folder, sizes=SIZES):
    """The pool of a problem, and what it computes once per sweep."""
    inputs = {"pool": str(folder / "pool.npy")}
    pools.make(problem, 1, sizes, inputs["pool"])
    if problem.has_shared:
        inputs["shared"] = str(folder / "shared.npy")
        cells.write_shared(problem, inputs["shared"])
    return inputs


@pytest.mark.parametrize("arch", ["untrained", "fbp", "nnls", "tv"])
@pytest.mark.parametrize("problem", CLEAN)
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


@pytest.mark.parametrize("name", CLEAN)
def test_measurements_without_noise_are_what_the_forward_operator_says(name):
    problem = small(name, **CLEAN[name])
    A = problem.forward(problem.shared())
    for x, y in drawn(problem, train=1).values():
        np.testing.assert_allclose(A(y), x, atol=1e-5 * abs(x).max())
        assert problem.nonnegative_images is not (name == "mri with a phase") or problem.nonnegative
        assert y.min() >= 0 or not problem.nonnegative_images


@pytest.mark.parametrize("arch", ["fbp", "nnls", "tv"])
def test_the_validation_pairs_choose(arch, tmp_path):
    """With labels: of noisy measurements the best strength is not the weakest, and it is what the row says."""
    cell = cell_of("deblur", arch, validation="labels")._replace(problem=small("deblur", noise=0.1))
    data = cells.Data(cell, files_of(cell.problem, tmp_path))
    about, network = fitting.fit(data)
    strengths = cell.arch.strengths(data, cell.arch.solver(data))
    assert about["lam"] == network.strength
    weakest = max(strengths) if arch == "nnls" else min(strengths)
    assert about["lam"] != weakest
    y, error = data.read("y", "val"), metrics.load("mse").error
    scores = [error(data.predict(other, "val"), y) for _, other in cell.arch.fit(data)]
    assert strengths[int(np.argmin(scores))] == about["lam"]


# Without labels


NOISY = {
    "fanbeam": {"photons": 300.0, "electronic": 3.0},
    "parallelbeam": {"photons": 1e3},
    "misaligned": {"photons": 1e4},
    "ellipses50": {"noise": 0.05},
    "mri": {"noise": 0.05},
    "deblur": {"noise": 0.05},
}
QUIET = {"photons": None, "electronic": 0.0, "noise": 0.0}


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", NOISY)
def test_the_noise_has_the_variance_that_its_problem_says(name, library):
    clean = small(name, **{key: value for key, value in QUIET.items() if hasattr(small(name), key)})
    x, without = (drawn(problem, train=200)["train"][0] for problem in (small(name, **NOISY[name]), clean))
    flat = x.reshape(len(x), -1)
    given = flat if library == "numpy" else pytest.importorskip("torch").as_tensor(flat)
    variance = np.broadcast_to(np.asarray(small(name, **NOISY[name]).noise_variance(given)), flat.shape)
    noise = (x - without).reshape(flat.shape)
    assert (noise[variance == 0] == 0).all()
    assert (noise**2).mean() == pytest.approx(variance.mean(), rel=0.05)
    assert not np.any(np.asarray(clean.noise_variance(given)))


class Unlabelled(cells.Data):
    def read(self, name, part, *place):
        assert (name, part) == ("x", "val")
        return super().read(name, part, *place)


def chosen(problem, arch, folder, **options):
    """What a baseline chooses without labels, which it cannot read, and its data."""
    folder.mkdir(exist_ok=True)
    cell = cell_of("deblur", arch, **options)._replace(problem=problem)
    data = Unlabelled(cell, files_of(problem, folder, Sizes(train=1, val=32, test=32)))
    ((strength, network),) = cell.arch.fit(data)
    assert network.tuned_on == "noise"
    assert network.strength == strength
    return network, data


def error_of(data, solver, strength):
    """The mean squared error on test pairs."""
    images = to_numpy(solver(data.device.put(data.pool.x("test", None, 0)), strength))
    return ((images - data.pool.y("test", None, 0)) ** 2).mean()


@pytest.mark.parametrize(("arch", "sign"), [("fbp", 1), ("nnls", -1), pytest.param("tv", 1, marks=pytest.mark.long)])
def test_without_labels_more_noise_is_smoothed_more(arch, sign, tmp_path):
    found = [chosen(small("deblur", noise=noise), arch, tmp_path / str(noise))[0] for noise in (0.003, 0.03, 0.3)]
    weak, middle, strong = (sign * network.strength for network in found)
    assert weak < middle < strong
    stated, _ = chosen(small("deblur", noise=0.03), arch, tmp_path / "stated", noise=0.3)
    assert middle < sign * stated.strength


@pytest.mark.parametrize(("arch", "worse"), [("nnls", 1.2), pytest.param("tv", 1.1, marks=pytest.mark.long)])
@pytest.mark.parametrize("photons", [1e4, 1e3])
def test_the_choice_without_labels_is_near_the_best(arch, worse, photons, tmp_path):
    problem = small("fanbeam", H=16, V=20, B=24, photons=photons)
    network, data = chosen(problem, arch, tmp_path)
    factors = np.geomspace(0.1, 10, 9) if arch == "tv" else np.geomspace(0.25, 4, 9)
    best = min(error_of(data, network.solver, max(1, network.strength * factor)) for factor in factors)
    assert error_of(data, network.solver, network.strength) < worse * best
    assert not network.edge


@pytest.mark.parametrize("arch", ["nnls", "tv"])
def test_without_noise_images_are_nearly_exact_where_the_operator_is(arch, tmp_path):
    problem = small("fanbeam", H=16, V=20, B=24)
    network, data = chosen(problem, arch, tmp_path)
    assert not network.edge
    assert error_of(data, network.solver, network.strength) < 1e-3 * (data.pool.y("test", None, 0) ** 2).mean()
    capped, _ = chosen(problem, "nnls", tmp_path, most_iterations=3)
    assert (capped.strength, capped.edge) == (3, True)


def test_without_noise_fbp_has_no_window(tmp_path):
    for name in ("fanbeam", "surrogate", "mri"):
        network, _ = chosen(small(name, **CLEAN[name]), "fbp", tmp_path / name)
        assert (network.strength, network.edge) == (None, False)


def test_the_estimated_risk_of_a_window_is_its_error():
    """In the mean over noise, and but for the error that the inverse without a window has by itself."""
    rng = np.random.default_rng(0)
    inverses = {s: Matrix(np.linalg.inv(np.eye(8) + s * np.ones((8, 8))), (8,), (8,)) for s in (0.0, 0.1, 1.0)}
    clean = rng.standard_normal((1, 8)) + 1
    noise = np.geomspace(0.1, 1, 8) * rng.standard_normal((20000, 8))
    variance = np.broadcast_to(np.geomspace(0.1, 1, 8) ** 2, noise.shape)
    for strength, risk in fbp.risks(inverses, baselines.Scans(clean + noise, variance)).items():
        error = ((inverses[strength].flat(clean + noise) - clean) ** 2).sum()
        assert risk == pytest.approx(error, rel=0.03)


class Silent(registry.problem("deblur")):
    """It does not say how noisy it is."""

    noise_variance = Problem.noise_variance


@pytest.mark.parametrize(
    ("arch", "options", "message"),
    [
        ("tv", {"lambdas": (0.1,)}, "lambdas are tried on labelled validation pairs"),
        ("nnls", {"iterations": (5,)}, "iterations are tried on labelled validation pairs"),
        ("fbp", {"noise": 0.1, "validation": "labels"}, "noise = 0.1 chooses nothing"),
    ],
)
def test_what_chooses_has_to_be_said_once(arch, options, message):
    (sentence,) = registry.architecture(arch)(**options).check(small("deblur"))
    assert sentence.startswith(message)
    assert not list(registry.architecture(arch)().check(small("deblur")))


@pytest.mark.parametrize("arch", ["fbp", "nnls", "tv"])
def test_noise_that_nobody_knows_has_to_be_stated(arch):
    problem = Silent(H=16, blur=0.8)
    (sentence,) = registry.architecture(arch)().check(problem)
    assert sentence.startswith("noise is missing")
    for options in ({"noise": 0.1}, {"validation": "labels"}):
        assert not list(registry.architecture(arch)(**options).check(problem))


# The grid


@pytest.mark.parametrize("name", ["H8", "H128", "mri"])
def test_a_cell_for_every_seed_unless_all_see_the_same(name):
    sweep = build(name, {**CONFIG["sweeps"][name], "archs": ["untrained", "ko", "fc"]})
    cells = [tuple(cell.values())[1:] for cell in sweep.grid()]
    free = [("untrained", 0, seed) for seed in (sweep.seeds if name == "H8" else sweep.seeds[:1])]
    assert cells == free + list(itertools.product(("ko", "fc"), sweep.N, sweep.seeds))
    assert {arch.name for arch in sweep.predicted} <= {"ko", "fc"}
    assert [arch.name for arch in sweep.networks] == ["ko", "fc"]
    with pytest.raises(KoctError, match=r"^config: sweeps.T4.archs has nothing that is trained on samples; add"):
        read({**TINY, "sweeps": {"T4": {**TINY["sweeps"]["T4"], "archs": ["untrained"]}}})


# Files


def cell(arch, n, seed, error, p=1):
    """A row of cells.parquet with its images, which all have the same error here."""
    about = {"sweep": "A", "problem": "surrogate", "H": 8, "V": 10, "B": 8, "lam": None, "val_mse": 1.0}
    about |= {"fit_seconds": 1.0, "device": "cpu", "arch": arch, "N": n, "seed": seed, "p": p}
    errors = dict.fromkeys(results.METRICS, error)
    images = {"same": True, "groups": None, **{name: [value] * 5 for name, value in errors.items()}}
    return {**about, **errors, "images": images}


def made(folder, free=FREE, spread=0.0):
    """cells.parquet of the sweep A; errors of the seeds lie a factor of `spread` apart."""
    points = [(arch, 0, 0, error) for arch, error in free.items()]
    points += [(arch, n, 80 if arch == "ko" else 5120, curve(n)) for arch, curve in CURVES.items() for n in N]
    factor = {seed: math.exp(spread * (seed - 2)) for seed in SEEDS}
    rows = [cell(arch, n, seed, error * factor[seed], p) for arch, n, p, error in points for seed in SEEDS]
    folder.mkdir(exist_ok=True)
    results.write(rows, results.CELLS, folder / "cells.parquet", {}, Stamp({}))
    results.write_images(rows, folder / "images.parquet", {}, Stamp({}))
    return folder / "cells.parquet"


def test_calibration_budget_ladder_and_planner_do_not_see_them(tmp_path):
    found = []
    for path in (made(tmp_path / "with"), made(tmp_path / "without", {})):
        images, *files = (
            path.with_name(f"{name}.parquet") for name in ("images", "curves", "calib", "budget", "ladder")
        )
        aggregation.aggregate(path, SPEC, *files[:2])
        aggregation.budget(path, None, {**SPEC, "targets": {"A": [5e-3]}}, files[2])
        ladder.compute(path, images, [], {**SPEC, "contained": {"A": []}}, files[3], path.with_name("ladder.json"))
        curves, *others = (results.read(file)[0] for file in files)
        pilots, costs = PilotFile(path).pilots("mse", "A"), PilotFile(path).costs("A")[1]
        planned = {arch: [pilots[arch].errors.tolist(), costs[arch].tolist()] for arch in pilots}
        assert list(planned) == ["fc", "ko"]
        assert [row["N"] for row in curves][:2] == ([0, 0] if path.parent.name == "with" else [4, 16])
        found.append([results.trained(curves), others, planned])
    assert found[0] == found[1]


def test_an_answer_says_what_to_ask_where_nothing_was(tmp_path):
    path = made(tmp_path, {})
    curves, calibration, budget, crossed = (
        tmp_path / f"{name}.parquet" for name in ("curves", "calib", "budget", "crossings")
    )
    aggregation.aggregate(path, SPEC, curves, calibration)
    aggregation.budget(path, None, {**SPEC, "targets": {"A": []}}, budget)
    crossings.compute(path, tmp_path / "images.parquet", SPEC, crossed)
    assert answer_page.answer(curves, budget, crossed) == (answer_page.UNASKED, [])


# Crossings


def found(path):
    crossings.compute(path, path.with_name("images.parquet"), SPEC, path.with_name("crossings.parquet"))
    rows, _ = results.read(path.with_name("crossings.parquet"))
    return {(row["arch"], row["versus"]): row for row in rows if row["metric"] == "mse"}


def test_crossings_are_where_the_curves_meet(tmp_path):
    """Powers of N are lines in the logarithms: 0.02 N^-1/4 = 0.01 at 16, 0.32/N = 0.01 at 32, each other at 40.3."""
    rows = found(made(tmp_path, spread=0.1))
    assert list(rows) == [("ko", "fbp"), ("ko", "tv"), ("fc", "fbp"), ("fc", "tv"), ("fc", "ko")]
    assert [row["N"] for row in rows.values()] == [16, None, 32, None, 41]
    assert {row["upto"] for row in rows.values()} == {256}
    assert (rows["fc", "ko"]["N_low"], rows["fc", "ko"]["N_high"]) == (41, 41)  # seeds move both curves alike
    assert found(made(tmp_path, {"untrained": 1.0}))["ko", "untrained"]["N"] == 4  # always better: the smallest N


def test_the_interval_is_that_of_the_seeds(tmp_path):
    """The seeds cross at 8, 16 and 32, and their mean at 56/3; three seeds leave much open."""

    def crossed(free, at=(8, 16, 32)):
        """The crossing of at / N with a constant that was tested once."""
        rows, baseline = (
            [cell("fc", n, seed, at[seed] / n) for n in N for seed in range(len(at))],
            [cell("fbp", 0, 0, free)],
        )
        results.write_images(rows + baseline, tmp_path / "images.parquet", {}, Stamp({}))
        return crossings.crossing(rows, baseline, CurveMetric("mse"), Images(tmp_path / "images.parquet"))

    answer = crossed(1.0)
    assert answer["N"] == pytest.approx(56 / 3)
    assert answer["upto"] == 256
    assert answer["N_low"] < 16 < 32 < answer["N_high"]
    assert crossed(1 / 32)["N_high"] is None  # some draws do not come down by 256
    assert crossed(1.0, at=(8,)) == {"N": 8, "N_low": None, "N_high": None, "upto": 256}
