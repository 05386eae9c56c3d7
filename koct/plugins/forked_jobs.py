"""`python -m koct.plugins.forked_jobs KIND`: a process that has loaded what jobs of a kind import, and forks them.

The executor sends one end of a socket for each job over stdin. The forked process reads the job from it, runs it as
`python -m koct` would, and answers with its exit status and what it used. A process that dies is answered for here.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import os
import resource
import signal
import socket
import sys
import sysconfig
import time
from multiprocessing.connection import Connection, wait
from typing import Any

from koct.workflow import planned

# What is imported before the first job; what else koct's own jobs import is learned from them.
MODULES: dict[str, tuple[str, ...]] = {
    "cpu": ("koct.cli", "koct.study.cells", "koct.study.evaluation"),
    "report": ("koct.cli", "koct.study.results", "koct.report.drawing"),
}
MODULES["gpu"] = (*MODULES["cpu"], "torch", "triton")
ALLOCATOR = "jemalloc_bg_thd"  # the thread of pyarrow's allocator, which starts it again behind a fork
KILLED_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl
RESET_PEAK = "5"  # what /proc/self/clear_refs takes for: forget the peak of the memory


def main(kind: str) -> None:
    for name in MODULES[kind]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.disable()
    gc.freeze()  # so that the pages of what is loaded stay shared with the jobs
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the jobs
    serve(socket.socket(fileno=0), learns=kind != "gpu")  # on a GPU, processes are kept instead


def serve(control: socket.socket, learns: bool) -> None:
    """Fork a process for each socket that arrives, until snakemake ends, and with it all that still runs here."""
    fork = multiprocessing.get_context("fork")
    running: dict[Connection, tuple[Any, Connection]] = {}  # by the pipe that tells what a job imported, and its end
    while True:
        for ready in wait([control, *running]):
            if ready is control:
                _, files, _, _ = socket.recv_fds(control, 1, 1)
                if not files:
                    os._exit(0)
                connection = Connection(files[0])
                if _threads() > 1:  # which no fork would copy
                    connection.send({"status": None})
                    connection.close()
                    continue
                reader, writer = fork.Pipe(duplex=False)
                process = fork.Process(target=work, args=(connection, writer, os.getpid()))
                process.start()
                writer.close()
                running[reader] = process, connection
                continue
            assert isinstance(ready, Connection)
            try:
                names = ready.recv()  # what a job had to import
                for name in names if learns else ():  # so that the next one need not
                    with contextlib.suppress(Exception):
                        importlib.import_module(name)
                if names:
                    gc.freeze()
            except EOFError:
                process, connection = running.pop(ready)
                process.join()
                if process.exitcode:
                    with contextlib.suppress(OSError):  # nobody may wait for it any more
                        connection.send({"status": process.exitcode})
                connection.close()
                ready.close()


def work(connection: Connection, news: Connection, parent: int) -> None:
    """Run a job and, while the executor keeps this process, further ones."""
    ctypes.CDLL(None).prctl(KILLED_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()  # forks would draw the same numbers where nobody gives a seed
    loaded, surroundings = set(sys.modules), dict(os.environ)
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        answer = perform(**job)
        if not any('.py"' in word for word in job["argv"]):  # a user's file may import what changes others
            news.send(_imported(loaded))
        connection.send(answer)
        if not answer["kept"]:
            os._exit(0)
        _forget()
        os.environ.clear()
        os.environ.update(surroundings)


def perform(argv: list[str], log: str, environment: dict[str, str], keep: bool) -> dict[str, Any]:
    """Run a command as `python -m koct` would; returns its exit status, or None if it has to run elsewhere."""
    if not planned.unchanged():  # and what is loaded here may be something else
        return {"status": None, "kept": False}
    from koct.base.failures import ended, say_peak_memory
    from koct.cli import main

    _print_to(log)
    os.environ.update(environment)
    started, before = time.perf_counter(), _cpu_seconds()
    try:
        status = int(main(argv))
        say_peak_memory()
    except KeyboardInterrupt:
        status = ended(KeyboardInterrupt())
    sys.stdout.flush()
    used = {"seconds": time.perf_counter() - started, "cpu_seconds": _cpu_seconds() - before}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"status": status, "kept": keep and status == 0, "max_rss": peak, **used}


def _print_to(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)


def _cpu_seconds() -> float:
    return sum(os.times()[:4])  # of this process and its children, for themselves and in the system


def _forget() -> None:
    """Leave nothing of a job that the next one in this process could notice."""
    from koct.base import stamps

    _print_to(os.devnull)
    stamps.guard = None
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(torch.initial_seed())
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # give back what is free
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write(RESET_PEAK)


def _imported(loaded: set[str]) -> list[str]:
    """Return the modules of koct and of installed packages that a job has imported, in order; no file of a user."""
    places = {planned.PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    ours = tuple(os.path.join(os.path.realpath(place), "") for place in places)
    names = []
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if name not in loaded and origin and os.path.realpath(origin).startswith(ours):
            names.append(name)
    return names


def _threads() -> int:
    """Return the number of threads of this process, without that of pyarrow's allocator."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as file:
            count += file.read().strip() != ALLOCATOR
    return count


if __name__ == "__main__":
    main(sys.argv[1])
