"""Other kinds of error: scores where higher is better, zero errors, error rates, groups, and several targets."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from koct.cli import main
from koct.errors import KoctError
from koct.report import budget as report
from koct.risk import scores
from koct.risk.budget import Answer
from koct.risk.calibration import Calibration
from koct.risk.pilot import read_pilots
from koct.risk.scores import Decibels, Score

ACCURACIES = "N,seed,accuracy\n" + "".join(
    f"{N},{seed},{1 - 0.8 * N**-0.5 * (0.95 + 0.05 * seed):.4f}\n" for N in (16, 32, 64, 128) for seed in (0, 1, 2)
)


@pytest.fixture
def pilot(tmp_path):
    def write(text):
        (tmp_path / "pilot.csv").write_text(text)
        return tmp_path / "pilot.csv"

    return write


def answered(capsys, *arguments):
    assert main(["budget", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    try:
        status = main(["budget", *map(str, arguments)])
    except SystemExit as end:
        status = end.code
    assert status == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    return said.err


# Scores as errors, and back


@pytest.mark.parametrize(
    "name", ["accuracy", "Accuracy", "test_accuracy", "AUC", "F1-Score", "dice", "IoU", "R²", "R2"]
)
def test_the_names_of_scores(name):
    assert scores.named(name) == Score(name, 1.0)
    assert scores.is_known(name)


@pytest.mark.parametrize("name", [None, "error", "mse", "rrmse_peak2", "loss", "accuracy_loss", "score", ""])
def test_other_names_are_errors(name):
    assert scores.named(name) is None
    assert scores.named(name, 100.0) == Score(name or "score", 100.0)


def test_a_psnr_is_a_mean_squared_error():
    score = scores.named("PSNR")
    assert isinstance(score, Decibels)
    np.testing.assert_allclose(score.error([20.0, 30.0]), [0.01, 0.001])
    assert score.target(25) == pytest.approx(10**-2.5)
    with pytest.raises(KoctError, match=r"PSNR has no best value.*omit --higher"):
        scores.named("PSNR", 1.0)


@given(st.sampled_from([Score("accuracy"), Score("grade", 100.0), Decibels("psnr")]), st.floats(1e-6, 0.9))
def test_scores_and_errors_are_inverse_and_opposite(score, error):
    assert score.error(score.score(error)) == pytest.approx(error, rel=1e-6)
    assert score.score(error) > score.score(1.1 * error)


def test_rounding_above_the_best_score_is_no_error():
    assert Score("dice").error(np.float32(1) + np.finfo(np.float32).eps) == 0
    assert Score("dice").error(1.01) < 0


@pytest.mark.parametrize(
    ("score", "target", "message"),
    [
        (
            Score("accuracy"),
            1.0,
            "--target 1 is not below 1, the best accuracy, which no N reaches; choose a lower one",
        ),
        (Score("accuracy"), 93.0, "--target 93 is not below 1, the best accuracy"),
        (Score("accuracy", 100.0), 100.0, "is not below 100"),
        (Score("accuracy"), float("nan"), "--target nan is not a finite accuracy"),
        (Decibels("psnr"), float("inf"), "--target inf is not a finite psnr"),
        (Decibels("psnr"), 1e9, "is too small or too large to compute with"),
    ],
)
def test_targets_that_no_score_reaches(score, target, message):
    with pytest.raises(KoctError, match=message):
        score.target(target)


# Reading


def test_a_column_with_a_known_name_is_a_score(pilot):
    found = read_pilots(pilot("N,accuracy\n4,0.75\n8,0.875\n16,1\n"), "accuracy")["pilot"]
    np.testing.assert_allclose(found.mean, [0.25, 0.125, 0])
    found = read_pilots(pilot("N,score\n4,75\n8,90\n"), higher=100.0)["pilot"]
    np.testing.assert_allclose(found.mean, [25, 10])
    found = read_pilots(pilot("N,psnr\n4,20\n4,30\n8,40\n"), "psnr")["pilot"]
    np.testing.assert_allclose(found.mean, [0.0055, 0.0001])


BAD = {
    "per cent": (
        "N,accuracy\n4,0.9\n8,93\n",
        {"metric": "accuracy"},
        "row 2, column accuracy: '93' is above 1, the best accuracy; say with --higher what the best is",
    ),
    "no error column": (
        "N,Accuracy\n4,0.9\n8,0.93\n",
        {},
        "column error is missing; choose another with --metric: Acc",
    ),
    "a column score": ("N,score\n4,0.9\n8,0.93\n", {}, "column error is missing; choose another with --metric: score"),
    "no score column": ("N,f1\n4,0.9\n8,0.93\n", {"higher": 1.0}, "column score is missing; choose another .*: f1"),
    "a squared score": ("N,psnr\n4,20\n8,25\n", {"metric": "psnr2"}, "is the square of a score.*take --metric psnr$"),
    "a negative error": ("N,error\n4,-0.1\n8,0.1\n", {}, "row 1, column error: '-0.1' is below zero.*give --higher"),
    "a square of nothing": ("N,x\n4,1\n8,1e-200\n", {"metric": "x2"}, "row 2, column x: '1e-200' is too small"),
    "a huge PSNR": (
        "N,psnr\n4,20\n8,9999\n",
        {"metric": "psnr"},
        "row 2, column psnr: '9999' is too small or too large",
    ),
    "no such group": (
        "N,error\n4,1\n8,1\n",
        {"group": "patient"},
        "column patient is missing; the columns are N, error",
    ),
    "an empty group": ("N,error,group\n4,1,a\n8,1,\n", {}, "row 2, column group: '' is empty"),
    "the same run": (
        "N,error,seed,group\n4,1,1,a\n8,1,1,a\n8,1,1,b\n8,1,1,a\n",
        {},
        "row 4, column seed: '1' repeats an earlier run",
    ),
    "test size": (
        "N,error\n4,0.5\n8,1.5\n",
        {"test_size": 9},
        "row 2, column error: '1.5' has an error above 1, but a t",
    ),
    "no test samples": ("N,error\n4,1\n8,1\n", {"test_size": 0}, "--test-size 0 must be between 1 and 1e"),
    "many test samples": ("N,error\n4,1\n8,1\n", {"test_size": 10**400}, "--test-size .* must be between 1 and 1e"),
    "half a test sample": (
        "N,error,test_size\n4,1,8\n8,1,0.5\n",
        {},
        "row 2, column test_size: '0.5' is not a number of",
    ),
    "not a rate": (
        "N,ssim\n4,0.5\n8,0.6\n",
        {"metric": "ssim", "test_size": 9},
        "error rates and accuracies, and ssim is",
    ),
}


@pytest.mark.parametrize(("text", "options", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_and_what_to_do(pilot, text, options, message):
    with pytest.raises(KoctError, match=message):
        read_pilots(pilot(text), **options)


def test_groups_are_read_from_their_column(pilot):
    text = "N,error,seed,{}\n4,1,1,a\n8,0.5,1,a\n4,2,1,b\n8,0.7,1,b\n4,3,2,b\n8,0.9,2,b\n"
    for column, given_name in (("group", None), ("patient", "patient")):
        found = read_pilots(pilot(text.format(column)), group=given_name)["pilot"]
        assert found.errors.shape == (3, 2)
        assert found.groups.tolist() == [0, 1, 1]
    assert read_pilots(pilot(GROUPLESS))["pilot"].groups is None


GROUPLESS = "N,error,seed,patient\n4,1,1,a\n8,0.5,1,a\n4,2,2,b\n8,0.7,2,b\n"


def test_zero_errors_are_read(pilot):
    found = read_pilots(pilot("N,error\n4,0.5\n8,0\n16,0.0\n"))["pilot"]
    assert found.mean.tolist() == [0.5, 0, 0]


def test_the_test_size_is_an_option_or_a_column(pilot):
    text = "arch,N,{},test_size\na,4,0.5,100\na,8,0.4,90\nb,4,0.5,80\nb,8,0.4,80\n"
    sizes = [pilot.test_size for pilot in read_pilots(pilot(text.format("error"))).values()]
    assert sizes == [90, 80]
    assert read_pilots(pilot(text.format("error")), test_size=7)["a"].test_size == 7
    assert read_pilots(pilot(text.format("accuracy")), "accuracy")["a"].test_size == 90
    for other in ("mse", "ssim"):  # not counted, so its noise is not binomial
        assert read_pilots(pilot(text.format(other)), other)["a"].test_size is None


# Words


def answer(n, n_low, n_high, probability=1.0, target=0.02, reason=""):
    return Answer(target, "power", n, n_low, n_high, probability, n or 64, 0.0199, 0.018, 0.022, None, reason)


def plan(arch, *values, samples=(), **more):
    forecast = SimpleNamespace(
        formula_="power 60 %", weights_={"power": 0.6}, samples=lambda target, assurance: np.array(samples, dtype=float)
    )
    return report.Plan(arch, forecast, answer(*values, **more), Calibration(0.001, 1.0))


SENTENCES = {
    "reached": (
        (24, 21, 26),
        {},
        "fc should reach a mean error of 0.02 with about 24 samples (between 21 and 26).",
        r"24 +21 to 26",
    ),
    "with a remark": (
        (4, 4, 6),
        {"reason": "already reached at the smallest N of the pilot"},
        "with about 4 samples (between 4 and 6): already reached at the smallest N of the pilot.",
        r"4 +4 to 6",
    ),
    "without an upper end": (
        (2400, 1200, None, 0.92),
        {},
        "with about 2,400 samples, at least 1,200; it never does with probability 8 %.",
        r"2,400 +from 1,200",
    ),
    "probably not": (
        (None, 783, None, 0.12),
        {},
        "fc probably does not reach a mean error of 0.02: the probability is 12 %, and then with 783 samples or more.",
        r"out of reach \(12 %\) +from 783",
    ),
    "hardly ever": (
        (None, None, None, 0.0),
        {"reason": "the error rises"},
        "fc probably does not reach a mean error of 0.02: the probability is below 1 %; the error rises.",
        r"out of reach \(below 1 %\) +-",
    ),
}


@pytest.mark.parametrize(("values", "more", "sentence", "row"), SENTENCES.values(), ids=SENTENCES)
def test_an_answer_does_not_contradict_itself(values, more, sentence, row):
    text = report.as_text([plan("fc", *values, **more)])
    assert sentence in text
    assert re.search(rf"power 60 % +{row} +0.0199", text)
    assert "?" not in text
    assert "not expected" not in text


def test_an_answer_in_the_units_of_a_score():
    accuracy = plan("fc", 24, 21, 26, target=0.07)
    text = report.as_text([accuracy], score=Score("accuracy"))
    assert "predicted accuracy" in text.splitlines()[0]
    assert "0.980 (0.978 to 0.982) at N = 24" in text
    assert "fc should reach a mean accuracy of 0.93 with about 24 samples" in text
    assert "reach accuracy 0.93 in 90 % of runs with" in report.as_text([accuracy], 0.9, Score("accuracy"))
    text = report.as_text([plan("fc", 24, 21, 26, target=0.001)], score=Decibels("psnr"))
    assert "17.0 (16.6 to 17.4) at N = 24" in text
    assert "fc should reach a psnr of 30 (that of the mean squared error) with about" in text


def test_json_in_the_units_of_a_score():
    plain = plan("fc", 24, 21, 26, target=0.07)
    (found,) = json.loads(report.as_json([plain], Score("accuracy"), metric="accuracy"))
    assert (found["score"], found["score_low"], found["score_high"]) == (0.9801, 0.978, 0.982)
    assert found["score_target"] == 0.93
    assert (found["error"], found["error_low"], found["target"]) == (0.0199, 0.018, 0.07)
    assert (found["floor"], found["weights"], found["probability"]) == (0.001, {"power": 0.6}, 1.0)


# Ratios

RATIOS = {
    "both reached": ([10, 10, 10], [20, 30, 40], "other needs 3 times as many samples as first (between 2 and 4)."),
    "no upper end": ([10, 10, 10], [20, 30, np.inf], "needs 3 times as many samples as first (at least 2)."),
    "both never": ([10, 10, np.inf], [20, 20, np.inf], "needs 2 times as many samples as first (between 2 and 2)."),
    "no lower end": ([10, 10, np.inf], [20, 20, 20], "needs 2 times as many samples as first (at most 2)."),
    "open": ([10, 10, np.inf], [20, np.inf, 20], "(the pilot leaves it open, since either may never get there)."),
}


@pytest.mark.parametrize(("first", "other", "sentence"), RATIOS.values(), ids=RATIOS)
def test_ratios_are_quantiles_over_the_replicates(first, other, sentence):
    result = [plan("first", 10, 9, 11, samples=first), plan("other", 20, 19, 21, samples=other)]
    assert sentence in report.as_text(result)


def test_a_ratio_to_what_is_not_reached():
    never, first = plan("b", None, 40, None, 0.3, samples=[40, np.inf, np.inf]), plan("a", 4, 4, 4, samples=[4, 4, 4])
    text = report.as_text([first, never])
    assert "b versus a: b probably does not reach 0.02, so the ratio has no upper end; it is at least 10." in text
    text = report.as_text([never, never])
    assert "neither is likely to reach 0.02, so there is no ratio." in text
    nowhere = plan("c", None, None, None, 0.0, samples=[np.inf] * 3)
    assert report.ratios(nowhere, nowhere, None)[0] is None


@pytest.mark.parametrize(("archs", "printed"), [("ko fc", 1), ("FC KO", 1), ("knn fc", 0), ("ko knn", 0), ("a b", 0)])
def test_the_two_factors_are_about_ko_and_fc(archs, printed):
    text = report.as_text([plan(arch, 4, 4, 4, samples=[4.0]) for arch in archs.split()])
    assert text.count("two factors") + text.count("structural") == printed
    if printed:
        assert f"({archs.replace('ko fc', 'fc ko').replace(' ', ' to ')}): structural 1 " in text


# Several targets


def test_several_targets_are_answered_in_their_order(pilot, capsys):
    arguments = [ROOT / "docs" / "pilot.csv", "--target", "0.02,0.01", "--target", "0.03", "--target", "0.02"]
    found = json.loads(answered(capsys, *arguments, "--json"))
    assert [each["target"] for each in found] == [0.02, 0.02, 0.01, 0.01, 0.03, 0.03]
    assert {each["arch"] for each in found} == {"ko", "fc"}
    alone = json.loads(answered(capsys, arguments[0], "--target", "0.01", "--json"))
    assert alone == found[2:4]
    text = answered(capsys, *arguments)
    lines = text.splitlines()
    assert lines[0].startswith("target  arch  law")
    assert [line.split()[:2] for line in lines[2:4]] == [["0.02", "ko"], ["0.02", "fc"]]
    assert sum(" mean error of " in line for line in lines) == 6
    assert sum("two factors" in line or "By the paper's rule" in line for line in lines) == 3
    assert not answered(capsys, arguments[0], "--target", "0.01").startswith("target")


@pytest.mark.parametrize(
    ("given_targets", "message"),
    [
        (["0,05"], "'0,05' is not a number: write decimals with a point"),
        (["0.1,0,05"], "write decimals with a point"),
        (["0.1,"], "'' is not a number"),
        (["0.1,-1"], "target = -1.0 must be finite and above 0"),
        (["0.1", "x"], "'x' is not a number"),
    ],
)
def test_targets_that_make_no_sense(capsys, given_targets, message):
    options = [text for target in given_targets for text in ("--target", target)]
    assert message in refused(capsys, ROOT / "docs" / "pilot.csv", *options)


# The command


def test_the_command_with_a_score(pilot, capsys, tmp_path):
    options = ["--metric", "accuracy", "--test-size", 500, "--plot", tmp_path / "plot.png"]
    text = answered(capsys, pilot(ACCURACIES), "--target", 0.9, "--target", 0.95, *options)
    assert "pilot should reach a mean accuracy of 0.9 with about" in text
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    (found,) = json.loads(answered(capsys, pilot(ACCURACIES), "--target", 0.9, "--metric", "accuracy", "--json"))
    assert found["score_low"] <= found["score"] <= found["score_high"]
    assert found["metric"] == "accuracy"
    assert 32 < found["n"] < 128
    rows = [line.split(",") for line in ACCURACIES.splitlines()[1:]]
    per_cent = "".join(f"{N},{seed},{100 * float(accuracy):.2f}\n" for N, seed, accuracy in rows)
    same = ["--target", 90, "--metric", "percent", "--higher", 100, "--json"]
    (scaled,) = json.loads(answered(capsys, pilot(f"N,seed,percent\n{per_cent}"), *same))
    assert scaled["n"] == pytest.approx(found["n"], abs=1)
    assert scaled["score"] == pytest.approx(100 * found["score"], rel=1e-3)


def test_mistakes_with_scores(pilot, capsys):
    path = pilot(ACCURACIES)
    assert "is not below 1, the best accuracy" in refused(capsys, path, "--target", 93, "--metric", "accuracy")
    assert "--metric: accuracy" in refused(capsys, path, "--target", 0.9)
    assert "--higher nan is no best score" in refused(capsys, path, "--target", 0.9, "--higher", "nan")
    assert "is not a number" in refused(capsys, path, "--target", 0.9, "--higher", "x")
    assert "is not a whole number" in refused(capsys, path, "--target", 0.9, "--test-size", "2.5")


def test_zero_errors_are_forecast_and_drawn_without_a_warning(pilot, capsys, tmp_path, recwarn):
    path = pilot("N,error\n10,0.3\n10,0.2\n20,0.1\n20,0\n40,0\n40,0\n")
    for options in ([], ["--test-size", 50]):
        text = answered(capsys, path, "--target", 0.05, *options, "--plot", tmp_path / "plot.png")
        assert "pilot" in text
    assert not recwarn
