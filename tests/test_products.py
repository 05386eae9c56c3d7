"""Tables, figures and pages: one file each, the committed references, and numbers against a computation by hand."""

import importlib.util
import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from made_up import check_layout
from PIL import Image
from scipy.stats import t as student
from test_workflow import compiles

from koct.base import stamps
from koct.base.files import write_text
from koct.base.stamps import Stamp
from koct.bound.calibration import Calibration, calibrate
from koct.config import study_file as config
from koct.config.sweep import Grid
from koct.contracts.options import options
from koct.errors import KoctError
from koct.forecast.budget import held_out
from koct.operators.parallel import projector
from koct.report import drawing, markup, products
from koct.report.figures import fig_factors, fig_heldout
from koct.report.labels import Names
from koct.report.pages import answer_page
from koct.report.table import BREAK, Span, Table, Underline, save
from koct.report.tables import table_calibration, table_conditions
from koct.study.results import CALIBRATION, CELLS, CURVES, read, write
from koct.workflow import when

REFERENCE = ROOT / "results/reference"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
TABLES = sorted(REFERENCE.rglob("table_*.tex"))
NAMES = {"cells": CELLS, "curves": CURVES, "calibration": CALIBRATION}


def parquet(name, study=""):
    return str(REFERENCE / study / f"{name}.parquet")


def make(name, source, *out, **takes):
    """Make a product from the files of a folder."""
    reads = [str(source / file) for file in products.product(name).reads]
    products.make(name, reads, [str(path) for path in out], takes or None)


# One file each


@pytest.mark.parametrize(
    ("name", "out", "sentence"),
    [
        ("table_x", "x.tex", "table_x is no product; there are "),
        ("table_scaling", "x.tex", "is made from curves.parquet calibration.parquet; give these files"),
        ("table_fullscale", "x.csv", "x.csv: the name of a table must end in .tex or .html"),
        ("fig_recons", "x.png", "fig_recons is made sweep by sweep"),
    ],
)
def test_a_mistake_is_one_sentence(koct, tmp_path, name, out, sentence):
    status, _, err = koct("product", name, "--out", out)
    assert status == 2
    assert sentence in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["table_mismatch", "fig_mismatch", "table_worth", "fig_worth", "fig_transfer"])
def test_a_product_that_no_file_tells_enough_for_is_left_to_the_workflow(name, tmp_path):
    with pytest.raises(KoctError, match="needs to know of the study what no file says; `snakemake` makes it"):
        make(name, REFERENCE / "mismatch", tmp_path / f"x.{'tex' if name.startswith('table') else 'pdf'}")


@pytest.mark.parametrize("label", ["a~b", r"a\b", "$a_{b_{c}}$", "a b"])
def test_a_label_that_is_no_index_stands_above(label):
    head = table_calibration._head(SimpleNamespace(arch=lambda arch: {"fc": "FC"}.get(arch, label)), ["fc", "own"])
    texts = [cell if isinstance(cell, str) else cell.text for row in head if isinstance(row, list) for cell in row]
    assert label in texts
    assert all(markup.latex(text) and markup.html(text) for text in texts if text)


def test_every_product_can_be_asked_for_and_reads_what_is_made():
    made = {f"{name}.parquet" for name in (*NAMES, "images", "budget", "theory", "crossings", "ladder", "transfer")}
    for name, product in products.products().items():
        assert set(product.reads) <= made, name
        known = {*when.QUESTIONS, *options(Grid), "study", "products", "sweeps"}
        assert {product.when, *product.takes} <= known, name
        assert importlib.util.find_spec(product.module), name
        assert product.caption, name


ALL = {"norms", "factors", "heldout", "conditions", "ladder", "benchmark", "mismatch"}
HAVE = {
    "full": ({"norms", "factors", "heldout", "conditions"}, {}),
    "ladder": ({"norms", "factors", "heldout", "ladder"}, {}),
    "dose": ({"heldout", "conditions", "ladder"}, {}),
    "benchmark": ({"norms", "factors", "heldout", "ladder", "benchmark"}, {}),
    "mismatch": ({"heldout", "conditions", "mismatch"}, {}),
    "modalities": ({"factors", "heldout"}, {}),
    "ridge": ({"factors", "heldout"}, {"arc": 90}),  # another geometry than the paper's
    "surrogate": (set(), {"archs": ["fc"], "N": [4, 8]}),
}


