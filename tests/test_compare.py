"""A run against its reference: `koct compare`."""

import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from koct import cli
from koct.base.stamps import Stamp
from koct.study.results import CELLS, CURVES, write


def cell(sweep="H8", arch="ko", N=4, seed=1, problem="surrogate", mse=0.01, peak=0.1, norm=0.2):
    about = {"sweep": sweep, "problem": problem, "H": 8, "V": 10, "B": 8, "arch": arch, "N": N, "seed": seed}
    errors = {"val_mse": mse, "mse": mse, "rrmse_peak": peak, "rrmse_norm": norm}
    return {**about, "lam": None, "p": 80, **errors, "fit_seconds": 0.1, "device": "cpu"}


@pytest.fixture
def compared(tmp_path, capsys):
    """(status, text) of `koct compare` on two lists of cells."""

    def compare(fresh, reference, *options, metric=None):
        origin = {"koct.sweeps": json.dumps({"H8": {"label": "", "metric": metric}})} if metric else {}
        for name, rows in (("fresh", fresh), ("reference", reference)):
            write(rows, CELLS, tmp_path / f"{name}.parquet", origin if name == "fresh" else {}, Stamp({}))
        arguments = ["compare", str(tmp_path / "fresh.parquet"), str(tmp_path / "reference.parquet"), *options]
        status = cli.main(arguments)
        return status, capsys.readouterr().out

    return compare


def line_of(text, *names):
    (line,) = (line.split() for line in text.splitlines() if line.split()[:2] == list(names))
    return line[2:]


def test_equal_runs_agree_exactly(study, tmp_path, capsys):
    path = study.path("results/cells.parquet")
    copy = shutil.copy(path, tmp_path / "copy.parquet")
    assert cli.main(["compare", str(path), str(copy), "--tolerance", "0"]) == 0
    text = capsys.readouterr().out
    for sweep in ("H8", "H16"):
        for arch in ("ko", "fc"):
            assert line_of(text, sweep, arch) == ["9", "0", "0", "0", "0", "0", "0", "(mse)"]
    assert f"{pq.read_metadata(path).num_rows} cells compared" in text
    assert "missing" not in text


def test_a_changed_cell_shows_in_its_line_and_in_the_mean_of_its_curve(compared):
    grid = [{"N": N, "seed": seed} for N in (4, 8) for seed in (1, 2)]
    reference = [cell(**point) for point in grid] + [cell(arch="fc", **point) for point in grid]
    fresh = [
        row | ({"mse": 0.0102} if (row["arch"], row["N"], row["seed"]) == ("fc", 8, 2) else {}) for row in reference
    ]
    status, text = compared(fresh, reference)
    assert status == 1
    assert line_of(text, "H8", "ko") == ["4", "0", "0", "0", "0", "0", "0", "(mse)"]
    assert line_of(text, "H8", "fc") == ["4", "2.0e-02", "0", "0", "0", "0", "1.0e-02", "(mse)"]
    assert "H8 fc by 0.01 at N = 8" in text
    assert "H8 ko by" not in text
    assert compared(fresh, reference, "--tolerance", "0.02")[0] == 0


def test_curves_are_made_of_the_metric_that_their_sweep_names(compared):
    """The square of a relative error's mean here; a reference without metadata is compared by that of the run."""
    reference = [cell(problem="fanbeam", seed=seed, peak=0.1) for seed in (1, 2)]
    fresh = [cell(problem="fanbeam", seed=seed, peak=peak, mse=9) for seed, peak in ((1, 0.1), (2, 0.12))]
    status, text = compared(fresh, reference, metric="rrmse_peak2")
    assert status == 1
    assert line_of(text, "H8", "ko") == [
        "2",
        "9.0e+02",
        "2.0e-01",
        "0",
        "0",
        "0",
        "2.1e-01",
        "(rrmse_peak2)",
    ]  # 1.1² − 1


def test_cells_of_one_run_alone_are_named_and_do_not_matter(compared):
    reference = [cell(), cell(seed=2), cell(N=1024), cell("H16"), cell("H16", seed=2)]
    fresh = [cell(), cell(seed=3), cell(arch="fc")]
    status, text = compared(fresh, reference)
    assert status == 0
    assert re.search(r"missing, only in .*reference\.parquet: H8 ko, 2 cells \(N = 4 seed 2; N = 1,024 seed 1\)", text)
    assert re.search(r"missing, only in .*reference\.parquet: H16 ko, 2 cells \(all\)", text)
    assert re.search(r"new, only in .*fresh\.parquet: H8 ko, 1 cell \(N = 4 seed 3\)", text)
    assert re.search(r"new, only in .*fresh\.parquet: H8 fc, 1 cell \(all\)", text)
    assert "1 cell compared" in text


