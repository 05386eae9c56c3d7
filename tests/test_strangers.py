"""The benchmark on learning curves of others: its data, its tasks, its baselines and its measures."""

import sys
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import curves as benchmark

README = (ROOT / "benchmarks" / "curves" / "README.md").read_text()
SOME = list(benchmark.load("error"))[::20]


class Answers:
    """A forecaster that gives the same interval, of errors and of N, to every pilot."""

    def __init__(self, low, high, n_low, n_high, n=1000):
        self.errors, self.sizes = np.array([low, high]), SimpleNamespace(n=n, n_low=n_low, n_high=n_high)

    def __call__(self, N, error, seed):
        return self

    def predict(self, N):
        return np.full((3, len(N)), self.errors[0])

    def replicates(self, N):
        return self.errors[:, None]

    def samples(self, target):
        return np.full(2, np.inf if self.sizes.n is None else self.sizes.n)

    def required(self, target):
        return self.sizes


def judged(forecast):
    return benchmark.measures(benchmark.run("error", 4, forecast, SOME))


def test_the_data_are_what_their_readme_says():
    table = pq.ParquetFile(benchmark.DATA).read()
    assert all(f"| `{name}` |" in README for name in table.column_names)
    assert table.num_rows == 2 * 81375
    assert "2 × 81,375 rows" in README
    rows = table.select(["metric", "curve", "N", "seed"]).to_pandas().astype({"metric": str, "curve": str})
    assert rows.equals(rows.sort_values(list(rows.columns), ignore_index=True))
    assert not rows.duplicated().any()


@pytest.mark.parametrize(("metric", "factor"), [*zip(benchmark.METRICS, benchmark.FACTORS, strict=False)])
def test_a_task_is_a_pilot_of_five_runs_and_the_mean_of_the_others(metric, factor):
    tasks = benchmark.tasks(metric, factor)
    assert len(tasks) == 195
    for task in tasks:
        N, seeds, errors = benchmark.load(metric)[task.curve]
        assert task.N.shape == task.error.shape == task.seed.shape
        assert set(task.seed) == {0, 100, 200, 300, 400}
        assert len(task.N) == 5 * len(np.unique(task.N)) >= 10
        assert task.N.max() * factor <= task.sizes[-1]
        assert task.truth.shape == task.sizes.shape
        k = int(np.searchsorted(N, task.N[7]))
        assert task.error[7] == errors[k, seeds == task.seed[7]]
        assert 25 * errors[k].mean() == pytest.approx(20 * task.truth[k] + task.error[N[k] == task.N].sum())


def test_folds_never_split_a_data_set():
    curves = list(benchmark.load("error"))
    folds = benchmark.folds(curves)
    assert sorted(curve for fold in folds for curve in fold) == sorted(curves)
    assert max(map(len, folds)) - min(map(len, folds)) <= 5
    homes = {(curve.split("-")[0], i) for i, fold in enumerate(folds) for curve in fold}
    assert len(homes) == len(dict(homes))  # one fold for each data set
    assert dict(homes)["26"] == dict(homes)["959"]  # both are `nursery`
    assert folds == benchmark.folds(curves[::-1])


def test_impossible_intervals_cover_nothing():
    numbers = judged(Answers(50, 60, None, None, n=None))
    assert (numbers["error_in"], numbers["error_below"], numbers["error_above"]) == (0, 1, 0)
    assert (numbers["n_in"], numbers["n_below"], numbers["n_above"], numbers["out_of_reach"]) == (0, 1, 0, 1)
    numbers = judged(Answers(0, 0, 2, 3))
    assert (numbers["error_in"], numbers["error_below"], numbers["error_above"]) == (0, 0, 1)
    assert (numbers["n_in"], numbers["n_above"], numbers["upper_end"], numbers["out_of_reach"]) == (0, 1, 1, 0)


def test_who_knows_the_truth_misses_nothing():
    truths = {task.error.tobytes(): task for task in benchmark.tasks("error", 4, SOME)}

    def oracle(N, error, seed):
        task = truths[error.tobytes()]
        true, n = task.truth[-1], int(task.sizes[-1])
        return Answers(true, true, 2, n, n=n)(N, error, seed)

    numbers = judged(oracle)
    assert [numbers[key] for key in ("log_miss", "error_in", "width", "score", "crps", "n_in")] == [0, 1, 0, 0, 0, 1]


def test_scores_are_those_of_their_definitions():
    draws = np.random.default_rng(0).normal(0.5, 1, 999)
    low, high = np.quantile(draws, [0.05, 0.95], method="weibull")
    inside, below, above, width, score, crps = benchmark.scores(draws)
    assert (inside, below, above) == (True, False, False)
    assert width == score == pytest.approx(high - low)
    assert crps == pytest.approx(np.abs(draws).mean() - np.abs(draws[:, None] - draws).mean() / 2)
    assert benchmark.scores(draws + 10)[4] == pytest.approx(high - low + 20 * (low + 10))


def test_a_conformal_interval_is_from_other_data_sets():
    rows = benchmark.run("error", 4, benchmark.Last, SOME)
    for row in rows:
        others = [each for each in rows if benchmark.dataset(each["curve"]) != benchmark.dataset(row["curve"])]
        own = np.log(row["true"] / row["forecast"])
        assert set(np.round(row["draws"] + own, 9)) <= {
            round(np.log(each["true"] / each["forecast"]), 9) for each in others
        }


def test_forecasts_of_strangers_curves_are_honest():
    """Error rates, pilots up to a quarter of the largest N; benchmarks/priors.py --check cross-validates the priors."""
    found = benchmark.measures(benchmark.run("error", 4, benchmark.koct))
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
