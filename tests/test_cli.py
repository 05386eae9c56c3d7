"""How commands end: a sentence and status 2 for mistakes, 3 for bugs, 130 when interrupted, and never a traceback."""

import errno
import filecmp
import os
import re
import subprocess
import sys
from unittest import mock

import pytest
from conftest import ROOT

from koct import cli
from koct.commands import VERBS
from koct.commands.people import EXAMPLES, PILOTS
from koct.commands.people import verb as declared
from koct.workflow import planned

TABLE = ["product", "table_fullscale", "--out"]


@pytest.fixture
def failing(monkeypatch):
    """Make `koct product` raise something."""
    return lambda error: monkeypatch.setitem(
        cli.VERBS, "product", (mock.Mock(side_effect=error), *cli.VERBS["product"][1:])
    )


def refused(found, *words):
    """Status 2, nothing on stdout, one line on stderr that has these words."""
    status, out, err = found
    assert (status, out) == (2, "")
    assert err.startswith("koct: error: ")
    assert len(err.splitlines()) == 1
    for word in words:
        assert str(word) in err


BUGS = [TypeError("unexpected"), AssertionError(), OSError("of no system")]
BUGS.append(ModuleNotFoundError("No module named 'koct.x'", name="koct.x"))


@pytest.mark.parametrize("error", BUGS)
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


def test_places_where_no_file_can_be_written(koct, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to("file")
    refused(koct(*TABLE, "folder"), "--out folder is a folder; give the path of a file")
    refused(koct(*TABLE, "new/"), "--out new/ is a folder")
    refused(koct(*TABLE, "file/x/y.tex"), "nothing can be written to", "file; choose another place")
    refused(koct(*TABLE, f"{'a' * 300}.tex"), "File name too long; give it a shorter name")
    calibrate = ["calibrate", "--spec", "{}", "--inputs", "file", "--outputs"]
    for out in ("file", "./file", tmp_path / "file", "link"):
        refused(koct(*calibrate, out, "y"), "the command reads this file as --inputs")
    refused(koct(*calibrate, "x", "x"), "--outputs x: the command writes this file twice")
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]


def test_nobody_waits_for_a_pipe(koct):
    os.mkfifo("pipe")
    for arguments in (["budget", "pipe", "--target", 0.1], ["compare", "pipe", "pipe"], ["curve", "pipe"]):
        refused(koct(*arguments), "pipe is a pipe, whose other end may never come; give a file")


BUDGET = ["budget", ROOT / "docs" / "pilot.csv", "--target=0.01"]
SENSELESS = {  # of an option, after these arguments: these values
    "--target": (BUDGET[:2], ["nan", "inf", "0", "-1", "x", "", "0,05", "9" * 5000]),
    "--assurance": (BUDGET, ["nan", "inf", "0", "-1", "x", "", "0,05", "9" * 5000]),
    "--samples": (["bound", ROOT / "docs" / "network.yaml"], ["nan", "1.5", "0", "9" * 5000, ""]),
    "--checkpoint-minutes": (["fit-torchrun", "--spec", "{}", "--outputs", "x"], ["nan", "-1"]),
    "--tolerance": (["compare", "a.parquet", "b.parquet"], ["nan", "inf", "-1"]),
    "--at": (["curve", "pairs.npz"], ["9" * 400]),
}


@pytest.mark.parametrize("option", SENSELESS)
def test_numbers_that_make_no_sense(koct, option):
    arguments, values = SENSELESS[option]
    for value in values:
        words = ["write decimals with a point"] if "," in value else []
        refused(koct(*arguments, f"{option}={value}"), *words, *([] if option == "--samples" else [option.strip("-")]))


ALIASES = ", ".join(f"a{i}: &a{i} {{<<: [{', '.join(9 * [f'*a{i - 1}'])}]}}" for i in range(1, 25))
BOMB = f"{{a0: &a0 {{x: 1}}, {ALIASES}}}"


