"""Faults of running studies, really caused: one plain `snakemake` later, the results are the undisturbed ones.

`make faults` causes all of them, the tests a few. KOCT_FAULTS_SEED decides all that is random.
"""

import contextlib
import errno
import functools
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import psutil
import pytest

from tests.faults.lab import (
    LIMIT,
    SNAKEMAKE,
    TRACEBACK,
    OnTerminal,
    Run,
    artefacts,
    cases,
    marks,
    printed,
    problems,
    processes_in,
    tracebacks,
    wait_for_all_in,
    written_again,
)

PATIENCE = 60  # seconds in which a run that was told to end has to do so, and in which a job has to see an edit

# Kills at a random moment of a run that begins with random parts of the results deleted


def kill_job(run, rng):
    """One of the jobs that run, as soon as there is one."""
    while run.running:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if jobs := run.jobs():
                return rng.choice(jobs).kill()
        run.watch(0.005)
    return False


KILLS = {
    "SIGKILL to snakemake": lambda run, rng: run.process.kill(),
    "SIGKILL to one job": kill_job,
    "SIGKILL to the process group": lambda run, rng: os.killpg(run.process.pid, signal.SIGKILL),
    "SIGHUP, the terminal is closed": lambda run, rng: run.close_terminal(),
    "SIGINT, Ctrl-C": lambda run, rng: os.write(run.terminal, b"\x03"),
    "SIGTERM to snakemake": lambda run, rng: run.process.terminate(),
}
TRIES = 8  # a run that has ended before its moment is started anew, with an earlier one


@pytest.mark.parametrize(
    ("kill", "number"), cases(itertools.product(KILLS, range(17)), [("SIGKILL to the process group", 0)])
)
def test_after_a_kill_no_finished_cell_is_computed_again(undisturbed, disturbed, rng, kill, number):
    study = disturbed
    deleted = delete_parts(study, rng)
    share = min(1, 1.5 * len(deleted) / len(undisturbed.results))
    seconds = undisturbed.seconds * (0.2 + 0.8 * share)  # of a run that has to make so many files
    for attempt in range(TRIES):
        run = OnTerminal(study.folder)
        if run.watch(rng.uniform(0, seconds / 1.5**attempt)) and KILLS[kill](run, rng) is not False:
            break
        run.end()
        for path in deleted:
            path.unlink(missing_ok=True)
    else:
        pytest.fail("the run ended before its moment again and again")
    print(f"{len(deleted)} files deleted, killed after {run.seconds:.2f} s: {', '.join(map(study.name, deleted))}")
    assert not run.watch(PATIENCE), "it still runs after the signal"
    run.end()
    orphans = processes_in(study.folder).values()  # what one of them writes from now on is not the restart's
    before = marks(study.finished_rows())
    again = study.run()
    assert wait_for_all_in(study.folder, PATIENCE)
    assert problems(study, undisturbed.results, again, logs=False) == []
    assert [path for path in written_again(before) if not any(study.name(path) in line for line in orphans)] == []


def delete_parts(study, rng):
    """Delete each result with a probability that is drawn first; at least one of those that are asked for.

    With a pool or a known operator go the cells that were made from it: else these are no finished cells.
    """
    files = artefacts(study)
    asked = [path for path in files if path.parent.name == "results" or path in study.rows()]
    share = rng.choice([0.1, 0.3, 0.6, 0.9, 1.0])
    deleted = {path for path in files if rng.random() < share} | {rng.choice(asked)}
    for path in sorted(deleted):
        if "pools" in path.parts:
            deleted |= set(study.path(f"results/cells/{path.parent.name}").rglob(f"N*_{path.stem}.json"))
        elif "known" in path.parts:
            deleted |= set(study.path(f"results/cells/{path.stem}").rglob("N*.json"))
    for path in deleted:
        path.unlink()
    return sorted(deleted)


# Two runs in one folder

REFUSAL = re.compile(r"another snakemake \S.* runs in this folder")


