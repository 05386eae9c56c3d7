"""Faults of running studies, really caused: one plain `snakemake` later, the results are the undisturbed ones."""

import contextlib
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

from tests.conftest import until
from tests.faults import lab

pytestmark = pytest.mark.slow
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
    ("kill", "number"), lab.cases(itertools.product(KILLS, range(12)), [("SIGKILL to the process group", 0)])
)
def test_after_a_kill_no_finished_cell_is_computed_again(undisturbed, disturbed, rng, kill, number):
    study = disturbed
    deleted = delete_parts(study, rng)
    share = min(1, 1.5 * len(deleted) / len(undisturbed.results))
    seconds = undisturbed.seconds * (0.2 + 0.8 * share)  # of a run that has to make so many files
    for attempt in range(TRIES):
        run = lab.OnTerminal(study.folder)
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
    orphans = lab.processes_in(study.folder).values()  # what one of them writes from now on is not the restart's
    before = lab.marks(study.finished_rows())
    again = study.run()
    until(lambda: not lab.processes_in(study.folder), PATIENCE)
    lab.assert_right(study, undisturbed.results, again, logs=False)
    assert [path for path in lab.written_again(before) if not any(study.name(path) in line for line in orphans)] == []


def delete_parts(study, rng):
    """Delete each result with a probability that is drawn first; at least one of those that are asked for.

    With a pool or a known operator go the cells that were made from it: else these are no finished cells.
    """
    files = study.artefacts()
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


@pytest.mark.parametrize("number", lab.cases(range(6)))
def test_of_two_runs_one_works_and_the_other_ends_at_once(undisturbed, disturbed, rng, number):
    study = disturbed
    shutil.rmtree(study.path("results"))
    first = lab.OnTerminal(study.folder)
    time.sleep(rng.uniform(0, 2) if number % 4 == 3 else 0)
    runs, ended = [first, lab.OnTerminal(study.folder)], []
    while runs:
        for run in [run for run in runs if not run.watch(0.02) or run.seconds > lab.LIMIT]:
            ended.append(run.end())
            runs.remove(run)
    loser, winner = sorted(ended, key=lambda run: run.status == 0)
    assert loser.status != 0
    lab.assert_right(study, undisturbed.results, winner)
    assert loser.seconds < 0.5 * winner.seconds
    assert re.search(r"another snakemake \S.* runs in this folder", loser.output), loser.output
    assert "unlock" not in loser.output
    assert lab.TRACEBACK not in loser.output
    lab.assert_right(study, undisturbed.results, study.run())


# A disk that is full at different moments: a tmpfs, mounted where only one process and its children see it

PAGE = 4096
SIZES = 8  # each leaves more space than the one before, and none is enough
SCRIPT = f"""
rm -r results && mkdir results
mount -t tmpfs -o size=$1 none results || exit
"{lab.SNAKEMAKE}" > full.txt 2>&1; echo $? > full.status
cp -r results/logs full.logs
mount -o remount,size=64m results || exit
"{lab.SNAKEMAKE}" > room.txt 2>&1; echo $? > room.status
cp -r results made
"""


@functools.cache
def namespace():
    """The command that gives a process mounts of its own."""
    for command in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        trial = [*command, "mount", "-t", "tmpfs", "-o", "size=64k", "none", tempfile.gettempdir()]
        if shutil.which("unshare") and subprocess.run(trial, capture_output=True).returncode == 0:
            return command
    return pytest.skip("nobody may mount a disk here")


@pytest.mark.parametrize("number", lab.cases(range(SIZES)))
def test_a_full_disk_is_named_and_loses_nothing(undisturbed, disturbed, number):
    study, share = disturbed, (number + 1) / (SIZES + 1)
    needed = sum(-(-path.stat().st_size // PAGE) for path in study.path("results").rglob("*.*"))
    done = study.run(command=[*namespace(), "bash", "-c", SCRIPT, "bash", str(int(share * needed) * PAGE)])
    assert done.status == 0, done.output
    texts = [[study.path(f"{name}.{kind}").read_text() for kind in ("status", "txt")] for name in ("full", "room")]
    full, room = (lab.Run(int(status), text) for status, text in texts)
    shutil.rmtree(study.path("results"))
    study.path("made").rename(study.path("results"))
    lab.assert_right(study, undisturbed.results, room)
    shutil.rmtree(study.path("results/logs"))
    study.path("full.logs").rename(study.path("results/logs"))
    assert full.status != 0, "the run needs less space"
    assert re.search(r"results/\S+.*No space left on device", full.output), full.output[-2000:]
    assert lab.tracebacks(study, full) == []
    assert [name for name, text in lab.printed(study, full).items() if re.search(r"\bNone\b", text)] == []


# Working folders with files that have the names of modules: jobs import nothing from there

TRAPS = ("koct/__init__", "koct/__main__", "koct", "numpy", "random", "json", "yaml", "pyarrow")
# How snakemake is started: its arguments, and whether in the working folder
STARTS = {
    "--directory": (["--directory", "{folder}"], False),
    "-s": (["-s", "{checkout}/Snakefile"], True),
    "-s and --directory": (["-s", "{checkout}/Snakefile", "--directory", "{folder}"], False),
}


@pytest.mark.parametrize("start", lab.cases(STARTS))
def test_nothing_is_imported_from_the_working_folder(undisturbed, disturbed, start):
    shutil.rmtree(disturbed.path("results"))
    shutil.rmtree(disturbed.path(".snakemake"))
    disturbed.path("elsewhere/my work").mkdir(parents=True)
    work = lab.Study(disturbed.path("elsewhere/my work"))
    shutil.move(disturbed.path("config.yaml"), work.path("config.yaml"))
    for name in TRAPS:
        work.write(f"{name}.py", 'raise ImportError("this is not the module you want")\n')
    arguments, there = STARTS[start]
    arguments = [argument.format(folder=work.folder, checkout=disturbed.folder) for argument in arguments]
    run = disturbed.run(*arguments, folder=work.folder if there else disturbed.folder)
    lab.assert_right(work, undisturbed.results, run)
    assert not disturbed.path("results").exists()
