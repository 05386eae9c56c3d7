"""The committed reference: the printed numbers, what docs/results.md says of it, and a fresh run against it."""

import json
import re

import pandas as pd
import pytest
from conftest import ROOT

from koct.report.tables import outcome
from koct.risk.crossing import order

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
    assert sum(sizes.values()) < 6e6


def test_the_page_shows_its_numbers(tables):
    rows = {
        name.replace(" = ", "").replace(" ", "-"): cells
        for name, cells in re.findall(r"^\| (H = \d+(?: exact)?) \| (.*) \|$", PAGE, re.M)
    }
    assert list(rows) == SWEEPS
    table = tables["calibration"].set_index(["sweep", "arch"])
    for sweep, cells in rows.items():
        expected = [f"{table.loc[(sweep, arch), key]:.2e}" for arch in ("ko", "fc") for key in ("floor", "sigma")]
        assert [cell.strip() for cell in cells.split("|")] == expected


def test_the_page_says_who_overtakes_whom(tables):
    curves = tables["curves"].set_index(["sweep", "arch"]).sort_values("N")
    for rays, suffix in (("as printed", ""), ("exact", "-exact")):
        (line,) = re.findall(rf"^\| {rays} \| (.*) \|$", PAGE, re.M)
        for H, said in zip((128, 256, 512), line.split(" | "), strict=True):
            ko, fc = (curves.loc[(f"H{H}{suffix}", arch)] for arch in ("ko", "fc"))
            stretches = order(ko["N"], ko["error_mean"], fc["error_mean"])
            if len(stretches) == 1:
                assert said == outcome(stretches).replace("$", "")
            else:
                assert [stretch.below for stretch in stretches] == [0, 1]
                assert said == f"FC below KO from N = {stretches[1].first:,}"


def test_a_fresh_run_agrees_with_it(study):
    done = study.koct("compare", "results/cells.parquet", REFERENCE / "cells.parquet", "--tolerance", "1e-6")
    assert "150 cells compared; no curve differs by more than 1e-06" in done.stdout
