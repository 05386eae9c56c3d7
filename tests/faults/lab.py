"""A tiny study in folders of its own, really run, and what to compare it with."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from koct.base import stamps
from koct.errors import KoctError
from tests.conftest import TINY_SWEEP, Checkout

SNAKEMAKE = str(Path(sys.executable).with_name("snakemake"))
LIMIT = 300  # seconds that a run of a tiny study may take
SEED = os.environ.get("KOCT_FAULTS_SEED", "1")  # decides all that is random
# Ten cells, and two of another sweep whose pool has more than a quarter of a million bytes.
LONG_POOL = {"train": 8, "val": 4, "test": 1000}
CONFIG = {
    "study": "tiny",
    "studies": {"tiny": ["T4", "T5"]},
    "sweeps": {
        "T4": TINY_SWEEP,
        "T5": {**TINY_SWEEP, "H": 5, "B": 5, "pool": LONG_POOL, "seeds": [1], "archs": ["ko"]},
    },
}
CELLS = 12
TIMED = {"planner.html", "ro-crate-metadata.json"}  # what says how long fits took, or has digests of files
LEFT_OUT = {"logs", "benchmarks"}
INTERMEDIATE = {"pools", "known", "normal", "grams", "fits"}  # made when something needs them
UNREADABLE = "unreadable: "
TRACEBACK = "Traceback (most recent call last)"


def cases(values, short=()):
    """Return the values of parameters; tests run the short ones, and `make faults` all."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else [value]), marks=[] if value in short else pytest.mark.long
        )
        for value in values
    ]


@dataclass(frozen=True)
class Run:
    """A command that has ended, or that was ended after LIMIT seconds."""

    status: int | None
    output: str
    seconds: float = 0

    @property
    def last_lines(self):
        return "\n".join(line for line in self.output.splitlines() if line.strip())[-2000:]


class Study(Checkout):
    """A copy of the workflow with the config of a tiny study."""

    def __init__(self, folder):
        Path(folder).mkdir(parents=True)
        super().__init__(folder)
        self.path("config.yaml").write_text(yaml.safe_dump(CONFIG))

    def run(self, *arguments, command=(), folder=None):
        """Plain snakemake, or with arguments, or another command; the output goes to a file that nobody waits for."""
        started = time.perf_counter()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command or [SNAKEMAKE, *map(str, arguments)],
                cwd=folder or self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PATH": f"{Path(SNAKEMAKE).parent}{os.pathsep}{os.environ['PATH']}"},
            )
            try:
                status = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                end_group(process)
                status = None
            output.seek(0)
            return Run(status, output.read().decode(errors="replace"), time.perf_counter() - started)

    def rows(self):
        return sorted(self.path("results").glob("cells/*/*/*.json"))

    def finished_rows(self):
        """Rows with their fits: cells that nobody has to compute."""
        return [row for row in self.rows() if self.fit_of(row).exists()]

    def fit_of(self, row):
        return self.path("results/fits") / row.relative_to(self.path("results/cells")).with_suffix(".npy")

    def name(self, path):
        return str(Path(path).relative_to(self.folder))


# What the results are


def results(study):
    """Every result by name, with the digest of its content in its stamp, which a time does not change."""
    root = study.path("results")
    return {str(path.relative_to(root)): content(path) for path in artefacts(study)}


def artefacts(study):
    """The files of the results, without logs and benchmarks."""
    root = study.path("results")
    paths = (path for path in root.rglob("*") if path.relative_to(root).parts[0] not in LEFT_OUT)
    return sorted(path for path in paths if path.is_symlink() or not path.is_dir())


def content(path):
    try:
        digest = stamps.check(path).content
    except (KoctError, OSError) as error:
        return f"{UNREADABLE}{error}"
    return "" if path.name in TIMED else digest


# What is wrong


def wrong_results(study, expected):
    """Results that differ from those expected, are missing, or are nobody's."""
    made = results(study)
    wrong = [name for name in expected if name in made and made[name] != expected[name]]
    final = [name for name in expected if name.split("/")[0] not in INTERMEDIATE]
    wrong += [f"{name} (missing)" for name in final if name not in made]
    wrong += [f"{name} (unknown)" for name in made if name not in expected and not Path(name).name.startswith(".")]
    return wrong


def temporaries(study):
    """Files and folders that only a running job may have."""
    root = study.path("results")
    return [study.name(path) for path in root.rglob(".*") if not path.name.startswith(".snakemake")]


def printed(study, run):
    """What a run printed, and what is in the logs of its jobs, by name; without a study, no logs."""
    logs = sorted(study.path("results/logs").rglob("*.log")) if study else []
    return {"the terminal": run.output} | {study.name(log): log.read_text(errors="replace") for log in logs}


def tracebacks(study, run):
    return [name for name, text in printed(study, run).items() if TRACEBACK in text]


def problems(study, expected, run, logs=True):
    """All that is wrong with a study that `run` has finished; none, if all is right.

    Without `logs`, those of jobs are left out: a job that was killed may have said anything.
    """
    wrong = []
    if run.status != 0:
        wrong.append(f"ended with exit status {run.status}: {run.last_lines}")
    if differing := wrong_results(study, expected):
        wrong.append(f"wrong results: {', '.join(differing)}")
    if left := temporaries(study):
        wrong.append(f"temporary files left: {', '.join(left)}")
    if traced := tracebacks(study if logs else None, run):
        wrong.append(f"traceback: in {', '.join(traced)}")
    if "unlock" in run.output:
        wrong.append("unlock: it asks for --unlock")
    return wrong


def marks(paths):
    """What tells files that are written again: they are opened, so that no other file gets their number, and read.

    The time of a file is none of it: a result that is older than its inputs gets a newer one.
    """
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


# Runs that can be killed, with their jobs and what is left of them


class OnTerminal:
    """Snakemake on a terminal of its own, as the leader of its session and in the foreground."""

    def __init__(self, folder):
        self.terminal, theirs = pty.openpty()
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [SNAKEMAKE],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**os.environ, "TERM": "xterm"},
        )
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
        while self.running and (left := until - time.perf_counter()) > 0:
            if not self._read(min(left, 0.02)):
                time.sleep(min(left, 0.02))
        return self.running

    def _read(self, seconds):
        """Read what is there, or comes so soon; whether somebody has the other side open."""
        if self.terminal is None:
            return False
        if select.select([self.terminal], [], [], seconds)[0]:
            try:
                part = os.read(self.terminal, 65536)
            except OSError:
                return False
            self.output += part
            return bool(part)
        return True

    def jobs(self):
        """Its descendants that have started nothing themselves."""
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.process.pid).children(recursive=True)
            parents = {child.ppid() for child in below}
            return sorted((child for child in below if child.pid not in parents), key=lambda child: child.pid)
        return []

    def close_terminal(self):
        """The kernel then tells the session, as it does when a window or a connection is closed."""
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None

    def end(self):
        """Read the rest, see to it that it does not run any longer, and return it as a Run."""
        seconds = self.seconds
        if self.running:
            end_group(self.process)
        while self.terminal is not None and select.select([self.terminal], [], [], 0)[0] and self._read(0):
            pass
        self.close_terminal()
        return Run(self.process.returncode, self.output.decode(errors="replace"), seconds)


def _take_terminal():
    """In the new process: its terminal, and the signals as a shell leaves them."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def end_group(process):
    """End a process that leads a group, and its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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


def wait_for_all_in(folder, seconds):
    """Whether all of them end by themselves."""
    until = time.perf_counter() + seconds
    while processes_in(folder):
        if time.perf_counter() > until:
            return False
        time.sleep(0.05)
    return True
