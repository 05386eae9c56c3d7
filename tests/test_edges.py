"""Choices at an edge and labels that N does not count: carried to curves, and marked wherever a reader sees them."""

import importlib
import itertools

import pytest
from made_up import cell, save
from test_benchmark_report import table

from koct.base.stamps import Stamp
from koct.report import drawing, products
from koct.report.figures import fig_training
from koct.study import aggregation, results

LABELS = "Validation pairs, which $N$ does not count"
CURVES = {"tv": {0: 0.03}, "ko": {4: 0.9, 64: 0.5, 1024: 0.4}, "fc": {4: 2.0, 64: 0.6, 1024: 0.2}}
TABLES = ("table_benchmark", "table_crossings", "table_ladder", "table_budget", "table_calibration")
FIGURES = ("fig_sweeps", "fig_ladder", "fig_benchmark")


def study(folder, edges, tuned_on, told=True, gain=None):
    """Write results of a sweep; `edges` are (arch, N) whose first seed is at an edge, if the cells tell.

    With a `gain` they are trainings.
    """
    folder.mkdir()
    rows, answers = [], []
    for arch, seed in itertools.product(CURVES, (1, 2)):
        for N, error in CURVES[arch].items():
            chosen = {"tuned_on": tuned_on, "edge": seed == 1 and (arch, N) in edges} if told else {}
            chosen |= {"gain": gain, "steps": 1000} if gain is not None else {}
            about = {"p": 9 * bool(N), "image_seconds": 0.1, "ssim": 1 / (1 + error), **chosen}
            rows.append(cell("A", arch, N, seed, error * (1 + 0.01 * seed), **about))
    spec = save(folder, rows, {"A": "a sweep"}, CURVES)
    aggregation.budget(folder / "cells.parquet", None, {**spec, "targets": {"A": [0.3]}}, folder / "budget.parquet")
    curves, origin = results.read(folder / "curves.parquet")
    for row in (row for row in curves if row["N"]):
        told = {"known": 1, "learned": 1, "rank": 1, "mean_low": None, "mean_high": None, "beyond": False}
        answers.append({**row, **told, "p": 9, "best": row["arch"] == "fc", "behind": 0.0})
    results.write(answers, results.LADDER, folder / "ladder.parquet", origin, Stamp({}))
    results.write([], results.THEORY, folder / "theory.parquet", origin, Stamp({}))
    crossing = {**answers[0], "arch": "fc", "versus": "ko", "N": 99, "N_low": 90, "N_high": 110, "upto": 1024}
    results.write([crossing], results.CROSSINGS, folder / "crossings.parquet", origin, Stamp({}))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make the study of a name, once: call it with what it is made of."""
    folder, studies = tmp_path_factory.mktemp("edges"), {}

    def make(name, *of, **told):
        if name not in studies:
            studies[name] = study(folder / name, *of, **told), of, told
        assert studies[name][1:] == (of, told), f"two studies have the name {name}"
        return studies[name][0]

    return make


def test_a_point_of_a_curve_counts_its_cells_at_an_edge_and_old_cells_leave_it_open(made):
    for told in (True, False):
        rows, _ = results.read(made(str(told), {("fc", 64), ("tv", 0)}, "noise", told=told) / "curves.parquet")
        found = {(row["arch"], row["N"]): (row["edges"], row["tuned_on"]) for row in rows}
        expected = {key: (int(key in {("fc", 64), ("tv", 0)}), "noise") for key in found}
        assert found == (expected if told else dict.fromkeys(found, (None, None)))


def drawn(name, folder):
    with drawing.styled():
        figure = importlib.import_module(products.product(name).module).figure(
            *(folder / file for file in products.product(name).reads)
        )
    lines = [line for axis in figure.axes for line in axis.lines if str(line.get_markerfacecolor()) == "white"]
    places = {tuple(line.get_xdata()) for line in lines if len(line.get_xdata())}
    drawing.plt.close(figure)
    return places


@pytest.mark.parametrize("name", FIGURES)
def test_hollow_markers_are_where_the_edges_are_and_nowhere_else(made, name):
    places = drawn(name, made("edges", {("fc", 64), ("fc", 4), ("ko", 1024)}, "training pairs"))
    assert {(4, 64), (1024,)} <= places
    assert len(places - {(4, 64), (1024,), (0.24,)}) == 0  # 0.24: in the key
    assert len(drawn(name, made("line", {("tv", 0)}, "noise")) - {(0.24,)}) == 1
    for nothing in (made("none", set(), "noise"), made("old", set(), None, told=False)):
        assert drawn(name, nothing) == set()


@pytest.mark.parametrize("name", TABLES)
def test_daggers_are_where_the_edges_are_and_a_caption_says_what_N_does_not_count(made, name):
    mark = r"$^\dagger$"
    for folder, edged, labels in (
        (made("labels", {("fc", 64)}, "validation pairs"), 1, 1),
        (made("line", {("tv", 0)}, "noise"), 1, 0),
        (made("inside", set(), "training pairs"), 0, 0),
        (made("old", set(), None, told=False), 0, 0),
    ):
        rows = table(name, folder)
        text = (folder / f"{name}.tex").read_text()
        assert sum(mark in piece for row in rows for piece in row) == edged
        assert text.count(mark) == 2 * edged  # and in the caption
        assert text.count(LABELS) == labels


def test_trainings_are_drawn_up_to_their_steps_and_hollow_where_they_were_not_finished(tmp_path):
    rows = [cell("A", "net", N, 1, losses=[3.0, 2.0, 1.5], steps=400, gain=0.25, edge=N < 0) for N in (16, 128, -1)]
    save(tmp_path, rows)
    with drawing.styled():
        figure = fig_training.figure(tmp_path / "cells.parquet")
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in lines] == [[100, 200, 400]] * 3 + [[400]]
    assert list(lines[-1].get_ydata()) == [1.5]
    few, more, fresh = (sum(line.get_color()) for line in lines[:3])
    assert few > more > fresh  # darker
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert told == ["N = 16", "N = 128", "fresh", drawing.UNFINISHED]
    drawing.plt.close(figure)


def test_a_training_that_was_not_finished_has_words_of_its_own(made):
    folder = made("unfinished", {("fc", 64)}, "training pairs", gain=0.05)
    curves, _ = results.read(folder / "curves.parquet")
    assert {(row["steps"], row["gain"]) for row in curves} == {(1000, 0.05)}
    for name in FIGURES:
        with drawing.styled():
            figure = importlib.import_module(products.product(name).module).figure(
                *(folder / file for file in products.product(name).reads)
            )
        words = [text.get_text() for text in figure.findobj(drawing.plt.Text)]
        assert any(drawing.UNFINISHED in text for text in words), name
        assert not any(drawing.AT_EDGE in text for text in words), name
        drawing.plt.close(figure)
    for name in TABLES:
        table(name, folder)
        text = (folder / f"{name}.tex").read_text()
        assert ("a training was not finished" in text, "a strength that it took" in text) == (True, False), name
        assert (r"$^\ddagger$" in text, r"$^\dagger$" in text) == (True, False), name