@pytest.mark.parametrize("study", HAVE)
def test_the_workflow_makes_what_a_study_has(study):
    has, changes = HAVE[study]
    changed = {sweep: {**CONFIG["sweeps"][sweep], **changes} for sweep in CONFIG["studies"][study]}
    sweeps = config.read({**CONFIG, "study": study, "sweeps": {**CONFIG["sweeps"], **changed}})
    published = " ".join(when.published(sweeps))
    assert {name for name in ALL if re.search(rf"results/(table|fig)_{name}\.", published)} == has


def test_a_product_that_a_study_does_not_have_is_refused_before_its_first_job():
    sweeps = config.read({**CONFIG, "study": "surrogate"})
    when.refuse_others(sweeps, [*when.published(sweeps), "results/fits/H8/fc_N4_seed1.npz"])
    for product in products.products().values():
        if product.when != "always" and not product.per_sweep and not when.answer(product.when, sweeps):
            with pytest.raises(KoctError, match=f"{product.name} is only for studies with .*; take another study"):
                when.refuse_others(sweeps, product.outputs[-1:])
    assert {product.when for product in products.products().values()} == {"always", *when.CONDITIONS}


def test_conditions_say_the_number_of_views_once_and_the_sweep_if_they_are_alike():
    row = {"problem": "fanbeam", "H": 128, "B": 128}
    labels = {f"{V}": {"label": f"fan beam, {V} views"} for V in (30, 60)}
    names = Names({"koct.sweeps": json.dumps(labels)})
    (found,) = table_conditions.compared([{**row, "sweep": name, "V": int(name)} for name in labels], names).values()
    assert found == [("30", "30 views"), ("60", "60 views")]
    names.sweeps["again"] = names.sweeps["60"]
    rows = [{**row, "sweep": name, "V": V} for name, V in (("30", 30), ("60", 60), ("again", 60))]
    (found,) = table_conditions.compared(rows, names).values()
    assert [words for _, words in found] == ["30 views", "60 views (60)", "60 views (again)"]


def test_the_answer_counts_the_sweeps_that_have_something_to_beat():
    some, all_lost = answer_page._summary(3, [True], []), answer_page._summary(2, [False, False], [])
    assert some == "In 1 of 3 sweeps a network becomes better than the best of what needs no sample."
    assert all_lost == "In all sweeps no network is better than the best of what needs no sample."


def test_what_another_study_left_is_kept_apart_and_not_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = ["claims.html", "fig_recons_H8.png", "report/table_norms.html", "ladder.json"]
    kept = ["fig_sweeps.png", "fig_recons_H16.png", "cells.parquet", "pools/H8/seed1.npy"]
    for name in (*left, *kept):
        (tmp_path / "results" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "results" / name).write_text(name)
    write_text("results/README.md", "# The study old", Stamp({"study": "old"}))
    own = ["results/README.md", *(f"results/{name}" for name in kept[:2])]
    moved = products.set_aside(own, ["results/ladder.json"])
    assert sorted(moved) == sorted(f"results/previous/old/{name}" for name in left)
    assert all((tmp_path / "results/previous/old" / name).read_text() == name for name in left)
    assert all((tmp_path / "results" / name).read_text() == name for name in kept)
    assert not products.set_aside(own)


# The committed references


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_table_of_the_reference_is_the_committed_one_and_nothing_is_lost_in_html(path, tmp_path):
    latex, page = tmp_path / "table.tex", tmp_path / "table.html"
    drawn, takes = stamps.read(path).spec, products.product(path.stem).takes
    make(path.stem, path.parent, latex, page, **{name: drawn[name] for name in takes if name in drawn})
    made, kept = (re.sub(" +", " ", of.read_text().partition("% {")[0]) for of in (latex, path))
    assert re.sub(r"\n ", "\n", made) == re.sub(r"\n ", "\n", kept)
    assert stamps.check(latex).inputs == stamps.check(page).inputs
    table = page.read_text().partition("<table>")[2].partition("<!--")[0]
    widths = [
        [int(width or 1) for width in re.findall(r"<t[hd](?: colspan=(\d+))?", row)] for row in table.split("<tr")[1:]
    ]
    assert len(set(map(sum, widths))) == 1
    lines = [line for line in made.partition(r"\toprule")[2].partition(r"\bottomrule")[0].splitlines() if "&" in line]
    assert len(widths) >= len(lines)
    for line in lines:
        for number in re.findall(r"(?<![\w.{])\d+(?:\.\d+)?(?![\w.}])", line.replace("{,}", "")):
            assert number in re.sub(r"(?<=\d),(?=\d)", "", table), line
    assert not set("\\$") & set(table)


