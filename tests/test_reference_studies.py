"""The committed references of the studies `crossing`, `dose` and `modalities`."""

import itertools
import json
import re

import pandas as pd
import pytest
import yaml
from conftest import ROOT

from koct.config.study_file import build

REFERENCE = ROOT / "results/reference"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
STUDIES = ("crossing", "dose", "modalities")
FREE = ("untrained", "fbp", "nnls", "tv")


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
        expected = {(cell["arch"], cell["N"], cell["seed"]) for cell in build(sweep, CONFIG["sweeps"][sweep]).grid()}
        assert set(zip(rows["arch"], rows["N"], rows["seed"], strict=True)) == expected, sweep
        assert rows[["mse", "rrmse_peak", "rrmse_norm"]].gt(0).all(axis=None)


@pytest.mark.parametrize("study", STUDIES)
def test_it_says_what_made_it_and_is_small(study):
    about = json.loads((REFERENCE / study / "about.json").read_text())
    assert about["command"] == f"snakemake --profile profiles/gpu --config study={study}"
    assert re.fullmatch("[0-9a-f]{40}", about["commit"])
    assert "H200" in about["machine"]["gpu"]
    assert sum(path.stat().st_size for path in (REFERENCE / study).iterdir() if path.name != "planner.html") < 4e6


def test_what_needs_no_sample_is_below_the_networks_without_noise():
    """With the projector that made the data: the headline of the README."""
    found = {
        (sweep, arch): errors for (sweep, arch), errors in curves("").items() if sweep in CONFIG["studies"]["full"]
    }
    for sweep, free, arch in itertools.product(CONFIG["studies"]["full"], ("nnls", "tv"), ("ko", "fc")):
        assert found[sweep, free][0] < found[sweep, arch].min(), (sweep, free, arch)
    for sweep in CONFIG["studies"]["paper"]:
        assert found[sweep, "fbp"][0] < found[sweep, "ko"].min()


def test_total_variation_is_below_the_networks_of_the_dose_study():
    found = curves("dose")
    for sweep, arch in itertools.product(CONFIG["studies"]["dose"], ("ko-ridge", "filters", "fc")):
        assert found[sweep, "tv"][0] < found[sweep, arch].min()


def test_the_projector_moves_the_crossing_and_does_not_cause_it():
    found = table("crossing", "crossings").set_index(["sweep", "arch", "versus"])
    printed, exact = (found.loc[(sweep, "fc", "ko")] for sweep in ("H128-crossing", "H128-exact-crossing"))
    assert 512 < printed["N"] < 2048 < exact["N"] < 16384
    assert exact["N_low"] < exact["N"] < exact["N_high"]
    assert 64 < found.loc[("H8-crossing", "fc", "ko")]["N"] < 128
    right = found.loc[("H128-right-crossing", slice(None), "tv"), :]
    assert right["N"].isna().all()
