"""The benchmark and wrong operators as a reader sees them: figures and tables from made-up cells."""

import itertools
import json
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from made_up import cell, save
from test_workflow import compiles

from koct.base.stamps import Stamp
from koct.config import study_file as config
from koct.report import mismatch, products
from koct.report.figures import fig_benchmark, fig_mismatch
from koct.report.tables import table_benchmark
from koct.study import aggregation, results
from koct.workflow import when

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


def table(name, folder, **takes):
    """A product, which compiles, and the cells of its rows."""
    path = folder / f"{name}.tex"
    products.make(name, [folder / file for file in products.product(name).reads], [path], takes or None)
    compiles([path.read_text()], folder)
    return [line.removesuffix(r" \\").split(" & ") for line in path.read_text().splitlines() if line.endswith(r" \\")]


# The benchmark

CURVES = {"tv": {0: 0.3}, "line": {4: 0.9, 64: 0.5, 1024: 0.4}, "net": {4: 0.5, 64: 0.2}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("benchmark"), []
    for sweep, (arch, curve), seed in itertools.product("AB", CURVES.items(), (1, 2, 3)):
        times = {"fit_seconds": 12.3 * seed, "image_seconds": 0.0014 if arch != "line" else None}
        for N, error in curve.items():
            others = {**times, "ssim": 1 - error, "p": 1000 * bool(N)}
            rows.append(cell(sweep, arch, N, seed, error * (1 + 0.01 * seed), **others))
    spec = save(folder, rows, {sweep: f"the condition {sweep}" for sweep in "AB"}, CURVES)
    spec["targets"] = {sweep: [0.6, 0.3, 0.01] for sweep in "AB"}
    aggregation.budget(folder / "cells.parquet", None, spec, folder / "budget.parquet")
    return folder


def test_a_row_says_what_a_network_needs(folder):
    rows = [row for row in table("table_benchmark", folder) if row[0].startswith(r"\quad ")]
    tv, line, net = rows[:3]
    assert len(rows) == 6
    assert tv[:6] == [r"\quad Tv", "$0$", r"$3.06 \cdot 10^{-1}$", "$0$", "never", "never"]
    assert (net[1], net[3]) == ("$1{,}000$", r"$\leq$ $4$")
    assert net[4].startswith("$")
    assert net[6:] == ["25", "1.4"]
    assert line[6:] == ["25", "--"]


def test_fresh_samples_are_a_last_tick_and_a_column_and_what_they_tell_the_forecast(tmp_path):
    rows, found = [], {}
    for (arch, curve), seed in itertools.product(CURVES.items(), (1, 2, 3)):
        rows += [cell("A", arch, N, seed, error * (1 + 0.01 * seed), ssim=1 - error) for N, error in curve.items()]
    pool = cell("A", "line", -1, 1, 0.19, ssim=0.5, steps=None, drawn=4096)
    fresh = cell("A", "net", -1, 1, 0.19, ssim=0.5, steps=8000, drawn=32000, gain=0.01, edge=False)
    studies = {"without": rows, "with": [*rows, pool, fresh], "unfinished": [*rows, pool, fresh | {"edge": True}]}
    for name, study in studies.items():
        folder = tmp_path / name
        folder.mkdir()
        spec = save(folder, study, {"A": "the condition A"}, CURVES) | {"targets": {"A": [0.3, 0.1]}}
        aggregation.budget(folder / "cells.parquet", None, spec, folder / "budget.parquet")
        found[name] = (
            results.read(folder / "calibration.parquet")[0],
            {row["arch"]: row for row in results.read(folder / "budget.parquet")[0] if row["target"] == 0.1},
        )
    assert found["with"][0] == found["without"][0] == found["unfinished"][0]
    (_, free), (_, told), (_, unfinished) = found.values()
    assert told["net"]["n"] is None
    assert "error is 0.19: no N goes below it" in told["net"]["reason"]
    assert {key: unfinished["net"][key] for key in ("n", "n_high", "error")} == {
        key: free["net"][key] for key in ("n", "n_high", "error")
    }
    assert told["line"] == unfinished["line"]
    assert 4096 < told["line"]["n"] != free["line"]["n"], "a whole pool is its 4,096 samples, and no floor"
    assert "fresh" not in told["line"]["reason"]
    folder = tmp_path / "with"
    results.write([], results.THEORY, folder / "theory.parquet", {}, Stamp({}))
    for name in ("fig_sweeps", "fig_benchmark"):
        products.make(name, [folder / file for file in products.product(name).reads], [folder / f"{name}.svg"])
        assert "fresh" in (folder / f"{name}.svg").read_text()
    figure = fig_benchmark.figure(folder / "cells.parquet", folder / "curves.parquet")
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["4", "64", "1,024", "fresh"]
    assert "Fresh is the whole pool of 4,096 samples for Line." in figure.texts[-1].get_text()
    net = next(row for row in table("table_benchmark", folder) if row[0].endswith("Net"))
    assert r"$1.90 \cdot 10^{-1}$" in net
    read = [folder / f"{name}.parquet" for name in ("cells", "curves", "budget")]
    assert "by the forecast" in table_benchmark.table(*read).caption
    aggregation.budget(folder / "cells.parquet", None, spec | {"targets": {"A": []}}, folder / "budget.parquet")
    assert "target" not in table_benchmark.table(*read).caption


def test_the_figure_has_a_column_for_every_condition_and_a_label_for_every_curve(folder):
    made = fig_benchmark.figure(folder / "cells.parquet", folder / "curves.parquet")
    assert [axis.get_title() for axis in made.axes] == ["the condition A", "the condition B", "", ""]
    for axis in made.axes:
        assert sorted(text.get_text() for text in axis.texts) == ["Line", "Net", "Tv"]
        heights = sorted(text.xyann[1] for text in axis.texts)
        assert min(b - a for a, b in itertools.pairwise(heights)) > 0.03
    error, similarity = made.axes[0], made.axes[2]
    assert error.get_ylim() == made.axes[1].get_ylim()
    assert similarity.lines[1].get_ydata() == pytest.approx([0.1, 0.5, 0.6])


def test_a_network_ends_at_its_own_largest_N():
    (sweep, _) = config.read({**CONFIG, "study": "benchmark"})
    ends = {arch: sweep.sizes_of(sweep.arch(arch))[-1] for arch in ("unet", "fc", "tv")}
    assert ends == {"unet": 4096, "fc": 16384, "tv": 0}
    assert max(cell["N"] for cell in sweep.grid() if cell["arch"] == "unet") == 4096
    changed = {**CONFIG["sweeps"]["ellipses50"], "unet": {"N": [4, 5, "fresh"]}}
    with pytest.raises(config.KoctError, match=r"sweeps.ellipses50.unet.N has 5, fresh, which the sweep's N lacks"):
        config.read({**CONFIG, "study": "benchmark", "sweeps": {**CONFIG["sweeps"], "ellipses50": changed}})


# Wrong operators

SWEEPS = {"aligned": ["", 0.0], "gain-1": ["gain", 1.0], "gain-4": ["gain", 4.0], "turn-1": ["turn", 1.0]}
SWEEPS = {sweep: ["misaligned", *difference] for sweep, difference in SWEEPS.items()}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """Weights whose error is as large as the gain; filters that are twice as bad; a dense matrix that learns."""
    folder, rows = tmp_path_factory.mktemp("mismatch"), []
    for (sweep, (*_, strength)), N in itertools.product(SWEEPS.items(), (4, 64, 1024)):
        errors = {"ko-ridge": 0.5 + strength, "filters": 1 + 2 * strength, "fc": 128 / N}
        rows += [cell(sweep, arch, N, error=error, problem="misaligned") for arch, error in errors.items()]
    save(folder, rows)
    return folder


def test_the_table_has_the_difference_from_which_on_learning_wins(wrong):
    gain, turn = table("table_mismatch", wrong, mismatch=SWEEPS)[-2:]
    assert [gain[0], turn[0]] == [r"gain of the detector, \%", r"offset of all angles, $^\circ$"]
    assert gain[1:3] == ["$> 4$", "$> 4$"]
    assert 1 < float(gain[3].strip("$")) < 4  # 2 against 1.5 and 4.5
    assert gain[4] == "$0$"  # 0.125 against 0.5 at least
    assert turn[1:] == ["$> 1$", "$> 1$", "$> 1$", "$0$"]


def test_the_figure_has_two_panels_for_every_kind(wrong):
    made = fig_mismatch.figure(wrong / "curves.parquet", SWEEPS)
    upper, lower = made.axes[:2], made.axes[2:]
    assert [axis.get_title() for axis in upper] == ["gain of the detector", "offset of all angles"]
    assert [len(axis.lines) for axis in upper] == [2 + 1, 1 + 1]  # a line for every strength, and the dense matrix
    assert [axis.get_xlabel() for axis in lower] == ["difference in %", "difference in °"]
    assert lower[0].get_ylim() == lower[1].get_ylim()


def test_all_tables_of_a_study_of_many_sweeps_fit_their_pages(tmp_path):
    """The 58 sweeps of the study `mismatch`, with made-up errors."""
    study, rows = config.read({**CONFIG, "study": "mismatch"}), defaultdict(list)
    differences = when.mismatch(study)
    expected = {"aligned": ["misaligned", "", 0.0], "offset-0.25": ["misaligned", "offset_mm", 0.25]}
    assert differences.items() >= {**expected, "blur-10": ["deblur", "widened", 10.0]}.items()
    assert len(differences) == 58
    assert {kind for _, kind, _ in differences.values()} == {"", *mismatch.KINDS}
    same = {"p": 999_999, "n": 999, "n_low": 99, "n_high": 9999, "law": "power 87 %, broken 12 %", "target": 0.01}
    same |= {"versus": "untrained", "N_low": 9, "N_high": 999, "upto": 1024, "rank": 1, "best": True}
    for sweep in study:
        about = {key: getattr(sweep.problem, key, None) for key in ("H", "V", "B")}
        about |= {**same, "problem": sweep.problem.name, "metric": sweep.metric}
        for point in sweep.grid():
            error = 0.9 / (1 + point["N"]) ** 0.5 + 0.01 * point["seed"]
            row = defaultdict(lambda: None, cell(**point, error=error, error_mean=error, **about))
            rows["cells"].append(row)
            if point["N"] and point["seed"] == 1:
                rows["ladder"].append(row)
            if point["N"] == 1024 and point["seed"] == 1:
                rows["budget"].append(row)
                rows["crossings"].append(row)
    labels = {sweep.name: {"label": sweep.problem.label, "metric": sweep.metric} for sweep in study}
    styles = {arch.name: config.style(arch) for arch in study[0].archs}
    origin = {"koct.sweeps": json.dumps(labels), "koct.archs": json.dumps(styles), "koct.chains": "{}"}
    for name, made in rows.items():
        results.write(made, getattr(results, name.upper()), tmp_path / f"{name}.parquet", origin, Stamp({}))
    cells, *others = (tmp_path / f"{name}.parquet" for name in ("cells", "curves", "calibration"))
    aggregation.aggregate(cells, {"metrics": {sweep.name: sweep.metric for sweep in study}}, *others)
    tables = [Path(path).stem for path in when.published(study) if path.endswith(".tex")]
    assert len(tables) == 7  # no ladder and no benchmark of wrong operators
    for name in tables:
        table(name, tmp_path, **{key: when.answer(key, study) for key in products.product(name).takes})
