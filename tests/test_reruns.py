"""What a change makes the workflow run again, and what it does not."""

import copy
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import FREE, SMALL_FANBEAM, planned
from test_additions import METRIC

from koct.base.files import read_json, write_json
from koct.study import evaluation
from tests.faults.lab import cases

AGGREGATES = ["collect", "calibrate", "budget", "crossings", "planner", "crate", "fig_sweeps", "fig_heldout"]
AGGREGATES += ["fig_factors", *(f"table_{name}" for name in ("calibration", "scaling", "crossings", "budget"))]
AGGREGATES += ["table_theory", "table_calibration_wide", "answer"]
AGGREGATES = dict.fromkeys(AGGREGATES, 1)
CLAIMS = {"claims": 1, "table_norms": 1}  # in studies with sweeps of the paper
CONDITIONS = {"table_conditions": 1}  # in those with several kinds of rays
LADDER = {"chains": 1, "ladder": 1, "fig_ladder": 1, "table_ladder": 1}  # in those with three networks
PREDICTIONS = {"collect_theory": 1, "fig_theory": 1}
ALL = {**PREDICTIONS, **AGGREGATES, **CLAIMS}  # what follows from cells and predictions
SIZES = SEEDS = 3  # of the study
CELLS = SIZES * SEEDS  # of a network of one of its two sweeps


def copied(name):
    """A fixture: a copy of a finished study, to change."""
    return pytest.fixture(lambda request, tmp_path: request.getfixturevalue(name).copy(tmp_path / name))


run, fanbeam = copied("study"), copied("small_fanbeam")


def change_sweep(run, **options):
    config = yaml.safe_load(run.path("config.yaml").read_text())
    config["sweeps"]["H8"].update(options)
    run.configure(config)


def plan(run):
    """What a dry run would start, and the architectures that it would fit."""
    text = run.snakemake("--dry-run").stdout
    return planned(text), set(re.findall(r"fit (\S+) of \S+, N = ", text))


def test_nothing_runs_when_nothing_or_a_remark_changed(run, fanbeam):
    """A file with a new time, a remark in the config, or one in any module."""
    for one in (run, fanbeam):
        assert one.plan() == {}
        files = [*one.path("koct").rglob("*.py"), one.path("config.yaml")]
        assert len(files) > 60
        for path in files:
            path.write_text(f"# a remark\n{path.read_text()}\n\n# another one\n")
        assert one.plan() == {}


@pytest.mark.parametrize("cell", ["ko/N8_seed3", "untrained/N0_seed3"])
def test_a_deleted_cell_is_fitted_again_with_its_aggregates(run, cell):
    run.path(f"results/cells/H16/{cell}.json").unlink()
    assert run.plan() == {"fit": 1, **AGGREGATES, **CLAIMS}


@pytest.mark.long
def test_other_times_of_a_fit_reach_what_tells_times_and_redraw_nothing_else(run):
    """The row of a cell that was fitted again on a slower machine, with the same numbers."""
    path = run.path("results/cells/H16/ko/N8_seed3.json")
    row, stamp = read_json(path)
    write_json(path, {**row, "fit_seconds": row["fit_seconds"] + 100, "device": "abacus"}, stamp)
    again, archs = plan(run)
    assert again["collect"] == again["planner"] == again["claims"] == 1
    assert not archs
    assert not again.keys() & {"theory", "collect_theory", "pool"}
    run.snakemake("results/cells.parquet")
    assert run.table("cells")["fit_seconds"].max() > 100
    assert run.plan() == {"planner": 1, "claims": 1, "crate": 1}


OF_CONFIG = {
    "a new N": ({"N": [4, 8, 16, 32]}, {"fit": 2 * SEEDS, "theory": 2}),
    "a new seed": ({"seeds": [1, 2, 3, 4]}, {"pool": 1, "fit": 2 * SIZES + FREE}),
    "a new lambda grid": ({"lambdas": [1e-3, 1.0]}, {"fit": 2 * CELLS, "theory": 2}),
    "another known operator": ({"tikhonov": 0.2}, {"known": 1, "fit": CELLS + SEEDS * FREE, "theory": 1}),
    "another metric": ({"metric": "rrmse_norm2"}, {"theory": 2}),
}


@pytest.mark.parametrize("change", cases(OF_CONFIG, ["a new N", "a new seed", "another known operator"]))
def test_a_change_to_a_sweep_runs_what_it_concerns_alone(run, change):
    options, jobs = OF_CONFIG[change]
    change_sweep(run, **options)
    again, archs = plan(run)
    assert again == {**jobs, **ALL}
    if change == "another known operator":
        assert "ko" in archs
        assert "fc" not in archs


FC_CHANGE = ("koct/networks/fc.py", "values.clip(min=0)", "values.clip(min=1e-12)")
EVERYTHING = 2 * (2 * CELLS + SEEDS * FREE)
OF_CODE = {
    "plotting": (
        ("koct/report/drawing.py", "PREVIEW_WIDTH = 1400", "PREVIEW_WIDTH = 1300"),
        {"fig_sweeps": 1, "fig_theory": 1, "fig_heldout": 1, "fig_factors": 1, "answer": 1, "crate": 1},
    ),
    "one fit": (FC_CHANGE, {"fit": 2 * CELLS, "theory": 2, **ALL}),
    "what all fits use": (("koct/metrics/mse.py", "** 2", "** 2.0"), {"fit": EVERYTHING, "theory": 4, **ALL}),
}


