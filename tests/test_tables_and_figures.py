"""What the paper lacks: norms beside slopes, intervals of floor and sigma, held-out errors, the factors over ε.

Numbers are checked against a computation by hand from the Parquet files of the reference.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from scipy.optimize import brentq
from scipy.stats import t as student
from test_workflow import compiles

from koct import Forecast, Pilot, cli
from koct.base.stamps import Stamp
from koct.bound.calibration import Calibration, calibrate
from koct.config import study_file as config
from koct.errors import KoctError
from koct.forecast.heldout import count, held_out
from koct.operators.parallel import projector
from koct.report import calibration_table, factors, figures, heldout, html_tables, norms_table
from koct.study.results import CALIBRATION, CELLS, CURVES, read, write
from koct.workflow import shown

REFERENCE = ROOT / "results/reference"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
NAMES = {"cells": CELLS, "curves": CURVES, "calibration": CALIBRATION}


def parquet(name, study=""):
    return str(REFERENCE / study / f"{name}.parquet")


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


def restricted(folder, keep, change=lambda row: row):
    """cells, curves and calibration of the reference with only some rows."""
    for name, columns in NAMES.items():
        rows, origin = read(parquet(name))
        write([change(row) for row in rows if keep(row)], columns, folder / f"{name}.parquet", origin, Stamp({}))
    return [str(folder / f"{name}.parquet") for name in NAMES]


# Norms beside slopes


def test_norms_and_ratios_are_those_of_a_singular_value_decomposition_and_of_the_cells(cells):
    text = (REFERENCE / "table_norms.tex").read_text()
    lines = [line for line in text.splitlines() if line.startswith("$H = ")]
    assert len(lines) == len(CONFIG["studies"]["full"])
    for sweep, line in zip(CONFIG["studies"]["full"], lines, strict=True):
        filter_norm, back_norm, amplification, matched, ratio, low, high, quotient = numbers(line)
        H = CONFIG["sweeps"][sweep]["H"]
        assert filter_norm == 0.5  # the largest |frequency| of an even number of bins
        assert amplification == pytest.approx(8 * (filter_norm * back_norm) ** 2, rel=6e-3)
        assert matched == pytest.approx((H / (2 * filter_norm * back_norm)) ** 2, rel=6e-3)
        found = over_seeds(cells, sweep, lambda kept, sweep=sweep: slope_ratio(kept, sweep))
        assert [ratio, low, high] == pytest.approx(found, rel=6e-3)
        assert quotient == pytest.approx(matched / ratio, rel=1e-2)
    dense = np.stack([projector(8, 10)(image).ravel() for image in np.eye(64).reshape(64, 8, 8)])
    assert numbers(lines[0])[1] == pytest.approx(np.linalg.norm(dense, 2), rel=1e-3)


def slope_ratio(cells, sweep):
    return floor_and_sigma(cells, sweep, "fc")[1] / floor_and_sigma(cells, sweep, "ko")[1]


def test_the_verb_makes_the_committed_rows(tmp_path):
    out = tmp_path / "table.tex"
    inputs = [text for name in NAMES for text in (f"--{name}", parquet(name))]
    assert not cli.main(["table-norms", *inputs, "--sweeps", "H8", "H16", "--out", str(out)])
    made = [line for line in out.read_text().splitlines() if line.startswith("$H = ")]
    committed = (REFERENCE / "table_norms.tex").read_text().splitlines()
    assert made == [line for line in committed if line.startswith(("$H = 8$", "$H = 16$"))]


def test_without_the_dense_network_there_are_norms_and_no_ratio(tmp_path):
    files = restricted(tmp_path, lambda row: row["sweep"] == "H8" and row["arch"] == "ko")
    norms_table.table(*files, tmp_path / "norms.tex")
    assert r"& $0.983$ & -- & -- & -- \\" in (tmp_path / "norms.tex").read_text()
    with pytest.raises(KoctError, match="both networks"):
        factors.figure(files[2], [str(tmp_path / "fig.png")])
    other = restricted(tmp_path, lambda row: row["sweep"] == "H8", lambda row: {**row, "problem": "own"})
    with pytest.raises(KoctError, match="operating point"):  # another problem of the same size has other norms
        norms_table.table(*other, tmp_path / "norms.tex")


# Intervals of floor and sigma


def test_floors_slopes_and_their_intervals_are_those_of_the_cells(cells):
    lines = (REFERENCE / "table_calibration_wide.tex").read_text().splitlines()
    rows = [line for line in lines if line.startswith((r"\quad KO", r"\quad FC"))]
    curves = [(sweep, arch) for sweep in CONFIG["studies"]["full"] for arch in ("ko", "fc")]
    for (sweep, arch), line in zip(curves, rows, strict=True):
        *found, fit, ratio, N = numbers(line)
        by_hand = over_seeds(cells, sweep, lambda kept, key=(sweep, arch): floor_and_sigma(kept, *key))
        assert found == pytest.approx(np.transpose(by_hand).ravel(), rel=1e-2)
        errors = error_means(cells, sweep, arch)
        floor, sigma = by_hand[0]
        bound = floor + sigma * np.log(errors.index) / errors.index
        assert fit == pytest.approx(1 - ((errors - bound) ** 2).sum() / ((errors - errors.mean()) ** 2).sum(), abs=6e-3)
        assert (N, ratio) == ((errors / bound).idxmax(), pytest.approx((errors / bound).max(), abs=6e-3))
    heads = [re.search(r"(one|\d) seeds?", line)[0] for line in lines if "multicolumn" in line]
    assert heads == ["5 seeds"] * 3 + ["3 seeds"] * 6


def test_one_seed_has_no_interval(tmp_path):
    files = restricted(tmp_path, lambda row: row["sweep"] == "H8" and row.get("seed", 1) == 1)
    cells = pd.read_parquet(files[0])
    curves, origin = read(files[1])
    means = {arch: error_means(cells, "H8", arch) for arch in ("ko", "fc")}
    rows = [{**row, "error_mean": float(means[row["arch"]][row["N"]])} for row in curves if row["N"]]
    write(rows, CURVES, files[1], origin, Stamp({}))
    calibration_table.table(*files, tmp_path / "wide.tex")
    norms_table.table(*files, tmp_path / "norms.tex")
    text = (tmp_path / "wide.tex").read_text()
    assert "one seed" in text
    assert not re.search(r"\d\\,\[", text)
    assert " & -- & " in (tmp_path / "norms.tex").read_text()
    heldout.figure(files[0], files[1], [str(tmp_path / "fig.png")])


@pytest.mark.parametrize("name", ["table_norms", "table_calibration_wide"])
def test_the_tables_compile_and_have_a_page(tmp_path, name):
    text = (REFERENCE / f"{name}.tex").read_text()
    compiles([text], tmp_path)
    assert "<table>" in html_tables.document(text)


# Errors that were held out


@pytest.mark.parametrize(("sizes", "expected"), [(2, 0), (3, 1), (4, 1), (5, 2), (6, 2)])
def test_so_many_sizes_are_held_out(sizes, expected):
    assert count(sizes) == expected


def test_predictions_are_those_of_the_smaller_sizes(cells, capsys, monkeypatch):
    monkeypatch.setattr(figures, "save", lambda *_: None)
    heldout.figure(parquet("cells"), parquet("curves"), [])
    assert "all networks: 36 of 36 intervals contain the measured error" in capsys.readouterr().out
    rows = cells[(cells["sweep"] == "H128") & (cells["arch"] == "fc")]
    runs = [rows[key].to_numpy() for key in ("N", "rrmse_peak", "seed")]
    means = error_means(cells, "H128", "fc").to_dict()
    points = held_out(runs[0], runs[1] ** 2, runs[2], means)
    kept = rows[rows["N"] < 1024]
    forecast = Forecast(Pilot.from_points(kept["N"], kept["rrmse_peak"] ** 2, kept["seed"])).predict([1024, 2048])
    bound = calibrate([4, 16, 64, 256], [means[N] for N in (4, 16, 64, 256)])
    assert [point.N for point in points] == [1024, 2048]
    assert [point.measured for point in points] == [means[1024], means[2048]]
    assert [point.bound for point in points] == pytest.approx(bound.predict([1024, 2048]))
    assert [point[3:] for point in points] == [pytest.approx(part) for part in np.transpose(forecast)]
    later = np.where(runs[0] >= 1024, 7.0, runs[1] ** 2)  # what is held out has no say
    again = held_out(runs[0], later, runs[2], {**means, 2048: 7.0})
    assert [point[2:] for point in again] == [point[2:] for point in points]


# The two factors


def calibrations():
    rows = pd.read_parquet(parquet("calibration")).set_index(["sweep", "arch"])[["floor", "sigma"]]
    return {sweep: [Calibration(*rows.loc[(sweep, arch)]) for arch in ("ko", "fc")] for sweep, _ in rows.index}


def solved(fit, target):
    """N on the falling branch by bisection; NaN if there is none."""
    low, high = np.e, 1e9
    gap = [fit.predict(N) - target for N in (low, high)]
    return brentq(lambda N: fit.predict(N) - target, low, high) if gap[0] > 0 > gap[1] else np.nan


@pytest.mark.parametrize("sweep", ["H8", "H32", "H128"])
def test_factors_and_their_range_are_those_of_the_bounds(sweep):
    known, dense = calibrations()[sweep]
    low, high = factors.limits(known, dense)
    targets = np.linspace(0.5 * min(low, high), 1.5 * max(low, high), 41)
    structural, approximation, product, ratio = factors.curves(known, dense, targets).values()
    N = np.array([[solved(fit, target) for fit in (known, dense)] for target in targets])
    both = np.isfinite(N).all(axis=1)
    assert (both == ((targets > low) & (targets < high))).all()
    assert both.any() == (sweep != "H8")  # where no target error has both
    np.testing.assert_allclose(ratio, np.where(both, N[:, 1] / N[:, 0], np.nan), rtol=1e-6)
    np.testing.assert_allclose(structural[both], dense.sigma / known.sigma)
    np.testing.assert_allclose(approximation[both], ((targets - known.floor) / (targets - dense.floor))[both])
    rates = (N / np.log(N))[both]
    np.testing.assert_allclose(product[both], rates[:, 1] / rates[:, 0], rtol=1e-6)


def test_a_curve_without_slope_is_drawn_without_factors(tmp_path, capsys):
    rows, origin = read(parquet("calibration"))
    flat = [{**row, "floor": 0.0, "sigma": 0.0} for row in rows if row["sweep"] == "H8"]
    write(flat, CALIBRATION, tmp_path / "calibration.parquet", origin, Stamp({}))
    factors.figure(str(tmp_path / "calibration.parquet"), [str(tmp_path / "fig.png")])
    assert "H8: no target error" in capsys.readouterr().out


# What a reader sees


@pytest.fixture
def drawn(monkeypatch):
    """Draw without a file: the figure, with all of its text laid out."""
    found = []
    monkeypatch.setattr(figures, "save", lambda figure, *_: found.append(figure))

    def draw(function, *paths):
        function(*paths, [])
        found[-1].canvas.draw()
        return found[-1]

    return draw


@pytest.mark.parametrize("study", ["", "crossing"])
def test_text_stays_within_the_figure_and_the_legend_meets_no_panel(drawn, study):
    held = drawn(heldout.figure, parquet("cells", study), parquet("curves", study))
    assert held.get_size_inches()[0] == pytest.approx(heldout.WIDTH)
    for figure in (held, drawn(factors.figure, parquet("calibration", study))):
        (legend,) = figure.legends
        box, page = legend.get_window_extent(), figure.bbox
        panels = [axis for axis in figure.axes if axis.get_title()]
        for extent in (box, *(axis.get_tightbbox() for axis in panels)):
            assert page.x0 <= extent.x0 <= extent.x1 <= page.x1
            assert page.y0 <= extent.y0 <= extent.y1 <= page.y1
        assert not any(box.overlaps(axis.get_tightbbox()) for axis in panels)


def test_a_network_alone_is_a_figure_too(drawn, tmp_path):
    files = restricted(tmp_path, lambda row: row["sweep"] == "H8" and row["arch"] == "ko")
    figure = drawn(heldout.figure, *files[:2])
    assert [text.get_text() for text in figure.legends[0].get_texts()][:1] == ["KO"]
    few = restricted(tmp_path, lambda row: row["sweep"] == "H8" and row.get("N", 4) <= 8)
    with pytest.raises(KoctError, match="three N"):
        heldout.figure(*few[:2], [])


VERBS = {
    "figure-sweeps": ["--cells", "--curves", "--calibration", "--theory"],
    "figure-theory": ["theory"],
    "figure-heldout": ["--cells", "--curves"],
    "figure-factors": ["calibration"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_parquet_gives_the_same_bytes(tmp_path, verb):
    inputs = []
    for name in VERBS[verb]:
        inputs += [name] if name.startswith("--") else []
        inputs.append(parquet(name.removeprefix("--"), "modalities"))
    made = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        out = [str(tmp_path / folder / f"figure.{kind}") for kind in ("pdf", "png")]
        assert not cli.main([verb, *inputs, "--out", *out])
        made.append([(tmp_path / folder / f"figure.{kind}").read_bytes() for kind in ("pdf", "png")])
    assert made[0] == made[1]


# Which study has what


def study_of(name, **changes):
    settings = json.loads(json.dumps(CONFIG)) | {"study": name}
    for sweep in settings["studies"][name]:
        settings["sweeps"][sweep] |= changes
    return config.read(settings)


@pytest.mark.parametrize(
    ("study", "normed", "paired", "changes"),
    [
        ("full", CONFIG["studies"]["full"], True, {}),
        ("ladder", CONFIG["studies"]["ladder"], True, {}),
        ("dose", [], False, {}),
        ("modalities", [], True, {}),
        ("ridge", [], True, {"arc": 90}),  # another geometry than the paper's
        ("surrogate", [], False, {"archs": ["fc"]}),
    ],
)
def test_the_workflow_makes_what_a_study_has(study, normed, paired, changes):
    found = study_of(study, **changes)
    assert (shown.normed(found), shown.paired(found), shown.held_out(found)) == (normed, paired, True)
    assert not shown.held_out(study_of("surrogate", N=[4, 8]))
