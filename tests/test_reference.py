"""The committed references: every cell of their configs, the printed numbers, headlines, and a fresh run against it."""

import itertools
import json
import re
import tarfile

import pandas as pd
import pytest
import yaml
from conftest import ROOT

from koct.config.study_file import build

REFERENCE = ROOT / "results/reference"
PRINTED = json.loads((ROOT / "koct/report/printed.json").read_text())["calibration"]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
STUDIES = ("crossing", "dose", "ladder", "modalities", "benchmark")
FOLDERS = {"full": REFERENCE, **{study: REFERENCE / study for study in STUDIES}}


def table(study, name):
    return pd.read_parquet(FOLDERS[study] / f"{name}.parquet")


def curves(study):
    """{(sweep, arch): mean errors by N}."""
    rows = table(study, "curves").groupby(["sweep", "arch"], sort=False)
    return {key: of.set_index("N")["error_mean"] for key, of in rows}


@pytest.mark.parametrize("study", FOLDERS)
def test_it_has_every_cell_of_the_config_says_what_made_it_and_is_small(study):
    cells = table(study, "cells").groupby("sweep", sort=False)
    about = json.loads((FOLDERS[study] / "about.json").read_text())
    assert list(cells.groups) == about.get("sweeps", CONFIG["studies"][study])
    for sweep, rows in cells:
        expected = {(cell["arch"], cell["N"], cell["seed"]) for cell in build(sweep, CONFIG["sweeps"][sweep]).grid()}
        assert set(zip(rows["arch"], rows["N"], rows["seed"], strict=True)) == expected, sweep
        assert rows[["mse", "rrmse_peak", "rrmse_norm"]].gt(0).all(axis=None)
    assert about["command"] == f"snakemake --profile profiles/gpu --config study={study}"
    assert re.fullmatch("[0-9a-f]{40}", about["commit"])
    assert {"python", "torch", "snakemake", "numpy"} <= set(about["versions"])
    assert "H200" in about["machine"]["gpu"]
    sizes = {path.name: path.stat().st_size for path in FOLDERS[study].glob("*.*")}
    assert sizes.pop("planner.html", 0) < 5e6
    assert sum(sizes.values()) < (7e6 if study == "full" else 4e6)


@pytest.mark.parametrize("sweep", PRINTED)
@pytest.mark.parametrize("arch", ["ko", "fc"])
def test_it_has_the_printed_rows(sweep, arch):
    """Floors within 0.5 %, slopes within 1 %."""
    row = table("full", "calibration").set_index(["sweep", "arch"]).loc[(sweep, arch)]
    assert row["floor"] == pytest.approx(float(PRINTED[sweep][arch]["floor"]), rel=0.005)
    assert row["sigma"] == pytest.approx(float(PRINTED[sweep][arch]["sigma"]), rel=0.01)


def test_what_needs_no_sample_is_below_the_networks_without_noise():
    """With the projector that made the data: the headline of the README. TV also with noise."""
    means = curves("full")
    for sweep, free, arch in itertools.product(CONFIG["studies"]["full"], ("nnls", "tv"), ("ko", "fc")):
        assert means[sweep, free][0] < means[sweep, arch].min(), (sweep, free, arch)
    for sweep in CONFIG["studies"]["paper"]:
        assert means[sweep, "fbp"][0] < means[sweep, "ko"].min()
    means = curves("dose")
    for sweep, arch in itertools.product(CONFIG["studies"]["dose"], ("ko-ridge", "filters", "fc")):
        assert means[sweep, "tv"][0] < means[sweep, arch].min()


def test_the_projector_moves_the_crossing_and_does_not_cause_it():
    rows = table("crossing", "crossings").set_index(["sweep", "arch", "versus"])
    printed, exact = (rows.loc[(sweep, "fc", "ko")] for sweep in ("H128-crossing", "H128-exact-crossing"))
    assert 512 < printed["N"] < 2048 < exact["N"] < 16384
    assert exact["N_low"] < exact["N"] < exact["N_high"]
    assert 64 < rows.loc[("H8-crossing", "fc", "ko")]["N"] < 128
    assert rows.loc[("H128-right-crossing", slice(None), "tv"), :]["N"].isna().all()


def test_four_to_sixteen_images_are_worth_as_much_as_total_variation_behind_a_known_operator():
    means, rows = curves("benchmark"), table("benchmark", "crossings").set_index(["arch", "versus"])
    for arch in ("unet", "lpd", "unrolled"):
        assert 4 <= rows.loc[(arch, "tv")]["N_low"] < rows.loc[(arch, "tv")]["N_high"] < 16
        assert means["ellipses50", arch].is_monotonic_decreasing or arch == "unrolled"
    assert rows.loc[(["ko", "ko-ridge", "filters", "fc"], "tv"), "N"].isna().all()
    assert 498 <= rows.loc[("fc", "fbp")]["N_low"] < rows.loc[("fc", "fbp")]["N_high"] <= 591


def test_the_rows_that_newcomers_take_are_those_of_the_benchmark():
    cells = table("benchmark", "cells").set_index(["sweep", "arch", "N", "seed"])["mse"]
    with tarfile.open(FOLDERS["benchmark"] / "rows.tar.xz") as archive:
        rows = [json.load(archive.extractfile(name)) for name in archive.getnames() if name.endswith(".json")]
    assert {(row["sweep"], row["arch"], row["N"], row["seed"]): row["mse"] for row in rows} == cells.to_dict()


def test_a_fresh_run_agrees_with_it(default_study):
    """To 1e-6; NNLS and TV, which the reference has in float32 and koct computes in float64, to some pixel values."""
    keys = ["sweep", "arch", "N", "seed"]
    fresh = pd.read_parquet(default_study.path("results/cells.parquet")).set_index(keys)["mse"]
    expected = pd.read_parquet(REFERENCE / "cells.parquet").set_index(keys)["mse"].loc[fresh.index]
    assert len(fresh) == 210
    archs = fresh.index.get_level_values("arch")
    exact = ~archs.isin(["nnls", "tv"])
    assert ((fresh / expected - 1).abs() < 1e-6)[exact].all()
    apart = (fresh**0.5 - expected**0.5).abs()
    assert apart[archs == "nnls"].max() < 1e-6
    assert apart[archs == "tv"].max() < 5e-5
