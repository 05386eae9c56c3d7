"""The committed references: every cell of their configs, the printed numbers, headlines, and a fresh run against it."""

import importlib.util
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from made_up import cell

from koct.base import FRESH
from koct.base.stamps import Stamp
from koct.config.study_file import build
from koct.study import results

REFERENCE = ROOT / "results/reference"
PRINTED = json.loads((ROOT / "koct/report/printed.json").read_text())["calibration"]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
ANATOMY = yaml.safe_load((ROOT / "docs/anatomy/config.yaml").read_text())
CONFIG["studies"] |= ANATOMY["studies"]
CONFIG["sweeps"] |= ANATOMY["sweeps"]
STUDIES = ("crossing", "dose", "ladder", "modalities", "benchmark", "benchmark-long", "mismatch", "anatomy", "printed")
STUDIES += ("head",)
AS_IN_PRINT = {  # where the phantom itself chose FBP's window and TV's λ
    "printed": [
        "shepp-logan fbp: needs no sample, and was tuned on validation pairs",
        "shepp-logan tv: needs no sample, and was tuned on validation pairs",
    ],
    "head": [  # what these sweeps are for; without a window was tried as well, but did not yet count as beyond the edge
        line
        for sweep in ("head-tuned", "head-tuned-quarter", "head-tuned-4x")
        for line in (
            f"{sweep} fbp: 1 of 1 choices at an edge, N = 0",
            f"{sweep} fbp: needs no sample, and was tuned on validation pairs",
            f"{sweep} tv: needs no sample, and was tuned on validation pairs",
        )
    ],
}
FOLDERS = {"full": REFERENCE, **{study: REFERENCE / study for study in STUDIES}}


