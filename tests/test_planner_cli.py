"""The planner's commands: what `budget` and `next` print and refuse, their sentences, and which runs to add."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT

from koct.base.stamps import Stamp
from koct.bound.calibration import Calibration
from koct.forecast.budget import Answer, Forecast
from koct.forecast.next_runs import RunCost, plan, sizes
from koct.forecast.pilot import PilotFile
from koct.forecast.runs import Pilot
from koct.forecast.scores import Decibels, Score
from koct.report.text import budget_text as report
from koct.study import results

PILOT = ROOT / "docs/pilot.csv"


@pytest.fixture
def files(tmp_path, koct):
    """Pilots and pairs in the working folder; the run at N costs 0.5 N^1.5 seconds."""
    rng = np.random.default_rng(0)
    runs = [(N, seed, 0.8 * N**-0.5 * rng.lognormal(0, 0.1)) for N in (16, 32, 64, 128) for seed in (1, 2, 3)]
    texts = {
        "bad": "N,error\n4,0.1\n8,x\n",
        "dear": "N,error,cost\n1000,0.2,1e-60\n1001,0.1,1e60\n",
        "free": "N,error,cost\n4,0.2,1\n8,0.1,0\n",
        "timed": "N,seed,error,seconds\n" + "".join(f"{N},{seed},{e},{0.5 * N**1.5}\n" for N, seed, e in runs),
        "scored": "N,seed,accuracy\n" + "".join(f"{N},{seed},{1 - e}\n" for N, seed, e in runs),
        "per_cent": "N,seed,share\n" + "".join(f"{N},{seed},{100 - 100 * e}\n" for N, seed, e in runs),
        "odd": "arch,N,error\n" + "".join(f"模型 😀,{N},{1 / N}\n" for N in (4, 8, 16)),
        "pilot": PILOT.read_text(),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    np.savez("pairs.npz", x=rng.standard_normal((20, 3)), y=rng.standard_normal((20, 2)))
    rows = [{"arch": "ko", "seed": 1, "p": 9, "N": N, "mse": 2 / N, "rrmse_peak": N**-0.5} for N in (4, 8, 16)]
    rows += [{"arch": "fbp", "seed": 1, "p": 0, "N": 0, "mse": 1e-9, "rrmse_peak": 1e-9}]  # which needs no sample
    rows = [{"sweep": sweep, **row} for sweep in "AB" for row in rows]
    origin = {"koct.sweeps": json.dumps({sweep: {"label": "", "metric": "rrmse_peak2"} for sweep in "AB"})}
    results.write(rows, list(rows[0]), "cells.parquet", origin, Stamp({}))
    damaged = (tmp_path / "cells.parquet").read_bytes().replace(b'checksum": "', b'checksum" : ')
    (tmp_path / "damaged.parquet").write_bytes(damaged)
    (tmp_path / "no.parquet").write_text("PAR1 and no more")
    return tmp_path


@pytest.fixture
def told(koct):
    """The JSON of a command."""
    return lambda *arguments: json.loads(koct(*arguments, "--json")[1])


MISTAKES = {
    "budget nowhere.csv --target 0.1": "nowhere.csv cannot be read: No such file or directory; give the path of",
    "budget . --target 0.1": "Is a directory; take ./cells.parquet",
    "budget bad.csv --target 0.1": "bad.csv: row 2, column error: 'x' is not a plain number",
    "next bad.csv --target 0.1": "bad.csv: row 2, column error: 'x' is not a plain number",
    "planner bad.csv --out page.html": "bad.csv: row 2, column error: 'x' is not a plain number",
    "budget damaged.parquet --target 0.1 --sweep A": "damaged.parquet is damaged: its stamp cannot be read",
    "planner damaged.parquet --out page.html": "damaged.parquet is damaged: its stamp cannot be read",
    "budget no.parquet --target 0.1": "no.parquet: the file is not valid Parquet",
    "budget pilot.csv": "give one of them, or both",
    "budget pilot.csv --at 1": "N = 1 must be at least 2",
    "budget pilot.csv --target 0.1,-1": "target = -1.0 must be finite and above 0",
    "budget pilot.csv --target 0,05": "'0,05' is not a number: write decimals with a point",
    "budget pilot.csv --target 0.1 --group ''": "argument --group: the name is empty; give one",
    "budget cells.parquet --target 0.1": "column sweep has 2 values; choose one with --sweep: A, B",
    "budget cells.parquet --target 0.1 --sweep C": "column sweep has no value 'C'",
    "budget pilot.csv --target 0.1 --pairs no.npz": "no.npz: No such file or directory",
    "budget pilot.csv --target 0.1 --pairs pairs.npz": "say with --pairs-arch which: fc, ko",
    "budget pilot.csv --target 0.1 --pairs pairs.npz --pairs-arch cnn": "no such arch; choose one of fc, ko",
    "budget pilot.csv --target 0.1 --law theory": "and there are none; give --pairs",
    "budget pilot.csv --target 0.1 --lam 1": "are about pairs; give --pairs, or omit them",
    "next pilot.csv --target 0.1 --arch mlp": "--arch mlp: the pilot has no such arch; choose one of fc, ko",
    "next pilot.csv --target 0.1 --factor 1": "factor = 1.0 must be above 1",
    "next dear.csv --target 0.1": "column cost: the cost of a run grows as N^",
    "next free.csv --target 0.1": "row 2, column cost: '0' is not above 0",
}


@pytest.mark.parametrize(("command", "message"), MISTAKES.items())
def test_a_mistake_is_one_line_with_the_fix(koct, files, recwarn, command, message):
    status, out, err = koct(*shlex.split(command))
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    assert not (files / "page.html").exists()
    assert not recwarn


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_pilot_may_come_through_a_pipe(told, name):
    command = [sys.executable, "-m", "koct", "budget", name, "--target", "0.01", "--json"]
    piped = subprocess.run(command, input=PILOT.read_text(), capture_output=True, text=True, check=True)
    assert json.loads(piped.stdout) == told("budget", PILOT, "--target", 0.01)


def test_figures_are_the_same_bytes_each_time_and_warn_of_no_letter(koct, files, recwarn):
    plots = [files / f"{i}.svg" for i in range(2)]
    for path in plots:
        assert koct("budget", "odd.csv", "--target", 0.02, "--plot", path)[0] == 0
    assert plots[0].read_bytes() == plots[1].read_bytes()
    assert not recwarn


def test_several_targets_are_answered_in_their_order(koct, told):
    arguments = ["budget", PILOT, "--target", "0.02,0.01", "--target", "0.03", "--target", "0.02"]
    found = told(*arguments)
    assert [each["target"] for each in found] == [0.02, 0.02, 0.01, 0.01, 0.03, 0.03]
    assert told("budget", PILOT, "--target", "0.01") == found[2:4]
    for answer in found:
        assert answer["arch"] in ("ko", "fc")
        assert answer["reachable"] == (answer["n"] is not None)
        assert sum(answer["weights"].values()) == pytest.approx(1)
        assert not any(key.startswith("score") for key in answer)
    lines = koct(*arguments)[1].splitlines()
    assert lines[0].startswith("target  arch  law")
    assert [line.split()[:2] for line in lines[2:4]] == [["0.02", "ko"], ["0.02", "fc"]]
    assert sum(" mean error of " in line for line in lines) == 6
    assert sum("two factors" in line or "By the paper's rule" in line for line in lines) == 3


def test_the_error_at_an_n_and_the_chance_of_a_target(koct, told, files):
    found = told("budget", "timed.csv", "--target", 0.05, "--at", "64,256,4096")
    assert [each.get("n") is None for each in found] == [False, True, True, True]
    chances = [each["chances"][0] for each in found[1:]]
    assert chances == sorted(chances)
    assert all(each["error_low"] < each["error"] < each["error_high"] for each in found[1:])
    alone = koct("budget", "scored.csv", "--metric", "accuracy", "--at", "256")[1]
    assert alone.splitlines()[0].split("  ")[-2:] == ["predicted accuracy", "90 % interval"]
    assert "1.0 %" not in alone


def test_scores_and_shares_in_per_cent_get_the_same_answer(koct, told, files):
    arguments = ["budget", "scored.csv", "--target", 0.9, "--metric", "accuracy"]
    text = koct(*arguments, "--test-size", 500, "--plot", "plot.png")[1]
    assert "pilot should reach a mean accuracy of 0.9 with about" in text
    assert (files / "plot.png").read_bytes().startswith(b"\x89PNG")
    (found,) = told(*arguments)
    assert found["score_low"] <= found["score"] <= found["score_high"]
    assert found["metric"] == "accuracy"
    assert 32 < found["n"] < 128
    per_cent = ["per_cent.csv", "--target", 90, "--metric", "share", "--higher", 100]
    scaled, at = told("budget", *per_cent, "--at", 256)
    assert (scaled["target"], at["targets"], told("next", *per_cent)[0]["target"]) == (90, [90], 90)
    assert scaled["n"] == pytest.approx(found["n"], abs=1)
    assert scaled["score"] == pytest.approx(100 * found["score"], rel=1e-3)


@pytest.mark.parametrize("verb", ["budget", "next", "planner"])
def test_a_table_of_anybody_gets_the_answer_of_a_plain_one_and_a_note(koct, files, verb):
    pilot = pd.read_csv(PILOT)
    named = pilot.rename(columns={"N": "n_train", "error": "val_loss", "arch": "model", "seed": "run"})
    named.assign(notes="x").to_parquet("own.parquet")
    options = ["--out", "page.html"] if verb == "planner" else ["--target", 0.01]
    status, out, err = koct(verb, "own.parquet", *options)
    assert (status, out) == koct(verb, "pilot.csv", *options)[:2]
    understood = "N from n_train, error from val_loss, arch from model, seed from run; not used: notes"
    assert err == f"koct: note: {understood}\n"
    columns = ["--columns", "N=n_train,error=val_loss,arch=model,seed=run,ignore=notes"]
    assert koct(verb, "own.parquet", *options, *columns) == (0, out, "")


def test_a_file_of_a_study_has_its_metric(koct, files):
    for command in ("budget cells.parquet --sweep A --target 0.05", "next cells.parquet --sweep A --target 0.05"):
        own, named = koct(*command.split()), koct(*command.split(), "--metric", "rrmse_peak2")
        assert own == named
        assert own[0] == 0
        assert "fbp" not in own[1]


@pytest.mark.parametrize(
    "arguments", [["pilot.csv", "--target", 0.001], ["scored.csv", "--metric", "accuracy", "--target", 0.95]]
)
def test_next_has_the_answer_of_budget_and_runs_that_add_up(told, files, arguments):
    runs, answers = (told(verb, *arguments) for verb in ("next", "budget"))
    assert [each["arch"] for each in runs] == sorted(answer["arch"] for answer in answers)
    for each in runs:
        (answer,) = (answer for answer in answers if answer["arch"] == each["arch"])
        for key in ("target", "n", "probability", "error_target"):
            assert each.get(key) == answer.get(key)
        assert each["n_low"] <= answer["n_low"]  # the interval is wider: it has to hold after a choice of runs
        assert (each["n_high"] or np.inf) >= (answer["n_high"] or np.inf)
        assert each["widened"] > 1
        assert each["cost"] == sum(run["cost"] for run in each["runs"])
        assert each["cost_law"] == {"scale": 1.0, "slope": 1.0, "column": None}
    assert told("next", *arguments, "--arch", runs[-1]["arch"]) == runs[-1:]


def test_next_says_what_a_run_costs(koct, files):
    text = koct("next", "pilot.csv", "--target", 0.001)[1]
    assert text.startswith("arch  N")
    assert "For a mean error of 0.001, the interval of fc is" in text
    assert "A run is taken to cost its N" in text
    text = koct("next", "timed.csv", "--target", 0.02)[1]
    assert " s " in text
    assert "A run costs 0.5 × N^1.50, fitted to the column seconds." in text


# Sentences


def answered(arch, n, n_low, n_high, probability=1.0, target=0.02, reason="", error_high=0.022, samples=()):
    forecast = SimpleNamespace(formula_="power 60 %", weights_={"power": 0.6})
    answer = Answer(target, "power", n, n_low, n_high, probability, n or 64, 0.0199, 0.018, error_high, None, reason)
    return report.Plan(arch, forecast, answer, Calibration(0.001, 1.0), np.array(samples, dtype=float))


SENTENCES = {
    "with a remark": ((4, 4, 6, 1.0, 0.02, "a remark"), "4 samples (between 4 and 6): a remark.", r"4 +4 to 6"),
    "at once": ((4, 4, 4), "should reach a mean error of 0.02 with about 4 samples.", r"4 +4 to 4"),
    "no upper end": ((2400, 1200, None, 0.92), "The chance is 50 % with 3,000 samples, 75 % with 10,000", "from 1,200"),
    "a far upper end": ((2400, 1200, 10**8), "at least 1,200. The chance is 50 % with 3,000", "1,200 to 100,000,000"),
    "probably not": ((None, 783, None, 0.12), "probably does not reach a mean", r"out of reach \(12 %\) +from 783"),
    "even odds": ((2400, 1200, None, 0.54), "or never: the probability of reaching it is 54 %", r"2,400 +from 1,200"),
    "rather not": ((None, 783, None, 0.46), "of 0.02, with 783 samples or more, or never", "46 %"),
    "hardly ever": ((None, None, None, 0.0), "the probability is below 1 %", r"out of reach \(below 1 %\) +-"),
}


@pytest.mark.parametrize(("values", "sentence", "row"), SENTENCES.values(), ids=SENTENCES)
def test_an_answer_does_not_contradict_itself(values, sentence, row):
    text = report.as_text([replace(answered("fc", *values), samples=np.array([2e3, 3e3, 9e3, 1e5]))])
    assert sentence in text
    assert re.search(rf"power 60 % .*{row}.* 0.0199", text)


def test_an_answer_in_the_units_of_a_score():
    accuracy = answered("fc", 24, 21, 26, target=0.07)
    text = report.as_text([accuracy], 0.9, Score("accuracy"))
    assert "0.980 (0.978 to 0.982) at N = 24" in text
    assert "reach accuracy 0.93 in 90 % of runs with" in text
    text = report.as_text([answered("fc", 24, 21, 26, target=0.001)], score=Decibels("psnr"))
    assert "17.0 (16.6 to 17.4) at N = 24" in text
    (row,) = json.loads(report.as_json([accuracy], Score("accuracy")))
    assert (row["score"], row["score_low"], row["score_high"], row["target"]) == (0.9801, 0.978, 0.982, 0.93)
    assert (row["error"], row["error_low"], row["error_target"]) == (0.0199, 0.018, 0.07)
    assert row["calibration"] == {"floor": 0.001, "sigma": 1.0}
    (bounded,) = json.loads(report.as_json([answered("a", 24, 21, 26, error_high=1.7)], Score("accuracy")))
    assert bounded["score_low"] == 0


def test_the_interval_of_a_ratio_takes_the_replicates_as_independent():
    """All architectures share their random numbers, so that replicates in the same place go together."""
    both = np.geomspace(10, 1000, 600)
    ratio, low, high = report.ratios(*(answered(arch, 100, 10, 1000, samples=both) for arch in "ab"))
    assert ratio == 1
    assert low == pytest.approx(1 / high, rel=0.3)
    assert 10 < high < 100


# Plans

NARROW = {"target": 0.011, "factor": 2.6}  # for which the cheapest plan has two N


@pytest.fixture(scope="module")
def forecast():
    return Forecast(PilotFile(PILOT).pilots()["fc"])


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
