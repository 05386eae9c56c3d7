"""How commands end: a sentence and status 2 for mistakes, 3 for bugs, 130 when interrupted, and never a traceback."""

import copy
import errno
import functools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from koct import cli
from koct.commands import VERBS
from koct.commands.people import GROUPS
from koct.config import study_file

SURROGATE = {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4, "tikhonov": 0.1}}
POOL = {"problem": SURROGATE, "sizes": {"train": 4, "val": 2, "test": 2}, "seed": 1}
PILOT = ROOT / "docs" / "pilot.csv"
TABLE = ["product", "table_fullscale", "--out"]


@pytest.fixture
def failing(monkeypatch):
    """Make a verb raise something."""

    def fail(error, verb="product"):
        def raising(**arguments):
            raise error

        monkeypatch.setitem(cli.VERBS, verb, (raising, *cli.VERBS[verb][1:]))

    return fail


def refused(found, *words):
    """Status 2, nothing on stdout, one line on stderr that has these words."""
    status, out, err = found
    assert (status, out) == (2, "")
    assert err.startswith("koct: error: ")
    assert len(err.splitlines()) == 1
    for word in words:
        assert str(word) in err


# What a verb may raise


@pytest.mark.parametrize(
    "error",
    [
        TypeError("unexpected"),
        AssertionError(),
        OSError("of no system"),
        ModuleNotFoundError("No module named 'koct.x'", name="koct.x"),
    ],
)
def test_a_bug_is_called_one_and_shows_its_traceback_to_who_asks(koct, failing, error, monkeypatch):
    failing(error)
    status, out, err = koct(*TABLE, "x.tex")
    assert (status, out) == (3, "")
    assert err.startswith(f"koct: internal error: {type(error).__name__}: ")
    assert err.endswith("(KOCT_TRACEBACK=1 shows the traceback; please report it)\n")
    assert len(err.splitlines()) == 1
    monkeypatch.setenv("KOCT_TRACEBACK", "1")
    assert koct(*TABLE, "x.tex")[2].startswith("Traceback ")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "a/x.tex: No space left on device; make room"),
        (OSError(errno.ENOSPC, "No space left on device", "y"), "y: No space left on device; make room"),
        (PermissionError(errno.EACCES, "Permission denied", b"y"), "y: Permission denied; change the permissions"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "y"), "y: No such file or directory; correct"),
        (MemoryError(), "out of memory; run fewer jobs at once"),
        (MemoryError("Unable to allocate 9 TiB"), "out of memory: Unable to allocate 9 TiB; run fewer"),
        (RecursionError("maximum"), "nests too deeply"),
        (ModuleNotFoundError("No module named 'a.b'", name="a.b"), "the Python package a is not installed"),
        (SystemExit(0), "ended the command with sys.exit(0)"),
    ],
)
def test_what_a_user_can_put_right_is_a_sentence(koct, failing, error, sentence):
    failing(error)
    refused(koct(*TABLE, "a/x.tex"), sentence)


def test_an_interruption_and_who_stops_reading_are_no_errors(koct, failing):
    failing(KeyboardInterrupt())
    assert koct(*TABLE, "x.tex") == (130, "", "koct: interrupted\n")
    failing(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert koct(*TABLE, "x.tex") == (1, "", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["budget", "pipe", "--target", 0.1],
        ["planner", "pipe", "--out", "page.html"],
        ["compare", "pipe", "pipe"],
        ["curve", "pipe"],
        ["bound", "pipe", "--samples", 4],
        ["product", "table_calibration", "pipe", "pipe", "--out", "table.tex"],
    ],
)
def test_nobody_waits_for_a_pipe(koct, arguments):
    os.mkfifo("pipe")
    refused(koct(*arguments), "pipe is a pipe, whose other end may never come; give a file")


# Processes


