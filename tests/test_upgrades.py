"""Results of an older koct: they are recognised and made again, and its cells are still a pilot.

`old_results` is a small study as koct made it before files had stamps.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from test_cli import refused

pytestmark = pytest.mark.long
NO_STAMP = "is not a file of this version of koct: it has no stamp"
OLD = Path(__file__).with_name("old_results")
NEW = "    theory: false\n    ko: {validation: labels}\n    fc: {validation: labels}\n"


def test_old_results_are_named_and_made_again_with_the_same_numbers(checkout, koct):
    run, old = checkout(), OLD / "results"
    run.write("config.yaml", (OLD / "config.yaml").read_text() + NEW)  # which there was not
    shutil.copytree(old, run.path("results"))
    assert "is made again: it is not of this version of koct." in run.snakemake().stderr
    assert run.plan() == {}
    for name in ("cells", "curves", "calibration", "budget"):
        before, new = pd.read_parquet(old / f"{name}.parquet"), run.table(name)
        assert set(before.columns) <= set(new.columns)
        if name == "budget":  # the planner answers the same questions, by other laws
            before = before[["sweep", "arch", "target"]]
        before = before.drop(columns=["fit_seconds", "image_seconds"], errors="ignore")
        pd.testing.assert_frame_equal(new[before.columns], before, rtol=1e-9)
    refused(koct("compare", run.path("results/cells.parquet"), old / "cells.parquet"), NO_STAMP)


def test_old_runs_are_a_pilot_and_other_old_files_are_refused(koct):
    old = OLD / "results"
    assert koct("budget", old / "cells.parquet", "--metric", "mse", "--target", "0.01")[0] == 0
    tables = (old / f"{name}.parquet" for name in ("curves", "calibration"))
    refused(koct("product", "table_calibration", *tables, "--out", "t.tex"), NO_STAMP)
    problem = '{"problem": {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4}}}'
    pool, fit = old / "pools/H4/seed1.npy", old / "fits/H4/ko/N4_seed1.npy"
    for verb, *inputs in (("evaluate", fit, pool), ("gram", pool)):
        refused(koct(verb, "--spec", problem, "--inputs", *inputs, "--outputs", "made"), f"{NO_STAMP}; `rm ")
