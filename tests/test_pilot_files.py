"""Pilot files: what is read, and what is refused with the row, the column and a fix; scores as errors, and back."""

import decimal
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koct.errors import KoctError
from koct.forecast import pilot as reader
from koct.forecast import scores
from koct.forecast.pilot import PilotFile, read_pilots
from koct.forecast.runs import Pilot
from koct.forecast.scores import Decibels, Score

NANOSECONDS = pa.array([2**62] * 3, pa.timestamp("ns"))


@pytest.fixture
def pilot(tmp_path):
    """Write a pilot: text, bytes, or columns of a Parquet file that has N and error."""

    def write(content):
        path = tmp_path / "pilot"
        if isinstance(content, dict):
            pq.write_table(pa.table({"N": [4, 8, 16], "error": [0.3, 0.2, 0.1], **content}), path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


BAD = {  # content, options of the reader, and what is said
    "N below 2": ("N,error\n4,0.1\n1,0.2\n", {}, "row 2, column N: '1' is below 2"),
    "text": ("N,error\n4,0.1\n8,small\n", {}, "row 2, column error: 'small' is not a plain number"),
    "negative": ("N,error\n4,0.1\n8,-0.2\n", {}, "row 2, column error: '-0.2' is below zero, and no error is; correct"),
    "misspelt": ("N,eror\n4,0.1\n8,0.2\n", {}, "column error is missing; rename column 'eror'?"),
    "a run twice": ("N,seed,error\n4,1,1\n8,1,2\n8,1,3\n", {}, "row 3, column seed: '1' repeats an earlier run"),
    "a column twice": ("N,N,error\n4,4,0.1\n8,8,0.2\n", {}, "column N appears twice"),
    "a huge N": ("N,error\n4,0.1\n1e19,0.2\n", {}, "row 2, column N: '1e19' is above 1e+15"),
    "one N": ('arch,N,error\n"a\x1b[31m\nb",4,0.2\n', {}, r"only the value 4 for arch a\x1b[31m\nb; a pilot needs"),
    "no arch": ("arch,N,error\nko,4,0.1\n,8,0.2\n", {}, "row 2, column arch: '' is empty"),
    "an empty file": ("", {}, "the file is empty"),
    "not UTF-8": (b"N,error\n4,0.1\n8,0.2\xff\n", {}, "row 2, column 2 is not UTF-8 text"),
    "UTF-16": ("N,error\n4,0.1\n".encode("utf-16"), {}, "the file is UTF-16 text; save it as UTF-8"),
    "NUL bytes": (
        bytes(100),
        {},
        "the file holds NUL bytes, so it is not text; save it as CSV in UTF-8",
    ),
    "xlsx": (b"PK\x03\x04" + bytes(30), {}, "the file is a spreadsheet (xlsx, ods) or a zip archive; save it as CSV"),
    "no Parquet": (b"PAR1 and nothing else", {}, "the file is not valid Parquet"),
    "a cell more": (
        "N,error\n4,0.2,9\n",
        {},
        "row 1: Expected 2 columns, got 3: 4,0.2,9; a cell is too many",
    ),
    "a cell less": (
        "N,seed,error\n4,1,0.2\n\n8,0.1\n",
        {},
        "row 2: Expected 3 columns, got 2: 8,0.1; a cell is",
    ),
    "decimal commas": ("N;error\n4;0,1\n8;0,05\n", {}, "row 1, column error: '0,1' has a comma; write decimals"),
    "commas as both": ("N,error\n4,0,1\n8,0,05\n", {}, "got 3: 4,0,1; write decimals with a point, like 0.05"),
    "spaces": ("N error\n4 0.1\n8 0.05\n", {}, "the header is 'N error': separate its columns by commas"),
    "an endless header": (b"x" * 300_000, {}, "the header cannot be read (field larger than field limit"),
    "huge numbers": ("N,error\n4,1e400\n8,0.1\n", {}, "row 1, column error: '1e400' is not a finite number"),
    "many archs": ("arch,N,error\n" + "".join(f"a{i},4,1\n" for i in range(65)), {}, "column arch has 65 different"),
    "many N": ("N,error\n" + "".join(f"{i},1\n" for i in range(2, 503)), {}, "N has 501 different values"),
    "nested": ({"N": [[4], [8], [16]]}, {}, "column N has type list<"),
    "times": ({"error": NANOSECONDS}, {}, "column error has type timestamp[ns]; it must hold numbers"),
    "a null": ({"error": [0.3, None, 0.1]}, {}, "row 2, column error: None is not a finite number"),
    "per cent": (
        "N,auc\n4,0.9\n8,93\n",
        {"metric": "auc"},
        "row 2, column auc: '93' is above 1, the best auc; say",
    ),
    "no error": ("N,Auc\n4,0.9\n8,0.93\n", {}, "column error is missing; choose another with --metric: Auc"),
    "a squared score": ("N,psnr\n4,20\n8,25\n", {"metric": "psnr2"}, "is the square of a score, and no error; take"),
    "a low score": ("N,dice\n4,0\n8,-1\n", {"metric": "dice"}, "row 2, column dice: '-1' is below 0, and no dice is"),
    "another group": ("N,error,a\n4,1,a\n8,1,a\n", {"group": "A"}, "column A is missing; did you mean --group a?"),
    "test size": ("N,error\n4,0.5\n8,1.5\n", {"test_size": 9}, "row 2, column error: '1.5' has an error above 1, but"),
    "no test samples": ("N,error\n4,1\n8,1\n", {"test_size": 0}, "--test-size 0 must be between 1 and 1e"),
    "no rate": ("N,ssim\n4,0\n8,1\n", {"metric": "ssim", "test_size": 9}, "error rates and accuracies, and ssim is"),
}


@pytest.mark.parametrize(("content", "options", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_told_in_one_line_with_row_column_and_fix(pilot, content, options, message):
    with pytest.raises(KoctError, match=re.escape(message)) as caught:
        read_pilots(pilot(content), **options)
    assert "\n" not in str(caught.value)


def test_what_would_not_fit_into_memory_is_refused(monkeypatch):
    with pytest.raises(KoctError, match="seed has 50,000 different values at 500 different N, too many"):
        Pilot.from_points(np.tile(np.arange(2, 502), 100), np.ones(50_000), np.arange(50_000))
    monkeypatch.setattr(reader, "LARGEST_FILE", 2**20)
    with pytest.raises(KoctError, match="the file has over 1 MiB"):
        read_pilots("/dev/zero")


SAME = [
    '"N","error"\r\n"4","0.3"\r\n"8","0.2"\r\n"16","0.1"\r\n',
    "\ufeff\nN;error\n4;0.3\n8;0.2\n16;0.1\n",
    "N\terror\n4\t0.3\n8\t0.2\n16\t0.1\n",
    "arch, N, error\npilot, 16, 0.1\npilot, 8, 0.2\npilot, 4, 0.3\n",
    {"error": pa.array([decimal.Decimal(text) for text in ("0.3", "0.2", "0.1")], pa.decimal128(5, 2))},
    {"N": pa.array(["4", " 8", "16 "], pa.large_string())},
    {"N": pa.array(["4", "8", "16"]).dictionary_encode(), "error": pa.array([0.3, 0.2, 0.1], pa.float32())},
    {"seed": pa.array([1.0, 1.0, 1.0]), "note": NANOSECONDS, "more": [{"a": [1]}] * 3},
]


@pytest.mark.parametrize("content", SAME)
def test_other_ways_to_write_the_same_are_read(pilot, content):
    found = read_pilots(pilot(content))["pilot"]
    assert found.N.tolist() == [4, 8, 16]
    np.testing.assert_allclose(found.mean, [0.3, 0.2, 0.1], rtol=1e-6)


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


# Scores


@pytest.mark.parametrize(
    ("text", "options", "errors"),
    [
        ("N,accuracy\n4,0.75\n8,0.875\n16,1\n", {"metric": "accuracy"}, [0.25, 0.125, 0]),
        ("N,score\n4,75\n8,90\n", {"higher": 100.0}, [0.25, 0.1]),
        ("N,PSNR\n4,20\n4,30\n8,40\n", {"metric": "PSNR"}, [0.0055, 0.0001]),
    ],
)
def test_the_error_of_a_score(pilot, text, options, errors):
    np.testing.assert_allclose(read_pilots(pilot(text), **options)["pilot"].mean, errors)


@given(st.sampled_from([Score("accuracy"), Score("grade", 100.0), Decibels("psnr")]), st.floats(1e-6, 0.9))
def test_scores_and_errors_are_inverse_and_opposite(score, error):
    assert score.error(score.score(error)) == pytest.approx(error, rel=1e-6)
    assert score.score(error) > score.score(1.1 * error)
    assert score.target(score.score(error)) == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize(
    ("score", "target", "message"),
    [
        (Score("accuracy"), 1.0, "--target 1 is not below 1, the best accuracy, which no N reaches; choose a lower"),
        (Score("accuracy", 100.0), -1.0, "--target -1 is below 0, and no accuracy is; choose a higher one"),
        (Score("accuracy"), float("nan"), "--target nan is not a finite accuracy"),
        (Decibels("psnr"), 1e9, "is too small or too large to compute with"),
    ],
)
def test_targets_that_no_score_reaches(score, target, message):
    with pytest.raises(KoctError, match=message):
        score.target(target)
    with pytest.raises(KoctError, match=r"PSNR has no best value.*omit --higher"):
        scores.named("PSNR", 1.0)
