"""What needs no sample: cells at N = 0, which no fit of a curve sees, and how many samples beat them."""

import itertools
import math

import numpy as np
import pytest
import yaml
from conftest import ROOT, TINY

from koct.base.stamps import Stamp
from koct.config.study_file import build, read
from koct.errors import KoctError
from koct.forecast.pilot import PilotFile, read_pilots
from koct.metrics.curve_metric import CurveMetric
from koct.study import crossings, ladder, results
from koct.study.results import Images

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
N = (4, 16, 64, 256)
SEEDS = (1, 2, 3)
CURVES = {"ko": lambda n: 0.02 * n**-0.25, "fc": lambda n: 0.32 * n**-1.0}
FREE = {"fbp": 0.01, "tv": 1e-9}
SPEC = {"metrics": {"A": "mse"}}


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


def test_a_cell_has_the_N_of_its_architecture(checkout):
    run = checkout()
    sweep = {**TINY["sweeps"]["T4"], "seeds": [1], "theory": False}
    run.path("config.yaml").write_text(yaml.safe_dump({**TINY, "sweeps": {"T4": sweep}}))
    jobs = run.plan()
    assert (jobs["fit"], jobs["crossings"], jobs["table_crossings"]) == (1 + 2 * 2, 1, 1)
    assert run.plan("results/cells/T4/untrained/N0_seed1.json") == {"pool": 1, "known": 1, "fit": 1}


# Files


def cell(arch, n, seed, error, p=1):
    """A row of cells.parquet with its images, which all have the same error here."""
    about = {"sweep": "A", "problem": "surrogate", "H": 8, "V": 10, "B": 8, "lam": None, "val_mse": 1.0}
    about |= {"fit_seconds": 1.0, "device": "cpu", "arch": arch, "N": n, "seed": seed, "p": p}
    errors = dict.fromkeys(results.METRICS, error)
    images = {"same": True, "groups": None, **{name: [value] * 5 for name, value in errors.items()}}
    return {**about, **errors, "images": images}


def made(folder, free=FREE, curves=CURVES, spread=0.0):
    """cells.parquet of the sweep A; errors of the seeds lie a factor of `spread` apart."""
    points = [(arch, 0, 0, error) for arch, error in free.items()]
    points += [(arch, n, 80 if arch == "ko" else 5120, curve(n)) for arch, curve in curves.items() for n in N]
    rows = [
        cell(arch, n, seed, error * math.exp(spread * (seed - 2)), p) for arch, n, p, error in points for seed in SEEDS
    ]
    path = folder / "cells.parquet"
    results.write(rows, results.CELLS, path, {}, Stamp({}))
    results.write_images(rows, folder / "images.parquet", {}, Stamp({}))
    return path


@pytest.fixture
def both(tmp_path):
    """The same cells with and without what needs no sample."""
    folders = [tmp_path / name for name in ("with", "without")]
    for folder in folders:
        folder.mkdir()
    return made(folders[0]), made(folders[1], {})


def test_calibration_budget_and_ladder_do_not_see_them(both):
    made = []
    for path in both:
        files = {name: path.with_name(f"{name}.parquet") for name in ("curves", "calibration", "budget", "ladder")}
        results.aggregate(path, SPEC, files["curves"], files["calibration"])
        results.budget(path, None, {**SPEC, "targets": {"A": [5e-3]}}, files["budget"])
        images = path.with_name("images.parquet")
        ladder.compute(
            path, images, [], {**SPEC, "contained": {"A": []}}, files["ladder"], path.with_name("ladder.json")
        )
        made.append({name: results.read(file)[0] for name, file in files.items()})
    first, second = made
    assert [row["N"] for row in first["curves"]][:2] == [0, 0]
    assert results.trained(first.pop("curves")) == second.pop("curves")
    assert first == second


def test_the_planner_does_not_see_them(both, tmp_path, capsys):
    first, second = (read_pilots(path, "mse", "A") for path in both)
    assert list(first) == list(second) == ["fc", "ko"]
    for arch in first:
        np.testing.assert_array_equal(first[arch].errors, second[arch].errors)
    costs = [PilotFile(path).costs("A")[1] for path in both]
    for arch, runs in costs[0].items():
        np.testing.assert_array_equal(runs, costs[1][arch])


# Crossings


def found(path):
    crossings.compute(path, path.with_name("images.parquet"), SPEC, path.with_name("crossings.parquet"))
    rows, _ = results.read(path.with_name("crossings.parquet"))
    return {(row["arch"], row["versus"]): row for row in rows}


def test_crossings_are_where_the_curves_meet(tmp_path):
    """Powers of N are lines in the logarithms: 0.02 N^-1/4 = 0.01 at 16, 0.32/N = 0.01 at 32, and each other at 40."""
    rows = found(made(tmp_path, spread=0.1))
    assert list(rows) == [("ko", "fbp"), ("ko", "tv"), ("fc", "fbp"), ("fc", "tv"), ("fc", "ko")]
    assert [row["N"] for row in rows.values()] == [16, None, 32, None, 40]
    assert {row["upto"] for row in rows.values()} == {256}
    assert (rows["fc", "ko"]["N_low"], rows["fc", "ko"]["N_high"]) == (40, 40)  # seeds move both curves alike
    assert found(made(tmp_path, {"untrained": 1.0}))["ko", "untrained"]["N"] == 4  # always better: the smallest N


def crossed(folder, curves, free, metric="mse"):
    """The crossing of a curve, {N: errors of the seeds}, with a constant that was tested once."""
    rows = [cell("fc", n, seed, error) for n, errors in curves.items() for seed, error in enumerate(errors)]
    baseline = [cell("fbp", 0, 0, free)]
    results.write_images(rows + baseline, folder / "images.parquet", {}, Stamp({}))
    return crossings.crossing(rows, baseline, CurveMetric(metric), Images(folder / "images.parquet"))


def test_the_interval_is_that_of_the_seeds(tmp_path):
    """The seeds cross at 8, 16 and 32, and their mean at 56/3; three seeds leave much open."""
    curves = {n: [at / n for at in (8, 16, 32)] for n in N}
    answer = crossed(tmp_path, curves, 1.0)
    assert (answer["N"], answer["upto"]) == (round(56 / 3), 256)
    assert answer["N_low"] < 16 < 32 < answer["N_high"]
    assert crossed(tmp_path, curves, 1 / 32)["N_high"] is None  # some draws do not come down by 256
    alone = crossed(tmp_path, {n: errors[:1] for n, errors in curves.items()}, 1.0)
    assert alone == {"N": 8, "N_low": None, "N_high": None, "upto": 256}


# Tables
