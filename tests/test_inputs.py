"""What tables and figures make of files that koct has not made: one sentence with the file and what it lacks."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT

from koct import cli
from koct.base.stamps import Stamp
from koct.errors import KoctError
from koct.report import drawing, products
from koct.report.labels import Names, described
from koct.study.results import CALIBRATION, CELLS, read, write


@pytest.fixture
def run(tmp_path, capsys):
    """Make a product of the files of the reference, in `tmp_path`; it is made, or refused with these words."""
    for path in (ROOT / "results/reference").glob("*.parquet"):
        shutil.copy(path, tmp_path)

    def run(name, words="", out=None):
        out = tmp_path / (out or f"out.{'png' if name.startswith('fig') else 'tex'}")
        inputs = [tmp_path / file for file in products.product(name).reads]
        status, error = cli.main([*map(str, ["product", name, *inputs, "--out", out])]), capsys.readouterr().err
        assert (status, len(error.splitlines()), out.exists()) == ((2, 1, False) if words else (0, 0, True)), error
        assert words in error
        out.unlink(missing_ok=True)

    return run


@pytest.mark.parametrize(
    ("product", "name"), [("table_calibration", "calibration"), ("table_budget", "budget"), ("fig_sweeps", "cells")]
)
def test_only_what_koct_has_made_is_read(tmp_path, run, product, name):
    run(product)
    path = tmp_path / f"{name}.parquet"
    own = pq.ParquetFile(path).read()
    path.write_text("N,error\n")
    run(product, f"{path} is not a Parquet file; give a file that koct has made")
    pq.write_table(own.replace_schema_metadata(None), path)  # as pandas would
    run(product, f"{path} is not a file of this version of koct: it has no stamp; give a file that")
    write([{"sweep": "H8"}], ["sweep"], path, {}, Stamp({}))
    run(product, f"{path} lacks the column arch")
    write([], CELLS, path, {}, Stamp({}))
    run(product, "" if name == "budget" else f"{path} has no rows")  # a study may have no targets
    path.unlink()
    run(product, f"{path} does not exist")


def test_files_of_two_studies_are_told_apart(tmp_path, run):
    rows, origin = read(tmp_path / "calibration.parquet")
    others = [row for row in rows if (row["sweep"], row["arch"]) != ("H8", "fc")]
    write(others, CALIBRATION, tmp_path / "calibration.parquet", origin, Stamp({}))
    for product in ("table_scaling", "fig_sweeps"):
        run(product, f"{tmp_path}/calibration.parquet lacks H8 fc, which {tmp_path}/")


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
    for key, value in (("colour", "greenish"), ("marker", "banana")):
        with pytest.raises(KoctError, match=f"the {key} '{value}' of ko is unknown to Matplotlib"):
            Names({"koct.archs": json.dumps({"ko": {key: value}})}).colour("ko")


def test_a_network_looks_the_same_in_every_figure_whatever_else_that_shows():
    origin = {"koct.archs": json.dumps({"a": {"label": "A"}, "b": {"label": "B"}})}
    alone, beside = Names(origin), Names(origin)
    beside.colour("a")
    assert (alone.colour("b"), alone.marker("b")) == (beside.colour("b"), beside.marker("b"))
    assert alone.colour("a") != alone.colour("b")


def test_views_of_two_kinds_of_scan_are_told_with_the_kind():
    words = ["ellipses, 30 views", "ellipses, 15 views", "fan beam, 60 views", "fan beam, 30 views", "head, 9 views"]
    names = Names({"koct.sweeps": json.dumps({label: {"label": label} for label in words})})
    told = [names.sweep({"sweep": label, "H": 128}) for label in words]
    assert told == [*(f"$H = 128$ ({label})" for label in words[:4]), "$H = 128$ (head)"]
    del names.sweeps["fan beam, 30 views"]
    assert names.sweep({"sweep": "ellipses, 15 views", "H": 128}) == "$H = 128$ (15 views)"


def test_networks_of_a_user_share_no_colour_while_there_are_others():
    shipped = {f"s{number}": {"colour": f"#{number}00000", "marker": "o"} for number in range(9)}
    names = Names({"koct.archs": json.dumps({"mine": {}, **shipped, "other": {}})})
    assert len({names.colour(name) for name in ("mine", "other", *shipped)}) == 2 + len(shipped)


def test_a_figure_needs_a_known_format_and_formulas_that_are_some(run, tmp_path):
    run("fig_sweeps", "figure.pdf.gz: the name of a figure must end in .pdf, .png or .svg", "figure.pdf.gz")
    figure, axes = drawing.panels(1, 1)
    axes[0, 0].set_title(r"$\nonsense$")
    with pytest.raises(KoctError, match=r"out\.png cannot be drawn: .*nonsense"):
        drawing.save(figure, [tmp_path / "out.png"])
    assert not list(tmp_path.glob("*out*"))
