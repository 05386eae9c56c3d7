"""A tiny study in folders of its own, really run, and what to compare it with."""

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import tempfile
import termios
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from koct.base import stamps
from koct.errors import KoctError
from tests.conftest import TINY_SWEEP, Checkout
from tests.warm import SNAKEMAKE

LIMIT = 300  # seconds that a run of a tiny study may take
SEED = os.environ.get("KOCT_FAULTS_SEED", "1")  # decides all that is random
# Ten cells, and two of another sweep whose pool has more than a quarter of a million bytes.
LONG_POOL = {"train": 8, "val": 4, "test": 1000}
LONG = {**TINY_SWEEP, "H": 5, "B": 5, "pool": LONG_POOL, "seeds": [1], "archs": ["ko"]}
CONFIG = {"study": "tiny", "studies": {"tiny": ["T4", "T5"]}, "sweeps": {"T4": TINY_SWEEP, "T5": LONG}}
CELLS = 12
TIMED = {"planner.html", "ro-crate-metadata.json"}  # what says how long fits took, or has digests of files
INTERMEDIATE = ("pools", "known", "normal", "grams", "fits")  # made when something needs them
TRACEBACK = "Traceback (most recent call last)"


def cases(values, short=()):
    """Return the values of parameters; tests run the short ones, and `make faults` all."""
    several = {value: value if isinstance(value, tuple) else (value,) for value in values}
    return [pytest.param(*each, marks=() if value in short else pytest.mark.long) for value, each in several.items()]


class Run(NamedTuple):
    """A command that has ended."""

    status: int
    output: str
    seconds: float = 0


class Study(Checkout):
    """A copy of the workflow with a tiny study."""

    def run(self, *arguments, command=(), folder=None):
        """Plain snakemake, or with arguments, or another command; the output goes to a file that nobody waits for."""
        with tempfile.TemporaryFile() as output:
            here = {**os.environ, "PATH": f"{SNAKEMAKE.parent}{os.pathsep}{os.environ['PATH']}"}
            how = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, "start_new_session": True}
            command = command or [SNAKEMAKE, *arguments]
            done = subprocess.run(command, cwd=folder or self.folder, timeout=LIMIT, env=here, **how)
            output.seek(0)
            return Run(done.returncode, output.read().decode(errors="replace"))

    def rows(self):
        return sorted(self.path("results").glob("cells/*/*/*.json"))

    def finished_rows(self):
        """Rows with their fits: cells that nobody has to compute."""
        fits, cells = self.path("results/fits"), self.path("results/cells")
        return [row for row in self.rows() if (fits / row.relative_to(cells)).with_suffix(".npy").exists()]

    def name(self, path):
        return str(Path(path).relative_to(self.folder))

    def artefacts(self):
        """The files of the results, without logs and benchmarks."""
        root = self.path("results")
        paths = (path for path in root.rglob("*") if path.relative_to(root).parts[0] not in ("logs", "benchmarks"))
        return sorted(path for path in paths if path.is_symlink() or not path.is_dir())

    def contents(self):
        """Every result by name, with the digest of its content in its stamp, which a time does not change."""
        found = {}
        for path in (path for path in self.artefacts() if not path.name.startswith(".")):
            name = str(path.relative_to(self.path("results")))
            try:
                content = stamps.check(path).content
                found[name] = "" if path.name in TIMED else content
            except (KoctError, OSError):
                found[name] = "unreadable"
        return found


def printed(study, run):
    """What a run printed, and what is in the logs of its jobs, by name; without a study, no logs."""
    logs = sorted(study.path("results/logs").rglob("*.log")) if study else []
    return {"the terminal": run.output} | {study.name(log): log.read_text(errors="replace") for log in logs}


def tracebacks(study, run):
    return [name for name, text in printed(study, run).items() if TRACEBACK in text]


def assert_right(study, expected, run, logs=True):
    """A study that `run` has finished has the expected results and no other, and its run said nothing strange.

    Without `logs`, those of jobs are left out: a job that was killed may have said anything.
    """
    assert run.status == 0, run.output[-2000:]
    made = study.contents()
    asked = {name for name in expected if name.split("/")[0] not in INTERMEDIATE}
    assert made == {name: text for name, text in expected.items() if name in asked | made.keys()}
    hidden = study.path("results").rglob(".*")
    assert [study.name(path) for path in hidden if not path.name.startswith(".snakemake")] == []  # temporary files
    assert tracebacks(study if logs else None, run) == []
    assert "unlock" not in run.output


def marks(paths):
    """What tells files that are written again, except a time: open files, whose number nobody else gets, and data."""
    return {path: (open(path, "rb"), path.read_bytes()) for path in paths}


def written_again(before):
    """Of the files in `marks`, those that are not the same any more."""
    again = []
    for path, (file, data) in before.items():
        same = path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())
        if not same or path.read_bytes() != data:
            again.append(path)
        file.close()
    return again


class OnTerminal:
    """Snakemake on a terminal of its own, as the leader of its session and in the foreground."""

    def __init__(self, folder, *arguments):
        self.terminal, theirs = pty.openpty()
        os.set_blocking(self.terminal, False)
        self.started = time.perf_counter()
        how = {"start_new_session": True, "preexec_fn": _take_terminal, "env": {**os.environ, "TERM": "xterm"}}
        streams = dict.fromkeys(["stdin", "stdout", "stderr"], theirs)
        self.process = subprocess.Popen([SNAKEMAKE, *arguments], cwd=folder, **streams, **how)
        os.close(theirs)
        self.output = b""

    @property
    def running(self):
        return self.process.poll() is None

    @property
    def seconds(self):
        return time.perf_counter() - self.started

    def watch(self, seconds):
        """Read what it prints for so long, or until it has ended; whether it still runs."""
        until = time.perf_counter() + seconds
        while self.running and time.perf_counter() < until:
            self.read()
            time.sleep(0.005)
        return self.running

    def read(self):
        with contextlib.suppress(OSError):  # nothing is there, or the terminal is closed
            while part := os.read(self.terminal, 65536):
                self.output += part

    def jobs(self):
        """Its descendants that have started nothing themselves."""
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.process.pid).children(recursive=True)
            parents = {child.ppid() for child in below}
            return sorted((child for child in below if child.pid not in parents), key=lambda child: child.pid)
        return []

    def close_terminal(self):
        """The kernel then tells the session, as it does when a window or a connection is closed."""
        if self.terminal >= 0:
            os.close(self.terminal)
            self.terminal = -1

    def end(self):
        """See to it that it does not run any longer, read the rest, and return it as a Run."""
        seconds = self.seconds
        if self.running:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.read()
        self.close_terminal()
        return Run(self.process.returncode, self.output.decode(errors="replace"), seconds)


def _take_terminal():
    """In the new process: its terminal, and the signals as a shell leaves them."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def processes_in(folder):
    """Processes that work in a folder or below it, with their command lines."""
    folder, here = Path(folder).resolve(), {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            place = Path(process.cwd())
            if (place == folder or folder in place.parents) and process.status() != psutil.STATUS_ZOMBIE:
                here[process] = " ".join(process.cmdline())
    return here


def end_all_in(folder):
    for process in processes_in(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()
            process.wait(10)
