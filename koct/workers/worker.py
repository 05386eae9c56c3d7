"""The process that runs a job: forked from a zygote, which has imported most of what it needs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from koct.base.failures import INTERRUPTED, ended, say_peak_memory
from koct.workers.client import LENGTH, PACKAGE, STATUS, VARIABLE

KILLED_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl
STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}
RESET_PEAK = "5"  # what /proc/self/clear_refs takes for: forget the peak of the memory


class Job(NamedTuple):
    """A command and its surroundings, as a client sent them."""

    once: bool  # whether the process must not run another
    mask: int
    folder: str
    identity: tuple[str, ...]
    argv: list[str]
    environment: dict[str, str]
    files: list[int]  # stdin, stdout and stderr

    @classmethod
    def decode(cls, request: bytes, files: list[int]) -> Job:
        once, mask, folder, *rest = map(os.fsdecode, request.split(b"\0"))
        identity, count, rest = tuple(rest[:3]), int(rest[3]), rest[4:]
        variables = dict(variable.split("=", 1) for variable in rest[count:])
        return cls(once == "1", int(mask), folder, identity, rest[:count], variables, files)

    @property
    def has_own_file(self) -> bool:
        """Whether it runs a user's own Python file, of whose imports nobody knows what they change."""
        return any('.py"' in word for word in self.argv)


def die_with_parent(parent: int) -> None:
    """Linux kills this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(KILLED_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def work(channel: socket.socket, job: Job, loaded: set[str], given: Mapping[str, str]) -> None:
    """Run a job and say how it ended; then, unless it asks for a process of its own or has failed, further ones.

    `loaded` are the modules that the zygote has imported; it is told what else a job of koct's own files imported.
    `given` are the variables of its environment, without those that imports have set: these the job has, too.
    """
    gc.enable()
    _seed()
    while True:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the run was started to ignore it
        try:
            status = perform(job, {name: value for name, value in os.environ.items() if name not in given})
            given = job.environment
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it would be too late
        except KeyboardInterrupt:
            status = INTERRUPTED
        news = "\n".join(_imported(loaded)) if job.once and not job.has_own_file else ""
        channel.sendall(status.to_bytes(STATUS, "big", signed=True) + packed(news.encode()))
        if job.once or status:
            os._exit(0)
        forget()
        request, files = receive(channel)
        if not request:
            os._exit(0)
        job = Job.decode(request, files)


def packed(message: bytes) -> bytes:
    return len(message).to_bytes(LENGTH, "big") + message


def receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """What `packed` packed, and the files that came with it; empty at the end."""
    start, files, _, _ = socket.recv_fds(channel, LENGTH, 3)
    length = int.from_bytes(start, "big") if len(start) == LENGTH else 0
    return exactly(channel, length), files


def exactly(channel: socket.socket, length: int) -> bytes:
    """So many bytes, or less at the end."""
    parts = []
    while length and (part := channel.recv(min(length, 2**20))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def perform(job: Job, set_by_imports: Mapping[str, str]) -> int:
    """Run a command as `python -m koct` would, in the surroundings of its client; gives its exit status."""
    try:
        from koct.cli import main

        for number, file in enumerate(job.files):
            os.dup2(file, number)
        for file in job.files:
            os.close(file)
        _open_streams()
        os.chdir(job.folder)
        os.umask(job.mask)
        os.environ.clear()
        os.environ.update({**set_by_imports, **job.environment})
        os.environ.pop(VARIABLE, None)
        tempfile.tempdir = None
        sys.argv = ["koct", *job.argv]
        with warnings.catch_warnings():  # each job says them anew
            status = main(job.argv)
    except KeyboardInterrupt:
        status = ended(KeyboardInterrupt())
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    say_peak_memory()
    return int(status)


def _open_streams() -> None:
    """Python's own are as the files were that the zygote began with; of a pipe they would not do."""
    for name, number in STREAMS.items():
        first = getattr(sys, f"__{name}__")
        mode, buffering = ("r" if number == 0 else "w"), (1 if number == 2 else -1)
        about = {"encoding": first.encoding, "errors": first.errors}
        setattr(sys, name, open(number, mode, buffering, **about, closefd=False))  # noqa: SIM115


def forget() -> None:
    """Leave nothing of a job that the next one could notice."""
    from koct.base import stamps

    for name in STREAMS:
        with contextlib.suppress(OSError, ValueError):
            getattr(sys, name).close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)
    os.chdir("/")
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


def _seed() -> None:
    """Processes that were forked would draw the same numbers where nobody gives a seed."""
    random: Any = sys.modules.get("numpy.random")  # else it is seeded when it is imported
    if random is not None:
        random.seed()


def _imported(loaded: set[str]) -> list[str]:
    """The modules of koct and of installed packages that a job has imported, in order; no file of a user."""
    places = {PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    known = tuple(os.path.join(os.path.realpath(place), "") for place in places)
    found = []
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if name not in loaded and origin and os.path.realpath(origin).startswith(known):
            found.append(name)
    return found