def test_the_tables_of_the_reference_compile(tmp_path):
    compiles([path.read_text() for path in TABLES], tmp_path)


def test_a_column_of_dashes_is_left_out_and_a_long_table_takes_several_pages(tmp_path):
    blocks = [[[Span(4, "@{}l", f"block {i}")], *([f"row {j}", "1", "--", "2"] for j in range(9))] for i in range(12)]
    body = [row for block in blocks for row in (BREAK, *block)][1:]
    head = [["", Span(3, "c", "wide")], Underline((("lr", 2, 4),)), ["", "a", "b", "c"]]
    table = Table("A caption", "lrrr", head, body)
    assert (table.columns, table.head) == (
        "lrr",
        [["", Span(2, "c", "wide")], Underline((("lr", 2, 3),)), ["", "a", "c"]],
    )
    assert [len(page) for page in table.pages()] == [32, 32, 32, 32]
    save(table, [tmp_path / "long.tex"], Stamp({}), "long")
    text = (tmp_path / "long.tex").read_text()
    assert text.count(r"row 8 & 1 & 2 \\") == 12
    compiles([text], tmp_path)


@pytest.mark.parametrize(
    ("text", "latex", "html"),
    [
        (r"$2.48 \cdot 10^{-3}$", None, "2.48 · 10<sup>−3</sup>"),
        (r"$\mathrm{floor}_{\mathrm{KO}}$", None, "floor<sub>KO</sub>"),
        (r"$p_{\mathrm{FC}} = H^2$", None, "<i>p</i><sub>FC</sub> = <i>H</i><sup>2</sup>"),
        (r"$N_{1 \cdot 10^{-3}}$", None, "<i>N</i><sub>1 · 10<sup>−3</sup></sub>"),
        (r"$141{,}857$", None, "141,857"),
        ("arc 90°", r"arc 90$^\circ$", "arc 90°"),
        (r"4 to $\infty$, $>$ $64$", None, "4 to ∞, &gt; 64"),
        ("-- a_b & 90 % <b>", r"-- a\_b \& 90 \% <b>", "– a_b &amp; 90 % &lt;b&gt;"),
    ],
)
def test_text_in_latex_and_html(text, latex, html):
    assert (markup.latex(text), markup.html(text)) == (latex or text, html)
    with pytest.raises(KoctError, match=r"\\heartsuit has no symbol"):  # and leaves no gap
        markup.html(r"$\heartsuit$")


def test_no_label_runs_a_command_of_latex():
    assert markup.latex(r"\input{x} a^^5c ~") == (
        r"\textbackslash{}input\{x\} a\textasciicircum{}\textasciicircum{}5c \textasciitilde{}"
    )
    assert markup.latex("5 $") == r"5 \$"
    for text in (r"$\input{x}$", r"a $ \input{x} $", "$^^5cinput{x}$", "$%$", r"$\\$"):
        with pytest.raises(KoctError, match="between dollars, which no table takes; remove it"):
            markup.latex(text)


@pytest.mark.parametrize("name", ["fig_sweeps", "fig_heldout"])
def test_the_same_parquet_gives_the_same_bytes_and_a_smaller_preview(tmp_path, name):
    made = []
    for folder in ("first", "second"):
        out = [tmp_path / folder / place for place in ("figure.pdf", "figure.png", "report/figure.png")]
        make(name, REFERENCE / "modalities", *out)
        made.append([path.read_bytes() for path in out])
    assert made[0] == made[1]
    large, small = (Image.open(path) for path in out[1:])
    assert small.width == min(large.width, drawing.PREVIEW_WIDTH)
    assert abs(np.asarray(small.convert("L")).mean() - np.asarray(large.convert("L")).mean()) < 1


# Numbers by hand