@pytest.mark.parametrize(
    "settings",
    [["H=["], ["ko=1", "ko.lr=2"], ["H=!!python/name:os.system"], ["H=2024-13-45"], ["H=*a"], ["H=0x_"], [f"H={BOMB}"]],
)
@pytest.mark.parametrize("verb", [["know", "pairs.npz", "--layers", "fanbeam"], ["check", "problem.py"]])
def test_what_set_says_is_read_or_refused(koct, folder, verb, settings):
    for name in ("pairs.npz", "problem.py"):
        (folder / name).touch()
    status, _, error = koct(*verb, *(part for text in settings for part in ("--set", text)))
    assert status == 2
    assert error.startswith(f"koct: error: --set {settings[0].partition('=')[0]} ")
    assert error.count("\n") == 1


def test_a_job_that_another_version_planned_says_so(koct, monkeypatch):
    monkeypatch.setenv(planned.STATE, planned.environment([])[planned.STATE])
    refused(koct("fit", "--other"), "arguments are required")
    monkeypatch.setenv(planned.STATE, "of another version")
    refused(koct("fit", "--other"), "the code has changed since this run was planned; run snakemake again")


def test_a_wrong_command_is_one_sentence(koct):
    for arguments in ([], ["frobnicate"], ["budget"], ["config", "--x"], ["--", "config", "a", "b"]):
        refused(koct(*arguments), "--help` shows what to write")
    for verb, meant in (("budgt", "budget"), ("plan", "planner"), ("fits", "fit")):
        refused(koct(verb, "x"), f"{verb!r} is no verb; did you mean {meant}?")


def test_help_has_every_verb_once_in_a_group_or_among_the_jobs(koct):
    pages = [koct(*arguments)[1] for arguments in (["--help"], ["job", "--help"])]
    listed = [re.findall(r"^  (\S+) ", page, re.MULTILINE) for page in pages]
    assert sorted([*listed[0], *listed[1]]) == sorted(VERBS)
    assert listed[0][0] == "budget"
    assert "fit" in listed[1]
    assert pages[0].count("    $ koct ") == len(EXAMPLES)
    for example in EXAMPLES.values():
        assert example.split()[1] in listed[0]
    assert koct("job", "fit", "--help")[1] == koct("fit", "--help")[1]


def test_a_verb_is_listed_in_the_group_that_it_names_and_names_one(koct, monkeypatch):
    monkeypatch.delitem(VERBS, "twice", raising=False)
    arguments = ("twice", "a number, doubled", ("number", {"type": float, "help": "a number"}))
    with pytest.raises(ValueError, match="names no group"):
        declared(*arguments)
    monkeypatch.setitem(VERBS, "twice", None)  # undone in the end
    declared(PILOTS, *arguments)(lambda number: print(2 * number))
    group, _, _ = koct("--help")[1].partition("    $ ")
    assert "  twice " in group
    assert "twice" not in koct("job", "--help")[1]
    assert koct("twice", "21")[1] == "42.0\n"


def test_a_study_of_ones_own_is_written_whole_and_keeps_its_promises(koct, tmp_path):
    status, out, _ = koct("init", "mine")
    assert status == 0
    assert "cd mine && snakemake " in out
    assert sorted(os.listdir("mine")) == ["Snakefile", "config.yaml", "network.py", "problem.py", "profiles"]
    assert not os.path.islink("mine/profiles")  # which a site changes
    status, out, _ = koct("check", "mine/problem.py", "mine/network.py", "--set", "length=64", "--set", "blur=1.5")
    assert (status, out.count("\nok"), "broken" in out) == (0, out.count("\n") - 1, False)
    refused(koct("init", "mine"), "exists and is not an empty folder")


def test_the_studies_of_the_paper_are_written_without_a_clone(koct):
    assert koct("init", "--paper", "paper")[0] == 0
    assert filecmp.cmp("paper/config.yaml", ROOT / "config.yaml", shallow=False)
    assert sorted(os.listdir("paper")) == ["Snakefile", "config.yaml", "profiles"]


OWN = {
    "import sys\nsys.exit(0)\n": "own.py ends the program with sys.exit(0) when it is imported; put that under",
    "": "must define one subclass of Problem or of Architecture",
    "x = " + "(" * 500 + ")" * 500 + "\n": "own.py",
    "x = " + "-" * 100_000 + "1\n": "own.py",
}


def test_a_file_of_ones_own_that_is_no_problem(koct, tmp_path):
    for number, (text, sentence) in enumerate(OWN.items()):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "own.py").write_text(text)
        refused(koct("config", tmp_path / str(number) / "own.py"), sentence)
