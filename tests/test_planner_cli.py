"""The planner's commands: files, options, figures, and what `koct next` says and writes."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import ROOT

from koct import cli
from koct.base.stamps import Stamp
from koct.forecast.budget import Answer
from koct.forecast.next_runs import Cost
from koct.report.text import budget_plot
from koct.report.text import next_text as report
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
    "decimal comma": ("N,error\n4,0.1\n8,0,05\n", "row 2: Expected 2 columns, got 3: 8,0,05; write decimals with a po"),
}


@pytest.mark.parametrize(("text", "message"), RAGGED.values(), ids=RAGGED)
def test_a_row_of_the_wrong_length_is_named(koct, tmp_path, text, message):
    (tmp_path / "pilot.csv").write_text(text)
    found = koct("budget", "pilot.csv", "--target", 0.05)
    refused(found, message)
    assert ("decimals" in found[2]) == ("decimals" in message)


def test_names_with_control_characters_stay_in_one_line(koct, tmp_path):
    (tmp_path / "pilot.csv").write_text('arch,N,error\n"a\x1b[31m\nb",4,0.2\n')
    refused(koct("budget", "pilot.csv", "--target", 0.05), r"only the value 4 for arch a\x1b[31m\nb; a pilot needs")


@pytest.mark.parametrize("cost", ["1e61", "1e-61"])
def test_extreme_costs_are_refused_by_row_and_column(koct, tmp_path, cost):
    (tmp_path / "pilot.csv").write_text(f"N,error,seconds\n4,0.2,1\n8,0.1,{cost}\n")
    refused(koct("next", "pilot.csv", "--target", 0.05), f"row 2, column seconds: '{cost}' is too small or too large")


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


def test_a_metric_in_other_letters_gets_a_hint(koct):
    falling(header="N,seed,accuracy", value=lambda error: 1 - error)
    for verb in ("budget", "next"):
        found = koct(verb, "pilot.csv", "--metric", "Accuracy", "--target", 0.9)
        refused(found, "column Accuracy is missing; did you mean --metric accuracy?")


def test_a_test_size_that_is_not_used_is_announced(koct):
    falling(header="N,seed,mse,test_size", extra=",200")
    note = "koct: note: the column test_size is not used, since mse is not known to be a rate; if it is one, give --te"
    for verb in ("budget", "next"):
        status, out, err = koct(verb, "pilot.csv", "--metric", "mse", "--target", 0.05, "--json")
        assert status == 0
        assert err.startswith(note)
        assert json.loads(out)
    assert koct("budget", "pilot.csv", "--metric", "mse", "--test-size", 200, "--target", 0.05)[2] == ""


def test_per_cent_and_shares_give_the_same_answer(koct):
    share, per_cent = (
        json.loads(
            koct(
                *("budget", falling(header="N,seed,accuracy,test_size", value=value, extra=",200"), "--json"),
                *("--metric", "accuracy", "--higher", best, "--target", 0.9 * best),
            )[1]
        )[0]
        for best, value in ((1, lambda error: 1 - error), (100, lambda error: 100 * (1 - error)))
    )
    assert per_cent["n"] == share["n"]
    assert per_cent["score_low"] == pytest.approx(100 * share["score_low"])
    assert per_cent["score_target"] == 90


# Figures


def test_figures_are_the_same_bytes_each_time_and_warn_of_no_letter(tmp_path, recwarn):
    (tmp_path / "pilot.csv").write_text("arch,N,error\n" + "".join(f"模型 😀,{N},{1 / N}\n" for N in (4, 8, 16)))
    for kind in ("svg", "pdf", "png"):
        plots = [tmp_path / f"{i}.{kind}" for i in range(2)]
        for path in plots:
            assert cli.main(["budget", str(tmp_path / "pilot.csv"), "--target", "0.02", "--plot", str(path)]) == 0
        assert plots[0].read_bytes() == plots[1].read_bytes()
    assert not recwarn


def test_labels_keep_a_line_apart_and_near_their_places():
    places = np.array([0.5, 0.501, 0.1, 0.502, 0.9])
    found = budget_plot._apart(places)
    assert np.all(np.diff(np.sort(found)) >= budget_plot.LINE - 1e-12)
    assert np.array_equal(np.argsort(found), np.argsort(places))
    assert found[[2, 4]] == pytest.approx([0.1, 0.9])
    assert found[[0, 1, 3]].mean() == pytest.approx(0.501)


# What `koct next` says


def step(N, seeds, factor):
    return SimpleNamespace(N=N, seeds=seeds, cost=float(N * seeds), factor=factor)


def found(*steps, n_low=20, n_high=90, limited=False, expected=3.0, enough=False, done=False, cost=None, score=None):
    answer = Answer(0.02, "power", 40, n_low, n_high, 0.9, 40, 0.02, 0.01, 0.03, None, "")
    total = sum(each.cost for each in steps)
    present = np.inf if n_high is None else 4.5
    about = {"target": 0.02, "wanted": 2.0, "present": present, "largest": 128, "cost": total}
    design = SimpleNamespace(steps=steps, expected=expected, enough=enough, done=done, **about)
    return report.as_text([report.Next("fc", design, cost or Cost(), answer, limited, "")], score)


INTERVAL = "For a mean error of 0.02, the interval of fc is 20 to 90"
OPEN = "For a mean error of 0.02, the interval of fc is from 20 on and has no upper end"
SAID = {
    "enough": (
        found(step(64, 2, 1.9), enough=True),
        f"{INTERVAL}. The runs cost 128 together and should bring it within",
    ),
    "one run": (found(step(64, 1, 1.9), enough=True), f"{INTERVAL}. The run costs 64 and should bring it within a fac"),
    "not yet": (found(step(64, 2, 3.0)), "should bring it to a factor 3, not to 2 yet: plan again when they are done."),
    "open": (
        found(step(64, 2, None), n_high=None, expected=None),
        f"{OPEN}. The runs cost 128 together and should narrow it; plan again when they are done.",
    ),
    "open, one run": (found(step(64, 1, None), n_high=None, expected=None), "narrow it; plan again when it is done."),
    "no interval": (
        found(step(64, 2, None), n_low=None, n_high=None, expected=None),
        "fc has no interval, since it hardly ever gets there. The runs cost 128 together and should tell more; plan",
    ),
    "no help": (
        found(),
        f"{INTERVAL}, and no runs up to N = 128 would narrow it much; give a larger --largest, or anot",
    ),
    "no help, budget": (
        found(limited=True),
        "N = 128 that the budget allows would narrow it much; give a larger --larg",
    ),
    "done": (found(done=True), f"{INTERVAL}: it is within a factor of 2 already, and no more runs are needed."),
    "a law of costs": (
        found(step(64, 2, 3.0), cost=Cost(1406.0, 0.0, "cost")),
        "A run costs 1,410 × N^0.00, fitted to",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), SAID.values(), ids=SAID)
def test_the_sentences_of_next(text, sentence):
    assert sentence in text


def test_nothing_is_promised_where_the_interval_has_no_upper_end():
    assert found(step(64, 2, None), n_high=None, expected=None).splitlines()[2].split() == ["fc", "64", "2", "128", "-"]


def test_the_budget_is_mentioned_only_if_it_was_given():
    assert "udget" not in found()


def test_next_says_which_sizes_are_considered(koct):
    for largest in (8, 10):
        _, out, _ = koct("next", PILOT, "--target", 0.01, "--largest", largest)
        assert (
            f"With --largest {largest}, below the pilot's largest N of 32, only runs at N = 4, 8 are considered." in out
        )
    assert "considered" not in koct("next", PILOT, "--target", 0.01, "--largest", 64)[1]


def test_json_of_next_has_the_answer_of_budget(koct):
    falling(header="N,seed,accuracy", value=lambda error: 1 - error)
    for arguments in ([PILOT, "--target", 0.01], ["pilot.csv", "--metric", "accuracy", "--target", 0.95]):
        runs, answers = (json.loads(koct(verb, *arguments, "--json")[1]) for verb in ("next", "budget"))
        answers = {answer["arch"]: answer for answer in answers}
        for each in runs:
            for key in ("target", "n", "n_low", "n_high", "probability", "score_target"):
                assert each.get(key) == answers[each["arch"]].get(key)
    assert runs[0]["score_target"] == 0.95


# The overlay


def cells(sweeps=("T4", "T5")):
    rng = np.random.default_rng(1)
    runs = [(sweep, arch, N, seed) for sweep in sweeps for arch in ("a", "b") for N in (4, 8, 16) for seed in (1, 2)]
    rows = [dict(zip(("sweep", "arch", "N", "seed"), run, strict=True)) for run in runs]
    rows = [{**row, "mse": 0.1 * rng.lognormal(0, 0.3) / row["N"]} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows), "cells.parquet")
    return ["cells.parquet", "--sweep", "T4", "--metric", "mse", "--overlay", "more.yaml"]


def test_an_overlay_overwrites_nothing_but_an_overlay(koct, tmp_path):
    arguments = [*cells(), "--target", 0.003]
    (tmp_path / "more.yaml").write_text("study: mine\n")
    refused(koct("next", *arguments), "--overlay more.yaml: the file is there and is not one that koct next made; give")
    assert (tmp_path / "more.yaml").read_text() == "study: mine\n"
    (tmp_path / "more.yaml").unlink()
    assert koct("next", *arguments)[0] == 0
    first = (tmp_path / "more.yaml").read_text()
    assert first.startswith("# Made by koct next: the sweep T4 with ")
    assert list(yaml.safe_load(first)["sweeps"]) == ["T4"]
    (tmp_path / "more.yaml").write_text(first + "# edited\n")
    assert koct("next", *arguments)[0] == 0
    assert (tmp_path / "more.yaml").read_text() == first


def test_an_overlay_without_runs_is_not_written_and_that_is_said(koct, tmp_path):
    arguments = [*cells(), "--target", 0.02, "--factor", 1e9]
    _, out, _ = koct("next", *arguments)
    assert out.endswith("\nmore.yaml is not written, since no runs are to be added.\n")
    _, out, err = koct("next", *arguments, "--json")
    assert json.loads(out)
    assert err == "koct: note: more.yaml is not written, since no runs are to be added.\n"
    (tmp_path / "more.yaml").write_text("# Made by koct next: before\n")
    assert "more.yaml is left as it was" in koct("next", *arguments)[1]
    assert (tmp_path / "more.yaml").read_text() == "# Made by koct next: before\n"


BY_DEFAULT = "at every N: snakemake --configfile more.yaml\nIf an N is above"
UNKNOWN = (
    "snakemake --configfile more.yaml\nT4 has to be part of the study: choose one that has it with --config study="
)
STUDIES = {
    "the default": ({"study": "x", "studies": {"x": ["T4", "T6"], "y": ["T4", "T5"]}}, BY_DEFAULT),
    "the same sweeps": (
        {"study": "x", "studies": {"x": ["T6"], "y": ["T4", "T5"], "z": ["T4", "T5", "T6"]}},
        "snakemake --configfile more.yaml --config study=y\nIf",
    ),
    "the only one": ({"study": "x", "studies": {"x": ["T6"], "z": ["T4", "T6"]}}, " --config study=z\nIf"),
    "several": ({"study": "x", "studies": {"x": ["T6"], "y": ["T4"], "z": ["T4", "T6"]}}, UNKNOWN),
    "none": ({"study": "x", "studies": {"x": ["T6"]}}, UNKNOWN),
    "no studies": ({"study": "x", "studies": 3}, UNKNOWN),
    "no config": (None, UNKNOWN),
}


@pytest.mark.parametrize(("config", "command"), STUDIES.values(), ids=STUDIES)
def test_the_command_chooses_a_study_that_has_the_sweep(koct, tmp_path, config, command):
    if config is not None:
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert command in koct("next", *cells(), "--target", 0.003)[1]


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