def script(name):
    """A script of benchmarks, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(study, name):
    return pd.read_parquet(FOLDERS[study] / f"{name}.parquet")


def curves(study):
    """{(sweep, arch): mean errors by N}."""
    rows = table(study, "curves").groupby(["sweep", "arch"], sort=False)
    return {key: of.set_index("N")["error_mean"] for key, of in rows}


def crossings(study):
    """Those by the metric of each sweep, by (sweep, arch, versus)."""
    metrics = table(study, "curves").groupby("sweep")["metric"].first()
    rows = table(study, "crossings")
    return rows[rows["metric"] == rows["sweep"].map(metrics)].set_index(["sweep", "arch", "versus"])


@pytest.mark.parametrize("study", FOLDERS)
def test_it_has_every_cell_of_the_config_says_what_made_it_and_is_small(study):
    cells = table(study, "cells").groupby("sweep", sort=False)
    about = json.loads((FOLDERS[study] / "about.json").read_text())
    assert list(cells.groups) == about.get("sweeps", CONFIG["studies"][study])
    for sweep, rows in cells:
        grid = build(sweep, {**CONFIG["sweeps"][sweep], **about.get("options", {}).get(sweep, {})}).grid()
        expected = {(cell["arch"], cell["N"], cell["seed"]) for cell in grid}
        assert set(zip(rows["arch"], rows["N"], rows["seed"], strict=True)) == expected, sweep
        assert rows[["mse", "rrmse_peak", "rrmse_norm"]].gt(0).all(axis=None)
    assert about["command"].startswith("snakemake ")
    assert about["command"].endswith((f" --config study={study}", f" --configfile docs/{study}/config.yaml"))
    assert re.fullmatch("[0-9a-f]{40}", about["commit"])
    sizes = {path.name: path.stat().st_size for path in FOLDERS[study].glob("*.*")}
    assert sizes.pop("planner.html", 0) < 5e6
    assert sum(sizes.pop(name) for name in list(sizes) if name.endswith(".npy")) < 14e6  # 16 images of H128 and H256
    assert sum(sizes.values()) < {"full": 7e6, "benchmark": 5e6}.get(study, 4e6)


@pytest.mark.parametrize("sweep", PRINTED)
@pytest.mark.parametrize("arch", ["ko", "fc"])
def test_it_has_the_printed_rows(sweep, arch):
    """Floors within 0.5 %, slopes within 1 %."""
    row = table("full", "calibration").set_index(["sweep", "arch"]).loc[(sweep, arch)]
    assert row["floor"] == pytest.approx(float(PRINTED[sweep][arch]["floor"]), rel=0.005)
    assert row["sigma"] == pytest.approx(float(PRINTED[sweep][arch]["sigma"]), rel=0.01)


def test_what_needs_no_sample_is_below_the_networks():
    """With the projector that made the data: the headline of the README. TV also with noise."""
    full, dose, ladder = map(curves, ("full", "dose", "ladder"))
    for sweep, free, arch in itertools.product(CONFIG["studies"]["full"], ("nnls", "tv"), ("ko", "fc")):
        assert full[sweep, free][0] < full[sweep, arch].min(), (sweep, free, arch)
    for sweep, free in itertools.product(("H8", "H16", "H32"), ("fbp", "untrained")):
        assert full[sweep, free][0] < full[sweep, "ko"].min()
    for sweep, arch in itertools.product(CONFIG["studies"]["dose"], ("ko-ridge", "filters", "fc")):
        assert dose[sweep, "tv"][0] < dose[sweep, arch].min()
    for (sweep, arch), errors in ladder.items():
        assert arch in ("nnls", "tv") or errors.min() > ladder[sweep, "nnls"][0]


def test_the_projector_moves_the_crossing_and_does_not_cause_it():
    rows = crossings("crossing")
    printed, exact = (rows.loc[(sweep, "fc", "ko")] for sweep in ("H128-crossing", "H128-exact-crossing"))
    assert 512 < printed["N"] < 2048 < exact["N"] < 16384
    assert exact["N_low"] < exact["N"] < exact["N_high"]
    assert 64 < rows.loc[("H8-crossing", "fc", "ko")]["N"] < 128
    assert rows.loc[("H128-right-crossing", slice(None), "tv"), :]["N"].isna().all()


def test_the_operator_in_every_iteration_leads_on_ellipses_and_the_u_net_on_few_scans_of_the_fan_beam():
    means, rows = curves("benchmark-long"), crossings("benchmark-long")
    networks = ("unrolled", "lpd", "unet", "ko-unet")
    for sweep in CONFIG["studies"]["benchmark-long"]:
        assert all(rows.loc[(sweep, arch, "tv")]["N"] <= 164 for arch in networks)
        assert rows.loc[(sweep, ["filters", "fc"], "tv"), "N"].isna().all()
        assert np.isnan(rows.loc[(sweep, "fc", "fbp")]["N"])
    ellipses, fan = ({arch: means[sweep, arch] for arch in networks} for sweep in ("ellipses-long", "fanbeam-long"))
    assert min(networks, key=lambda arch: ellipses[arch][16]) == "unrolled"
    for N, share in {1024: 0.63, FRESH: 0.61}.items():
        assert min(networks, key=lambda arch: ellipses[arch][N]) == "lpd"
        assert round(ellipses["lpd"][N] / ellipses["unet"][N], 2) == share
    for N, times in {16: 1.42, 128: 1.23}.items():
        best, next_best = sorted(fan[arch][N] for arch in networks)[:2]
        assert best == fan["unet"][N]
        assert round(next_best / best, 2) == times
    rows = table("benchmark-long", "cells").query("N == @FRESH and steps > 0")
    assert rows["edge"].all()
    assert list(rows["gain"].agg(["min", "max"]).round(2)) == [0.07, 0.26]


def test_a_published_experiment_comes_out_within_half_a_decibel_or_above():
    found = table("printed", "cells").query("N <= 0").set_index("arch")["psnr"]
    published = json.loads((ROOT / "koct/report/printed.json").read_text())["adler2018"]["psnr"]
    assert found.keys().tolist() == list(published)
    assert all(found[arch] > value - 0.5 for arch, value in published.items())
    assert found["lpd"] > found["unet"] + 6


def test_a_wrong_operator_costs_what_samples_do_not_give_back():
    off, unet, dense = (curves("mismatch")["offset-1", arch] for arch in ("ko-ridge", "unet", "fc"))
    assert round(off[1024] / unet[1024]) == 19
    assert dense[1024] == pytest.approx(unet[1024], rel=0.05)
    assert dense[64] > 4 * unet[64]


def test_few_slices_of_a_head_are_worth_more_than_many_ellipses_to_deep_networks():
    rows = table("head", "transfer")
    means = rows[rows["tested_on"].fillna(rows["sweep"]) == "head"].groupby(["sweep", "arch", "N"])["rrmse_norm"].mean()
    for arch in ("unet", "lpd"):
        assert means["head", arch, 4] < means["head-ellipses", arch].min()
        alone = rows.query("sweep == 'head' and tested_on.isna() and arch == @arch and N == 16 and seed == 1")
        assert 1 < means["head-after-ellipses", arch, 16] / alone["rrmse_norm"].item() < 1.055
        assert means["head-ellipses", arch].min() > means["head", "tv", 0]
    tuned = curves("head")["head-tuned", "tv"][0]
    assert tuned < min(means["head", "lpd", 4], means["head", "unet", 16])


def test_the_rows_that_newcomers_take_are_those_of_the_benchmark():
    cells = table("benchmark", "cells").set_index(["sweep", "arch", "N", "seed"])["mse"]
    with tarfile.open(FOLDERS["benchmark"] / "rows.tar.xz") as archive:
        rows = [json.load(archive.extractfile(name)) for name in archive.getnames() if name.endswith(".json")]
    kept = {(row["sweep"], row["arch"], row["N"], row["seed"]): row["mse"] for row in rows}
    assert {cell: kept[cell] for cell in cells.index} == cells.to_dict()


@pytest.mark.parametrize("study", FOLDERS)
def test_nothing_was_chosen_at_an_edge_and_no_baseline_read_a_label(study):
    """The networks of `full` keep the list of λ that the paper prints: their edges are told, and marked."""
    spared = set(itertools.product(CONFIG["studies"]["full"], ("ko", "fc"))) if study == "full" else ()
    assert script("reference").audit(FOLDERS[study], spared) == AS_IN_PRINT.get(study, [])


def test_an_audit_finds_edges_labels_and_cells_that_do_not_tell(tmp_path):
    rows = [cell("A", "tv", 0, tuned_on="validation pairs", edge=False), cell("A", "ko", 4, edge=True, tuned_on=None)]
    rows += [cell("B", "fc", 4, lam=1.0), cell("B", "ko", 4, tuned_on="validation pairs", edge=False)]
    results.write(rows, results.CELLS, tmp_path / "cells.parquet", {}, Stamp({}))
    audit = script("reference").audit
    assert [line.partition(":")[0] for line in audit(tmp_path)] == ["A tv", "A ko", "B fc"]
    assert [line.partition(":")[0] for line in audit(tmp_path, {("A", "ko"), ("B", "fc")})] == ["A tv", "B fc"]


SLOW_STUDY = """#!/bin/sh
mkdir -p results/cells/A/fc results/transfer/A/B/fc
if [ -e results/brought/A/fc/N4_seed1.json -a -e results/brought/transfer/A/B/fc/N4_seed1.json ]; then
  cp -r results/brought/A results/cells
  exit