def test_runs_without_a_common_cell_do_not_agree(compared):
    status, text = compared([cell("H8")], [cell("H16")])
    assert status == 1
    assert "no cell is in both files" in text


def test_an_error_that_is_no_number_never_agrees(compared):
    for value in (float("nan"), None):
        assert compared([{**cell(), "mse": value}], [cell()], "--tolerance", "1e9")[0] == 1


def test_wrong_files_are_named_with_a_fix(tmp_path, capsys):
    good, text, other = tmp_path / "cells.parquet", tmp_path / "cells.csv", tmp_path / "curves.parquet"
    twice, empty = tmp_path / "twice.parquet", tmp_path / "empty.parquet"
    write([cell()], CELLS, good, {}, Stamp({}))
    write([cell(), cell()], CELLS, twice, {}, Stamp({}))
    write([], CELLS, empty, {}, Stamp({}))
    text.write_text("sweep,arch\n")
    write([{**cell(), "metric": "mse", "error_mean": 1.0, "error_std": None, "seeds": 1}], CURVES, other, {}, Stamp({}))
    for path, why in (
        (tmp_path / "none.parquet", "does not exist"),
        (tmp_path, "is not a Parquet file"),
        (text, "is not a Parquet file"),
        (other, "lacks the column seed, mse, rrmse_peak, rrmse_norm"),
        (twice, "holds a cell (sweep, arch, N, seed) twice"),
        (empty, "has no rows"),
    ):
        assert cli.main(["compare", str(good), str(path)]) == 2
        assert f"{path} {why}" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["compare", str(good), str(good), "--tolerance", "nan"])


def columns(**others):
    """Two cells as a foreign program might write them."""
    found = {"sweep": ["H8"] * 2, "problem": ["surrogate"] * 2, "arch": ["ko"] * 2, "N": [4, 8], "seed": [1, 1]}
    found |= {"mse": [0.1, 0.05], "rrmse_peak": [0.1, 0.05], "rrmse_norm": [0.1, 0.05]} | others
    return {name: values for name, values in found.items() if values is not None}


FOREIGN = {
    "text for numbers": ({"N": ["4", "8"]}, ": the column N holds string and not int32"),
    "text for errors": ({"mse": ["a", "b"]}, ": the column mse holds string and not double"),
    "a null in a key": ({"seed": [1, None]}, ", row 2: seed is null"),
    "fewer than no samples": ({"N": [4, -1]}, ", row 2: N is -1, and must be at least 1"),
    "a column that Python cannot hold": (
        {"made": pa.array([2**60] * 2, pa.timestamp("us"))},
        " is a Parquet file that koct has not made",
    ),
}


@pytest.mark.parametrize(("others", "why"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_table_is_refused_by_its_column(tmp_path, capsys, others, why):
    path, good = tmp_path / "foreign.parquet", tmp_path / "good.parquet"
    write([cell()], CELLS, good, {}, Stamp({}))
    pq.write_table(pa.table(columns(**others)), path)
    for pair in ((good, path), (path, good)):
        assert cli.main(["compare", *map(str, pair)]) == 2
        error = capsys.readouterr().err
        assert f"{path}{why}" in error
        assert error.endswith("; give the cells.parquet of a run\n")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"H8": 3}', '{"H8": {"metric": 3}}', "[" * 100_000, b"\xff"])
def test_metadata_that_is_no_description_is_refused(tmp_path, capsys, text):
    path = tmp_path / "cells.parquet"
    pq.write_table(pa.table(columns()).replace_schema_metadata({"koct.sweeps": text}), path)
    assert cli.main(["compare", str(path), str(path)]) == 2
    assert f"{path}: the metadata koct.sweeps is not what koct writes" in capsys.readouterr().err


def test_scores_that_one_run_lacks_are_skipped_and_named(tmp_path, capsys):
    """A reference of an older koct has neither PSNR nor SSIM."""
    older, newer = tmp_path / "older.parquet", tmp_path / "newer.parquet"
    pq.write_table(pa.table(columns()), older)
    pq.write_table(pa.table(columns(psnr=[20.0, 30.0], ssim=[0.5, 0.9])), newer)
    for fresh, reference in ((newer, older), (older, newer)):
        assert cli.main(["compare", str(fresh), str(reference), "--tolerance", "0"]) == 0
        assert f"not compared: psnr, ssim, which {older} lacks" in capsys.readouterr().out
    assert cli.main(["compare", str(newer), str(newer)]) == 0
    assert "not compared" not in capsys.readouterr().out