def started(*arguments, code=("-m", "koct"), **settings):
    return subprocess.Popen(
        [sys.executable, *code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a job in the background ignores
        **settings,
    )


def test_an_interruption_while_modules_are_imported():
    code = """
import runpy, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "koct.commands":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
sys.argv = ["koct", "config"]
runpy.run_module("koct", run_name="__main__")
"""
    process = started(code=("-c", code), cwd=ROOT)
    _, err = process.communicate(timeout=900)
    assert process.returncode == 130
    assert err.splitlines()[0] == "koct: interrupted"
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "settings",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_a_terminal_without_unicode_shows_what_it_can(settings):
    process = started("budget", PILOT, "--target", "0.02", "--law", "power", env={**os.environ, **settings})
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    assert out.isascii()
    assert "floor + a N^(?b)" in out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a system without /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_an_error(unbuffered):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "koct", "config"]
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith("koct: error: the output cannot be written: No space left on device; make room")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_no_reason_to_fail(closed, tmp_path):
    command = f"{sys.executable} -m koct product table_fullscale --out {tmp_path}/x.tex {closed}"
    assert subprocess.run(["sh", "-c", command]).returncode == 0
    assert (tmp_path / "x.tex").read_text().startswith("% Made by koct")


# Files


@pytest.mark.parametrize("name", ["", "a\0b", "\udcff"])
def test_names_that_no_file_can_have(koct, name):
    refused(koct(*TABLE, name), "--out ", "is not the name of a file")
    refused(koct("budget", name, "--target", 1), "pilot ", "is not the name of a file")


def test_places_where_no_file_can_be_written(koct, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    refused(koct(*TABLE, "folder"), "--out folder is a folder; give the path of a file")
    refused(koct(*TABLE, "new/"), "--out new/ is a folder")
    refused(koct(*TABLE, "file/x/y.tex"), "file is not a folder; choose another place")
    refused(koct(*TABLE, f"{'a' * 300}.tex"), "File name too long; give it a shorter name")
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(koct, tmp_path):
    (tmp_path / "folder").mkdir(mode=0o500)
    refused(koct(*TABLE, "folder/x.tex"), "nothing can be written to", "choose another place")


def test_an_input_is_never_overwritten(koct, tmp_path):
    (tmp_path / "x.parquet").write_text("kept")
    (tmp_path / "link").symlink_to("x.parquet")
    for out in ("x.parquet", "./x.parquet", tmp_path / "x.parquet", "link"):
        refused(
            koct("calibrate", "x.parquet", "--spec", "{}", "--curves", out, "--calibration", "y"),
            "the command reads this file as cells",
        )
    assert (tmp_path / "x.parquet").read_text() == "kept"


def test_a_file_is_not_written_twice(koct):
    arguments = ["calibrate", "cells", "--spec", "{}", "--curves", "x", "--calibration", "x"]
    refused(koct(*arguments), "--calibration x: the command writes this file twice")


# Arguments


NO_NUMBERS = ["nan", "inf", "-inf", "1e999", "0", "-1", "1e300", "x", "", "0,05", "9" * 5000]
NO_SAMPLES = ["nan", "inf", "1.5", "-1", "0", "1", "9" * 400, "9" * 5000, "x", ""]
TORCHRUN = ["fit-torchrun", "--spec", "{}", "--inputs", "--out", "x", "--checkpoints", "c"]
SENSELESS = [(["budget", PILOT], "--target", value) for value in NO_NUMBERS]
SENSELESS += [(["budget", PILOT, "--target=0.01"], "--assurance", value) for value in NO_NUMBERS]
SENSELESS += [(["bound", ROOT / "docs" / "network.yaml"], "--samples", value) for value in NO_SAMPLES]
SENSELESS += [(TORCHRUN, "--checkpoint-minutes", value) for value in ("nan", "inf", "-1", "0", "x")]
SENSELESS += [(["compare", "a.parquet", "b.parquet"], "--tolerance", value) for value in ("nan", "inf", "-1")]
SENSELESS += [(["curve", "pairs.npz"], "--at", "9" * 400)]


@pytest.mark.parametrize(("arguments", "option", "value"), SENSELESS)
def test_numbers_that_make_no_sense(koct, arguments, option, value):
    words = ["write decimals with a point"] if "," in value else []
    refused(koct(*arguments, f"{option}={value}"), *words, *([] if option == "--samples" else [option.strip("-")]))


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["budget"], ["config", "--x"], ["--", "config", "a", "b"]])
def test_a_wrong_command_is_one_sentence(koct, arguments):
    refused(koct(*arguments), "--help` shows what to write")