@pytest.mark.parametrize("change", OF_CODE)
def test_a_change_to_code_runs_what_uses_it_alone(run, change):
    replaced, jobs = OF_CODE[change]
    run.replace(*replaced)
    again, archs = plan(run)
    assert again == jobs
    assert change != "one fit" or archs == {"fc"}


def test_a_change_to_one_large_fit_refits_the_cells_that_use_it(fanbeam):
    fanbeam.replace(*FC_CHANGE)
    again = {"fit": 9, "figure_recons": 2, "theory": 2}
    assert plan(fanbeam) == ({**again, **PREDICTIONS, **AGGREGATES, **CONDITIONS}, {"fc"})


def test_a_new_architecture_or_another_message_refits_nothing(run):
    run.write("koct/networks/new.py", run.path("koct/networks/ko.py").read_text())
    run.write("koct/errors.py", run.path("koct/errors.py").read_text() + "\n\nREMARK = 'another message'\n")
    change_sweep(run, lambdas=[1e-6, 1e-4, 1e-2, 1, 100])
    assert run.plan() == {"answer": 1, "crate": 1}  # the page shows the config as it is written
    change_sweep(run, archs=["ko", "fc", "new"])
    assert run.plan() == {"fit": CELLS, "theory": 1, **LADDER, **ALL}  # but it can be fitted


@pytest.mark.long
def test_a_new_metric_evaluates_fits_that_are_there(fanbeam):
    """Over a copy of the finished study: planned, and really run. A fit that was made again would tell another time."""
    run, before = fanbeam, fanbeam.table("cells")
    fits = {path: path.read_bytes() for path in run.path("results/fits").rglob("*.npy")}
    run.write("koct/metrics/mae.py", METRIC)
    again = {"fit": 20, "figure_recons": 2}  # no pool, no prediction
    assert run.plan() == {**again, **AGGREGATES, **CONDITIONS}
    run.snakemake("results/cells.parquet")
    assert {path: path.read_bytes() for path in fits} == fits
    cells, before = (table.drop(columns="image_seconds") for table in (run.table("cells"), before))
    pd.testing.assert_frame_equal(cells.drop(columns="mae"), before, rtol=0, atol=0)
    for arch in ("ko", "fc"):
        path = run.path(f"results/fits/F32/{arch}/N16_seed2.npy")
        _, network, data = evaluation.load(str(path), {"pool": str(run.path("results/pools/F32/seed2.npy"))})
        expected = np.abs(network().predict(data.pool.x("test")) - data.pool.y("test").astype(float)).mean()
        row = cells.query(f"sweep == 'F32' and arch == '{arch}' and N == 16 and seed == 2")
        assert row["mae"].item() == pytest.approx(expected, rel=1e-12)
    assert cells.query("N == 0")["mae"].between(0, 1, inclusive="neither").all()
    assert run.plan("results/cells.parquet") == {}
    some = "results/fits/F32/fc/N4_seed1.npy"
    run.snakemake("--force", some)  # who forces a job wants it to run
    assert run.path(some).read_bytes() != fits[run.path(some)]


@pytest.mark.long
def test_rows_from_elsewhere_are_used_if_they_fit_and_a_new_network_stands_beside_them(small_fanbeam, checkout):
    config = copy.deepcopy(SMALL_FANBEAM)
    config["sweeps"]["F32"]["archs"] = ["untrained", "ko", "fc", "filter"]
    run = checkout(config)
    shutil.copytree(small_fanbeam.path("results/cells"), run.path("results/brought"))
    run.write("results/brought/F32-exact/ko/N4_seed1.json", "{}")  # damaged
    jobs = run.plan()
    assert jobs["fit"] == 6 + 1  # the new network's, and one in place of the damaged row
    assert jobs["figure_recons"] == 2
    run.snakemake("results/cells.parquet")
    keys = ["sweep", "arch", "N", "seed"]
    of, before = (one.table("cells").set_index(keys)["mse"] for one in (run, small_fanbeam))
    assert len(of) == len(before) + 6
    assert (of[before.index] == before).all()
    assert run.plan("results/cells.parquet") == {}
    code = run.path("koct/networks/ko.py").read_text()
    run.write("koct/networks/ko.py", code + "\nOTHER = 1\n")
    assert run.plan("results/cells.parquet")["fit"] == 1  # its own: the numbers of others are said to be the same
    numbers = code.replace('    marker = "o"', "    numbers = 2")
    assert numbers != code
    run.write("koct/networks/ko.py", numbers)
    dry_run = run.snakemake("-n", "results/cells.parquet")
    assert re.search(r" there do not: [1-9]\d* of a koct with other numbers", dry_run.stdout + dry_run.stderr)
    run.write("koct/networks/ko.py", code)
    config["sweeps"]["F32"]["lambdas"] = [1e-4, 1.0]
    run.configure(config)
    assert run.plan("results/cells.parquet")["fit"] == 6 + 6  # rows of `fc` and `filter` were of other λ
