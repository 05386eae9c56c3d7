"""A run against its reference: `koct compare`."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from made_up import cell

from koct.base.stamps import Stamp
from koct.metrics import scores
from koct.study.results import CELLS, CURVES, write


@pytest.fixture
def compared(koct):
    """(status, text) of `koct compare` on two lists of cells."""

    def compare(fresh, reference, *options, metric=None):
        origin = {"koct.sweeps": json.dumps({"A": {"label": "", "metric": metric}})} if metric else {}
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
    reference = [cell(arch=arch, N=N, seed=seed) for arch in ("ko", "fc") for N in (4, 8) for seed in (1, 2)]
    fresh = [*reference[:-1], {**reference[-1], "mse": 0.102}]  # fc, N = 8, seed 2
    status, text = compared(fresh, reference)
    assert status == 1
    assert line_of(text, "A", "ko") == "4 0 0 0 0 0 0 (mse)"
    assert line_of(text, "A", "fc") == "4 2.0e-02 0 0 0 0 1.0e-02 (mse)"
    assert "A fc by 0.01 at N = 8" in text
    assert "A ko by" not in text
    assert compared(fresh, reference, "--tolerance", "0.02")[0] == 0


def test_curves_are_made_of_the_metric_that_their_sweep_names(compared):
    """The square of a relative error's mean here; a reference without metadata is compared by that of the run."""
    fresh = [cell(mse=9), cell(seed=2, rrmse_peak=0.12, mse=9)]
    status, text = compared(fresh, [cell(), cell(seed=2)], metric="rrmse_peak2")
    assert status == 1
    assert line_of(text, "A", "ko") == "2 8.9e+01 2.0e-01 0 0 0 2.1e-01 (rrmse_peak2)"  # 1.1² − 1


@pytest.mark.parametrize("lacking", [{"arch": "fc"}, {"N": 8}, {"seed": 2}])
@pytest.mark.parametrize("side", [0, 1])
def test_a_curve_that_lacks_cells_of_the_other_is_not_called_the_same(compared, lacking, side):
    whole = [cell(arch=arch, N=N, seed=seed) for arch in ("ko", "fc") for N in (4, 8) for seed in (1, 2)]
    part = [row for row in whole if not row.items() >= lacking.items()]
    status, text = compared(*((part, whole), (whole, part))[side])
    assert status == 1
    assert "no curve differs" not in text
    assert compared(whole, [*whole, cell("B")])[0] == 0  # a study with fewer sweeps


def test_cells_of_one_run_alone_are_named(compared):
    reference = [cell(), cell(seed=2), cell(N=1024), cell("B"), cell("B", seed=2)]
    status, text = compared([cell(), cell(seed=3), cell(arch="fc")], reference)
    assert status == 1
    for words in (
        r"missing, only in .*reference\.parquet: A ko, 2 cells \(N = 4 seed 2; N = 1,024 seed 1\)",
        r"missing, only in .*reference\.parquet: B ko, 2 cells \(all\)",
        r"new, only in .*fresh\.parquet: A ko, 1 cell \(N = 4 seed 3\)",
        "1 cell compared; not made of the same cells: A fc, A ko",
    ):
        assert re.search(words, text)


def test_neither_runs_without_a_common_cell_agree_nor_errors_that_are_no_numbers(compared):
    for other, words in ((cell("B"), "no sweep is in both files"), (cell("A", seed=9), "no cell is in both files")):
        status, text = compared([cell("A")], [other])
        assert (status, words in text) == (1, True)
    for value in (float("nan"), None):
        assert compared([cell(mse=value)], [cell()], "--tolerance", "1e9")[0] == 1


def test_wrong_files_are_named_with_a_fix(koct, tmp_path):
    for name, rows in {"good": [cell()], "twice": [cell(), cell()], "empty": []}.items():
        write(rows, CELLS, f"{name}.parquet", {}, Stamp({}))
    write([cell(metric="mse", error_mean=1.0, error_std=None, seeds=1)], CURVES, "curves.parquet", {}, Stamp({}))
    (tmp_path / "text").write_text("sweep,arch\n")
    for name, why in {
        "none": "does not exist",
        "text": "is not a Parquet file",
        "curves.parquet": "lacks the column seed, mse, rrmse_peak, rrmse_norm",
        "twice.parquet": "holds a cell (sweep, arch, N, seed) twice",
        "empty.parquet": "has no rows",
    }.items():
        status, _, error = koct("compare", "good.parquet", tmp_path / name)
        assert status == 2
        assert f"{tmp_path / name} {why}" in error
    assert koct("compare", "good.parquet", "good.parquet", "--tolerance", "nan")[0] == 2


def test_scores_that_one_run_lacks_are_not_compared(koct):
    """A reference of an older koct has neither PSNR nor SSIM; images that are too small have no SSIM."""
    write([cell()], [name for name in CELLS if name not in scores()], "older.parquet", {}, Stamp({}))
    write([cell(ssim=None)], CELLS, "newer.parquet", {}, Stamp({}))
    for fresh, reference, there in (("newer", "older", False), ("older", "newer", False), ("newer", "newer", True)):
        status, text, _ = koct("compare", f"{fresh}.parquet", f"{reference}.parquet", "--tolerance", "0")
        assert (status, "psnr" in text) == (0, there)


def test_curves_of_two_studies_are_drawn_over_one_another(koct):
    """Of folders; a panel is a sweep of both, or where there is none a problem of both."""
    folders = [ROOT / "results/reference", ROOT / "results/reference/crossing"]
    status, text, _ = koct("compare", *folders, "--plot", "both.svg")
    assert (status, text.startswith("no sweep is in both files, so nothing was compared: ")) == (1, True)
    drawn = Path("both.svg").read_text()
    assert "stroke-dasharray" in drawn
    assert drawn.count("<!-- KO -->") == drawn.count("<!-- FC -->") == 1  # in one legend
    assert drawn.count("<!-- surrogate, $H = 8$ -->") == 1