@pytest.mark.parametrize("number", cases(range(10), [0]))
def test_of_two_runs_one_works_and_the_other_ends_at_once(undisturbed, disturbed, rng, number):
    study = disturbed
    shutil.rmtree(study.path("results"))
    first = OnTerminal(study.folder)
    time.sleep(rng.uniform(0, 2) if number % 4 == 3 else 0)
    runs, ended = [first, OnTerminal(study.folder)], []
    while runs:
        for run in [run for run in runs if not run.watch(0.02) or run.seconds > LIMIT]:
            ended.append(run.end())
            runs.remove(run)
    loser, winner = sorted(ended, key=lambda run: run.status == 0)
    assert loser.status != 0
    assert problems(study, undisturbed.results, winner) == []
    assert loser.seconds < 0.5 * winner.seconds
    assert REFUSAL.search(loser.output), loser.output
    assert "unlock" not in loser.output
    assert TRACEBACK not in loser.output
    assert problems(study, undisturbed.results, study.run()) == []


# Code that is edited during a run and changed back: the run may fail, with a sentence

RIDGE = ("koct/networks/solvers.py", "diagonal + lam", "diagonal+2*lam")
DENSE = ("koct/networks/fc.py", "1 / (values + lam)", "1 / (values + 2 * lam)")
KO_CELLS = 6
CHANGED = re.compile(r"code .*changed|changed .*code|changed (since|while|during)")
# The time that the file has when it is changed back. Python tells compiled files by time and length.
TIMES = {
    "its old time": lambda original, edited: original,
    "a new time": lambda original, edited: time.time_ns(),
    "the time of the edit": lambda original, edited: edited,
}
AGAIN = "its old time, again and again"


class File:
    """The code of the ridge, with a number that can be changed and changed back."""

    def __init__(self, study, time_of):
        name, self.old, self.new = RIDGE
        self.path, self.time_of = study.path(name), time_of
        self.text, self.original = self.path.read_text(), self.path.stat().st_mtime_ns
        assert self.text.count(self.old) == 1, f"{name} has not one {self.old!r}"
        assert len(self.old) == len(self.new)

    def change_for(self, waiting):
        """Change it, wait as a function does, and change it back."""
        self.path.write_text(self.text.replace(self.old, self.new))
        edited = self.path.stat().st_mtime_ns
        waiting()
        self.path.write_text(self.text)
        os.utime(self.path, ns=(self.original, self.time_of(self.original, edited)))


@pytest.mark.parametrize(
    ("restored", "number"), cases(itertools.product([*TIMES, AGAIN], range(3)), [("its old time", 2)])
)
def test_code_that_is_changed_and_changed_back_computes_nothing_wrong(undisturbed, disturbed, rng, restored, number):
    study = disturbed
    shutil.rmtree(study.path("results"))
    run = OnTerminal(study.folder)
    file = File(study, TIMES[restored.partition(",")[0]])
    at_a_fit = rng.random() < 0.5
    if at_a_fit:
        wait(run, study.path("results/known/T4.npy").exists)
    else:
        run.watch(rng.uniform(0, undisturbed.seconds / 2))
    before = rows_of_ko(study)
    if restored == AGAIN:  # some job may read the one and be asked for the other
        until = time.perf_counter() + PATIENCE
        while run.running and time.perf_counter() < until and len(rows_of_ko(study)) < KO_CELLS:
            file.change_for(lambda: run.watch(rng.uniform(0.02, 0.2)))
            run.watch(rng.uniform(0.02, 0.2))
        seen = len(rows_of_ko(study) - before)
    else:  # until a cell is fitted with it, and a little longer
        file.change_for(lambda: (wait(run, lambda: rows_of_ko(study) - before), run.watch(rng.uniform(0, 1.5))))
        seen = len(rows_of_ko(study) - before)
    run.watch(LIMIT)
    first = run.end()
    assert seen or not at_a_fit or first.status != 0, "no cell was fitted while the code was another"
    assert first.status == 0 or CHANGED.search(first.output), first.last_lines
    assert tracebacks(study, first) == []
    assert problems(study, undisturbed.results, study.run()) == []


def rows_of_ko(study):
    return {row for row in study.rows() if row.parent.name == "ko"}


def wait(run, true):
    """Until something is true, the run has ended, or patience has."""
    until = time.perf_counter() + PATIENCE
    while run.watch(0.02) and not true() and time.perf_counter() < until:
        pass


# A disk that is full at different moments: a tmpfs, mounted where only one process and its children see it. Where
# nobody may mount, a limit on the length of files takes its place.

