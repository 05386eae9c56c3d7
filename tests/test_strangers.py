"""The benchmark on learning curves of others: its data, its tasks, its baselines and its measures."""

import sys

import numpy as np
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import curves as benchmark

pytestmark = pytest.mark.slow


def test_folds_never_split_a_data_set():
    curves = list(benchmark.load("error"))
    folds = benchmark.folds(curves)
    assert sorted(curve for fold in folds for curve in fold) == sorted(curves)
    assert max(map(len, folds)) - min(map(len, folds)) <= 5
    homes = {(curve.split("-")[0], i) for i, fold in enumerate(folds) for curve in fold}
    assert len(homes) == len(dict(homes))  # one fold for each data set
    assert dict(homes)["26"] == dict(homes)["959"]  # both are `nursery`
    assert folds == benchmark.folds(curves[::-1])


def test_scores_are_those_of_their_definitions():
    draws = np.random.default_rng(0).normal(0.5, 1, 999)
    low, high = np.quantile(draws, [0.05, 0.95], method="weibull")
    inside, below, above, width, score, crps = benchmark.scores(draws, (0.05, 0.95))
    assert (inside, below, above) == (True, False, False)
    assert width == score == pytest.approx(high - low)
    assert crps == pytest.approx(np.abs(draws).mean() - np.abs(draws[:, None] - draws).mean() / 2)
    assert benchmark.scores(draws + 10, (0.05, 0.95))[4] == pytest.approx(high - low + 20 * (low + 10))


@pytest.mark.long
def test_forecasts_of_strangers_curves_are_honest():
    """Error rates, pilots up to a quarter of the largest N; priors and ends of intervals are from other data sets."""
    found = benchmark.measures(benchmark.judged("error", 4))
    assert found["forecasts"] == 195
    assert found["refused"] == found["warnings"] == 0
    assert found["log_miss"] < 0.085
    for name in ("error", "n"):
        assert 0.87 <= found[f"{name}_in"] <= 0.95
        assert found[f"{name}_below"] > 0
        assert found[f"{name}_above"] > 0
    assert found["upper_end"] >= 0.5
    assert found["out_of_reach"] <= 0.3


@pytest.mark.long
def test_chances_come_true_on_data_sets_that_were_left_out():
    chances = np.array([each for row in benchmark.judged("error", 4) for each in row["chances"]])
    near = chances[np.abs(chances[:, 0] - 0.8) <= 0.05]
    assert len(near) > 100
    assert 0.75 <= near[:, 1].mean() <= 0.85