@pytest.fixture(scope="module")
def cells():
    return pd.read_parquet(parquet("cells"))


def error_means(cells, sweep, arch):
    """The mean error at every N, as the paper takes it."""
    rows = cells[(cells["sweep"] == sweep) & (cells["arch"] == arch)]
    if sweep in ("H8", "H16", "H32"):
        return rows.groupby("N")["mse"].mean()
    return rows.groupby("N")["rrmse_peak"].mean() ** 2


def floor_and_sigma(cells, sweep, arch):
    errors = error_means(cells, sweep, arch)
    rate = np.log(errors.index) / errors.index
    return np.array([errors.min(), np.sum(rate * (errors - errors.min())) / np.sum(rate**2)])


def slope_ratio(cells, sweep):
    return floor_and_sigma(cells, sweep, "fc")[1] / floor_and_sigma(cells, sweep, "ko")[1]


def over_seeds(cells, sweep, statistic):
    """(value, low, high) by the jackknife of logarithms, with Student's quantile."""
    seeds = sorted(cells[cells["sweep"] == sweep]["seed"].unique())
    left_out = np.log([statistic(cells[cells["seed"] != seed]) for seed in seeds])
    n = len(seeds)
    error = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0))
    value, margin = statistic(cells), np.exp(student.ppf(0.95, n - 1) * error)
    return value, value / margin, value * margin


def numbers(line):
    """The numbers in a line of a table, in the order they stand in; a power of ten counts for all of its cell."""
    found = []
    for cell in line.removesuffix(r" \\").split(" & ")[1:]:
        power = re.search(r"10\^\{(-?\d+)\}", cell)
        plain = re.sub(r"\\cdot 10\^\{-?\d+\}", "", cell).replace("{,}", "").replace(r"\,", " ")
        found += [float(text) * 10.0 ** int(power[1] if power else 0) for text in re.findall(r"-?\d+\.?\d*", plain)]
    return found


def test_norms_and_ratios_are_those_of_a_singular_value_decomposition_and_of_the_cells(cells):
    lines = [line for line in (REFERENCE / "table_norms.tex").read_text().splitlines() if line.startswith("$H = ")]
    for sweep, line in zip(CONFIG["studies"]["full"], lines, strict=True):
        filter_norm, back_norm, amplification, matched, ratio, low, high, quotient = numbers(line)
        assert filter_norm == 0.5  # the largest |frequency| of an even number of bins
        assert amplification == pytest.approx(8 * (filter_norm * back_norm) ** 2, rel=6e-3)
        assert matched == pytest.approx((CONFIG["sweeps"][sweep]["H"] / (2 * filter_norm * back_norm)) ** 2, rel=6e-3)
        found = over_seeds(cells, sweep, lambda kept, sweep=sweep: slope_ratio(kept, sweep))
        assert [ratio, low, high] == pytest.approx(found, rel=6e-3)
        assert quotient == pytest.approx(matched / ratio, rel=1e-2)
    dense = np.stack([projector(8, 10)(image).ravel() for image in np.eye(64).reshape(64, 8, 8)])
    assert numbers(lines[0])[1] == pytest.approx(np.linalg.norm(dense, 2), rel=1e-3)


def test_floors_slopes_and_their_intervals_are_those_of_the_cells(cells):
    lines = (REFERENCE / "table_calibration_wide.tex").read_text().splitlines()
    rows = [line for line in lines if line.startswith((r"\quad KO", r"\quad FC"))]
    curves = [(sweep, arch) for sweep in CONFIG["studies"]["full"] for arch in ("ko", "fc")]
    for (sweep, arch), line in zip(curves, rows, strict=True):
        *found, fit, ratio, N = numbers(line)
        by_hand = over_seeds(cells, sweep, lambda kept, key=(sweep, arch): floor_and_sigma(kept, *key))
        assert found == pytest.approx(np.transpose(by_hand).ravel(), rel=1e-2)
        errors, (floor, sigma) = error_means(cells, sweep, arch), by_hand[0]
        bound = floor + sigma * np.log(errors.index) / errors.index
        assert fit == pytest.approx(1 - ((errors - bound) ** 2).sum() / ((errors - errors.mean()) ** 2).sum(), abs=6e-3)
        assert (N, ratio) == ((errors / bound).idxmax(), pytest.approx((errors / bound).max(), abs=6e-3))


