"""The planner's commands: files, options, figures, and what `koct next` says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from koct import cli
from koct.base.stamps import Stamp
from koct.study import results

PILOT = ROOT / "docs" / "pilot.csv"


def refused(found, *parts):
    status, out, err = found
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    for part in parts:
        assert part in err


def falling(name="pilot.csv", header="N,seed,error", value=str, extra=""):
    rng = np.random.default_rng(0)
    rows = [(N, seed, 0.8 * N**-0.5 * rng.lognormal(0, 0.1)) for N in (16, 32, 64, 128) for seed in (1, 2, 3)]
    with open(name, "w") as file:
        file.write(f"{header}\n" + "".join(f"{N},{seed},{value(error)}{extra}\n" for N, seed, error in rows))
    return name


# Files


@pytest.mark.parametrize("verb", ["budget", "next"])
def test_a_pilot_may_come_through_a_pipe(verb):
    command = [sys.executable, "-m", "koct", verb]
    piped, named = (
        subprocess.run([*command, path, "--target", "0.01", "--json"], input=PILOT.read_bytes(), capture_output=True)
        for path in ("/dev/stdin", PILOT)
    )
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == named.stdout


RAGGED = {
    "too many": (
        "arch,N,seed,error\nko,4,1,0.2\nko,8,1,0.1,9\n",
        "row 2: Expected 4 columns, got 5: ko,8,1,0.1,9; a cell",
    ),
    "too few": (
        "N,seed,error\n4,1,0.2\n\n8,0.1\n",
        "row 2: Expected 3 columns, got 2: 8,0.1; a cell is missing; fill it",
    ),
}


@pytest.mark.parametrize(("text", "message"), RAGGED.values(), ids=RAGGED)
def test_a_row_of_the_wrong_length_is_named(koct, tmp_path, text, message):
    (tmp_path / "pilot.csv").write_text(text)
    found = koct("budget", "pilot.csv", "--target", 0.05)
    refused(found, message)
    assert ("decimals" in found[2]) == ("decimals" in message)


def test_a_cost_that_grows_beyond_all_numbers_is_refused(koct, tmp_path, recwarn):
    (tmp_path / "pilot.csv").write_text("N,error,cost\n1000,0.2,1e-60\n1001,0.1,1e60\n")
    refused(
        koct("next", "pilot.csv", "--target", 0.05), "column cost: the cost of a run grows as N^", "too fast to com"
    )
    assert not recwarn


# Options


@pytest.mark.parametrize("option", ["--group", "--pairs-arch", "--metric", "--sweep"])
def test_an_empty_name_is_refused(koct, option):
    refused(koct("budget", PILOT, "--target", 0.02, option, ""), f"argument {option}: the name is empty; give one")


def test_a_test_size_that_is_not_used_is_announced(koct):
    falling(header="N,seed,mse,test_size", extra=",200")
    note = "koct: note: the column test_size is not used, since mse is not known to be a rate; if it is one, give --te"
    for verb in ("budget", "next"):
        status, out, err = koct(verb, "pilot.csv", "--metric", "mse", "--target", 0.05, "--json")
        assert status == 0
        assert err.startswith(note)
        assert json.loads(out)
    assert koct("budget", "pilot.csv", "--metric", "mse", "--test-size", 200, "--target", 0.05)[2] == ""


# Figures


def test_figures_are_the_same_bytes_each_time_and_warn_of_no_letter(tmp_path, recwarn):
    (tmp_path / "pilot.csv").write_text("arch,N,error\n" + "".join(f"模型 😀,{N},{1 / N}\n" for N in (4, 8, 16)))
    for kind in ("svg", "pdf"):
        plots = [tmp_path / f"{i}.{kind}" for i in range(2)]
        for path in plots:
            assert cli.main(["budget", str(tmp_path / "pilot.csv"), "--target", "0.02", "--plot", str(path)]) == 0
        assert plots[0].read_bytes() == plots[1].read_bytes()
    assert not recwarn


# What `koct next` says


def test_json_of_next_has_the_answer_of_budget(koct):
    falling(header="N,seed,accuracy", value=lambda error: 1 - error)
    for arguments in ([PILOT, "--target", 0.01], ["pilot.csv", "--metric", "accuracy", "--target", 0.95]):
        runs, answers = (json.loads(koct(verb, *arguments, "--json")[1]) for verb in ("next", "budget"))
        answers = {answer["arch"]: answer for answer in answers}
        for each in runs:
            answer = answers[each["arch"]]
            for key in ("target", "n", "probability", "score_target"):
                assert each.get(key) == answer.get(key)
            assert each["n_low"] <= answer["n_low"]  # the interval is wider: it has to hold after a choice of runs
            assert (each["n_high"] or np.inf) >= (answer["n_high"] or np.inf)
    assert runs[0]["score_target"] == 0.95


@pytest.mark.parametrize("damage", [lambda stamp: stamp.replace(b'checksum": "', b'checksum" : '), lambda stamp: b"?"])
@pytest.mark.parametrize("verb", ["budget", "next", "planner"])
def test_a_table_whose_stamp_does_not_fit_is_refused(koct, verb, damage):
    rows = [{"sweep": "H8", "arch": "ko", "N": N, "seed": 1, "mse": 1 / N} for N in (4, 8, 16, 32)]
    results.write(rows, list(rows[0]), "cells.parquet", {}, Stamp({}))
    arguments = ["--metric", "mse", *(["--out", "page.html"] if verb == "planner" else ["--target", 0.05])]
    assert koct(verb, "cells.parquet", *arguments)[0] == 0
    data = Path("cells.parquet").read_bytes()
    start = data.rfind(b'"koct-stamp"')
    stamp = data[start : start + 100]
    changed = damage(stamp)
    Path("cells.parquet").write_bytes(data.replace(stamp, changed + stamp[len(changed) :]))
    refused(koct(verb, "cells.parquet", *arguments), "cells.parquet is damaged: its stamp cannot be read")
