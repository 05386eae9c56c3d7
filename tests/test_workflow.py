"""The workflow itself, really run: its numbers and its files."""

import itertools
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import FREE, ROOT, TINY, TINY_SWEEP, changed_sweeps

import koct
from koct.base import stamps
from koct.base.files import read_json

sys.path.insert(0, str(ROOT / "benchmarks"))
import plain

PRINTED = json.loads((ROOT / "koct/report/printed.json").read_text())
COLUMNS = {
    "cells": "sweep H V B arch N seed lam mse rrmse_peak rrmse_norm fit_seconds",
    "curves": "sweep arch N metric error_mean error_std seeds",
    "calibration": "sweep arch metric p floor sigma",
}


def test_the_printed_numbers_come_out_to_all_digits(default_study, tmp_path):
    """As numbers, and in the table, which compiles."""
    fits = default_study.table("calibration").set_index(["sweep", "arch"])
    table = default_study.path("results/table_calibration.tex").read_text()
    for sweep, arch in itertools.product(("H8", "H16", "H32"), ("ko", "fc")):
        printed = PRINTED["calibration"][sweep][arch]
        assert {key: f"{fits.loc[(sweep, arch), key]:.2e}" for key in ("floor", "sigma")} == printed
        for mantissa, exponent in (value.split("e") for value in printed.values()):
            assert f"${mantissa} \\cdot 10^{{{int(exponent)}}}$" in table
    compiles([table], tmp_path)


def test_result_files_are_typed_and_say_where_they_come_from(study):
    for name, columns in COLUMNS.items():
        schema = pq.read_schema(study.path(f"results/{name}.parquet"))
        assert set(columns.split()) <= set(schema.names)
        assert all(b"description" in field.metadata and b"unit" in field.metadata for field in schema)
        assert schema.metadata[b"koct.version"].decode() == koct.__version__
        assert b"koct.commit" in schema.metadata
        assert re.fullmatch(rb"[0-9a-f]{64}", schema.metadata[b"koct.config_sha256"])
    cells = pq.read_schema(study.path("results/cells.parquet"))
    assert [str(cells.field(name).type) for name in ("N", "mse")] == ["int32", "double"]


def test_one_row_is_one_cell_and_one_point_is_its_seeds_mean(study):
    cells, curves = study.table("cells"), study.table("curves")
    assert len(cells.query("N > 0")) == 2 * 2 * 3 * 3
    assert not cells.duplicated(["sweep", "arch", "N", "seed"]).any()
    expected = cells.groupby(["sweep", "arch", "N"])["mse"].agg(["mean", "std", "count"])
    got = curves.set_index(["sweep", "arch", "N"]).loc[expected.index]
    np.testing.assert_allclose(got[["error_mean", "error_std", "seeds"]], expected, rtol=1e-12)
    assert set(curves["metric"]) == {"mse"}


def test_the_untrained_network_is_recorded_for_every_seed(study):
    untrained = study.table("cells").query("arch == 'untrained'")
    assert len(untrained) == 2 * 3
    assert set(untrained["N"]) == set(untrained["p"]) == {0}
    A = plain.forward_matrix(8, 10)
    inverse = np.linalg.solve(A.T @ A + 0.1 * np.eye(64), A.T)
    rng = np.random.default_rng(2)
    images = np.stack([plain.phantom(rng, 8).ravel() for _ in range(256 + 32 + 128)])[-128:]
    expected = np.mean((images @ A.T @ inverse.T - images) ** 2)
    row = untrained[(untrained["sweep"] == "H8") & (untrained["seed"] == 2)].iloc[0]
    assert row["mse"] == pytest.approx(expected, rel=1e-9)


def test_a_fit_is_a_file_that_can_be_evaluated_again(study, tmp_path):
    for arch in ("ko", "fc"):
        row = tmp_path / f"{arch}.json"
        inputs = [f"results/fits/H16/{arch}/N16_seed2.npy", "results/pools/H16/seed2.npy", "results/known/H16.npy"]
        study.koct("evaluate", "--spec", "{}", "--inputs", *inputs, "--outputs", row)
        original = study.path(f"results/cells/H16/{arch}/N16_seed2.json")
        one, two = ({**read_json(path)[0], "image_seconds": 0} for path in (row, original))
        assert one == two


def test_one_core_gives_the_same_bits_as_all(default_study, checkout):
    """All tables of the smallest sweep, and cells of the largest, whose matrices more threads would share."""
    alone = checkout(changed_sweeps(H8={}, H32={"N": [32, 64], "seeds": [1]}))
    alone.snakemake("--cores", 1, "results/calibration.parquet")
    for name, few in (("cells", 50 + 5 * FREE), ("curves", 10 + FREE), ("calibration", 2)):
        tables = [run.table(name) for run in (default_study, alone)]
        tables = [table.drop(columns=["fit_seconds", "image_seconds"], errors="ignore") for table in tables]
        parts = ["sweep == 'H8'", *["sweep == 'H32' and N >= 32 and seed == 1"] * (name == "cells")]
        for part, rows in zip(parts, (few, 4), strict=False):
            first, second = (table.query(part).reset_index(drop=True) for table in tables)
            assert len(second) == rows
            pd.testing.assert_frame_equal(first, second, rtol=0, atol=0)


