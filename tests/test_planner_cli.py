"""The planner's commands: files, options, figures, and what `koct next` says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from koct.base.stamps import Stamp
from koct.study import results

PILOT = ROOT / "docs" / "pilot.csv"


def refused(found, part):
    status, out, err = found
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert part in err


def test_a_pilot_may_come_through_a_pipe():
    command = [sys.executable, "-m", "koct", "budget"]
    piped, named = (
        subprocess.run([*command, path, "--target", "0.01", "--json"], input=PILOT.read_bytes(), capture_output=True)
        for path in ("/dev/stdin", PILOT)
    )
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == named.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arch,N,seed,error\nko,4,1,0.2\nko,8,1,0.1,9\n", "row 2: Expected 4 columns, got 5: ko,8,1,0.1,9; a cell"),
        ("N,seed,error\n4,1,0.2\n\n8,0.1\n", "row 2: Expected 3 columns, got 2: 8,0.1; a cell is missing; fill it"),
        ('arch,N,error\n"a\x1b[31m\nb",4,0.2\n', r"arch a\x1b[31m\nb: N = 4 in every run; a pilot needs"),
    ],
)
def test_what_is_wrong_with_a_pilot_is_one_line(koct, tmp_path, text, message):
    (tmp_path / "pilot.csv").write_text(text)
    refused(koct("budget", "pilot.csv", "--target", 0.05), message)


def test_a_cost_that_grows_beyond_all_numbers_is_refused(koct, tmp_path, recwarn):
    (tmp_path / "pilot.csv").write_text("N,error,cost\n1000,0.2,1e-60\n1001,0.1,1e60\n")
    refused(koct("next", "pilot.csv", "--target", 0.05), "column cost: the cost of a run grows as N^")
    assert not recwarn


@pytest.mark.parametrize("option", ["--group", "--sweep"])
def test_an_empty_name_is_refused(koct, option):
    refused(koct("budget", PILOT, "--target", 0.02, option, ""), f"argument {option}: the name is empty; give one")


def test_figures_are_the_same_bytes_each_time_and_warn_of_no_letter(koct, tmp_path, recwarn):
    (tmp_path / "pilot.csv").write_text("arch,N,error\n" + "".join(f"模型 😀,{N},{1 / N}\n" for N in (4, 8, 16)))
    plots = [tmp_path / f"{i}.svg" for i in range(2)]
    for path in plots:
        assert koct("budget", "pilot.csv", "--target", 0.02, "--plot", path)[0] == 0
    assert plots[0].read_bytes() == plots[1].read_bytes()
    assert not recwarn


def test_json_of_next_has_the_answer_of_budget(koct, tmp_path):
    rng = np.random.default_rng(0)
    rows = [(N, seed, 0.8 * N**-0.5 * rng.lognormal(0, 0.1)) for N in (16, 32, 64, 128) for seed in (1, 2, 3)]
    text = "".join(f"{N},{seed},{1 - error}\n" for N, seed, error in rows)
    (tmp_path / "pilot.csv").write_text(f"N,seed,accuracy\n{text}")
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


@pytest.mark.parametrize("verb", ["budget", "planner"])
def test_a_table_whose_stamp_does_not_fit_is_refused(koct, verb):
    rows = [{"sweep": "H8", "arch": "ko", "N": N, "seed": 1, "mse": 1 / N} for N in (4, 8, 16, 32)]
    results.write(rows, list(rows[0]), "cells.parquet", {}, Stamp({}))
    arguments = ["--metric", "mse", *(["--out", "page.html"] if verb == "planner" else ["--target", 0.05])]
    assert koct(verb, "cells.parquet", *arguments)[0] == 0
    data = Path("cells.parquet").read_bytes()
    Path("cells.parquet").write_bytes(data.replace(b'checksum": "', b'checksum" : '))
    refused(koct(verb, "cells.parquet", *arguments), "cells.parquet is damaged: its stamp cannot be read")


def test_a_file_of_a_study_has_its_metric_and_a_folder_is_told_which_file_to_take(koct, tmp_path):
    rows = [{"sweep": "H8", "arch": "ko", "N": N, "seed": 1, "mse": 1 / N, "rrmse_peak": N**-0.5} for N in (4, 8, 16)]
    origin = {"koct.sweeps": json.dumps({"H8": {"label": "", "metric": "rrmse_peak2"}})}
    results.write(rows, list(rows[0]), "cells.parquet", origin, Stamp({}))
    for verb in ("budget", "next"):
        told = [koct(verb, "cells.parquet", *more, "--target", 0.05) for more in ([], ["--metric", "rrmse_peak2"])]
        assert told[0] == told[1]
        assert told[0][0] == 0
    refused(koct("budget", ".", "--target", 0.05), "Is a directory; take ./cells.parquet")
