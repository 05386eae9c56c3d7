"""How commands end: a sentence and status 2 for mistakes, 3 for bugs, 130 when interrupted, and never a traceback."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import ROOT

from koct import cli

SURROGATE = {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4, "tikhonov": 0.1}}
POOL = {"problem": SURROGATE, "sizes": {"train": 4, "val": 2, "test": 2}, "seed": 1}
PILOT = ROOT / "docs" / "pilot.csv"


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


@pytest.mark.parametrize("error", [TypeError("unexpected"), KeyError("x"), AssertionError(), OSError("of no system")])
def test_a_bug_is_called_one(koct, failing, error):
    failing(error)
    status, out, err = koct("product", "table_fullscale", "--out", "x.tex")
    assert (status, out) == (3, "")
    assert err.startswith(f"koct: internal error: {type(error).__name__}: ")
    assert err.endswith("(KOCT_TRACEBACK=1 shows the traceback; please report it)\n")
    assert len(err.splitlines()) == 1


def test_a_bug_shows_its_traceback_to_who_asks(koct, failing, monkeypatch):
    failing(ZeroDivisionError("by what"))
    monkeypatch.setenv("KOCT_TRACEBACK", "1")
    status, _, err = koct("product", "table_fullscale", "--out", "x.tex")
    assert status == 3
    assert err.startswith("Traceback ")
    assert "ZeroDivisionError: by what\nkoct: internal error: " in err


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
    refused(koct("product", "table_fullscale", "--out", "a/x.tex"), sentence)


def test_a_missing_module_of_its_own_is_a_bug(koct, failing):
    failing(ModuleNotFoundError("No module named 'koct.x'", name="koct.x"))
    assert koct("product", "table_fullscale", "--out", "x.tex")[0] == 3


PIPES = {
    "budget": ["pipe", "--target", 0.1],
    "next": ["pipe", "--target", 0.1],
    "planner": ["pipe", "--out", "page.html"],
    "compare": ["pipe", "pipe"],
    "curve": ["pipe"],
    "bound": ["pipe", "--samples", 4],
    "product": ["table_calibration", "pipe", "pipe", "--out", "table.tex"],
}


@pytest.mark.parametrize(("verb", "arguments"), PIPES.items())
def test_nobody_waits_for_a_pipe(koct, verb, arguments):
    os.mkfifo("pipe")
    refused(koct(verb, *arguments), "pipe is a pipe, whose other end may never come; give a file")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["curve", "pairs.npz", "--at", "9" * 400], "is not a whole number, or has too many digits"),
        (["compare", "a.parquet", "b.parquet", "--tolerance", "inf"], "'inf' is not zero or more and finite"),
        (["compare", "a.parquet", "b.parquet", "--tolerance", "nan"], "'nan' is not zero or more and finite"),
    ],
)
def test_numbers_beyond_all_bounds_are_refused(koct, arguments, sentence):
    refused(koct(*arguments), sentence)


def test_an_interruption_is_no_error(koct, failing):
    failing(KeyboardInterrupt())
    assert koct("product", "table_fullscale", "--out", "x.tex") == (130, "", "koct: interrupted\n")


def test_who_stops_reading_is_told_nothing(koct, failing):
    failing(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert koct("product", "table_fullscale", "--out", "x.tex") == (1, "", "")


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
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[0] == "koct: interrupted"
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "settings",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_a_terminal_without_unicode_shows_what_it_can(settings):
    process = started("budget", PILOT, "--target", "0.02", "--law", "power", env={**os.environ, **settings})
    out, err = process.communicate(timeout=60)
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
    refused(koct("product", "table_fullscale", "--out", name), "--out ", "is not the name of a file")
    refused(koct("budget", name, "--target", 1), "pilot ", "is not the name of a file")


def test_places_where_no_file_can_be_written(koct, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    refused(koct("product", "table_fullscale", "--out", "folder"), "--out folder is a folder; give the path of a file")
    refused(koct("product", "table_fullscale", "--out", "new/"), "--out new/ is a folder")
    refused(koct("product", "table_fullscale", "--out", "file/x/y.tex"), "file is not a folder; choose another place")
    refused(
        koct("product", "table_fullscale", "--out", f"{'a' * 300}.tex"), "File name too long; give it a shorter name"
    )
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(koct, tmp_path):
    (tmp_path / "folder").mkdir(mode=0o500)
    refused(
        koct("product", "table_fullscale", "--out", "folder/x.tex"), "nothing can be written to", "choose another place"
    )


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


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "0", "-1", "1e300", "x", "", "0,05", "9" * 5000])
@pytest.mark.parametrize("option", ["--target", "--assurance"])
def test_numbers_that_make_no_sense(koct, option, value):
    given = {"--target": "0.01", option: value}
    refused(koct("budget", PILOT, *(f"{name}={text}" for name, text in given.items())), option.strip("-"))


@pytest.mark.parametrize("value", ["nan", "inf", "1.5", "-1", "0", "1", "9" * 400, "9" * 5000, "x", ""])
def test_samples_that_make_no_sense(koct, value):
    refused(koct("bound", ROOT / "docs" / "network.yaml", f"--samples={value}"))


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "x"])
def test_minutes_that_make_no_sense(koct, value):
    arguments = ["fit-torchrun", "--spec", "{}", "--inputs", "--out", "x", "--checkpoints", "c"]
    refused(koct(*arguments, f"--checkpoint-minutes={value}"), "--checkpoint-minutes")


def test_a_decimal_comma_gets_a_sentence(koct):
    refused(koct("budget", PILOT, "--target", "0,05"), "--target: '0,05' is not a number: write decimals with a point")


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["budget"], ["config", "--x"], ["--", "config", "a", "b"]])
def test_a_wrong_command_is_one_sentence(koct, arguments):
    refused(koct(*arguments), "--help` shows what to write")


# What the workflow tells a job


def without(spec, *path):
    spec = json.loads(json.dumps(spec))
    holder = spec
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return spec


def changed(spec, value, *path):
    spec = json.loads(json.dumps(spec))
    holder = spec
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return spec


@pytest.mark.parametrize(
    "spec",
    [
        "{",
        "[" * 100_000,
        "3",
        {},
        without(POOL, "seed"),
        without(POOL, "problem", "options", "H"),
        without(POOL, "sizes", "val"),
        changed(POOL, 4, "problem", "options", "h"),
        changed(POOL, "../problems/surrogate", "problem", "source"),
        changed(POOL, "a\0.py", "problem", "source"),
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


def test_a_right_spec_makes_a_pool(koct, tmp_path):
    status, _, err = koct("pool", "--spec", json.dumps(POOL), "--out", "pool.npy")
    assert (status, err) == (0, "")
    assert (tmp_path / "pool.npy").exists()


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
