"""The budget planner: held-out points of real curves, synthetic pilots with known answers, and its page of the docs."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import budget as benchmark
import curves

pytestmark = pytest.mark.thorough
REFERENCE = ROOT / "results/reference"


def test_the_workflow_answers_every_configured_target():
    table, cells = (pd.read_parquet(REFERENCE / f"{name}.parquet") for name in ("budget", "cells"))
    reached = table[table["reachable"]]
    assert (reached["n_low"] <= reached["n"]).all()
    assert (table["reachable"] == (table["probability"] >= 0.5)).all()
    inside = reached[reached["sweep"].isin(["H8", "H16", "H32"]) & (reached["n"] > 8) & (reached["n"] < 60)]
    assert len(inside) >= 5
    for row in inside.itertuples():  # within the pilot's range, the answer lies between the neighbouring points
        curve = cells[(cells["sweep"] == row.sweep) & (cells["arch"] == row.arch)].groupby("N")["mse"].mean()
        assert curve[curve.index <= row.n].iloc[-1] > 0.75 * row.target
        assert curve[curve.index >= row.n].iloc[0] < 1.25 * row.target


def test_held_out_points_of_the_reference_are_foreseen_as_the_readme_says():
    """With priors that know nothing of a point's data set."""
    own = curves.judged("reference", None)
    others = (curves.run("reference", None, rule) for rule in (curves.Line, curves.Paper))
    found, line, paper = map(curves.measures, (own, *others))
    dense = [row for row in own if row["curve"].endswith("fc")]
    assert len(own) == 2 * len(dense) == 2 * 18
    assert found["log_miss"] < 0.04 < line["log_miss"]
    assert np.median([abs(row["forecast"] / row["true"] - 1) for row in dense]) < 0.066  # a line has 0.06
    assert found["mean_off"] < 1.05 * line["mean_off"]
    assert np.expm1(paper["log_miss"]) > 1
    assert found["error_in"] >= 0.88


@pytest.mark.long
@pytest.mark.parametrize("truth", benchmark.TRUTHS)
def test_intervals_contain_the_true_number_of_samples(truth):
    assert 0.80 <= benchmark.coverage(benchmark.intervals(truth, 200)) <= 0.97


def test_the_worked_example_prints_what_the_page_shows(koct, monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/how-many-samples.md").read_text()
    shown = re.findall(r"```sh\n(koct [^\n]*)\n```\n\n```text\n(.*?)```", page, re.S)
    assert len(shown) >= 3
    for command, output in shown:
        assert koct(*command.split()[1:])[1] == output, command
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
