"""What the planner's answers say: sentences, numbers, names and ratios, and that they do not contradict each other."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from koct.bound.calibration import Calibration
from koct.forecast.budget import Answer
from koct.forecast.scores import Decibels, Score
from koct.report.text import budget_text as report


def plan(arch, n, n_low, n_high, probability=1.0, target=0.02, reason="", error_high=0.022, samples=()):
    forecast = SimpleNamespace(formula_="power 60 %", weights_={"power": 0.6})
    answer = Answer(target, "power", n, n_low, n_high, probability, n or 64, 0.0199, 0.018, error_high, None, reason)
    return report.Plan(arch, forecast, answer, Calibration(0.001, 1.0), np.array(samples, dtype=float))


SENTENCES = {
    "reached": ((24, 21, 26), "should reach a mean error of 0.02 with about 24 samples (between", r"24 +21 to 26"),
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
    text = report.as_text([replace(plan("fc", *values), samples=np.array([2e3, 3e3, 9e3, 1e5]))])
    assert sentence in text
    assert re.search(rf"power 60 % .*{row}.* 0.0199", text)


def test_an_answer_in_the_units_of_a_score():
    accuracy = plan("fc", 24, 21, 26, target=0.07)
    text = report.as_text([accuracy], score=Score("accuracy"))
    assert "0.980 (0.978 to 0.982) at N = 24" in text
    assert "fc should reach a mean accuracy of 0.93 with about 24 samples" in text
    assert "reach accuracy 0.93 in 90 % of runs with" in report.as_text([accuracy], 0.9, Score("accuracy"))
    text = report.as_text([plan("fc", 24, 21, 26, target=0.001)], score=Decibels("psnr"))
    assert "17.0 (16.6 to 17.4) at N = 24" in text
    (row,) = json.loads(report.as_json([accuracy], Score("accuracy"), metric="accuracy"))
    assert (row["score"], row["score_low"], row["score_high"], row["score_target"]) == (0.9801, 0.978, 0.982, 0.93)
    assert (row["error"], row["error_low"], row["target"], row["floor"]) == (0.0199, 0.018, 0.07, 0.001)
    (bounded,) = json.loads(report.as_json([plan("a", 24, 21, 26, error_high=1.7)], Score("accuracy")))
    assert bounded["score_low"] == 0


def test_the_interval_of_a_ratio_takes_the_replicates_as_independent():
    """All architectures share their random numbers, so that replicates in the same place go together."""
    both = np.geomspace(10, 1000, 600)
    ratio, low, high = report.ratios(plan("a", 100, 10, 1000, samples=both), plan("b", 1, 1, 1, samples=both))
    assert ratio == 1
    assert low == pytest.approx(1 / high, rel=0.3)
    assert 10 < high < 100