fi
echo {} > results/cells/A/fc/N4_seed1.json
echo {} > results/transfer/A/B/fc/N4_seed1.json
exec $AFTER
"""


@pytest.mark.parametrize("after", ["sleep 60", "false"], ids=["interrupted", "failed"])
def test_a_reference_that_is_not_complete_keeps_its_rows_and_the_next_run_has_them(tmp_path, monkeypatch, after):
    monkeypatch.setenv("AFTER", after)
    clone, folder = tmp_path / "clone", tmp_path / "kept"
    for path in (clone, tmp_path / "bin"):
        path.mkdir()
    (tmp_path / "bin/snakemake").write_text(SLOW_STUDY)
    (tmp_path / "bin/snakemake").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "koct")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "koct@localhost")
    for command in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "empty"]):
        subprocess.run(["git", *command], cwd=clone, check=True)
    reference = script("reference")
    monkeypatch.setattr(reference, "ROOT", clone)
    with pytest.raises(subprocess.CalledProcessError) if after == "false" else nullcontext():
        reference.run("benchmark-long", {}, folder, minutes=0.05)
    assert len(json.loads((folder / "runs.json").read_text())) == 1
    assert not (folder / "about.json").exists()
    with tarfile.open(folder / "rows.tar.xz") as archive:
        assert archive.getnames() == ["brought/A/fc/N4_seed1.json", "brought/transfer/A/B/fc/N4_seed1.json"]
    reference.run("benchmark-long", {}, folder, minutes=1)
    about = json.loads((folder / "about.json").read_text())
    assert [run["command"] for run in about["earlier runs"]] == [about["command"]]
    assert sorted(path.name for path in folder.iterdir()) == ["about.json", "rows.tar.xz"]
    reference.run("benchmark-long", {}, folder)
    assert len(json.loads((folder / "about.json").read_text())["earlier runs"]) == 2


def test_a_fresh_run_agrees_with_it(default_study):
    keys = ["sweep", "arch", "N", "seed"]
    fresh = pd.read_parquet(default_study.path("results/cells.parquet")).set_index(keys)["mse"]
    expected = pd.read_parquet(REFERENCE / "cells.parquet").set_index(keys)["mse"].loc[fresh.index]
    assert len(fresh) == 210
    assert np.allclose(fresh, expected, rtol=1e-6, atol=1e-12)  # the inverse of H32 is exact up to rounding


# Tables of README and docs

pages = script("pages")


def test_tables_of_pages_are_what_the_references_say_and_every_table_stands_on_a_page():
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages.pages()}
    assert [name for name, text in texts.items() if pages.written(text) != text] == [], (
        "run: python benchmarks/pages.py"
    )
    assert {mark[2] for text in texts.values() for mark in pages.MARK.finditer(text)} == set(pages.TABLES)


SCRIPTS = [path for path in sorted((ROOT / "benchmarks").glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_explains_itself(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    monkeypatch.syspath_prepend(path.parent)
    try:
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(path), run_name="__main__")
    finally:
        for other in path.parent.glob("*.py"):  # which scripts import, by names that others may have too
            sys.modules.pop(other.stem, None)
    assert not end.value.code
    assert "usage: " in capsys.readouterr().out
