"""What dose and arc do to the number of samples, as a reader sees it: crossings and the table, from made-up curves."""

import json

import numpy as np
import pytest
from test_workflow import compiles

from koct import cli
from koct.base.stamps import Stamp
from koct.forecast.crossing import overtaken
from koct.report.tables import table_conditions
from koct.study import results

SIZES = np.array([4, 16, 64, 256])
LABELS = {
    "few": "fan beam, exact rays, 1,000 photons, arc 90°",
    "many": "fan beam, exact rays",
    "other": "parallel beam",
}
CROSSINGS = {"few": 23.0, "many": None, "other": None}  # where the dense network's curve meets the other


# Where a curve overtakes another


@pytest.mark.parametrize("crossing", [5.0, 16.0, 23.0, 200.0])
def test_power_laws_cross_where_they_cross(crossing):
    flat, steep = SIZES**-0.1, SIZES**-0.6
    steep = steep * crossing**0.5
    assert overtaken(SIZES, flat, steep) == pytest.approx(crossing)
    assert overtaken(SIZES[::-1], flat[::-1], steep[::-1]) == pytest.approx(crossing)  # in any order of N
    assert overtaken(SIZES, steep, flat) is None  # below at first, and not at the end


@pytest.mark.parametrize(
    ("error", "other", "expected"),
    [
        ([2, 2, 2, 2], [1, 1, 1, 1], 4),  # always below
        ([1, 1, 1, 1], [2, 1, 1, 1], None),  # equal is not below
        ([2, 1, 2, 2], [1, 2, 2, 1], 64),  # below, above, equal, below: from where it stays below
        ([2, 2, 2, 2], [3, 3, 3, 0], 256),  # no logarithm of zero
    ],
)
def test_what_counts_is_the_last_change(error, other, expected):
    assert overtaken(SIZES, error, other) == expected


# The table


def write_results(folder, labels=LABELS):
    """curves, calibration and budget of sweeps with two networks, the steep one with more parameters."""
    curves, fitted, answers = [], [], []
    for sweep in labels:
        about = {"sweep": sweep, "problem": labels[sweep].split(",")[0], "H": 32, "V": 20, "B": 32, "metric": "mse"}
        flat, steep = SIZES**-0.1, SIZES**-0.6 * (CROSSINGS[sweep] or 10**6) ** 0.5
        for arch, p, errors in (("ko", 640, flat), ("fc", 655360, steep)):
            curves += [
                {**about, "arch": arch, "N": int(N), "error_mean": error, "error_std": 0.0, "seeds": 2}
                for N, error in zip(SIZES, errors, strict=True)
            ]
            fitted.append({**about, "arch": arch, "p": p, "floor": 0.1, "sigma": 1.0})
            rest = dict.fromkeys(results.BUDGET) | {"law": "power", "reachable": arch == "ko"}
            answers.append({**rest, **about, "arch": arch, "target": 0.01, "n": 12345 if arch == "ko" else None})
    styles = {arch: {"label": arch.upper(), "colour": "", "marker": ""} for arch in ("ko", "fc")}
    told = {sweep: {"label": label, "metric": "mse"} for sweep, label in labels.items()}
    origin = {"koct.archs": json.dumps(styles), "koct.sweeps": json.dumps(told)}
    for name, rows, columns in (
        ("curves", curves, results.CURVES),
        ("calibration", fitted, results.CALIBRATION),
        ("budget", answers, results.BUDGET),
    ):
        results.write(rows, columns, folder / f"{name}.parquet", origin, Stamp({}))


def run(folder):
    inputs = [f"{folder}/{file}" for file in table_conditions.PRODUCT.reads]
    return cli.main(["product", "table_conditions", *inputs, "--out", f"{folder}/table.tex"])


def test_a_row_has_what_the_planner_answers_and_where_the_larger_network_overtakes(tmp_path):
    write_results(tmp_path)
    assert not run(tmp_path)
    text = (tmp_path / "table.tex").read_text()
    assert r"{fan beam, $H = 32$, exact rays, $V = 20$, $B = 32$}" in text
    assert r"\quad 1,000 photons, arc 90$^\circ$ & $12{,}345$ & never & $23$ \\" in text
    assert r"\quad none & $12{,}345$ & never & $>$ $256$ \\" in text
    assert r"FC below" in text
    assert "parallel" not in text  # it has nothing to be compared with
    compiles([text], tmp_path)


def test_without_conditions_there_is_no_table(tmp_path, capsys):
    write_results(tmp_path, {"many": LABELS["many"], "other": LABELS["other"]})
    assert run(tmp_path)
    assert "no two sweeps of this study differ in the conditions" in capsys.readouterr().err
    assert not (tmp_path / "table.tex").exists()
