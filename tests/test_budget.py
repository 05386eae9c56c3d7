"""The budget planner: pilot files, held-out points of real curves, synthetic pilots with known answers."""

import contextlib
import decimal
import io
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT

from koct import cli
from koct.errors import KoctError
from koct.forecast import pilot as reader
from koct.forecast.pilot import read_pilots
from koct.forecast.runs import Pilot

sys.path.insert(0, str(ROOT / "benchmarks"))
import budget as benchmark
import curves

REFERENCE = ROOT / "results/reference"
GOOD = "arch,N,seed,error\nko,4,1,0.2\nko,4,2,0.22\nko,16,1,0.1\nko,16,2,0.11\nko,64,1,0.05\nko,64,2,0.06\n"
RULES = curves.Line, curves.Paper
GIVEN = ["--target", 0.08, "--json"]


def koct(*arguments):
    """What the command does, in this process: that saves half a second of imports. test_cli.py starts real ones."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main([*map(str, arguments)])
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@pytest.fixture
def pilot(tmp_path):
    def write(text, name="pilot.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


BAD = {
    "N below 2": ("N,error\n4,0.1\n1,0.2\n", "row 2, column N: '1' is below 2"),
    "text": ("N,error\n4,0.1\n8,small\n", "row 2, column error: 'small' is not a plain number"),
    "negative error": ("N,error\n4,0.1\n8,-0.2\n", "row 2, column error: '-0.2' is below zero, and no error is"),
    "misspelt column": ("N,eror\n4,0.1\n8,0.2\n", "column error is missing; rename column 'eror'?"),
    "the same run twice": ("N,seed,error\n4,1,1\n8,1,2\n8,1,3\n", "row 3, column seed: '1' repeats an earlier run"),
    "a column twice": ("N,N,error\n4,4,0.1\n8,8,0.2\n", "column N appears twice"),
    "a huge N": ("N,error\n4,0.1\n1e19,0.2\n", "row 2, column N: '1e19' is above 1e+15"),
    "an empty arch": ("arch,N,error\nko,4,0.1\n,8,0.2\n", "row 2, column arch: '' is empty"),
    "an empty file": ("", "the file is empty"),
    "not UTF-8": (b"N,error\n4,0.1\n8,0.2\xff\n", "line 3 is not UTF-8 text"),
    "invalid Parquet": (b"PAR1 and nothing else", "the file is not valid Parquet"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_bad_pilot_is_a_one_line_error_that_names_row_and_column(pilot, text, message):
    done = koct("budget", pilot(text), "--target", 0.05)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


FOREIGN = {
    "decimal commas": ("N;error\n4;0,1\n8;0,05\n", "row 1, column error: '0,1' has a comma; write decimals"),
    "commas as both": ("N,error\n4,0,1\n8,0,05\n", "got 3: 4,0,1; write decimals with a point, like 0.05"),
    "spaces as separators": ("N error\n4 0.1\n8 0.05\n", "the header is 'N error': separate its columns by commas"),
    "xlsx": (b"PK\x03\x04" + bytes(30), "the file is a spreadsheet (xlsx, ods) or a zip archive; save it as CSV"),
    "UTF-16": (GOOD.encode("utf-16"), "the file is UTF-16 text; save it as UTF-8"),
    "NUL bytes": (bytes(100), "the file has a header but no rows"),
    "a header without end": (b"x" * 300_000, "the header cannot be read (field larger than field limit"),
    "huge numbers": ("N,error\n4,1e400\n8,0.1\n", "row 1, column error: '1e400' is not a finite number"),
    "many archs": ("arch,N,error\n" + "".join(f"a{i},4,1\n" for i in range(65)), "column arch has 65 different values"),
    "many N": ("N,error\n" + "".join(f"{i},1\n" for i in range(2, 503)), "N has 501 different values"),
}


@pytest.mark.parametrize(("data", "message"), FOREIGN.values(), ids=FOREIGN)
def test_a_file_that_is_no_pilot_is_refused_with_a_fix(pilot, data, message):
    with pytest.raises(KoctError, match=re.escape(message)):
        read_pilots(pilot(data))


def parquet(**columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"N": [4, 8, 16], "error": [0.3, 0.2, 0.1], **columns}), buffer)
    return buffer.getvalue()


NANOSECONDS = pa.array([2**62] * 3, pa.timestamp("ns"))
FOREIGN_PARQUET = {
    "nested": ({"N": [[4], [8], [16]]}, "column N has type list<"),
    "times": ({"error": NANOSECONDS}, "column error has type timestamp[ns]; it must hold numbers"),
    "a null": ({"error": [0.3, None, 0.1]}, "row 2, column error: None is not a finite number"),
    "a null arch": ({"arch": ["ko", None, "ko"]}, "row 2, column arch: None is empty"),
}


@pytest.mark.parametrize(("columns", "message"), FOREIGN_PARQUET.values(), ids=FOREIGN_PARQUET)
def test_foreign_columns_are_refused_by_name_and_type(pilot, columns, message):
    with pytest.raises(KoctError, match=re.escape(message)):
        read_pilots(pilot(parquet(**columns), "pilot.parquet"))


@pytest.mark.parametrize(
    "columns",
    [
        {"error": pa.array([decimal.Decimal(text) for text in ("0.3", "0.2", "0.1")], pa.decimal128(5, 2))},
        {"N": pa.array(["4", " 8", "16 "], pa.large_string())},
        {"N": pa.array(["4", "8", "16"]).dictionary_encode(), "error": pa.array([0.3, 0.2, 0.1], pa.float32())},
        {"seed": pa.array([1.0, 1.0, 1.0]), "note": NANOSECONDS, "more": [{"a": [1]}] * 3},
    ],
)
def test_other_ways_to_write_the_same_are_read(pilot, columns):
    found = read_pilots(pilot(parquet(**columns), "pilot.parquet"))["pilot"]
    assert found.N.tolist() == [4, 8, 16]
    np.testing.assert_allclose(found.mean, [0.3, 0.2, 0.1], rtol=1e-6)


def test_what_would_not_fit_into_memory_is_refused(monkeypatch):
    with pytest.raises(KoctError, match="seed has 50,000 different values at 500 different N, too many"):
        Pilot.from_points(np.tile(np.arange(2, 502), 100), np.ones(50_000), np.arange(50_000))
    monkeypatch.setattr(reader, "LARGEST_FILE", 2**20)
    with pytest.raises(KoctError, match="the file has over 1 MiB"):
        read_pilots("/dev/zero")


def test_a_missing_file_and_a_bad_target(pilot):
    done = koct("budget", "nowhere.csv", "--target", 0.05)
    reason = "nowhere.csv cannot be read: No such file or directory; give the path of a pilot file"
    assert (done.returncode, done.stderr) == (2, f"koct: error: {reason}\n")
    done = koct("budget", pilot(GOOD), "--target", -1)
    assert done.returncode == 2
    assert "target = -1.0 must be finite and above 0" in done.stderr


def test_json_has_one_object_per_arch(pilot):
    text = GOOD + GOOD.partition("\n")[2].replace("ko", "fc").replace("0.", "0.5")
    answers = {answer["arch"]: answer for answer in json.loads(koct("budget", pilot(text), *GIVEN).stdout)}
    assert set(answers) == {"ko", "fc"}
    wanted = {"arch", "law", "n", "n_low", "n_high", "reachable", "error_low", "error_high", "probability", "weights"}
    for answer in answers.values():
        assert wanted <= set(answer)
        assert sum(answer["weights"].values()) == pytest.approx(1)
        assert not any(key.startswith("score") for key in answer)
    assert answers["ko"]["reachable"] is True
    assert answers["ko"]["n_low"] <= answers["ko"]["n"]
    assert 16 < answers["ko"]["n"] < 64


def test_the_error_at_an_n_and_the_chance_of_a_target(pilot):
    score = GOOD.replace("error", "accuracy").replace("0.", "0.9")
    found = json.loads(koct("budget", pilot(GOOD), *GIVEN, "--at", "64,256,4096").stdout)
    assert [each.get("n") is None for each in found] == [False, True, True, True]
    chances = [each["chances"][0] for each in found[1:]]
    assert chances == sorted(chances)
    assert all(each["error_low"] < each["error"] < each["error_high"] for each in found[1:])
    alone = koct("budget", pilot(score), "--metric", "accuracy", "--at", "256")
    assert alone.stdout.splitlines()[0].split("  ")[-2:] == ["predicted accuracy", "90 % interval"]
    assert "1.0 %" not in alone.stdout
    for arguments, message in (([], "give one of them, or both"), (["--at", 1], "N = 1 must be at least 2")):
        done = koct("budget", pilot(GOOD), *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


def test_other_separators_spaces_and_a_byte_order_mark_are_read(pilot):
    plain = koct("budget", pilot(GOOD), *GIVEN).stdout
    quoted = GOOD.replace("arch,N,seed,error", '"arch","N","seed","error"').replace("\n", "\r\n")
    for text in (quoted, "\ufeff\n" + GOOD.replace(",", ";"), GOOD.replace(",", "\t"), GOOD.replace(",", ", ")):
        assert koct("budget", pilot(text), *GIVEN).stdout == plain


def test_the_cells_of_a_study_are_a_valid_pilot():
    given = ["budget", REFERENCE / "cells.parquet", "--target", 0.02]
    done = koct(*given, "--metric", "mse", "--sweep", "H32")
    assert done.returncode == 0
    assert "fc needs" in done.stdout
    assert "structural" in done.stdout
    for arguments, message in (
        (["--metric", "mse"], "column sweep has 9 values; choose one with --sweep: H128, H128-exact, H16"),
        (["--sweep", "H9", "--metric", "mse"], "column sweep has no value 'H9'"),
    ):
        done = koct(*given, *arguments)
        assert done.returncode == 2
        assert message in done.stderr
    squared = koct(*given, "--metric", "rrmse_peak2", "--sweep", "H32", "--json")
    assert json.loads(squared.stdout)[0]["reachable"]


def test_the_workflow_answers_every_configured_target():
    table, cells = (pd.read_parquet(REFERENCE / f"{name}.parquet") for name in ("budget", "cells"))
    reached = table[table["reachable"]]
    assert (reached["n_low"] <= reached["n"]).all()
    assert (table["reachable"] == (table["probability"] >= 0.5)).all()
    inside = reached[reached["sweep"].isin(["H8", "H16", "H32"]) & (reached["n"] > 8) & (reached["n"] < 60)]
    assert len(inside) >= 5
    for row in inside.itertuples():  # within the pilot's range, the answer lies between the neighbouring points
        curve = cells[(cells["sweep"] == row.sweep) & (cells["arch"] == row.arch)].groupby("N")["mse"].mean()
        assert curve[curve.index <= row.n].iloc[-1] > 0.75 * row.target
        assert curve[curve.index >= row.n].iloc[0] < 1.25 * row.target


def test_held_out_points_of_the_reference_are_foreseen_as_the_readme_says():
    """With priors that know nothing of a point's data set."""
    own = curves.judged("reference", None)
    found, line, paper = map(curves.measures, (own, *(curves.run("reference", None, each) for each in RULES)))
    dense = [row for row in own if row["curve"].endswith("fc")]
    assert len(own) == 2 * len(dense) == 2 * 18
    assert found["log_miss"] < 0.04 < line["log_miss"]
    assert np.median([abs(row["forecast"] / row["true"] - 1) for row in dense]) < 0.066  # a line has 0.06
    assert found["mean_off"] < 1.05 * line["mean_off"]
    assert np.expm1(paper["log_miss"]) > 1
    assert found["error_in"] >= 0.88


@pytest.mark.long
@pytest.mark.parametrize("truth", benchmark.TRUTHS)
def test_intervals_contain_the_true_number_of_samples(truth):
    assert 0.80 <= benchmark.coverage(benchmark.intervals(truth, 200)) <= 0.97


def test_the_worked_example_prints_what_the_page_shows():
    page = (ROOT / "docs/how-many-samples.md").read_text()
    shown = re.findall(r"```sh\n(koct [^\n]*)\n```\n\n```text\n(.*?)```", page, re.S)
    assert len(shown) >= 3
    for command, output in shown:
        assert koct(*command.split()[1:]).stdout == output, command
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
