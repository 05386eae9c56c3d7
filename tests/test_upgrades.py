"""Results of an older koct: pools, fits and rows are recognised and made again, Parquet tables are still read.

`old_results` is a small study as koct made it before files had stamps.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest

OLD = Path(__file__).with_name("old_results")
FINAL = ("cells", "curves", "calibration")


@pytest.fixture(scope="module")
def upgraded(checkout):
    """A run in a folder with old results, and what it printed."""
    run = checkout()
    config = (OLD / "config.yaml").read_text()
    run.path("config.yaml").write_text(config + "    theory: false\n")  # which there was not
    shutil.copytree(OLD / "results", run.path("results"))
    return run, run.snakemake()


def test_old_results_are_made_again_and_named(upgraded):
    run, done = upgraded
    assert "results/cells/H4/ko/N4_seed1.json is made again: it is not of this version of koct." in done.stderr
    assert run.plan() == {}


@pytest.mark.parametrize("name", FINAL)
def test_the_numbers_are_the_same(upgraded, name):
    run, _ = upgraded
    old, new = (
        pd.read_parquet(folder / f"{name}.parquet").drop(columns="fit_seconds", errors="ignore")
        for folder in (OLD / "results", run.path("results"))
    )
    pd.testing.assert_frame_equal(new[old.columns], old, rtol=1e-9)


def test_the_planner_answers_the_same_questions(upgraded):
    """Its laws are others now, so its answers are, too."""
    run, _ = upgraded
    old, new = (pd.read_parquet(folder / "budget.parquet") for folder in (OLD / "results", run.path("results")))
    pd.testing.assert_frame_equal(new[["sweep", "arch", "target"]], old[["sweep", "arch", "target"]])
    assert set(old.columns) <= set(new.columns)


def test_old_tables_are_read(upgraded, tmp_path):
    run, _ = upgraded
    old = OLD / "results"
    assert "no curve differs" in run.koct("compare", "results/cells.parquet", old / "cells.parquet").stdout
    given = [old / "curves.parquet", old / "calibration.parquet"]
    run.koct("product", "table_calibration", *given, "--out", tmp_path / "table.tex")
    made, before = (path.read_text() for path in (tmp_path / "table.tex", old / "table_calibration.tex"))
    assert made.startswith(before)
    run.koct("budget", old / "cells.parquet", "--metric", "mse", "--target", "0.01")


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("evaluate", ["fits/H4/ko/N4_seed1.npy", "--pool", "pools/H4/seed1.npy", "--out", "row.json"]),
        ("gram", ["--spec", '{"problem": {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4}}}']),
    ],
)
def test_a_verb_refuses_an_old_file(upgraded, verb, arguments, tmp_path):
    run, _ = upgraded
    old = [str(OLD / "results" / word) if word.endswith(".npy") else word for word in arguments]
    if verb == "gram":
        old += ["--pool", str(OLD / "results/pools/H4/seed1.npy"), "--out", str(tmp_path / "gram.npy")]
    done = run.koct(verb, *old, check=False)
    assert done.returncode == 2
    assert "is not a file of this version of koct: it has no stamp; `rm " in done.stderr
