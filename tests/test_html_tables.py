"""Tables and figures for the report: nothing of a table is lost on its way to HTML, and pictures get smaller."""

import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

from koct.base import stamps
from koct.errors import KoctError
from koct.report import html_tables, previews
from koct.report.html_tables import document, inline

TABLES = sorted((ROOT / "results/reference").rglob("table_*.tex"))  # the claims have a page of their own


class Cells(HTMLParser):
    """The text of every cell, row by row; a cell over several columns counts as often."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.open = [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1] += [""] * int(dict(attributes).get("colspan", 1))
            self.open = True

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("th", "td")

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1] += data


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"$2.48 \cdot 10^{-3}$", "2.48 · 10<sup>−3</sup>"),
        (r"$\mathrm{floor}_{\mathrm{KO}}$", "floor<sub>KO</sub>"),
        (
            r"$p_{\mathrm{FC}} / p_{\mathrm{KO}} = H^2$",
            "<i>p</i><sub>FC</sub> / <i>p</i><sub>KO</sub> = <i>H</i><sup>2</sup>",
        ),
        (r"$141{,}857$", "141,857"),
        (r"arc 90$^\circ$", "arc 90°"),
        (r"4 to $\infty$, $>$ $64$", "4 to ∞, &gt; 64"),
        (r"-- a\_b \& 90\,\% <b>", "– a_b &amp; 90\u202f% &lt;b&gt;"),
        (r"\shortstack[r]{filter\\per\\view}", "filter<br>per<br>view"),
    ],
)
def test_symbols(latex, expected):
    assert inline(latex) == expected


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_cell_of_the_reference_is_there(path):
    latex = path.read_text()
    page = document(latex, path)
    rows = Cells(page).rows
    assert len({len(row) for row in rows}) == 1
    lines = [line for line in latex.partition(r"\toprule")[2].partition(r"\bottomrule")[0].splitlines() if "&" in line]
    assert len([row for row in rows if any(row[1:])]) >= len(lines)
    for line in lines:
        for number in re.findall(r"(?<![\w.{])\d+(?:\.\d+)?(?![\w.}])", line.replace("{,}", "")):
            assert number in re.sub(r"(?<=\d),(?=\d)", "", page), line
    assert "\\" not in page.partition("<table>")[2]
    assert "$" not in page.partition("<table>")[2]


def test_an_unknown_command_is_an_error_and_not_a_gap():
    with pytest.raises(KoctError, match=r"\\heartsuit has no translation"):
        inline(r"$\heartsuit$")


def test_pages_are_written_all_or_none(koct, tmp_path):
    (tmp_path / "good.tex").write_text(TABLES[0].read_text())
    (tmp_path / "bad.tex").write_text("no table")
    status, _, err = koct("html-tables", "good.tex", "bad.tex", "--out", "good.html", "bad.html")
    assert status
    assert "bad.tex is not a table that koct has made" in err
    assert not list(tmp_path.glob("*.html"))
    status, _, err = koct("html-tables", "good.tex", "--out", "a.html", "b.html")
    assert "--out has 2 pages for 1 tables; give as many" in err


def test_every_page_and_preview_names_all_inputs_of_its_job(tmp_path):
    """A job is up to date if each of its outputs was made from all of its inputs."""
    sources = TABLES[:2]
    html_tables.convert(sources, [tmp_path / "a.html", tmp_path / "b.html"])
    pictures = sorted((ROOT / "results/reference").glob("fig_*.png"))[-2:]
    previews.reduce(pictures, [tmp_path / "a.png", tmp_path / "b.jpg"])
    for made, inputs in (("*.html", sources), ("?.png", pictures), ("?.jpg", pictures)):
        assert {stamps.read(path).inputs for path in tmp_path.glob(made)} == {stamps.made_from(*inputs)}


def test_a_preview_is_the_same_picture_in_fewer_pixels(tmp_path):
    source = np.zeros((900, 2800, 3), np.uint8)
    source[:, 1400:] = (200, 85, 61)
    Image.fromarray(source).save(tmp_path / "large.png")
    for name in ("small.png", "small.jpg"):
        previews.reduce([tmp_path / "large.png"], [tmp_path / name])
        small = np.asarray(Image.open(tmp_path / name).convert("RGB"), int)
        assert small.shape == (450, previews.WIDTH, 3)
        assert abs(small[:, :600]).max() <= 3
        assert abs(small[:, 800:] - (200, 85, 61)).max() <= 3
    first = (tmp_path / "small.png").read_bytes()
    previews.reduce([tmp_path / "large.png"], [tmp_path / "again.png"])
    assert Image.open(io.BytesIO(first)).tobytes() == Image.open(tmp_path / "again.png").tobytes()


def test_what_is_no_picture_is_refused(koct, tmp_path):
    (tmp_path / "a.png").write_text("text")
    status, _, err = koct("previews", "a.png", "--out", "b.png")
    assert status
    assert "a.png is not a picture" in err
    assert not (tmp_path / "b.png").exists()
