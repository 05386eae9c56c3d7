"""Snakemake's local executor, which runs koct's own commands in forks of a process that has loaded what they need.

Everything else runs the ordinary way: other commands, more than one thread, conda and containers, and whatever a server
could not run. `--executor local` runs all jobs so, with the same results.
"""

from __future__ import annotations

import contextlib
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
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from snakemake.benchmark import BenchmarkRecord, write_benchmark_records
from snakemake.exceptions import RuleException
from snakemake.executors.local import Executor as LocalExecutor
from snakemake.executors.local import common_settings, run_wrapper

__all__ = ["Executor", "common_settings"]

# A command of koct's rules with nothing else for a shell: plain and quoted words, and the spec that it reads.
WORDS = r"""(?:'[^']*'|"'"|[\w\s./=:,+@%-])+"""
COMMAND = re.compile(
    rf"""python -m koct (?P<before>{WORDS} --spec) -(?P<after> {WORDS})"""
    r""" <<< '(?P<spec>[^']*(?:'"'"'[^']*)*)' > (?P<log>[\w./=:,+@%-]+) 2>&1""",
    re.ASCII,
)
COMPUTING = (
    "pool",
    "known",
    "normal",
    "gram",
    "fit",
    "evaluate",
    "transfer",
    "theory",
)  # others make tables and figures
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

    def run_single_job(self, job: Any) -> Any:
        command = COMMAND.fullmatch(job.shellcmd.strip()) if job.is_shell else None
        plain = job.threads == 1 and not job.is_shadow and (job.benchmark_repeats or 1) == 1
        deployed = self.workflow.deployment_settings.deployment_method
        if command is None or not plain or deployed or sys.platform != "linux":
            return super().run_single_job(job)
        return self.pool.submit(self.cached_or_run, job, self.fork, job, command, self.job_args_and_prepare(job))

    def fork(self, job: Any, command: re.Match[str], arguments: tuple[Any, ...]) -> None:
        """Run a job that has been prepared; an exception if it fails, as from a shell."""
        argv = argv_of(command)
        kind, keep = kind_of(argv)
        with self.starting:
            if kind not in self.servers:
                self.servers[kind] = Server(kind)
        temporary = job.resources.get("tmpdir")
        environment = dict.fromkeys(("TMPDIR", "TMP", "TEMPDIR", "TEMP"), temporary) if temporary else {}
        used = self.servers[kind].run({"argv": argv, "log": command["log"], "environment": environment, "keep": keep})
        if used is None:
            run_wrapper(*arguments)
        elif used["status"]:
            error = subprocess.CalledProcessError(used["status"], job.shellcmd)
            raise RuleException(f"CalledProcessError:\n{error}", rule=job.rule)
        elif job.benchmark:
            # the system does not say what a forked process read and wrote
            seconds, cpu = used["seconds"], used["cpu_seconds"]
            record = BenchmarkRecord(running_time=seconds, max_rss=used["max_rss"], cpu_usage=100 * cpu, cpu_time=cpu)
            same = ("jobid", "threads", "wildcards", "params", "resources", "input")
            vars(record).update({name: getattr(job, name) for name in same})
            vars(record).update(rule_name=job.rule.name, data_collected=True)
            try:
                extended = self.workflow.output_settings.benchmark_extended
                write_benchmark_records([record], str(job.benchmark), extended)
            except OSError as error:
                reason = f"{job.benchmark}: {error.strerror}; make room and run snakemake again"
                raise RuleException(reason, rule=job.rule) from None

    def shutdown(self) -> None:
        super().shutdown()
        self.close()

    def cancel(self) -> None:
        super().cancel()
        self.close()

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


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
