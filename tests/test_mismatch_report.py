"""How wrong an operator may be: figure and table from made-up curves, and which studies have them."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from test_workflow import compiles

from koct.base.stamps import Stamp
from koct.config import study_file as config
from koct.report import mismatch, products
from koct.report.figures import fig_mismatch
from koct.study import results
from koct.workflow import when

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
SWEEPS = {"aligned": ["", 0.0], "gain-1": ["gain", 1.0], "gain-4": ["gain", 4.0], "turn-1": ["turn", 1.0]}
SWEEPS = {sweep: ["misaligned", *difference] for sweep, difference in SWEEPS.items()}
SIZES = (4, 64, 1024)


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """Weights whose error is as large as the gain; filters that are twice as bad; a dense matrix that learns."""
    path, rows = tmp_path_factory.mktemp("mismatch") / "curves.parquet", []
    for sweep, (*_, strength) in SWEEPS.items():
        for N in SIZES:
            for arch, error in {"ko-ridge": 0.5 + strength, "filters": 1 + 2 * strength, "fc": 128 / N}.items():
                about = {"sweep": sweep, "problem": "misaligned", "H": 32, "arch": arch, "N": N, "metric": "mse"}
                rows.append({**about, "error_mean": error, "error_std": None, "seeds": 1})
    results.write(rows, results.CURVES, path, {}, Stamp({}))
    return path


def test_the_table_has_the_difference_from_which_on_learning_wins(curves, tmp_path):
    path = tmp_path / "table_mismatch.tex"
    products.make("table_mismatch", [curves], [path], {"mismatch": SWEEPS})
    text = path.read_text()
    compiles([text], tmp_path)
    rows = [
        line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if "detector" in line or "angles" in line
    ]
    assert [row[0] for row in rows] == [r"gain of the detector, \%", r"offset of all angles, $^\circ$"]
    filters, dense = rows[0][1:3], rows[0][3:]
    assert filters == ["$> 4$", "$> 4$"]
    assert dense[1] == "$0$"  # 0.125 against 0.5 at least
    assert 1 < float(dense[0].strip("$")) < 4  # 2 against 1.5 and 4.5
    assert rows[1][1:] == ["$> 1$", "$> 1$", "$> 1$", "$0$"]


def test_the_figure_has_two_panels_for_every_kind(curves):
    made = fig_mismatch.figure(curves, SWEEPS)
    upper, lower = made.axes[:2], made.axes[2:]
    assert [axis.get_title() for axis in upper] == ["gain of the detector", "offset of all angles"]
    assert [len(axis.lines) for axis in upper] == [2 + 1, 1 + 1]  # a line for every strength, and the dense matrix
    assert [axis.get_xlabel() for axis in lower] == ["difference in %", "difference in °"]
    assert lower[0].get_ylim() == lower[1].get_ylim()


def test_all_tables_of_a_study_of_many_sweeps_fit_their_pages(tmp_path):
    """The 58 sweeps of the study `mismatch`, with made-up errors."""
    study, rows = config.read({**CONFIG, "study": "mismatch"}), defaultdict(list)
    same = {"p": 999_999, "n": 999, "n_low": 99, "n_high": 9999, "law": "power 87 %, broken 12 %", "target": 0.01}
    same |= {"versus": "untrained", "N_low": 9, "N_high": 999, "upto": 1024, "rank": 1, "best": True}
    same |= {"fit_seconds": 1.0, "device": "cpu"}
    for sweep in study:
        about = {key: getattr(sweep.problem, key, None) for key in ("H", "V", "B")}
        about |= {**same, "problem": sweep.problem.name, "metric": sweep.metric}
        for cell in sweep.grid():
            error = 0.9 / (1 + cell["N"]) ** 0.5 + 0.01 * cell["seed"]
            errors = dict.fromkeys((*results.METRICS, "error_mean", "val_mse"), error)
            rows["cells"].append(defaultdict(lambda: None, {**about, **cell, **errors}))
            if cell["N"] and cell["seed"] == 1:
                rows["ladder"].append(rows["cells"][-1])
            if cell["N"] == 1024 and cell["seed"] == 1:
                rows["budget"].append(rows["cells"][-1])
                rows["crossings"].append(rows["cells"][-1])
    labels = {sweep.name: {"label": sweep.problem.label, "metric": sweep.metric} for sweep in study}
    styles = {arch.name: config.style(arch) for arch in study[0].archs}
    origin = {"koct.sweeps": json.dumps(labels), "koct.archs": json.dumps(styles), "koct.chains": "{}"}
    for name, made in rows.items():
        results.write(made, getattr(results, name.upper()), tmp_path / f"{name}.parquet", origin, Stamp({}))
    cells, *others = (tmp_path / f"{name}.parquet" for name in ("cells", "curves", "calibration"))
    results.aggregate(cells, {"metrics": {sweep.name: sweep.metric for sweep in study}}, *others)
    tables = [Path(path) for path in when.published(study) if path.endswith(".tex")]
    for path in tables:
        product = products.product(path.stem)
        takes = {name: when.answer(name, study) for name in product.takes}
        products.make(path.stem, [tmp_path / name for name in product.reads], [tmp_path / path.name], takes)
    assert len(tables) == 7  # no ladder and no benchmark of wrong operators
    compiles([(tmp_path / path.name).read_text() for path in tables], tmp_path)


def test_studies_of_one_difference_at_a_time_have_them():
    study = config.read({**CONFIG, "study": "mismatch"})
    found = when.mismatch(study)
    assert len(found) == 58
    assert found["aligned"] == ["misaligned", "", 0.0]
    assert found["offset-0.25"] == ["misaligned", "offset_mm", 0.25]
    assert found["blur-10"] == ["deblur", "widened", 10.0]
    assert {kind for _, kind, _ in found.values()} == {"", *mismatch.KINDS}
    assert "results/fig_mismatch.pdf" in when.published(study)
    assert not when.mismatch(config.read({**CONFIG, "study": "paper"}))
