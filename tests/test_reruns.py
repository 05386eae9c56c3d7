"""What a change makes the workflow run again, and what it does not."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT, planned

from koct.study import evaluation

AGGREGATES = ["collect", "calibrate", "budget", "crossings", "planner", "crate", "fig_sweeps", "fig_heldout"]
AGGREGATES += ["fig_factors", *(f"table_{name}" for name in ("calibration", "scaling", "crossings", "budget"))]
AGGREGATES += ["table_theory", "table_calibration_wide"]
AGGREGATES = dict.fromkeys(AGGREGATES, 1)
CLAIMS = {"claims": 1, "table_norms": 1}  # in studies with sweeps of the paper
CONDITIONS = {"table_conditions": 1}  # in those with several kinds of rays
LADDER = {"chains": 1, "ladder": 1, "fig_ladder": 1, "table_ladder": 1}  # in those with three networks
PREDICTIONS = {"collect_theory": 1, "fig_theory": 1}
ALL = {**PREDICTIONS, **AGGREGATES, **CLAIMS}  # what follows from cells and predictions
SIZES = SEEDS = 3  # of the study
CELLS = SIZES * SEEDS  # of a network of one of its two sweeps
FREE = len(yaml.safe_load((ROOT / "config.yaml").read_text())["sweeps"]["H8"]["archs"]) - 2  # what needs no sample


class Edits:
    """Changes of a checkout's files that can be taken back."""

    def __init__(self, checkout):
        self.checkout, self.before = checkout, {}

    def __call__(self, name, change):
        path = self.checkout.path(name)
        self.before.setdefault(path, path.read_text() if path.exists() else None)
        path.write_text(change(self.before[path]))

    def replace(self, name, old, new):
        assert old in self.checkout.path(name).read_text(), f"{name} has no {old!r}"
        self(name, lambda text: text.replace(old, new))

    def config(self, **options):
        """Other options of the sweep H8."""
        config = yaml.safe_load(self.checkout.path("config.yaml").read_text())
        config["sweeps"]["H8"].update(options)
        self("config.yaml", lambda _: yaml.safe_dump(config))

    def undo(self):
        for path, text in self.before.items():
            path.unlink() if text is None else path.write_text(text)


@pytest.fixture
def edited(study):
    """Change files of the study's checkout for one test."""
    edits = Edits(study)
    yield edits
    edits.undo()


@pytest.fixture
def edited_fanbeam(small_fanbeam):
    """The same for the fan-beam study."""
    edits = Edits(small_fanbeam)
    yield edits
    edits.undo()


def plan(checkout):
    """What a dry run would start, and the architectures that it would fit."""
    text = checkout.snakemake("--dry-run").stdout
    return planned(text), set(re.findall(r"fit (\S+) of \S+, N = ", text))


def test_nothing_runs_when_nothing_or_a_remark_changed(study, small_fanbeam, edited, edited_fanbeam):
    """A file with a new time, a remark in the config, or one in any module."""
    assert study.plan() == {}
    assert small_fanbeam.plan() == {}
    names = [str(path.relative_to(study.folder)) for path in study.path("koct").rglob("*.py")]
    assert len(names) > 60
    for edit in (edited, edited_fanbeam):
        edit("config.yaml", lambda text: text + "\n# a remark\n")
        for name in names:
            edit(name, lambda text: f"# a remark\n{text}\n\n# another one\n")
    assert study.plan() == {}
    assert small_fanbeam.plan() == {}


@pytest.mark.parametrize("cell", ["ko/N8_seed3", "untrained/N0_seed3"])
def test_a_deleted_cell_is_fitted_again_with_its_aggregates(study, cell):
    row = study.path(f"results/cells/H16/{cell}.json")
    aside = row.rename(study.path("row.json"))
    try:
        assert study.plan() == {"fit": 1, **AGGREGATES, **CLAIMS}
    finally:
        aside.rename(row)  # with its old time


OF_CONFIG = {
    "a new N": ({"N": [4, 8, 16, 32]}, {"fit": 2 * SEEDS, "theory": 2}),
    "a new seed": ({"seeds": [1, 2, 3, 4]}, {"pool": 1, "fit": 2 * SIZES + FREE}),
    "a new lambda grid": ({"lambdas": [1e-3, 1.0]}, {"fit": 2 * CELLS, "theory": 2}),
    "another known operator": ({"tikhonov": 0.2}, {"known": 1, "fit": CELLS + SEEDS * FREE, "theory": 1}),
    "another metric": ({"metric": "rrmse_norm2"}, {"theory": 2}),
}


@pytest.mark.parametrize("change", OF_CONFIG)
def test_a_change_to_a_sweep_runs_what_it_concerns_alone(study, edited, change):
    options, jobs = OF_CONFIG[change]
    edited.config(**options)
    again, archs = plan(study)
    assert again == {**jobs, **ALL}
    if change == "another known operator":
        assert "ko" in archs
        assert "fc" not in archs


FC_CHANGE = ("koct/networks/fc.py", "values.clip(min=0)", "values.clip(min=1e-12)")
EVERYTHING = 2 * (2 * CELLS + SEEDS * FREE)
OF_CODE = {
    "plotting": (
        ("koct/report/drawing.py", "PREVIEW_WIDTH = 1400", "PREVIEW_WIDTH = 1300"),
        {"fig_sweeps": 1, "fig_theory": 1, "fig_heldout": 1, "fig_factors": 1, "crate": 1},
    ),
    "one fit": (FC_CHANGE, {"fit": 2 * CELLS, "theory": 2, **ALL}),
    "what all fits use": (("koct/metrics/mse.py", "** 2", "** 2.0"), {"fit": EVERYTHING, "theory": 4, **ALL}),
}


