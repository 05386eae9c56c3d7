"""A run against its reference: `koct compare`."""

import json
import re
import shutil

import pyarrow.parquet as pq
import pytest
from conftest import ROOT

from koct.base.stamps import Stamp
from koct.metrics import SCORES
from koct.study.results import CELLS, CURVES, write


def cell(sweep="H8", arch="ko", N=4, seed=1, problem="surrogate", mse=0.01, peak=0.1, norm=0.2):
    about = {"sweep": sweep, "problem": problem, "H": 8, "V": 10, "B": 8, "arch": arch, "N": N, "seed": seed}
    errors = {"val_mse": mse, "mse": mse, "rrmse_peak": peak, "rrmse_norm": norm}
    return {**about, "lam": None, "p": 80, **errors, "fit_seconds": 0.1, "device": "cpu"}


@pytest.fixture
def compared(koct):
    """(status, text) of `koct compare` on two lists of cells."""

    def compare(fresh, reference, *options, metric=None):
        origin = {"koct.sweeps": json.dumps({"H8": {"label": "", "metric": metric}})} if metric else {}
        write(fresh, CELLS, "fresh.parquet", origin, Stamp({}))
        write(reference, CELLS, "reference.parquet", {}, Stamp({}))
        return koct("compare", "fresh.parquet", "reference.parquet", *options)[:2]

    return compare


def line_of(text, *names):
    (line,) = (line.split() for line in text.splitlines() if line.split()[:2] == list(names))
    return " ".join(line[2:])


def test_equal_runs_agree_exactly(koct):
    path = ROOT / "results/reference/cells.parquet"
    status, text, _ = koct("compare", path, shutil.copy(path, "copy.parquet"), "--tolerance", "0")
    assert status == 0
    for sweep in ("H8", "H16"):
        for arch in ("ko", "fc"):
            assert line_of(text, sweep, arch) == "25 0 0 0 0 0 0 (mse)"
    assert f"{pq.read_metadata(path).num_rows:,} cells compared" in text
    assert "missing" not in text


def test_a_changed_cell_shows_in_its_line_and_in_the_mean_of_its_curve(compared):
    grid = [{"N": N, "seed": seed} for N in (4, 8) for seed in (1, 2)]
    reference = [cell(arch=arch, **point) for arch in ("ko", "fc") for point in grid]
    fresh = [*reference[:-1], {**reference[-1], "mse": 0.0102}]  # fc, N = 8, seed 2
    status, text = compared(fresh, reference)
    assert status == 1
    assert line_of(text, "H8", "ko") == "4 0 0 0 0 0 0 (mse)"
    assert line_of(text, "H8", "fc") == "4 2.0e-02 0 0 0 0 1.0e-02 (mse)"
    assert "H8 fc by 0.01 at N = 8" in text
    assert "H8 ko by" not in text
    assert compared(fresh, reference, "--tolerance", "0.02")[0] == 0


def test_curves_are_made_of_the_metric_that_their_sweep_names(compared):
    """The square of a relative error's mean here; a reference without metadata is compared by that of the run."""
    reference = [cell(problem="fanbeam", seed=seed, peak=0.1) for seed in (1, 2)]
    fresh = [cell(problem="fanbeam", seed=seed, peak=peak, mse=9) for seed, peak in ((1, 0.1), (2, 0.12))]
    status, text = compared(fresh, reference, metric="rrmse_peak2")
    assert status == 1
    assert line_of(text, "H8", "ko") == "2 9.0e+02 2.0e-01 0 0 0 2.1e-01 (rrmse_peak2)"  # 1.1² − 1


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


def test_neither_runs_without_a_common_cell_agree_nor_errors_that_are_no_numbers(compared):
    status, text = compared([cell("H8")], [cell("H16")])
    assert status == 1
    assert "no cell is in both files" in text
    for value in (float("nan"), None):
        assert compared([{**cell(), "mse": value}], [cell()], "--tolerance", "1e9")[0] == 1


def test_wrong_files_are_named_with_a_fix(koct, tmp_path):
    write([cell()], CELLS, "good.parquet", {}, Stamp({}))
    write([cell(), cell()], CELLS, "twice.parquet", {}, Stamp({}))
    write([], CELLS, "empty.parquet", {}, Stamp({}))
    (tmp_path / "text").write_text("sweep,arch\n")
    row = {**cell(), "metric": "mse", "error_mean": 1.0, "error_std": None, "seeds": 1}
    write([row], CURVES, "curves.parquet", {}, Stamp({}))
    for name, why in (
        ("none", "does not exist"),
        ("", "is not a Parquet file"),
        ("text", "is not a Parquet file"),
        ("curves.parquet", "lacks the column seed, mse, rrmse_peak, rrmse_norm"),
        ("twice.parquet", "holds a cell (sweep, arch, N, seed) twice"),
        ("empty.parquet", "has no rows"),
    ):
        status, _, error = koct("compare", "good.parquet", tmp_path / name)
        assert status == 2
        assert f"{tmp_path / name} {why}" in error
    assert koct("compare", "good.parquet", "good.parquet", "--tolerance", "nan")[0] == 2


def test_scores_that_one_run_lacks_are_not_compared(koct):
    """A reference of an older koct has neither PSNR nor SSIM."""
    write([cell()], [name for name in CELLS if name not in SCORES], "older.parquet", {}, Stamp({}))
    write([{**cell(), "psnr": 20.0, "ssim": 0.5}], CELLS, "newer.parquet", {}, Stamp({}))
    for pair in (("newer.parquet", "older.parquet"), ("older.parquet", "newer.parquet")):
        status, text, _ = koct("compare", *pair, "--tolerance", "0")
        assert status == 0
        assert "psnr" not in text
    assert "psnr" in koct("compare", "newer.parquet", "newer.parquet")[1]
