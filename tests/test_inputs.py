"""What tables and figures make of files that koct has not made: one sentence with the file and what it lacks."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_report import made_up_curves

from koct import cli
from koct.base.stamps import Stamp
from koct.errors import KoctError
from koct.report import drawing, products
from koct.report.labels import Names, described
from koct.study.results import BUDGET, CELLS, THEORY, write

SWEEPS = {("H8", "surrogate", 8): {"ko": [0.3, 0.1], "fc": [0.5, 0.4]}}
PAIRS = [
    ("table_calibration", "calibration"),
    ("table_scaling", "curves"),
    ("table_budget", "budget"),
    ("fig_sweeps", "cells"),
]


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
    return tmp_path


@pytest.fixture
def run(files, capsys):
    """(status, stderr) of a product."""

    def run(name, out=None):
        out = files / (out or ("out.png" if name.startswith("fig") else "out.tex"))
        inputs = [files / file for file in products.product(name).reads]
        return cli.main([*map(str, ["product", name, *inputs, "--out", out])]), capsys.readouterr().err

    return run


def refused(found, files, words):
    status, error = found
    assert status == 2
    assert len(error.splitlines()) == 1
    assert words in error
    assert not [path for path in files.iterdir() if path.name.startswith("out")]


@pytest.mark.parametrize(("product", "name"), PAIRS)
def test_only_what_koct_has_made_is_read(files, run, product, name):
    assert run(product)[0] == 0
    for path in files.glob("out*"):
        path.unlink()
    path = files / f"{name}.parquet"
    own = pq.ParquetFile(path).read()
    path.write_text("N,error\n")
    refused(run(product), files, f"{path} is not a Parquet file; give a file that koct has made")
    pq.write_table(own.replace_schema_metadata(None), path)  # as pandas would
    refused(run(product), files, f"{path} is not a file of this version of koct: it has no stamp; give a file that")
    write([{"sweep": "H8"}], ["sweep"], path, {}, Stamp({}))
    refused(run(product), files, f"{path} lacks the column arch")
    write([], CELLS, path, {}, Stamp({}))
    if name == "budget":  # a study without targets
        assert run(product)[0] == 0
    else:
        refused(run(product), files, f"{path} has no rows")
        path.unlink()
        refused(run(product), files, f"{path} does not exist")


def test_files_of_two_studies_are_told_apart(files, run):
    made_up_curves(files, {next(iter(SWEEPS)): {"ko": [0.3, 0.1]}}, {})
    (files / "calibration.parquet").rename(files / "kept")
    made_up_curves(files, SWEEPS, {"H8": "surrogate"})
    (files / "kept").rename(files / "calibration.parquet")
    for product in ("table_scaling", "fig_sweeps"):
        refused(run(product), files, f"{files}/calibration.parquet lacks H8 fc, which {files}/")


def test_results_of_the_workflow_are_made_again_and_others_not(tmp_path):
    (tmp_path / "results").mkdir()
    for path, advice in (("results/x.parquet", "`rm .*` makes it again"), ("x.parquet", "give a file that koct has")):
        pq.write_table(pa.table({"x": [1]}), tmp_path / path)
        with pytest.raises(KoctError, match=advice):
            products.make("table_calibration", [tmp_path / path] * 2, [tmp_path / "out.tex"])


def test_names_without_metadata_or_with_half_of_it():
    assert Names().arch("ko") == "KO"
    names = Names({"koct.archs": '{"ko": {"label": "Known"}, "fc": {"colour": null}}'})
    assert (names.arch("ko"), names.arch("fc")) == ("Known", "FC")
    assert names.colour("ko") != names.colour("fc")
    for text in ("", "{", "[]", '{"ko": 3}', '{"ko": {"label": []}}', "[" * 100_000):
        with pytest.raises(KoctError, match="is not what koct writes"):
            described({"koct.sweeps": text}, "koct.sweeps")


@pytest.mark.parametrize(("key", "value"), [("colour", "greenish"), ("marker", "banana")])
def test_a_style_that_matplotlib_does_not_know(key, value):
    names = Names({"koct.archs": json.dumps({"ko": {key: value}})})
    with pytest.raises(KoctError, match=f"the {key} '{value}' of ko is unknown to Matplotlib"):
        names.colour("ko")


@pytest.mark.parametrize("name", ["figure", "figure.pdf.gz", "report/figure.jpg"])
def test_a_figure_needs_a_known_format(run, files, name):
    refused(run("fig_sweeps", name), files, f"{name}: the name of a figure must end in .pdf, .png or .svg")


def test_a_formula_that_is_none_is_a_sentence(tmp_path):
    figure, axes = drawing.panels(1, 1)
    axes[0, 0].set_title(r"$\nonsense$")
    with pytest.raises(KoctError, match=r"out\.png cannot be drawn: .*nonsense"):
        drawing.save(figure, [tmp_path / "out.png"])
    assert not list(tmp_path.iterdir())
