"""Which runs to add to a pilot: plans and costs."""

import numpy as np
import pytest
from conftest import ROOT

from koct.forecast.budget import Forecast
from koct.forecast.next_runs import RunCost, plan, sizes
from koct.forecast.pilot import read_pilots
from koct.forecast.runs import Pilot

NARROW = {"target": 0.011, "factor": 2.6}  # for which the cheapest plan has two N


@pytest.fixture(scope="module")
def forecast():
    return Forecast(read_pilots(ROOT / "docs/pilot.csv")["fc"])


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


def test_the_cost_of_a_run_is_a_power_of_its_size_that_does_not_fall():
    law = RunCost.fitted([8, 16, 64], [0.5 * N**1.5 for N in (8, 16, 64)], "seconds")
    assert (law.slope, law.scale, law.of(100)) == (pytest.approx(1.5), pytest.approx(0.5), pytest.approx(500))
    assert RunCost.fitted([4, 8], [2.0, 1.0], "cost").slope == 0