PAGE = 4096
OWN_LOG = 2**15  # bytes that Snakemake writes into a log of its own
SIZES = 12  # each leaves more space than the one before, and none is enough
SCRIPT = """
rm -r results && mkdir results
{full} || exit
"{snakemake}" > full.txt 2>&1; echo $? > full.status
cp -r results/logs full.logs
{room} || exit
"{snakemake}" > room.txt 2>&1; echo $? > room.status
cp -r results made
"""


@functools.cache
def namespace():
    """The command that gives a process mounts of its own; nothing where that is not allowed."""
    for command in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        trial = [*command, "mount", "-t", "tmpfs", "-o", "size=64k", "none", tempfile.gettempdir()]
        if shutil.which("unshare") and subprocess.run(trial, capture_output=True).returncode == 0:
            return command
    return []


@pytest.mark.parametrize("number", cases(range(SIZES), [6]))
def test_a_full_disk_is_named_and_loses_nothing(undisturbed, disturbed, number):
    study, share = disturbed, (number + 1) / (SIZES + 1)
    if namespace():
        needed = sum(-(-path.stat().st_size // PAGE) for path in study.path("results").rglob("*.*"))
        full = f"mount -t tmpfs -o size={int(share * needed) * PAGE} none results"
        room, reason = "mount -o remount,size=64m results", os.strerror(errno.ENOSPC)
    else:
        longest = max(path.stat().st_size for path in artefacts(study))
        full = f"ulimit -S -f {int(OWN_LOG + share * (longest - OWN_LOG)) // 1024}"
        room, reason = "ulimit -S -f unlimited", os.strerror(errno.EFBIG)
    script = SCRIPT.format(full=full, room=room, snakemake=SNAKEMAKE)
    done = study.run(command=[*namespace(), "bash", "-c", script])
    assert done.status == 0, done.output
    shutil.rmtree(study.path("results"))

    def run(name):
        return Run(int(study.path(f"{name}.status").read_text()), study.path(f"{name}.txt").read_text())

    shutil.copytree(study.path("full.logs"), study.path("results/logs"))
    assert run("full").status != 0, "the run needs less space"
    lines = run("full").output.splitlines()
    assert [line for line in lines if re.search(rf"results/\S+.*{reason}", line)], run("full").last_lines
    assert tracebacks(study, run("full")) == []
    assert [name for name, text in printed(study, run("full")).items() if re.search(r"\bNone\b", text)] == []
    shutil.rmtree(study.path("results"))
    study.path("made").rename(study.path("results"))
    assert problems(study, undisturbed.results, run("room")) == []


# Working folders with files that have the names of modules: jobs import nothing from there

BROKEN = 'raise ImportError("this is not the module you want")\n'
TRAPS = {
    "a broken koct": ["koct/__init__", "koct/__main__"],
    "numpy.py and random.py": ["numpy", "random"],
    "modules of all sorts": ["koct/__init__", "koct", "numpy", "random", "json", "yaml", "pyarrow"],
}
# How snakemake is started: its arguments, and whether in the working folder
STARTS = {
    "--directory": (["--directory", "{folder}"], False),
    "-s": (["-s", "{checkout}/Snakefile"], True),
    "-s and --directory": (["-s", "{checkout}/Snakefile", "--directory", "{folder}"], False),
}


@pytest.mark.parametrize(("trap", "start"), cases(itertools.product(TRAPS, STARTS)))
def test_nothing_is_imported_from_the_working_folder(undisturbed, disturbed, trap, start):
    shutil.rmtree(disturbed.path("results"))
    shutil.rmtree(disturbed.path(".snakemake"))
    work = type(disturbed).at(disturbed.path("elsewhere/my work"))
    work.folder.mkdir(parents=True)
    shutil.move(disturbed.path("config.yaml"), work.path("config.yaml"))
    for name in TRAPS[trap]:
        work.path(name).parent.mkdir(exist_ok=True)
        work.path(f"{name}.py").write_text(BROKEN)
    arguments, there = STARTS[start]
    arguments = [argument.format(folder=work.folder, checkout=disturbed.folder) for argument in arguments]
    run = disturbed.run(*arguments, folder=work.folder if there else disturbed.folder)
    assert problems(work, undisturbed.results, run) == []
    assert not disturbed.path("results").exists()
