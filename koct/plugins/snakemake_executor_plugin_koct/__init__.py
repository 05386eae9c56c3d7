"""Snakemake's local executor, which runs koct's own commands in forks of a process that has loaded what they need.

It overrides `run_job` of Snakemake's interface of executors, and reports as that asks for how a job ended. Everything
else runs the ordinary way: other commands, more than one thread, conda and containers, --cache and
--benchmark-extended. `--executor local` runs all jobs so, with the same results.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from snakemake.executors.local import Executor as LocalExecutor
from snakemake.executors.local import common_settings
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

__all__ = ["Executor", "common_settings"]

# A command of koct's rules with nothing else for a shell: plain and quoted words, and the spec that it reads.
WORDS = r"""(?:'[^']*'|"'"|[\w\s./=:,+@%-])+"""
COMMAND = re.compile(
    rf"""python -m koct (?P<before>{WORDS} --spec) -(?P<after> {WORDS})"""
    r""" <<< '(?P<spec>[^']*(?:'"'"'[^']*)*)' > (?P<log>[\w./=:,+@%-]+) 2>&1""",
    re.ASCII,
)
# Others draw.
COMPUTING = {"pool", "known", "normal", "gram", "fit", "evaluate", "transfer", "theory"}
THREADS = ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in THREADS} | {"VECLIB_MAXIMUM_THREADS": "1"}
GPU_PROBLEMS = "KOCT_GPU_PROBLEMS"  # variable of the environment: problems and modules that can use a GPU, as JSON
NVIDIA = ("/dev/nvidiactl", "/dev/dxg")  # one of which is there with a driver, natively or on Windows
IDLE = 5.0  # seconds after which a process ends that nobody uses: it holds memory of the GPU


class Executor(LocalExecutor):
    """Runs `python -m koct … <<< spec > log 2>&1` in forks of servers, one server for each kind of job."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.servers: dict[str, Server] = {}
        self.starting = threading.Lock()
        self.threads = ThreadPoolExecutor(self.cores or 1)  # each waits for a job
        self.signals_set = False

    def run_jobs(self, jobs: list[Any]) -> None:
        """Run jobs. From the first ones on, SIGTERM is handled in a thread.

        Snakemake's handler waits for a lock. The main thread may hold it when the signal interrupts it, for ever then.
        """
        handler = signal.getsignal(signal.SIGTERM)
        if callable(handler) and not self.signals_set and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *signal: threading.Thread(target=handler, args=signal).start())
            self.signals_set = True
        super().run_jobs(jobs)

    def run_job(self, job: Any) -> None:
        if not self.is_plain(job) or (command := COMMAND.fullmatch((job.shellcmd or "").strip())) is None:
            super().run_job(job)
            return
        self.workflow.async_run(job.prepare())
        info = SubmittedJobInfo(job)
        self.report_job_submission(info)
        self.threads.submit(self.perform, info, command)

    def is_plain(self, job: Any) -> bool:
        workflow = self.workflow
        others = workflow.deployment_settings.deployment_method or workflow.workflow_settings.cache is not None
        if others or workflow.output_settings.benchmark_extended or sys.platform != "linux" or job.is_group():
            return False
        return job.threads == 1 and not job.is_shadow and (job.benchmark_repeats or 1) == 1

    def perform(self, info: SubmittedJobInfo, command: re.Match[str]) -> None:
        """Run a job to its end, and report that."""
        try:
            used = self.run_command(command, info.job.resources.get("tmpdir"))
            wrong = f"exit status {used['status']}" if used["status"] else ""
            if not wrong and info.job.benchmark:
                write_benchmark(str(info.job.benchmark), used)
        except OSError as error:
            file = error.filename or info.job.benchmark  # what is written to a full disk names no file
            wrong = f"{file}: {error.strerror}; make room and run snakemake again"
        except Exception as error:  # in a thread, where nobody would see it
            wrong = repr(error)
        if wrong:
            self.report_job_error(info, wrong)
        else:
            self.report_job_success(info)

    def run_command(self, command: re.Match[str], temporary: str | None) -> dict[str, Any]:
        """Return the exit status of a command, and what it used; it runs in a fork or, if there is none, by itself."""
        argv = argv_of(command)
        kind, keep = kind_of(argv)
        with self.starting:
            if kind not in self.servers:
                self.servers[kind] = Server(kind)
        environment = dict.fromkeys(("TMPDIR", "TMP", "TEMPDIR", "TEMP"), temporary) if temporary else {}
        job = {"argv": argv, "log": command["log"], "environment": environment, "keep": keep}
        return self.servers[kind].run(job) or run_alone(command.string, environment)

    def shutdown(self) -> None:
        super().shutdown()
        self.close()

    def cancel(self) -> None:
        super().cancel()
        self.close()

    def close(self) -> None:
        self.threads.shutdown()
        for server in self.servers.values():
            server.close()


def run_alone(command: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run a command in a shell, which reads it: an argument may be too short. Return exit status and seconds."""
    started, variables = time.perf_counter(), {**os.environ, **environment}
    done = subprocess.run(["bash"], input=command, text=True, env=variables)
    return {"status": done.returncode, "seconds": time.perf_counter() - started}


