"""Results of an older koct: they are recognised and made again, and its cells are still a pilot.

`old_results` is a small study as koct made it before files had stamps.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest

OLD = Path(__file__).with_name("old_results")


@pytest.fixture(scope="module")
def upgraded(checkout):
    """A run in a folder with old results, and what it printed."""
    run = checkout()
    config = (OLD / "config.yaml").read_text()
    run.path("config.yaml").write_text(config + "    theory: false\n")  # which there was not
    shutil.copytree(OLD / "results", run.path("results"))
    return run, run.snakemake()


def test_old_results_are_named_and_made_again_with_the_same_numbers(upgraded):
    run, done = upgraded
    assert "is made again: it is not of this version of koct." in done.stderr
    assert run.plan() == {}
    for name in ("cells", "curves", "calibration", "budget"):
        old, new = (pd.read_parquet(place / f"{name}.parquet") for place in (OLD / "results", run.path("results")))
        assert set(old.columns) <= set(new.columns)
        if name == "budget":  # the planner answers the same questions, by other laws
            old = old[["sweep", "arch", "target"]]
        old = old.drop(columns=["fit_seconds", "image_seconds"], errors="ignore")
        pd.testing.assert_frame_equal(new[old.columns], old, rtol=1e-9)


def test_old_runs_are_a_pilot_and_other_old_files_are_refused(upgraded, koct, tmp_path):
    run, _ = upgraded
    old = OLD / "results"
    assert koct("budget", old / "cells.parquet", "--metric", "mse", "--target", "0.01")[0] == 0
    for arguments in (
        ["compare", run.path("results/cells.parquet"), old / "cells.parquet"],
        ["product", "table_calibration", old / "curves.parquet", old / "calibration.parquet", "--out", "t.tex"],
    ):
        status, _, err = koct(*arguments)
        assert status == 2
        assert "is not a file of this version of koct: it has no stamp" in err
    problem = '{"problem": {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4}}}'
    pool, fit = old / "pools/H4/seed1.npy", old / "fits/H4/ko/N4_seed1.npy"
    for verb, *inputs in (("evaluate", fit, pool), ("gram", pool)):
        status, _, err = koct(verb, "--spec", problem, "--inputs", *inputs, "--outputs", "made")
        assert status == 2
        assert "is not a file of this version of koct: it has no stamp; `rm " in err