def test_predictions_are_those_of_the_smaller_sizes(cells, capsys):
    fig_heldout.figure(parquet("cells"), parquet("curves"))
    assert "all networks: 36 of 36 intervals contain the measured error" in capsys.readouterr().out
    rows = cells[(cells["sweep"] == "H128") & (cells["arch"] == "fc")]
    runs = [rows[key].to_numpy() for key in ("N", "rrmse_peak", "seed")]
    means = error_means(cells, "H128", "fc").to_dict()
    points = held_out(runs[0], runs[1] ** 2, runs[2], means)
    bound = calibrate([4, 16, 64, 256], [means[N] for N in (4, 16, 64, 256)])
    assert [(point.N, point.measured) for point in points] == [(N, means[N]) for N in (1024, 2048)]
    assert [point.bound for point in points] == pytest.approx(bound.predict([1024, 2048]))
    later = np.where(runs[0] >= 1024, 7.0, runs[1] ** 2)  # what is held out has no say
    again = held_out(runs[0], later, runs[2], {**means, 2048: 7.0})
    assert [point[2:] for point in again] == [point[2:] for point in points]


@pytest.mark.parametrize("sweep", ["H8", "H32", "H128"])
def test_factors_and_their_range_are_those_of_the_bounds(sweep):
    rows = pd.read_parquet(parquet("calibration")).set_index(["sweep", "arch"])[["floor", "sigma"]]
    known, dense = (Calibration(*rows.loc[(sweep, arch)]) for arch in ("ko", "fc"))
    low, high = fig_factors.limits(known, dense)
    targets = np.linspace(0.5 * min(low, high), 1.5 * max(low, high), 41)
    structural, approximation, product, ratio = fig_factors.curves(known, dense, targets).values()
    N = np.array([[fit.required(target).n for fit in (known, dense)] for target in targets], float)
    both = np.isfinite(N).all(axis=1)
    assert (both == ((targets > low) & (targets < high))).all()
    assert both.any() == (sweep != "H8")  # where no target error has both
    np.testing.assert_allclose(ratio, np.where(both, N[:, 1] / N[:, 0], np.nan), rtol=1e-6)
    np.testing.assert_allclose(structural[both], dense.sigma / known.sigma)
    np.testing.assert_allclose(approximation[both], ((targets - known.floor) / (targets - dense.floor))[both])
    rates = (N / np.log(N))[both]
    np.testing.assert_allclose(product[both], rates[:, 1] / rates[:, 0], rtol=1e-6)


# What a reader sees


def restricted(folder, keep, **told):
    """cells, curves and calibration of the reference with only some rows, and with what else is told of H8."""
    for name, columns in NAMES.items():
        rows, origin = read(parquet(name))
        about = json.loads(origin["koct.sweeps"])
        about["H8"] |= told
        origin["koct.sweeps"] = json.dumps(about)
        write([row for row in rows if keep(row)], columns, folder / f"{name}.parquet", origin, Stamp({}))
    return folder


def test_what_a_study_lacks_is_left_out_or_said(tmp_path):
    out = tmp_path / "out.tex"
    restricted(tmp_path, lambda row: row["sweep"] == "H8" and row["arch"] == "ko", counts="groups")
    make("table_norms", tmp_path, out)
    assert r"& $0.983$ \\" in out.read_text()  # no ratio, interval and quotient
    make("table_calibration", tmp_path, out)
    assert "$N$ counts groups, not single samples, in H8." in out.read_text()
    with pytest.raises(KoctError, match="both networks"):
        make("fig_factors", tmp_path, tmp_path / "fig.png")
    restricted(tmp_path, lambda row: row["sweep"] == "H8" and row.get("N", 4) <= 8)
    with pytest.raises(KoctError, match="three N"):
        make("fig_heldout", tmp_path, tmp_path / "fig.png")


@pytest.mark.parametrize("study", ["", "crossing"])
@pytest.mark.parametrize("module", [fig_heldout, fig_factors])
def test_text_stays_within_the_figure_and_the_legend_meets_no_panel(study, module):
    with drawing.styled():
        figure = module.figure(*(REFERENCE / study / file for file in module.PRODUCT.reads))
        check_layout(figure)
    drawing.plt.close(figure)
