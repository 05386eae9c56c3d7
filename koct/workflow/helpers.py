"""Starts the helper processes that run jobs (koct/workers) with the first job, and ends them behind the last."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from typing import Any

from koct.workers.client import GPU_PROBLEMS, VARIABLE

FEWEST = 3  # jobs that are worth a start
STARTS = 3  # of a server that dies
PATIENCE = 5  # seconds in which it has to end
LONGEST = 80  # letters of a folder's name: a socket's may have 107
NVIDIA = ("/dev/nvidiactl", "/dev/dxg")  # one of which is there with a driver, natively or on Windows
# What Snakemake tells a job with one thread; jobs with more run by themselves.
THREADS = ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in THREADS} | {"VECLIB_MAXIMUM_THREADS": "1"}


def use(workflow: Any, gpu_problems: Iterable[str]) -> None:
    """Let Snakemake's scheduler start and end them. One that is built otherwise runs jobs without."""
    try:
        from snakemake.benchmark import BenchmarkTimer
        from snakemake.scheduling.job_scheduler import JobScheduler

        schedule, begin = JobScheduler.schedule, BenchmarkTimer.__init__
    except (ImportError, AttributeError):
        return
    problems = sorted(gpu_problems)

    def with_helpers(self: Any) -> Any:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, AttributeError):  # no place for sockets, or another Snakemake
                if _wanted(workflow):
                    stack.enter_context(Helpers(problems))
            return schedule(self)

    def measured(self: Any, *given: Any, **others: Any) -> None:
        begin(self, *given, **others)
        if VARIABLE in os.environ:
            self.main = _measured(self.main, self.bench_record)

    JobScheduler.schedule = with_helpers
    BenchmarkTimer.__init__ = measured


def _wanted(workflow: Any) -> bool:
    """Whether several jobs are about to run here, with the Python that runs Snakemake."""
    if sys.platform != "linux" or not workflow.local_exec:
        return False
    if workflow.dryrun or workflow.touch or workflow.deployment_settings.deployment_method:
        return False
    return sum(bool(job.rule.shellcmd) for job in workflow.dag.needrun_jobs()) >= FEWEST


class Helpers:
    """The server of koct/workers, while the block runs. It ends by itself if this process is killed."""

    def __init__(self, gpu_problems: list[str]):
        self.gpu_problems = gpu_problems
        self.kinds = ["cpu", "report"] + ["gpu"] * (bool(gpu_problems) and any(map(os.path.exists, NVIDIA)))
        self.listeners: dict[str, socket.socket] = {}
        self.ended = False

    def __enter__(self) -> Helpers:
        self.folder = tempfile.mkdtemp(prefix="koct-")
        if len(self.folder) > LONGEST:
            os.rmdir(self.folder)
            self.folder = tempfile.mkdtemp(prefix="koct-", dir="/tmp")
        try:
            for kind in self.kinds:
                self.listen(kind)
            self.start()
        except OSError:
            self.close()
            raise
        os.environ.update({VARIABLE: self.folder, GPU_PROBLEMS: os.pathsep.join(self.gpu_problems)})
        threading.Thread(target=self.watch, daemon=True).start()
        return self

    def listen(self, kind: str) -> None:
        """Here, so that the first jobs find something to wait for, as do those behind a server that died."""
        self.listeners[kind] = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listeners[kind].bind(os.path.join(self.folder, kind))
        self.listeners[kind].listen(1024)

    def start(self) -> None:
        """In a session of its own: Ctrl-C is for the jobs' own processes."""
        kinds = [f"{kind}={listener.fileno()}" for kind, listener in self.listeners.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "koct.workers.server", self.folder, *kinds],
            pass_fds=[listener.fileno() for listener in self.listeners.values()],
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=None if os.environ.get("KOCT_TRACEBACK") else subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self) -> None:
        """Start it again if it dies; if it keeps dying, jobs run by themselves."""
        for left in reversed(range(STARTS)):
            self.process.wait()
            if self.ended:
                return
            for kind in self.kinds:  # its zygotes have died with it
                with contextlib.suppress(OSError):
                    os.remove(os.path.join(self.folder, f"{kind}.ready"))
            if left:
                with contextlib.suppress(OSError):
                    self.start()
        self.close()

    def __exit__(self, *error: object) -> None:
        self.ended = True
        os.environ.pop(VARIABLE, None)
        try:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()  # and thus all others
        self.close()

    def close(self) -> None:
        for listener in self.listeners.values():
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # who waits there is told
            listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


# Benchmarks


def _measured(process: Any, record: Any) -> Any:
    """A process to measure, with the worker that runs its job among its children."""
    import psutil

    class Job(psutil.Process):
        def children(self, recursive: bool = False) -> list[Any]:
            found = super().children(recursive)
            for pid in [self.pid, *(child.pid for child in found)]:
                note = os.path.join(os.environ.get(VARIABLE, ""), f"{pid}.json")
                with contextlib.suppress(OSError, ValueError, psutil.Error), open(note) as file:
                    about = json.load(file)
                    found.append(psutil.Process(about["pid"]))
                    record.processed_procs[about["pid"], "before"] = -about["used"]  # by earlier jobs
            return found

    return Job(process.pid)