def test_help_has_every_verb_once_in_a_group_or_among_the_jobs(koct):
    pages = [koct(*arguments)[1] for arguments in (["--help"], ["job", "--help"])]
    listed = [re.findall(r"^  (\S+) ", page, re.MULTILINE) for page in pages]
    assert sorted([*listed[0], *listed[1]]) == sorted(VERBS)
    assert listed[0][0] == "budget"
    assert "fit" in listed[1]
    assert pages[0].count("    $ koct ") == len(GROUPS)
    for _, example in GROUPS.values():
        assert example.split()[1] in listed[0]
    assert koct("job", "fit", "--help")[1] == koct("fit", "--help")[1]


@pytest.mark.parametrize(("verb", "meant"), [("budgt", "budget"), ("plan", "planner"), ("fits", "fit")])
def test_a_verb_with_a_typing_mistake_is_told(koct, verb, meant):
    refused(koct(verb, "x"), f"{verb!r} is no verb; did you mean {meant}?")


def test_a_study_of_ones_own_is_written_whole_and_keeps_its_promises(koct, tmp_path):
    status, out, _ = koct("init", "mine")
    assert status == 0
    assert f"snakemake --snakefile {ROOT}/Snakefile --directory mine" in out
    assert sorted(path.name for path in Path("mine").iterdir()) == ["config.yaml", "network.py", "problem.py"]
    os.chdir("mine")
    study = study_file.read(yaml.safe_load(Path("config.yaml").read_text()))
    assert [arch.name for arch in study[0].archs] == ["untrained", "ko", "fc", "network"]
    status, out, _ = koct("check", "problem.py", "network.py", "--set", "length=64", "--set", "blur=1.5")
    assert (status, out.count("\nok"), "broken" in out) == (0, out.count("\n") - 1, False)
    refused(koct("init", "."), "exists and is not an empty folder")


# What the workflow tells a job


def changed(path, *value):
    """The spec with another value at a path, or without one."""
    spec = copy.deepcopy(POOL)
    *holders, key = path.split(".")
    holder = functools.reduce(dict.__getitem__, holders, spec)
    holder.update({key: value[0]}) if value else holder.pop(key)
    return spec


@pytest.mark.parametrize(
    "spec",
    [
        "{",
        "[" * 100_000,
        "3",
        {},
        changed("seed"),
        changed("problem.options.H"),
        changed("sizes.val"),
        changed("problem.options.h", 4),
        changed("problem.source", "../problems/surrogate"),
        changed("problem.source", "a\0.py"),
    ],
)
def test_a_wrong_spec_is_one_sentence(koct, tmp_path, spec):
    """The workflow writes specs: one that does not fit is a bug, or the work of another version."""
    text = spec if isinstance(spec, str) else json.dumps(spec)
    status, out, err = koct("pool", "--spec", text, "--out", "pool.npy")
    assert status in (2, 3)
    assert not out
    assert err.startswith("koct: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert koct("pool", "--spec", json.dumps(POOL), "--out", "pool.npy") == (0, "", "")


# Files of a user's own


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import sys\nsys.exit(0)\n", "own.py ends the program with sys.exit(0) when it is imported; put that under"),
        ("", "must define one subclass of Problem or of Architecture"),
        ("x = " + "(" * 500 + ")" * 500 + "\n", "own.py"),
        ("x = " + "-" * 100_000 + "1\n", "own.py"),
        ("x = 1\0\n", "own.py"),
        (
            "from koct.contracts import Problem\nOwn = type('Own', (Problem,), {'__module__': __name__})\n",
            "class statement",
        ),
        (
            "from koct.contracts import Problem, option\nclass Own(Problem):\n    x_shape = y_shape = (1,)\n"
            "    def pairs(self, seed, sizes): ...\n    a: tuple[()] = option('a')\n",
            "own.py, line 2: class Own",
        ),
    ],
)
def test_a_file_of_ones_own_that_is_no_problem(koct, tmp_path, text, sentence):
    (tmp_path / "own.py").write_text(text)
    refused(koct("config", tmp_path / "own.py"), sentence)


def test_files_that_are_none_of_ones_own(koct, tmp_path):
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "circle.py").symlink_to("circle.py")
    refused(koct("config", "notes.md"), "notes.md is not a Python file of your own")
    refused(koct("config", "folder.py"), "folder.py is not a file")
    refused(koct("config", "circle.py"), "circle.py")
    refused(koct("config", "nowhere.py"), "nowhere.py does not exist")
