"""How wrong an operator may be: figure and table from made-up curves, and which studies have them."""

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
