"""Which runs to add to a pilot: plans, costs and the command line."""

import json

import numpy as np
import pytest
from conftest import ROOT
from test_budget import koct

from koct.errors import KoctError
from koct.forecast.budget import Forecast
from koct.forecast.next_runs import RunCost, plan, sizes
from koct.forecast.pilot import PilotFile, read_pilots
from koct.forecast.runs import Pilot

PILOT = ROOT / "docs/pilot.csv"
NARROW = {"target": 0.011, "factor": 2.6}  # for which the cheapest plan has two N


@pytest.fixture(scope="module")
def forecast():
    return Forecast(read_pilots(PILOT)["fc"])


@pytest.fixture
def timed(tmp_path):
    """A pilot with the seconds of its runs: 0.5 N^1.5."""
    rng, path = np.random.default_rng(0), tmp_path / "pilot.csv"
    rows = [(N, seed, 0.5 * N**-0.5 * rng.lognormal(0, 0.2)) for N in (8, 16, 32, 64) for seed in range(3)]
    lines = [f"{N},{seed},{error},{0.5 * N**1.5}\n" for N, seed, error in rows]
    path.write_text("N,seed,error,seconds\n" + "".join(lines))
    return path


# Plans


def test_a_plan_narrows_the_interval_step_by_step(forecast):
    found = plan(forecast, **NARROW)
    assert found.present > found.steps[0].factor > found.expected > 1
    assert found.enough
    low, high = found.interval_after
    assert found.answer.n_low < low < found.answer.n < high < found.answer.n_high
    assert high / low == pytest.approx(found.expected, rel=0.05)
    assert found.cost == sum(step.N * step.seeds for step in found.steps)
    assert {step.N for step in found.steps} <= set(sizes(forecast.pilot))
    assert plan(forecast, **NARROW) == found


def test_of_plans_that_reach_the_factor_the_cheapest_is_taken(forecast):
    dear, cheap = (plan(forecast, 0.01, RunCost(slope=slope), factor=3.2) for slope in (3.0, 0.0))
    assert cheap.cost == 3  # runs at an N that is new
    assert max(step.N for step in dear.steps) <= max(step.N for step in cheap.steps)
    assert RunCost(slope=3.0).of(cheap.steps[0].N) * cheap.steps[0].seeds >= dear.cost


def test_a_plan_keeps_to_the_budget_and_to_the_largest_size(forecast):
    free = plan(forecast, **NARROW)
    poor = plan(forecast, **NARROW, budget=free.cost / 2)
    assert poor.cost <= free.cost / 2
    assert poor.expected >= free.expected
    assert max(step.N for step in plan(forecast, **NARROW, largest=45).steps) <= 45
    assert plan(forecast, **NARROW, budget=1.0).steps == ()


def test_no_runs_if_the_interval_is_narrow_enough_or_no_replicate_reaches_the_target(forecast):
    found = plan(forecast, 0.02)
    assert (found.done, found.steps) == (True, ())
    assert found.expected == found.present <= 4
    clear = Forecast(Pilot(np.array([4.0, 16, 64]), np.array([[0.5, 0.4, 0.4], [0.51, 0.41, 0.4]])))
    assert not np.isfinite(clear.samples(1e-50)).any()
    assert plan(clear, 1e-50).steps == ()


# Costs


def test_the_cost_of_a_run_is_a_power_of_its_size(timed):
    column, runs = PilotFile(timed).costs()
    law = RunCost.fitted(*runs["pilot"], column)
    assert (law.column, law.slope, law.scale) == ("seconds", pytest.approx(1.5), pytest.approx(0.5))
    assert law.of(100) == pytest.approx(500)
    assert RunCost.fitted([4, 8], [2.0, 1.0], "cost").slope == 0
    assert PilotFile(PILOT).costs() is None
    timed.write_text("N,error,cost\n4,0.2,1\n8,0.1,0\n")
    with pytest.raises(KoctError, match="row 2, column cost: '0' is not above 0"):
        PilotFile(timed).costs()


# The command line


def test_the_text_has_a_table_and_says_what_a_run_costs(timed):
    done = koct("next", PILOT, "--target", 0.001)
    assert done.returncode == 0
    assert done.stdout.startswith("arch  N")
    assert "For a mean error of 0.001, the interval of fc is" in done.stdout
    assert "A run is taken to cost its N" in done.stdout
    done = koct("next", timed, "--target", 0.02)
    assert " s " in done.stdout
    assert "A run costs 0.5 × N^1.50, fitted to the column seconds." in done.stdout


def test_json_has_an_object_per_arch():
    found = json.loads(koct("next", PILOT, "--target", 0.001, "--json").stdout)
    assert [each["arch"] for each in found] == ["fc", "ko"]
    for each in found:
        assert each["cost"] == sum(run["cost"] for run in each["runs"])
        assert each["cost_law"] == {"scale": 1.0, "slope": 1.0, "column": None}
    assert found[0]["present"] is None  # no upper end
    only = json.loads(koct("next", PILOT, "--target", 0.001, "--arch", "ko", "--json").stdout)
    assert only == found[1:]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arch", "mlp"], "--arch mlp: the pilot has no such arch; choose one of fc, ko"),
        (["--factor", "1"], "factor = 1.0 must be above 1"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, arguments, message):
    done = koct("next", PILOT, "--target", 0.01, *(argument.format(tmp=tmp_path) for argument in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "more.yaml").exists()
