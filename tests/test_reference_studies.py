"""The committed references of the studies `ladder`, `dose` and `modalities`, and what the docs say of them."""

import itertools
import json
import re

import pandas as pd
import pytest
import yaml
from conftest import ROOT

from koct.report import conditions
from koct.risk.crossing import overtaken

REFERENCE = ROOT / "results/reference"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
STUDIES = ("ladder", "dose", "modalities")


def table(study, name):
    return pd.read_parquet(REFERENCE / study / f"{name}.parquet")


def curves(study):
    """{(sweep, arch): mean errors by N}."""
    found = table(study, "curves")
    return {key: rows.set_index("N")["error_mean"] for key, rows in found.groupby(["sweep", "arch"], sort=False)}


@pytest.mark.parametrize("study", STUDIES)
def test_every_cell_of_the_config_is_there(study):
    cells = table(study, "cells").groupby("sweep", sort=False)
    assert list(cells.groups) == CONFIG["studies"][study]
    for sweep, rows in cells:
        entry = CONFIG["sweeps"][sweep]
        expected = set(itertools.product(entry["archs"], entry["N"], entry["seeds"]))
        assert set(zip(rows["arch"], rows["N"], rows["seed"], strict=True)) == expected, sweep
        assert rows[["mse", "rrmse_peak", "rrmse_norm"]].gt(0).all(axis=None)


@pytest.mark.parametrize("study", STUDIES)
def test_it_says_what_made_it_and_is_small(study):
    about = json.loads((REFERENCE / study / "about.json").read_text())
    assert about["command"] == f"snakemake --profile profiles/gpu --config study={study}"
    assert re.fullmatch("[0-9a-f]{40}", about["commit"])
    assert "H200" in about["machine"]["gpu"]
    sizes = {path.name: path.stat().st_size for path in (REFERENCE / study).iterdir()}
    assert sizes.pop("images.parquet", 0) < 4e6
    assert sum(size for name, size in sizes.items() if name != "planner.html") < 2e6


# The ladder


def test_ranks_and_verdicts_follow_from_the_cells(tmp_path):
    chains = json.loads((REFERENCE / "ladder/ladder.json").read_text())["sweeps"]
    rows = table("ladder", "ladder").set_index(["sweep", "N", "arch"])
    means = curves("ladder")
    for sweep in CONFIG["studies"]["ladder"]:
        entry = CONFIG["sweeps"][sweep]
        for N in entry["N"]:
            order = sorted(entry["archs"], key=lambda arch: means[sweep, arch][N])
            assert list(rows.loc[(sweep, N)].sort_values("rank").index) == order
        points = {point["N"]: point for point in chains[sweep]["N"]}
        assert {N: point["best"] for N, point in points.items()} == {
            N: min(entry["archs"], key=lambda arch: means[sweep, arch][N]) for N in entry["N"]
        }
        for pair in chains[sweep]["pairs"]:
            for point in pair["N"]:
                errors = [means[sweep, pair[side]][point["N"]] for side in ("container", "contained")]
                assert point["ratio"] == pytest.approx(errors[0] / errors[1])
                assert point["low"] < point["ratio"] < point["high"]
                won = "won" if point["high"] < 1 else "lost" if point["low"] > 1 else "undecided"
                assert point["verdict"] == won


# Dose and arc


def crossing(means, sweep, arch):
    """From which N on FC has the smaller error; None if not within the sweep."""
    known, dense = means[sweep, arch], means[sweep, "fc"]
    return overtaken(known.index, known, dense)


def test_fewer_photons_and_angles_let_the_dense_network_overtake_earlier():
    means = curves("dose")
    doses = [crossing(means, f"dose-{dose}", "ko-ridge") for dose in ("3e2", "1e3", "3e3", "1e4")]
    found = [N for N in doses if N is not None]
    assert len(found) >= 3
    assert found == sorted(found)
    assert doses == found + [None] * (len(doses) - len(found))
    assert crossing(means, "arc-90", "ko-ridge") < crossing(means, "arc-120", "ko-ridge")


def test_a_network_that_can_smooth_is_not_overtaken_by_noise():
    means = curves("dose")
    for sweep in CONFIG["studies"]["dose"]:
        if sweep.startswith("dose-") or sweep == "no-noise":
            assert crossing(means, sweep, "filters") is None


def test_the_table_of_conditions_follows_from_the_results(tmp_path):
    files = [REFERENCE / "dose" / f"{name}.parquet" for name in ("curves", "calibration", "budget")]
    conditions.table(*files, tmp_path / "table.tex")
    made, kept = (path.read_text() for path in (tmp_path / "table.tex", REFERENCE / "dose/table_conditions.tex"))
    assert made.partition(r"\end{table}")[0] == kept.partition(r"\end{table}")[0]


# Modalities