@pytest.mark.parametrize("change", OF_CODE)
def test_a_change_to_code_runs_what_uses_it_alone(study, edited, change):
    replaced, jobs = OF_CODE[change]
    edited.replace(*replaced)
    again, archs = plan(study)
    assert again == jobs
    assert change != "one fit" or archs == {"fc"}


def test_a_change_to_one_large_fit_refits_and_evaluates_the_cells_that_use_it(small_fanbeam, edited_fanbeam):
    edited_fanbeam.replace(*FC_CHANGE)
    again = {"fit_large": 9, "evaluate": 9, "figure_recons": 2, "theory_large": 2}
    assert plan(small_fanbeam) == ({**again, **PREDICTIONS, **AGGREGATES, **CONDITIONS}, {"fc"})


def test_a_new_architecture_or_another_message_refits_nothing(study, edited):
    ko = study.path("koct/networks/ko.py").read_text()
    edited("koct/networks/new.py", lambda _: ko)
    edited("koct/errors.py", lambda text: text + "\n\nREMARK = 'another message'\n")
    edited.config(lambdas=[1e-6, 1e-4, 1e-2, 1, 100])
    assert study.plan() == {}
    edited.config(archs=["ko", "fc", "new"])
    assert study.plan() == {"fit": CELLS, "theory": 1, **LADDER, **ALL}  # but it can be fitted


# A new metric

MAE = '''"""Mean absolute error over all pixels of all images."""

import numpy as np

SYMBOL = "MAE"
UNIT = "intensity"
DESCRIPTION = "mean absolute error over all pixels"


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.abs(predicted - y.astype(float))))
'''


def test_a_new_metric_evaluates_large_fits_and_fits_nothing(small_fanbeam, tmp_path):
    """Over a copy of the finished study: planned, and really run."""
    run = small_fanbeam.copy(tmp_path / "study")
    before = pd.read_parquet(run.path("results/cells.parquet"))
    fits = {path: path.stat().st_mtime_ns for path in run.path("results/fits").rglob("*.npy")}
    run.path("koct/metrics/mae.py").write_text(MAE)
    again = {"evaluate": 20, "theory_large": 2}  # no fit_large, no pool_large
    assert run.plan() == {**again, **PREDICTIONS, **AGGREGATES, **CONDITIONS}
    run.snakemake("results/cells.parquet")
    assert {path: path.stat().st_mtime_ns for path in run.path("results/fits").rglob("*.npy")} == fits
    cells = pd.read_parquet(run.path("results/cells.parquet"))
    cells, before = (table.drop(columns="image_seconds") for table in (cells, before))
    pd.testing.assert_frame_equal(cells.drop(columns="mae"), before, rtol=0, atol=0)
    for arch in ("ko", "fc"):
        path = run.path(f"results/fits/F32/{arch}/N16_seed2.npy")
        _, network, data = evaluation.load(str(path), {"pool": str(run.path("results/pools/F32/seed2.npy"))})
        expected = np.abs(network().predict(data.read("x", "test")) - data.read("y", "test").astype(float)).mean()
        row = cells.query(f"sweep == 'F32' and arch == '{arch}' and N == 16 and seed == 2")
        assert row["mae"].item() == pytest.approx(expected, rel=1e-12)
    assert cells.query("N == 0")["mae"].between(0, 1, inclusive="neither").all()
    assert run.plan("results/cells.parquet") == {}


# Rows from elsewhere


def test_rows_from_elsewhere_are_used_if_they_fit_and_a_new_network_stands_beside_them(small_fanbeam, checkout):
    run = checkout()
    run.path("results").mkdir()
    shutil.copytree(small_fanbeam.path("results/cells"), run.path("results/brought"))
    config = yaml.safe_load(small_fanbeam.path("config.yaml").read_text())
    config["sweeps"]["F32"]["archs"] = ["untrained", "ko", "fc", "filter"]
    run.path("config.yaml").write_text(yaml.safe_dump(config))
    run.path("results/brought/F32-exact/ko/N4_seed1.json").write_text("{}")  # damaged
    jobs = run.plan()
    assert jobs["fit_large"] == 6 + 1  # the new network's, and one in place of the damaged row
    assert jobs["figure_recons"] == 2
    run.snakemake("results/cells.parquet")
    keys = ["sweep", "arch", "N", "seed"]
    of = pd.read_parquet(run.path("results/cells.parquet")).set_index(keys)["mse"]
    before = pd.read_parquet(small_fanbeam.path("results/cells.parquet")).set_index(keys)["mse"]
    assert len(of) == len(before) + 6
    assert (of[before.index] == before).all()
    assert run.plan("results/cells.parquet") == {}
    ko = run.path("koct/networks/ko.py")
    code = ko.read_text()
    ko.write_text(code + "\nOTHER = 1\n")
    assert run.plan("results/cells.parquet")["fit_large"] == 1  # its own; rows that were brought stay, a line says so
    dry_run = run.snakemake("-n", "results/cells.parquet")
    assert re.search(r"[1-9]\d* of these were made by other code", dry_run.stdout + dry_run.stderr)
    ko.write_text(code)
    config["sweeps"]["F32"]["lambdas"] = [1e-4, 1.0]
    run.path("config.yaml").write_text(yaml.safe_dump(config))
    assert run.plan("results/cells.parquet")["fit_large"] == 6 + 6  # rows of `fc` and `filter` were of other λ
