"""What tables and figures make of files that koct has not made: one sentence with the file and the column."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_report import made_up_curves

from koct import cli
from koct.base.files import write_json
from koct.base.stamps import Stamp
from koct.errors import KoctError
from koct.report import products
from koct.study.results import BUDGET, CELLS, THEORY, write

SWEEPS = {("H8", "surrogate", 8): {"ko": [0.3, 0.1], "fc": [0.5, 0.4]}}


@pytest.fixture
def files(tmp_path):
    """Small files of every kind that reports read."""
    made_up_curves(tmp_path, SWEEPS, {"H8": "surrogate"})
    about = {"sweep": "H8", "problem": "surrogate", "H": 8, "V": 10, "B": 8}
    errors = {"mse": 0.1, "rrmse_peak": 0.1, "rrmse_norm": 0.1}
    fitted = {"lam": None, "p": 80, "val_mse": 0.1, "fit_seconds": 0.1, "device": "cpu"}
    cells = [{**about, "arch": arch, "N": N, "seed": 1, **fitted, **errors} for arch in ("ko", "fc") for N in (4, 1024)]
    answer = dict.fromkeys(BUDGET) | about | {"arch": "ko", "metric": "mse", "target": 0.2, "law": "power"}
    write(cells, CELLS, tmp_path / "cells.parquet", {}, Stamp({}))
    write([{**answer, "reachable": False, "reason": ""}], BUDGET, tmp_path / "budget.parquet", {}, Stamp({}))
    write([], THEORY, tmp_path / "theory.parquet", {}, Stamp({}))
    point = {"H": 8, "V": 10, "B": 8, "beam": "parallel", "reference": 3.0}
    point |= {"filter_norm": 0.5, "backprojection_norm": 2.0}
    write_json(tmp_path / "norms.json", {"points": [point]}, Stamp({}))
    return tmp_path


def command(files, name, out=None):
    out = files / (out or ("out.png" if name.startswith("fig") else "out.tex"))
    return ["product", name, *(files / file for file in products.product(name).reads), "--out", out]


READS = {
    "table_calibration": ["curves", "calibration"],
    "table_scaling": ["curves", "calibration"],
    "table_budget": ["curves", "budget"],
    "fig_sweeps": ["cells", "curves", "calibration"],
}
PAIRS = [(verb, name) for verb, names in READS.items() for name in names]


@pytest.fixture
def run(files, capsys):
    """(status, stderr) of a verb."""

    def run(verb):
        status = cli.main([*map(str, command(files, verb))])
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize("verb", [*READS, "table_structural"])
def test_the_files_themselves_are_read(run, verb):
    assert run(verb) == (0, "")


def change(path, how):
    """A table that is changed by somebody who knows nothing of stamps."""
    table = how(pq.ParquetFile(path).read().replace_schema_metadata(None))
    path.unlink()
    pq.write_table(table, path)


def refused(found, files, *words):
    status, error = found
    assert status == 2
    assert len(error.splitlines()) == 1
    assert error.startswith("koct: error: ")
    assert not [path for path in files.iterdir() if path.name.startswith("out")]
    for word in words:
        assert str(word) in error


@pytest.mark.parametrize(("verb", "name"), PAIRS)
def test_foreign_files_are_refused(files, run, verb, name):
    path = files / f"{name}.parquet"
    path.write_text("N,error\n")
    refused(run(verb), files, f"{path} is not a Parquet file; give a file that koct has made")
    pq.write_table(pa.table({"x": [1]}), path)
    refused(run(verb), files, f"{path} lacks the column")
    pq.write_table(pa.table({}), path)
    refused(run(verb), files, f"{path} lacks the column")
    path.unlink()
    refused(run(verb), files, f"{path} does not exist")


@pytest.mark.parametrize(("verb", "name"), PAIRS)
def test_values_of_other_kinds_are_refused(files, run, verb, name):
    path, whole = files / f"{name}.parquet", files / "kept"
    path.rename(whole)
    floats = {"curves": "error_mean", "calibration": "floor", "budget": "target", "cells": "mse"}
    column = floats[name] if (verb, name) != ("table_scaling", "calibration") else "p"
    for values, why in (
        (["a"], f": the column {column} holds string and not"),
        ([[0.5]], f": the column {column} holds list<"),
        ([None], f", row 1: {column} is null"),
        ([math.nan], f", row 1: {column} is not a finite number"),
        ([1e300], f", row 1: {column} is 1e+300, which is too large"),
    ):
        if column == "p" and isinstance(values[0], float):
            continue
        path.write_bytes(whole.read_bytes())

        def other(table, values=values):
            array = pa.array(values * table.num_rows)
            return table.set_column(table.column_names.index(column), column, array)

        change(path, other)
        refused(run(verb), files, f"{path}{why}")


@pytest.mark.parametrize("name", ["figure", "figure.foo", "figure.pdf.gz", "report/figure.jpg"])
def test_a_figure_needs_a_known_format(files, capsys, name):
    assert cli.main([*map(str, command(files, "fig_sweeps", name))]) == 2
    assert f"{name}: the name of a figure must end in .pdf, .png or .svg" in capsys.readouterr().err


def test_results_of_the_workflow_are_made_again_and_others_not(tmp_path):
    (tmp_path / "results").mkdir()
    for path, advice in (
        ("results/x.parquet", "`rm .*` makes it again"),
        ("x.parquet", "give a file that koct has made"),
    ):
        (tmp_path / path).write_text("x")
        with pytest.raises(KoctError, match=advice):
            products.make("table_calibration", [tmp_path / path] * 2, [tmp_path / "out.tex"])
