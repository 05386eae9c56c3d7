"""The benchmark as a reader sees it: figure and table from made-up cells, and which studies have them."""

import itertools
import json

import pytest
import yaml
from conftest import ROOT
from test_workflow import compiles

from koct.base.stamps import Stamp
from koct.config import study_file as config
from koct.report import products
from koct.report.figures import fig_benchmark
from koct.study import results
from koct.workflow import when

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
CURVES = {"tv": {0: 0.3}, "line": {4: 0.9, 64: 0.5, 1024: 0.4}, "net": {4: 0.5, 64: 0.2}}
SPEC = {"metrics": {"A": "mse", "B": "mse"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("benchmark"), []
    for sweep in "AB":
        for arch, curve in CURVES.items():
            for N, error in curve.items():
                for seed in (1, 2, 3):
                    about = {"sweep": sweep, "problem": "x", "H": 8, "V": None, "B": None, "arch": arch, "N": N}
                    about |= {"seed": seed, "lam": None, "p": 1000 * bool(N), "val_mse": error, "device": "cpu"}
                    values = dict.fromkeys(results.METRICS, error * (1 + 0.01 * seed)) | {"ssim": 1 - error}
                    times = {"fit_seconds": 12.3 * seed, "image_seconds": 0.0014 if arch != "line" else None}
                    rows.append({**about, **values, **times})
    labels = {arch: {"label": arch.capitalize(), "colour": "", "marker": ""} for arch in CURVES}
    about = {sweep: {"label": f"the condition {sweep}"} for sweep in "AB"}
    origin = {"koct.archs": json.dumps(labels), "koct.sweeps": json.dumps(about)}
    results.write(rows, results.CELLS, folder / "cells.parquet", origin, Stamp({}))
    results.aggregate(folder / "cells.parquet", SPEC, folder / "curves.parquet", folder / "calibration.parquet")
    wanted = {**SPEC, "targets": {sweep: [0.6, 0.3, 0.01] for sweep in "AB"}}
    results.budget(folder / "cells.parquet", None, wanted, folder / "budget.parquet")
    return folder


def test_a_row_says_what_a_network_needs(folder):
    path = folder / "table_benchmark.tex"
    products.make("table_benchmark", [folder / f"{name}.parquet" for name in ("cells", "curves", "budget")], [path])
    text = path.read_text()
    compiles([text], folder)
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.startswith(r"\quad ")]
    tv, line, net = rows[:3]
    assert len(rows) == 6
    assert tv[:3] == [r"\quad Tv", "$0$", r"$3.06 \cdot 10^{-1}$"]
    assert tv[3:6] == ["$0$", "never", "never"]
    assert net[1] == "$1{,}000$"
    assert net[3] == r"$\leq$ $4$"
    assert net[4].startswith("$")
    assert net[6:] == ["25", "1.4"]
    assert line[6:] == ["25", "--"]


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


@pytest.mark.parametrize(("study", "sweeps"), [("surrogate", []), ("benchmark", ["ellipses50", "fanbeam-1e4"])])
def test_a_study_with_a_torch_module_has_them(study, sweeps):
    assert when.benchmark(config.read({**CONFIG, "study": study})) == sweeps


def test_a_network_ends_at_its_own_largest_N():
    (sweep, _) = config.read({**CONFIG, "study": "benchmark"})
    assert sweep.sizes_of(sweep.arch("unet"))[-1] == 4096
    assert sweep.sizes_of(sweep.arch("fc"))[-1] == 16384
    assert sweep.sizes_of(sweep.arch("tv")) == (0,)
    cells = [cell["N"] for cell in sweep.grid() if cell["arch"] == "unet"]
    assert (max(cells), len(cells)) == (4096, 18)
    changed = {**CONFIG["sweeps"]["ellipses50"], "unet": {"up_to": 4}}
    with pytest.raises(config.KoctError, match=r"sweeps.ellipses50.unet.up_to = 4 leaves fewer than two N"):
        config.read({**CONFIG, "study": "benchmark", "sweeps": {**CONFIG["sweeps"], "ellipses50": changed}})