def compiles(tables, folder):
    """Put LaTeX tables into a document and compile it: all fit its pages, in width and height."""
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed: the tables were read but not compiled")
    body = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
    (folder / "tables.tex").write_text(body + "\\clearpage\n".join(tables) + r"\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert not re.findall("Overfull.*|Float too large.*", done.stdout)


def test_the_table_of_parameters_and_memory_is_the_printed_one(default_study, tmp_path):
    table = default_study.path("results/table_fullscale.tex").read_text()
    rows = [line.removesuffix(r" \\").split(" & ") for line in table.splitlines() if " & " in line]
    got = {row[0]: row[1:] for row in rows}
    ko, fc = (rf"$p_{{\mathrm{{{name}}}}}$" for name in ("KO", "FC"))
    names = {"p_KO": ko, "p_FC": fc, "ratio": f"{fc[:-1]} / {ko[1:-1]} = H^2$"}
    for name, values in PRINTED["fullscale"].items():
        assert got[names.get(name, name)] == [as_latex(value) for value in values]
    compiles([table, default_study.path("results/table_budget.tex").read_text()], tmp_path)


def as_latex(printed):
    """2.30e4, 1,024 and 0.31 KiB as the tables write them."""
    number, _, unit = printed.partition(" ")
    mantissa, power, exponent = number.replace(",", "{,}").partition("e")
    return f"${mantissa}" + (f" \\cdot 10^{{{exponent}}}$" if power else "$") + (f" {unit}" if unit else "")


@pytest.mark.slow
def test_sweeps_of_different_metrics_share_one_figure(checkout):
    small = {**TINY_SWEEP, "seeds": [1]}
    del small["targets"]  # a study may ask for no budget
    sweeps = {"T4": small, "T4-peak": {**small, "metric": "rrmse_peak2"}}
    mixed = checkout({"study": "mixed", "studies": {"mixed": list(sweeps)}, "sweeps": sweeps})
    names = ("curves.parquet", "budget.parquet", "table_calibration.tex", "fig_sweeps.pdf")
    mixed.snakemake(*(f"results/{name}" for name in names))
    curves = mixed.table("curves")
    assert set(curves["metric"]) == {"mse", "rrmse_peak2"}
    assert mixed.table("budget").empty
    assert curves["error_std"].isna().all()  # one seed has no spread
    assert r"rRMSE$^2_{\mathrm{peak}}$" in mixed.path("results/table_calibration.tex").read_text()


def test_one_target_builds_just_what_it_needs(study):
    jobs = study.plan("--forceall", "results/table_calibration.tex")
    assert "fig_sweeps" not in jobs
    assert jobs["fit"] == 2 * (2 * 3 * 3 + 3 * FREE)
    assert study.plan("--forceall", "results/cells/H8/fc/N4_seed1.json") == {"pool": 1, "fit": 1}


def test_a_failing_cell_says_why_once_and_leaves_the_others(checkout):
    table = "results/cells.parquet"
    broken = checkout(changed_sweeps(H16={"N": [4, 8], "seeds": [1], "theory": False}))
    broken.snakemake("results/known/H16.npy")
    known = broken.path("results/known/H16.npy")  # larger than what is looked through at every start
    damaged = bytearray(known.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    assert len(damaged) > stamps.SMALL
    known.write_bytes(damaged)
    done = broken.snakemake("--keep-going", table, check=False)
    assert done.returncode == 1
    assert "results/known/H16.npy is damaged: its checksum is wrong; `rm results/known/H16.npy && snake" in done.stderr
    log = "results/logs/fits/H16/ko/N4_seed1.log"
    for part in ("message: fit ko of H16, N = 4, seed 1", f"log: {log}", f"Logfile {log}:"):
        assert part in done.stderr
    assert done.stderr.count(f"> {log}") == 1
    assert len(list(broken.path("results/cells/H16/fc").glob("*.json"))) == 2
    assert not any(broken.path("results/cells/H16").glob("ko/*.json"))
    assert not broken.path(table).exists()
    known.unlink()
    broken.snakemake(table)


RULE = """
rule fit_lines:
    input:
        lambda wildcards: f"results/cells/{wildcards.sweep}/fc/N4_seed1.json",
    output:
        "mine/{sweep}.txt",
    shell:
        "wc -l {input} > {output}"
"""
MODULE = """
configfile: "config.yaml"
module koct:
    snakefile: "../Snakefile"
    config: config
use rule * from koct as koct_*
"""


@pytest.mark.parametrize(
    ("prefix", "rules"), [pytest.param("", 'include: "../Snakefile"\n', marks=pytest.mark.long), ("koct_", MODULE)]
)
def test_rules_of_others_run_beside_those_of_koct(checkout, prefix, rules):
    run = checkout(TINY)
    run.write("mine/Snakefile", rules + RULE)
    arguments = ["--snakefile", "mine/Snakefile", "mine/T4.txt"]
    made = {f"{prefix}pool": 1, f"{prefix}fit": 1, "fit_lines": 1}
    assert run.plan(*arguments) == made
    run.snakemake(*arguments)
    assert run.path("mine/T4.txt").read_text().endswith("N4_seed1.json\n")
    assert not run.plan(*arguments)
