"""Pilots: files and what is refused in them, scores as errors, and how well the means of runs are known."""

import csv
import decimal
import io
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
from koct.forecast.budget import Forecast
from koct.forecast.pilot import PilotFile
from koct.forecast.runs import Pilot
from koct.forecast.scores import Decibels, Score

NANOSECONDS = pa.array([2**62] * 3, pa.timestamp("ns"))


@pytest.fixture
def pilot(tmp_path):
    """Write a pilot: text, bytes, or columns of a Parquet file that has N and error."""

    def write(content):
        path = tmp_path / "pilot"
        if isinstance(content, dict):
            columns = {"N": [4, 8, 16], "error": [0.3, 0.2, 0.1], **content}
            pq.write_table(pa.table({name: column for name, column in columns.items() if column is not None}), path)
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
    "one N": ('arch,N,error\n"a\x1b[31m\nb",4,0.2\n', {}, r"arch a\x1b[31m\nb: N = 4 in every run; a pilot needs"),
    "no arch": ("arch,N,error\nko,4,0.1\n,8,0.2\n,16,0.1\n", {}, "row 2, column arch: '' is empty, as in most rows"),
    "an empty file": ("", {}, "the file is empty"),
    "not UTF-8": (b"N,error\n4,0.1\n8,0.2\xff\n", {}, "line 3 is not UTF-8 text"),
    "NUL bytes": (
        bytes(100),
        {},
        "the file has a header but no rows",
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
    "thousands or decimals": ("N;error\n4;1,250\n8;1,125\n", {}, "row 1, column error: '1,250' has a comma; write"),
    "commas and points": ("N;error\n4;0.1\n8;0,05\n", {}, "row 2, column error: '0,05' has a comma; write decimals"),
    "commas as both": ("N,error\n4,0,1\n8,0,05\n", {}, "got 3: 4,0,1; write decimals with a point, like 0.05"),
    "spaces": ("N error\n4 0.1\n8 0.05\n", {}, "the header is 'N error': separate its columns by commas"),
    "an endless header": (b"x" * 300_000, {}, "the header cannot be read (field larger than field limit"),
    "huge numbers": ("N,error\n4,1e400\n8,0.1\n", {}, "row 1, column error: '1e400' is not a finite number"),
    "many archs": ("arch,N,error\n" + "".join(f"a{i},4,1\n" for i in range(65)), {}, "column arch has 65 different"),
    "many N": ("N,error\n" + "".join(f"{i},1\n" for i in range(2, 503)), {}, "N has 501 different values"),
    "a nested square": ({"a": [[1]] * 3}, {"metric": "a2"}, "column a has type list<"),
    "nested": ({"N": [[4], [8], [16]]}, {}, "column N has type list<"),
    "per cent": (
        "N,auc\n4,0.9\n8,93\n",
        {"metric": "auc"},
        "row 2, column auc: '93' is above 1, the best auc; say",
    ),
    "two scores": ("N,Auc,F1\n4,0.9,1\n8,0.93,1\n", {}, "error is missing; choose another with --metric: Auc, F1"),
    "two errors": ("N,val_loss,mse\n4,1,1\n", {}, "error is missing; choose another with --metric: val_loss, mse"),
    "two sizes": ("samples,n,error\n4,4,1\n", {}, "columns samples, n may each be the N; say which with --columns N="),
    "no N": ("size,error\n4,1\n", {}, "N is missing; the columns are size, error; say which it is with --columns N=CO"),
    "an arch each": ("N,unet,fbp\n4,1,1\n", {}, "if each has the errors of one arch, --columns error=unet+fbp"),
    "two kinds": ("N,error,data\n4,1,a\n4,1,b\n8,1,a\n8,1,b\n", {}, "column data has several values at the same N"),
    "two numbers": ("N,error,width\n4,1,16\n4,1,32\n8,1,16\n8,1,32\n", {}, "column width has several values at the"),
    "two kinds of a seed": (
        "N,loss,run,lr\n4,1,1,1\n8,1,1,1\n4,1,1,2\n",
        {},
        "column lr differs: give --columns arch=lr for a",
    ),
    "thousands": ("N;error\n2.000;0.3\n4.000;0.2\n", {}, "row 1, column N: '2.000' may be thousands or a decimal"),
    "a seed twice": ("N,error,seed\n4,1,1\n4,2,1.0\n8,1,1\n", {}, "row 2, column seed: '1.0' repeats an earlier run"),
    "no role": ("N,error\n4,1\n", {"columns": "loss=error"}, "--columns loss=error is not ROLE=COLUMN with one of"),
    "two metrics": ("N,a,b\n4,1,1\n", {"metric": "a", "columns": "error=b"}, "name two columns; give one of them"),
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
        PilotFile(pilot(content)).pilots(**options)
    assert "\n" not in str(caught.value)


def test_what_would_not_fit_into_memory_is_refused(monkeypatch):
    with pytest.raises(KoctError, match="seed has 50,000 different values at 500 different N, too many"):
        Pilot.from_points(np.tile(np.arange(2, 502), 100), np.ones(50_000), np.arange(50_000))
    monkeypatch.setattr(reader, "LARGEST_FILE", 2**20)
    with pytest.raises(KoctError, match="the file has over 1 MiB"):
        PilotFile("/dev/zero").pilots()


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
    found = PilotFile(pilot(content)).pilots()["pilot"]
    assert found.N.tolist() == [4, 8, 16]
    np.testing.assert_allclose(found.mean, [0.3, 0.2, 0.1], rtol=1e-6)


# Messy tables: content, options, what koct says of it, and {arch: errors by seed and N}

TIMES = pa.array([0] * 4, pa.timestamp("s"))
MESSY = {
    "German Excel": (
        "Samples;Val. Loss;Modell-Nr\r\n256;0,31;7\r\n512;0,2;8\r\n1.024;0,125;9\r\n",
        {},
        ["N from Samples, error from Val. Loss; not used: Modell-Nr"],
        {"pilot": [[0.31, 0.2, 0.125]]},
    ),
    "tabs, a byte-order mark and capitals": (
        "\ufeffN_TRAIN\tRUN\tTest Error\n4\t1\t.5\n8\t1\t.25\n4\t2\t.7\n8\t2\t.3\n",
        {},
        ["N from N_TRAIN, error from Test Error, seed from RUN"],
        {"pilot": [[0.5, 0.25], [0.7, 0.3]]},
    ),
    "two methods without seeds": (
        "method,num_samples,mse,notes\ntv,4,0.5,\ntv,8,0.4,\nunet,4,0.9,rerun\nunet,8,0.2,\n",
        {},
        ["N from num_samples, error from mse, arch from method; not used: notes"],
        {"tv": [[0.5, 0.4]], "unet": [[0.9, 0.2]]},
    ),
    "empty cells": (
        "N,seed,rmse\n4,1,0.5\n8,1,0.25\n4,2,\n8,2,NA\n16,,0.1\n16,1,0.2\n",
        {},
        [
            "error from rmse",
            "2 of 6 rows left out, since rmse is empty there",
            "1 of 4 rows left out, since seed is empty there",
        ],
        {"pilot": [[0.5, 0.25, 0.2]]},
    ),
    "a column per seed": (
        "n,seed1,seed2,seed3\n4,0.5,0.6,0.7\n8,0.25,,0.3\n",
        {},
        [
            "N from n, error from seed1+seed2+seed3, seed from the header",
            "1 of 6 cells left out, since seed1+seed2+seed3",
        ],
        {"pilot": [[0.5, 0.25], [0.6, np.nan], [0.7, 0.3]]},
    ),
    "a column per run of each network": (
        "train size,network,run_1,run_2\n4,a,0.5,0.6\n8,a,0.25,0.2\n4,b,0.9,0.8\n8,b,0.7,0.6\n",
        {},
        ["N from train size, error from run_1+run_2, arch from network, seed from the header"],
        {"a": [[0.5, 0.25], [0.6, 0.2]], "b": [[0.9, 0.7], [0.8, 0.6]]},
    ),
    "a column per network": (
        "N,fold,unet,fbp\n4,1,0.5,0.9\n8,1,0.25,0.8\n4,2,0.6,0.9\n8,2,0.2,0.8\n",
        {"columns": "error=unet+fbp"},
        ["arch from the header, seed from fold"],
        {"fbp": [[0.9, 0.8], [0.9, 0.8]], "unet": [[0.5, 0.25], [0.6, 0.2]]},
    ),
    "Parquet of somebody": (
        {"N": None, "error": None, "n_samples": [4, 8, 4, 8], "loss": [0.5, 0.25, 0.6, 0.2], "model": list("aabb")}
        | {"when": TIMES},
        {},
        ["N from n_samples, error from loss, arch from model; not used: when"],
        {"a": [[0.5, 0.25]], "b": [[0.6, 0.2]]},
    ),
    "what spreadsheets leave behind": (
        ",Train-Size,Mean Error,std,,\n0,4,0.5,0.1,,\n1,8,0.25,0.1,,\n,,,,,\n",
        {},
        ["N from Train-Size, error from Mean Error; not used: column 1, std"],
        {"pilot": [[0.5, 0.25]]},
    ),
    "a score": (
        "samples,PSNR,trial,epoch\n4,10,1,9\n8,20,1,7\n4,20,2,8\n8,30,2,7\n",
        {},
        ["N from samples, score from PSNR, seed from trial; not used: epoch"],
        {"pilot": [[0.1, 0.01], [0.01, 0.001]]},
    ),
    "thousands in quotes": (
        'Number of samples,error\n512,0.25\n"1,024",0.125\n',
        {},
        ["N from Number of samples"],
        {"pilot": [[0.25, 0.125]]},
    ),
    "fresh samples: all of a pool, which may have its own row, the floor, and trainings that were not finished": (
        "arch,N,error,p,steps,drawn,gain,edge\n"
        "fc,4,0.5,9,,,,False\nfc,8,0.4,9,,,,False\nfc,-1,0.2,9,,64,,False\n"
        "ko,4,0.5,9,,,,False\nko,8,0.4,9,,,,False\nko,-1,0.4,9,,8,,False\n"
        "lpd,4,0.5,9,20,,0.01,False\nlpd,8,0.4,9,20,,0.01,False\nlpd,-1,0.2,9,40,160,0.01,False\n"
        "unet,4,0.5,9,20,,0.01,False\nunet,8,0.4,9,20,,0.01,False\nunet,-1,0.2,9,40,160,0.2,True\n"
        "net,4,0.5,9,20,,,\nnet,8,0.4,9,20,,,\nnet,-1,0.2,9,40,160,,\n",
        {},
        ["fresh samples of net, unet are left out, since trainings were not finished"],
        {"fc": [[0.5, 0.4, 0.2]]} | {arch: [[0.5, 0.4]] for arch in ("ko", "lpd", "net", "unet")},
    ),
    "names that nobody knows": (
        "Netz;Datensatz;Bilder;Fehler;Kommentar\nu;x;4;0,5;\nu;x;8;0,25;\nu;y;4;0,6;gut\nu;y;8;0,2;\n",
        {"columns": "N=Bilder,error=Fehler,arch=Netz+Datensatz,ignore=Kommentar"},
        [],
        {"u / x": [[0.5, 0.25]], "u / y": [[0.6, 0.2]]},
    ),
}


@pytest.mark.parametrize(("content", "options", "notes", "errors"), MESSY.values(), ids=MESSY)
def test_a_messy_table_is_understood_and_what_was_understood_is_said(pilot, content, options, notes, errors):
    file = PilotFile(pilot(content))
    found = file.pilots(**options)
    assert list(found) == list(errors)
    for arch, expected in errors.items():
        np.testing.assert_allclose(found[arch].errors, expected)
    assert len(file.notes) == len(notes)
    assert all(said.startswith(note) for said, note in zip(file.notes, notes, strict=True))
    floors = {arch: of.floor for arch, of in found.items() if of.floor is not None}
    assert floors == ({"lpd": 0.2} if "lpd" in errors else {})


def test_the_least_measured_error_is_the_floor_where_fresh_samples_did_no_better():
    assert Pilot.from_points([4, 8, -1], [0.5, 0.4, 0.42]).floor == 0.4
    assert Pilot.from_points([4, 8, -1], [0.5, 0.4, 0.3]).floor == 0.3


NAMES = {
    "N": ["N", "n_train", "Samples", "num samples", "trainSize", "sample-size"],
    "error": ["error", "Loss", "val_loss", "test-MSE", "RMSE (test)", "mean error"],
    "arch": ["arch", "Model", "method", "NETWORK", "architecture"],
    "seed": ["seed", "Run", "fold", "repeat", "trial_id"],
}
RUNS = [
    {"N": N, "error": round((0.9 if arch == "a" else 0.7) * N**-0.4 * (1 + 0.1 * seed), 4), "arch": arch, "seed": seed}
    for arch in "ab"
    for N in (4, 8, 16, 1024)
    for seed in (1, 2)
]


def forecast(table):
    return {arch: Forecast(each, replicates=50).required(0.05) for arch, each in PilotFile(table).pilots().items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A path to write to, and the forecast of what is to be understood there."""
    return tmp_path_factory.mktemp("tables") / "pilot", forecast({role: [row[role] for row in RUNS] for role in NAMES})


@given(
    st.fixed_dictionaries({role: st.sampled_from(names) for role, names in NAMES.items()}),
    st.permutations(list(NAMES)),
    st.permutations(RUNS),
    st.sampled_from([",", ";", "\t", "parquet", "memory"]),
    st.booleans(),
    st.sampled_from(["utf-8", "utf-8-sig"]),
)
def test_names_order_and_format_of_a_table_do_not_change_the_forecast(plain, names, order, rows, form, comma, encoding):
    table, expected = plain
    columns = {names[role]: [row[role] for row in rows] for role in order}
    if form == "memory":
        table = columns
    elif form == "parquet":
        pq.write_table(pa.table(columns), table)
    else:
        text = io.StringIO()
        writer = csv.writer(text, delimiter=form)
        writer.writerow(columns)
        cells = zip(*columns.values(), strict=True)
        writer.writerows([str(cell).replace(".", "," if comma else ".") for cell in row] for row in cells)
        table.write_text(text.getvalue(), encoding)
    assert forecast(table) == expected


def test_groups_are_read_from_their_column(pilot):
    text = "N,error,seed,{}\n4,1,1,a\n8,0.5,1,a\n4,2,2,b\n8,0.7,2,b\n4,3,3,b\n8,0.9,3,b\n"
    for column, given_name in (("group", None), ("patient", "patient")):
        found = PilotFile(pilot(text.format(column))).pilots(group=given_name)["pilot"]
        assert found.errors.shape == (3, 2)
        assert found.groups.tolist() == [0, 1, 1]
    assert PilotFile(pilot(text.format("patient"))).pilots()["pilot"].groups is None


def test_the_test_size_is_an_option_or_a_column(pilot):
    text = "arch,N,{},test_size\na,4,0.5,100\na,8,0.4,90\nb,4,0.5,80\nb,8,0.4,80\n"
    sizes = [pilot.test_size for pilot in PilotFile(pilot(text.format("error"))).pilots().values()]
    assert sizes == [90, 80]
    assert PilotFile(pilot(text.format("error"))).pilots(test_size=7)["a"].test_size == 7
    assert PilotFile(pilot(text.format("accuracy"))).pilots("accuracy")["a"].test_size == 90
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
    np.testing.assert_allclose(PilotFile(pilot(text)).pilots(**options)["pilot"].mean, errors)


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
        (Score("accuracy"), float("nan"), "--target nan is too small or too large to compute with"),
        (Decibels("psnr"), 1e9, "is too small or too large to compute with"),
    ],
)
def test_targets_that_no_score_reaches(score, target, message):
    with pytest.raises(KoctError, match=message):
        score.target(target)
    with pytest.raises(KoctError, match=r"PSNR has no best value.*omit --higher"):
        scores.named("PSNR", 1.0)


# Runs: how well their means are known

N = np.array([4.0, 8, 16, 32, 64, 128])
CURVE = N**-0.5


def runs(seed, count, own=0.2, common=0.0, groups=None):
    """Errors around CURVE: every run is off by `own`, and all runs of a seed, or of a group, by `common`."""
    rng = np.random.default_rng(seed)
    group = np.arange(count) if groups is None else np.asarray(groups)
    off = common * rng.standard_normal(group.max() + 1)[group][:, None] + own * rng.standard_normal((count, len(N)))
    return CURVE * (1 + off)


def correlation(covariance):
    own = np.sqrt(np.diag(covariance))
    return (covariance / np.outer(own, own))[~np.eye(len(own), dtype=bool)]


def test_a_common_effect_of_the_seed_makes_means_correlated():
    """Seeds off by 20 % and runs by 10 %: a correlation of 0.8, which few seeds tell less well than many."""
    many = correlation(Pilot(N, runs(0, 400, own=0.1, common=0.2)).covariance())
    np.testing.assert_allclose(many, 0.8, atol=0.05)
    few = np.mean([correlation(Pilot(N, runs(seed, 5, own=0.1, common=0.2)).covariance()) for seed in range(200)])
    assert 0.5 < few < 0.85


def widths(pilot):
    _, low, high = Forecast(pilot).predict([128, 256, 512])
    return np.log(high / low)


def test_runs_of_a_group_are_no_independent_evidence():
    """Four patients with five runs each: as if there were four runs."""
    groups = np.repeat(np.arange(4), 5)
    ratios = []
    for seed in range(12):
        errors = runs(seed, 20, own=0.03, common=0.3, groups=groups)
        shuffled = np.column_stack([np.random.default_rng([seed, k]).permutation(errors[:, k]) for k in range(len(N))])
        ratios.append(widths(Pilot(N, errors, groups)) / widths(Pilot(N, shuffled)))
    assert (np.mean(ratios, axis=0) > 1.1).all()
    told = [np.diag(Pilot(N, runs(s, 20, 0.05, 0.1, groups), groups).covariance()).mean() for s in range(300)]
    assert np.mean(told) == pytest.approx((0.1**2 + 0.05**2 / 5) / 4, rel=0.15)


def test_seeds_of_different_groups_are_different_ones():
    sizes, seeds, groups = np.tile([4, 8], 4), np.repeat([1, 2, 1, 2], 2), np.repeat(["a", "b"], 4)
    pilot = Pilot.from_points(sizes, np.linspace(1, 2, 8), seeds, groups)
    assert pilot.errors.shape == (4, 2)
    assert pilot.groups.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("sizes", "errors", "seeds", "message"),
    [
        ([4, 8], [0.1, np.nan], None, "error = nan must be finite and not below 0"),
        ([0, 8], [0.1, 0.2], None, "N = 0 must be an integer of at least 2"),
        ([4, 4.5], [0.1, 0.2], None, r"N = 4\.5 must be an integer of at least 2"),
        ([4, 4], [0.1, 0.2], None, "N = 4 in every run; a pilot needs runs at two or more N"),
        ([4, 8, 8], [0.1, 0.2, 0.3], [1, 1, 1], "seed has two runs at the same N"),
    ],
)
def test_bad_points_are_rejected(sizes, errors, seeds, message):
    with pytest.raises(KoctError, match=message):
        Pilot.from_points(sizes, errors, seeds)


# Error rates and zeros


def test_an_error_rate_is_known_no_better_than_it_was_counted():
    rates = np.tile([0.4, 0.2, 0.1, 0.05, 0.02, 0.01], (3, 1))
    counted = np.diag(Pilot(N, rates, test_size=100).covariance())
    np.testing.assert_allclose(counted, (1 - rates[0]) / (rates[0] * 100 * 3))  # binomial, relative
    assert (np.diag(Pilot(N, rates).covariance()) == 1e-4).all()
    assert (widths(Pilot(N, rates, test_size=100)) > widths(Pilot(N, rates))).all()
    spread = Pilot(N, runs(0, 5))  # runs that differ by more than counting explains
    np.testing.assert_array_equal(Pilot(N, spread.errors, test_size=10**6).covariance(), spread.covariance())


@pytest.mark.parametrize("test_size", [None, 50])
@pytest.mark.parametrize("zeros", [slice(5, 6), slice(2, 6), slice(0, 6)])
@pytest.mark.filterwarnings("error")
def test_zeros_are_errors_too_small_to_be_seen(test_size, zeros):
    errors = np.tile([0.4, 0.2, 0.1, 0.08, 0.04, 0.02], (3, 1))
    errors[:, zeros] = 0
    pilot = Pilot(N, errors, test_size=test_size)
    assert (pilot.level > 0).all()
    assert (pilot.level[zeros] < errors[errors > 0].min(initial=1)).all()
    assert (np.diag(pilot.covariance())[zeros] >= 1).all()  # by a factor of e, or more
    answer = Forecast(pilot).required(0.01)
    assert np.isfinite([answer.error, answer.error_low, answer.error_high]).all()
    assert answer.reachable
    assert "where every run has an error of zero" in answer.reason


def test_one_group_does_not_narrow_the_interval():
    errors = CURVE * np.array([[1.5], [0.5]])
    alone, together = Pilot(N, errors), Pilot(N, errors, np.zeros(2, dtype=int))
    assert alone.replicated
    assert not together.replicated
    assert (np.diag(together.covariance()) > np.diag(alone.covariance())).all()
    assert "no N has runs of two groups" in Forecast(together).required(0.05).reason
