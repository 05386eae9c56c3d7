"""The committed reference: the printed numbers, what docs/results.md says of it, and a fresh run against it."""

import json
import re

import pandas as pd
import pytest
from conftest import ROOT

REFERENCE = ROOT / "results/reference"
PRINTED = json.loads((ROOT / "koct/report/printed.json").read_text())["calibration"]
PAGE = (ROOT / "docs/results.md").read_text()
SWEEPS = ["H8", "H16", "H32", "H128", "H256", "H512", "H128-exact", "H256-exact", "H512-exact"]


@pytest.fixture(scope="module")
def tables():
    return {name: pd.read_parquet(REFERENCE / f"{name}.parquet") for name in ("cells", "curves", "calibration")}


def test_it_is_the_full_study(tables):
    cells = tables["cells"]
    assert list(dict.fromkeys(cells["sweep"])) == SWEEPS
    for sweep, group in cells.groupby("sweep"):
        N, seeds = (
            ([4, 8, 16, 32, 64], 5) if group["problem"].iloc[0] == "surrogate" else ([4, 16, 64, 256, 1024, 2048], 3)
        )
        expected = {(arch, n, seed) for arch in ("ko", "fc") for n in N for seed in range(1, seeds + 1)}
        pools = seeds if group["problem"].iloc[0] == "surrogate" else 1  # other problems share their test images
        expected |= {(arch, 0, seed) for arch in ("untrained", "fbp", "nnls", "tv") for seed in range(1, pools + 1)}
        assert set(zip(group["arch"], group["N"], group["seed"], strict=True)) == expected, sweep
    assert cells[["mse", "rrmse_peak", "rrmse_norm"]].gt(0).all(axis=None)


@pytest.mark.parametrize("sweep", PRINTED)
@pytest.mark.parametrize("arch", ["ko", "fc"])
def test_it_has_the_printed_rows(tables, sweep, arch):
    """Floors within 0.5 %, slopes within 1 %."""
    row = tables["calibration"].set_index(["sweep", "arch"]).loc[(sweep, arch)]
    assert row["floor"] == pytest.approx(float(PRINTED[sweep][arch]["floor"]), rel=0.005)
    assert row["sigma"] == pytest.approx(float(PRINTED[sweep][arch]["sigma"]), rel=0.01)


def test_it_says_what_made_it_and_is_small(tables):
    about = json.loads((REFERENCE / "about.json").read_text())
    assert about["command"].startswith("snakemake ")
    assert re.fullmatch("[0-9a-f]{40}", about["commit"])
    assert {"python", "torch", "snakemake", "numpy"} <= set(about["versions"])
    assert about["wall seconds"] > sum(entry["max s"] for entry in about["jobs"].values()) / about["machine"]["cores"]
    sizes = {path.name: path.stat().st_size for path in REFERENCE.iterdir()}
    assert sizes.pop("planner.html") < 5e6
    assert sum(sizes.values()) < 7e6


def test_a_fresh_run_agrees_with_it(default_study):
    """Total variation to what its stopping rule asks for, everything else to 1e-6."""
    keys = ["sweep", "arch", "N", "seed"]
    fresh = pd.read_parquet(default_study.path("results/cells.parquet")).set_index(keys)["mse"]
    expected = pd.read_parquet(REFERENCE / "cells.parquet").set_index(keys)["mse"].loc[fresh.index]
    assert len(fresh) == 210
    tolerance = fresh.index.get_level_values("arch").map(lambda arch: 1e-3 if arch == "tv" else 1e-6)
    assert ((fresh / expected - 1).abs() < tolerance).all()
