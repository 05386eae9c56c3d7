"""Where curves cross: by every metric, in either direction, with one interval for all who tell it."""

import itertools

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from made_up import cell

from koct.base.stamps import Stamp
from koct.metrics.curve_metric import CurveMetric
from koct.report import markup, overtakes
from koct.report.claims import statistics
from koct.report.measured import Study
from koct.study import crossings, results

N = (4, 16, 64, 256)
SEEDS = (1, 2, 3)
METRICS = ("mse", "rrmse_peak2", "ssim")


def rows(arch, law, p, sizes=N, spread=0.02):
    """Cells of a power law with noise of seeds and images: its square root is rRMSE, and SSIM is one less it."""
    rng, made = np.random.default_rng(len(arch)), []
    for n, seed in itertools.product(sizes, SEEDS):
        errors = law(n) * np.exp(spread * (rng.standard_normal() + rng.standard_normal(30)))
        kept = {"ssim": 1 - errors, "rrmse_peak": errors**0.5}
        images = {name: kept.get(name, errors).tolist() for name in results.METRICS}
        means = {name: float(np.mean(values)) for name, values in images.items()}
        images |= {"same": True, "groups": None}
        made.append({**cell(arch=arch, N=n, seed=seed), **means, "p": p, "images": images})
    return made


def saved(folder, *curves):
    cells = list(itertools.chain(*curves))
    results.write_images(cells, folder / "images.parquet", {}, Stamp({}))
    results.write(cells, results.CELLS, folder / "cells.parquet", {}, Stamp({}))
    return results.Images(folder / "images.parquet")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("at", [5, 16, 23, 200])
def test_power_laws_cross_where_they_cross_by_every_metric_and_one_way_only(metric, at, tmp_path):
    flat, steep = (
        rows(arch, lambda n, slope=slope: 0.1 * (n / at) ** slope, 9, spread=0.0)
        for arch, slope in (("flat", -0.1), ("steep", -0.6))
    )
    images = saved(tmp_path, flat, steep)
    found = crossings.crossing(steep, flat, CurveMetric(metric), images)
    assert found["N"] == pytest.approx(at, rel=crossings.ROUNDING / 10)
    assert found["upto"] == N[-1]
    assert crossings.crossing(flat, steep, CurveMetric(metric), images)["N"] is None


@pytest.mark.parametrize("metric", METRICS)
def test_an_interval_holds_its_crossing_and_ends_at_the_smallest_N(metric, tmp_path):
    level, falls = rows("level", lambda n: 0.1, 0, (0,)), rows("falls", lambda n: 0.2 * (n / 5) ** -0.5, 9)
    early = rows("early", lambda n: 0.1 * (n / 4) ** -0.5, 9)
    images = saved(tmp_path, level, falls, early)
    found = crossings.crossing(falls, level, CurveMetric(metric), images)
    assert 16 < found["N_low"] <= found["N"] <= found["N_high"] < 24
    assert crossings.crossing(early, level, CurveMetric(metric), images)["N_low"] == N[0]


def test_a_row_for_every_metric_that_all_cells_have_and_that_of_the_sweep_first(tmp_path):
    ko, fc = rows("ko", lambda n: 0.1, 1), rows("fc", lambda n: 1 / n, 9)
    for ssim, expected in ((True, ["rrmse_peak2", "mse", "ssim"]), (False, ["rrmse_peak2", "mse"])):
        made = [row if ssim else {**row, "ssim": None} for row in (*ko, *fc)]
        saved(tmp_path, made)
        files = [tmp_path / f"{name}.parquet" for name in ("cells", "images", "crossings")]
        crossings.compute(*files[:2], {"metrics": {"A": "rrmse_peak2"}}, files[2])
        assert [row["metric"] for row in results.read(files[2])[0]] == expected


# What is said of them

ENDS = st.none() | st.integers(4, 99)


@st.composite
def answers(draw):
    low, N, high = sorted((draw(ENDS) for _ in range(3)), key=lambda end: 100 if end is None else end)
    return {"N": N, "N_low": low, "N_high": high, "upto": 99}


@given(answers(), answers())
def test_answers_differ_both_ways_or_not_at_all_and_never_from_themselves(one, other):
    assert overtakes.differ(one, other) == overtakes.differ(other, one)
    assert not overtakes.differ(one, one)


@given(answers())
def test_the_smallest_N_always_stands_for_fewer_as_well(row):
    text = markup.html(overtakes.since(row, 4))
    assert text.startswith("4 or fewer") == (row["N"] == 4)
    assert ("≤ 4" in text) == (row["N_low"] == 4 != row["N_high"] and row["N"] is not None)


def test_a_metric_is_told_where_it_contradicts_and_nowhere_else():
    ends = {"N_low": 10, "N_high": 20}
    own, same, later = ({"N": N, **more} for N, more in ((15, ends), (16, ends), (30, {"N_low": 25, "N_high": 40})))
    never = {"N": None, "N_low": None, "N_high": None}
    of = {"tv": {"mse": own, "ssim": later}, "fbp": {"mse": own, "ssim": same, "rrmse_peak2": never}}
    assert list(overtakes.lines(of, "mse", ["tv", "fbp", "ko"])) == [
        ("mse", [own, own, None]),
        ("ssim", [later, None, None]),
        ("rrmse_peak2", [None, never, None]),
    ]


@pytest.mark.parametrize("sweep", ["H8-crossing", "H128-crossing", "H128-exact-crossing", "H128-right-crossing"])
def test_claims_and_tables_have_the_same_interval(sweep):
    files = [ROOT / f"results/reference/crossing/{name}.parquet" for name in ("cells", "curves", "calibration")]
    study = Study.read(*files, files[0].with_name("crossings.parquet"))
    (row,) = (
        row
        for row in results.read(files[0].with_name("crossings.parquet"))[0]
        if (row["sweep"], row["arch"], row["versus"], row["metric"]) == (sweep, "fc", "ko", study.metrics[sweep].name)
    )
    statistic = lambda of: statistics.crossing(of, sweep)  # noqa: E731
    assert (statistic(study), *study.interval(statistic, [sweep])) == (row["N"], row["N_low"], row["N_high"])
