"""Other kinds of error: scores where higher is better, zero errors, error rates, groups, and several targets."""

import json

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from koct.cli import main
from koct.errors import KoctError
from koct.forecast import scores
from koct.forecast.pilot import PilotFile, read_pilots
from koct.forecast.scores import Decibels, Score

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


# Scores as errors, and back


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


@pytest.mark.parametrize(
    ("score", "target", "message"),
    [
        (Score("accuracy"), 1.0, "--target 1 is not below 1, the best accuracy, which no N reaches; choose a lower"),
        (Score("accuracy", 100.0), -1.0, "--target -1 is below 0, and no accuracy is; choose a higher one"),
        (Score("accuracy"), float("nan"), "--target nan is too small or too large to compute with"),
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
    np.testing.assert_allclose(found.mean, [0.25, 0.1])
    found = read_pilots(pilot("N,psnr\n4,20\n4,30\n8,40\n"), "psnr")["pilot"]
    np.testing.assert_allclose(found.mean, [0.0055, 0.0001])


BAD = {
    "per cent": ("N,auc\n4,0.9\n8,93\n", {"metric": "auc"}, "row 2, column auc: '93' is above 1.* --higher what"),
    "no error column": ("N,Auc\n4,0.9\n8,0.93\n", {}, "column error is missing; choose another with --metric: Auc"),
    "a squared score": ("N,psnr\n4,20\n8,25\n", {"metric": "psnr2"}, "is the square of a score.*take --metric psnr$"),
    "a negative error": ("N,error\n4,-1\n8,1\n", {}, "row 1, column error: '-1' is below zero.*give --higher"),
    "a low score": ("N,dice\n4,0\n8,-1\n", {"metric": "dice"}, "row 2, column dice: '-1' is below 0, and no dice is"),
    "another group": ("N,error,a\n4,1,a\n8,1,a\n", {"group": "A"}, r"column A is missing; did you mean --group a\?"),
    "the same run": ("N,error,seed,group\n4,1,1,a\n8,1,1,a\n8,1,1,b\n8,1,1,a\n", {}, "row 4, column seed: '1' repeats"),
    "test size": ("N,error\n4,0.5\n8,1.5\n", {"test_size": 9}, "row 2, column error: '1.5' has an error above 1, but"),
    "no test samples": ("N,error\n4,1\n8,1\n", {"test_size": 0}, "--test-size 0 must be between 1 and 1e"),
    "no rate": ("N,ssim\n4,0\n8,1\n", {"metric": "ssim", "test_size": 9}, "error rates and accuracies, and ssim is"),
}


@pytest.mark.parametrize(("text", "options", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_and_what_to_do(pilot, text, options, message):
    with pytest.raises(KoctError, match=message):
        read_pilots(pilot(text), **options)


def test_groups_are_read_from_their_column(pilot):
    text = "N,error,seed,{}\n4,1,1,a\n8,0.5,1,a\n4,2,2,b\n8,0.7,2,b\n4,3,3,b\n8,0.9,3,b\n"
    for column, given_name in (("group", None), ("patient", "patient")):
        found = read_pilots(pilot(text.format(column)), group=given_name)["pilot"]
        assert found.errors.shape == (3, 2)
        assert found.groups.tolist() == [0, 1, 1]
    assert read_pilots(pilot(text.format("patient")))["pilot"].groups is None


def test_the_test_size_is_an_option_or_a_column(pilot):
    text = "arch,N,{},test_size\na,4,0.5,100\na,8,0.4,90\nb,4,0.5,80\nb,8,0.4,80\n"
    sizes = [pilot.test_size for pilot in read_pilots(pilot(text.format("error"))).values()]
    assert sizes == [90, 80]
    assert read_pilots(pilot(text.format("error")), test_size=7)["a"].test_size == 7
    assert read_pilots(pilot(text.format("accuracy")), "accuracy")["a"].test_size == 90
    for other, fix in (("mse", "; if it is one, give --test-size"), ("ssim", "")):  # its noise is not binomial
        file = PilotFile(pilot(text.format(other)))
        assert file.pilots(other)["a"].test_size is None
        assert file.notes[0].startswith(f"the column test_size is not used, since {other} is not ")
        assert file.notes[0].endswith(f"a rate{fix}")


# Several targets


def test_several_targets_are_answered_in_their_order(capsys):
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
    ("target", "message"),
    [
        ("0,05", "'0,05' is not a number: write decimals with a point"),
        ("0.1,-1", "target = -1.0 must be finite and above 0"),
    ],
)
def test_targets_that_make_no_sense(koct, target, message):
    status, out, error = koct("budget", ROOT / "docs" / "pilot.csv", "--target", target)
    assert (status, out, len(error.strip().splitlines())) == (2, "", 1)
    assert message in error


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