BENCHMARK = ("s", "h:m:s", "max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out", "mean_load", "cpu_time")


def write_benchmark(path: str, used: dict[str, Any]) -> None:
    """Write the table of `benchmark:`, with "-" for what is not known, such as what a forked process read and wrote."""
    seconds = used["seconds"]
    row = {"s": f"{seconds:.4f}", "h:m:s": str(datetime.timedelta(seconds=int(seconds)))}
    if "cpu_seconds" in used:
        load = 100 * used["cpu_seconds"] / max(seconds, 1e-9)
        measured = {"max_rss": used["max_rss"], "mean_load": load, "cpu_time": used["cpu_seconds"]}
        row |= {name: f"{value:.2f}" for name, value in measured.items()}
    with open(path, "w") as file:
        file.write("\t".join(BENCHMARK) + "\n" + "\t".join(row.get(name, "-") for name in BENCHMARK) + "\n")


def argv_of(command: re.Match[str]) -> list[str]:
    """Return the arguments of a command, with the spec for what it would read: in a fork these have no limit."""
    spec = command["spec"].replace("'\"'\"'", "'")
    return [*shlex.split(command["before"]), spec, *shlex.split(command["after"])]


def kind_of(argv: list[str]) -> tuple[str, bool]:
    """Return which server runs a command, and whether other jobs may use its process. Only speed depends on it.

    A process with an open GPU is kept. A user's own Python file always gets a process of its own, and so does what
    draws: both may change what is global.
    """
    text = " ".join(argv)
    problems = json.loads(os.environ.get(GPU_PROBLEMS) or "[]")
    if any(map(os.path.exists, NVIDIA)) and any(f'"source": {json.dumps(problem)}' in text for problem in problems):
        return "gpu", argv[0] in COMPUTING and '.py"' not in text
    return "cpu" if argv[0] in COMPUTING else "report", False


class Server:
    """A process of koct.plugins.forked_jobs. It ends with this one, however that happens."""

    def __init__(self, kind: str):
        self.lock = threading.Lock()
        self.idle: dict[Connection, threading.Timer] = {}  # to processes that wait for a job, and what ends them
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "koct.plugins.forked_jobs", kind],
                env={**os.environ, **ONE_THREAD},
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("KOCT_TRACEBACK") else subprocess.DEVNULL,
            )

    def run(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Return the exit status of a job and what it used; None if it was not run, or not to its end.

        SIGTERM goes to all processes of a run, when its time on a cluster is over: a job of theirs is not begun again.
        """
        try:
            connection = self.connect(job["keep"])
            connection.send(job)
            used: dict[str, Any] = connection.recv()
        except (OSError, EOFError):  # the server has gone, and its jobs with it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
            terminated = self.process.returncode == -signal.SIGTERM
            return {"status": -signal.SIGTERM} if terminated else None
        if used.get("kept"):
            timer = self.idle[connection] = threading.Timer(IDLE, self.dismiss, [connection])
            timer.start()
        else:
            connection.close()
        return None if used["status"] is None else used

    def connect(self, keep: bool) -> Connection:
        """Return a connection to a process that waits for a job: one that was kept, or a new one."""
        while self.idle:
            with contextlib.suppress(KeyError):  # another thread may have taken the last one
                connection, timer = self.idle.popitem()
                timer.cancel()
                if keep and not select.select([connection], [], [], 0)[0]:
                    return connection
                connection.close()  # it has died, or the job may want all of the GPU
        ours, theirs = Pipe()
        with theirs, self.lock:
            socket.send_fds(self.control, [b"+"], [theirs.fileno()])
        return ours

    def dismiss(self, connection: Connection) -> None:
        """End a process that nobody has used since."""
        if self.idle.pop(connection, None):
            connection.close()

    def close(self) -> None:
        for connection, timer in list(self.idle.items()):
            timer.cancel()
            self.dismiss(connection)
        self.control.close()
        self.process.wait()
