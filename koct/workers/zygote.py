"""A process that has imported what jobs of a kind need, and forks a worker for each of them."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import sysconfig
import time
from typing import Any

from koct.base.failures import say
from koct.workers import worker
from koct.workers.client import GO, HUNG, INTERRUPT, LENGTH, READY, STATUS, identity
from koct.workers.worker import Job

# What is imported before the first job; what else jobs import is learned from them.
MODULES: dict[str, tuple[str, ...]] = {
    "cpu": (
        "koct.cli",
        "koct.study.cells",
        "koct.study.evaluation",
        "koct.workflow.planned",
    ),
    "report": (
        "koct.cli",
        "koct.study.results",
        "koct.report.drawing",
        "koct.workflow.planned",
    ),
}
MODULES["gpu"] = (*MODULES["cpu"], "torch", "triton")
ALLOCATOR = "jemalloc_bg_thd"
IDLE = 5.0  # seconds after which a worker ends that nobody uses: it holds memory of the GPU
THREADED = 3  # exit status: an import has started a thread, which no fork would copy
# Variables that differ between jobs, or between a job and its zygote, and that no import reads.
UNREAD = {"_", "SHLVL", "PWD", "OLDPWD", "LINES", "COLUMNS", "TMPDIR", "TMP", "TEMPDIR", "TEMP"}


def serve(folder: str, kind: str, listener: socket.socket, learns: bool) -> None:
    """Take jobs until the end of stdin, and end behind the last of them."""
    code, given = state(), dict(os.environ)  # before anything is imported
    for name in MODULES[kind]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if threads() > 1:
        say(f"koct: no zygote for {kind}: an import has started a thread")
        os._exit(THREADED)
    zygote = Zygote(folder, code, given, listener, learns and kind != "gpu")
    path = os.path.join(folder, kind)
    with contextlib.suppress(FileNotFoundError):  # clients may have lost their patience with the imports
        os.rename(path + HUNG, path)
    with open(f"{path}.ready", "w"):
        pass
    zygote.loop()


def state() -> tuple[Any, ...]:
    """What must not change while a zygote lives: koct's sources, and which packages are installed."""
    from koct.workflow.planned import STATE, environment

    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return environment(())[STATE], [os.stat(place).st_mtime_ns for place in sorted(installed)]


def surroundings(environment: dict[str, str]) -> dict[str, str]:
    """The variables that an import may have read; koct's own are read when they are needed."""
    return {name: value for name, value in environment.items() if name not in UNREAD and not name.startswith("KOCT_")}


def threads() -> int:
    """Threads of this process, without that of pyarrow's allocator, which starts it again behind a fork."""
    found = 0
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as file:
            found += file.read().strip() != ALLOCATOR
    return found


class Client:
    """A connection: first a request comes in, then the word to begin; later perhaps Ctrl-C, or its end."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.received, self.files = b"", list[int]()
        self.length: int | None = None
        self.job: Job | None = None
        self.worker: Worker | None = None
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid = struct.unpack("3i", credentials)[0]


class Worker:
    def __init__(self, pid: int, channel: socket.socket, client: Client):
        self.pid, self.channel = pid, channel
        self.client: Client | None = client
        self.idle_since = 0.0


class Zygote:
    def __init__(self, folder: str, code: Any, given: dict[str, str], listener: socket.socket, learns: bool):
        self.folder, self.code, self.given, self.listener, self.learns = folder, code, given, listener, learns
        self.loaded = set(sys.modules)
        self.workers: list[Worker] = []
        self.ending: str | None = None
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(listener, selectors.EVENT_READ)
        gc.disable()
        gc.freeze()  # so that the pages of what is loaded stay shared with the workers

    def loop(self) -> None:
        while self.ending is None or self.workers:
            for key, _ in self.selector.select(IDLE if self.idle() else None):
                if isinstance(key.fileobj, socket.socket) and key.fileobj.fileno() < 0:
                    continue  # closed for another event of this round
                if isinstance(key.data, Client):
                    self.hear_client(key.data)
                elif isinstance(key.data, Worker):
                    self.hear_worker(key.data)
                elif key.fileobj is self.listener:
                    self.accept()
                elif not os.read(0, 1):
                    self.end("snakemake has ended")
            for one in self.idle():
                if self.ending or time.monotonic() - one.idle_since > IDLE:
                    self.dismiss(one)
        os._exit(THREADED if self.ending == "threads" else 0)

    def end(self, why: str) -> None:
        """Take no more jobs."""
        self.ending = why
        self.selector.unregister(0)
        self.selector.unregister(self.listener)

    # Clients

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            self.selector.register(connection, selectors.EVENT_READ, Client(connection))

    def hear_client(self, client: Client) -> None:
        try:
            if client.length is None:
                start, client.files, _, _ = socket.recv_fds(client.connection, LENGTH, 3)
                client.length = int.from_bytes(start, "big") if len(start) == LENGTH and len(client.files) == 3 else -1
            elif client.job is None:
                part = client.connection.recv(client.length - len(client.received))
                client.received += part
                if not part:
                    return self.drop(client)
                if len(client.received) == client.length:
                    client.job = Job.decode(client.received, client.files)
                    if not self.suits(client.job):
                        return self.drop(client)
                    client.connection.sendall(READY)
            else:
                word = client.connection.recv(1)
                if client.worker is None and word == GO:
                    self.begin(client, client.job)
                elif client.worker is not None and word == INTERRUPT:
                    os.kill(client.worker.pid, signal.SIGINT)
                else:
                    self.drop(client)
            if client.length < 0:
                self.drop(client)
        except (OSError, ValueError):
            self.drop(client)

    def suits(self, job: Job) -> bool:
        """Whether a job would have imported just what is loaded here."""
        mine, theirs = surroundings(self.given), surroundings(job.environment)
        if job.identity == identity() and mine == theirs and state() == self.code:
            return True
        names = sorted(name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name))
        say(f"koct: {job.argv[0]} runs by itself: {', '.join(names) or 'its version'} differs")
        return False

    def drop(self, client: Client) -> None:
        """A client that has gone, or has to run its command by itself. Its worker, if it has one, ends."""
        self.close(client)
        if client.worker is not None:
            os.kill(client.worker.pid, signal.SIGKILL)
            client.worker.client = None

    def close(self, client: Client) -> None:
        self.selector.unregister(client.connection)
        client.connection.close()
        for file in client.files:
            os.close(file)
        client.files = []
        self.unnote(client)

    # Workers

    def idle(self) -> list[Worker]:
        return [one for one in self.workers if one.idle_since]

    def begin(self, client: Client, job: Job) -> None:
        """Give a job to the worker that was used last, or to a new one."""
        found = self.idle()
        if job.once:  # it may want all of the GPU
            for one in found:
                self.dismiss(one)
            found = []
        if found:
            client.worker = max(found, key=lambda one: one.idle_since)
            client.worker.client, client.worker.idle_since = client, 0.0
            start = [len(client.received).to_bytes(LENGTH, "big")]
            socket.send_fds(client.worker.channel, start, client.files)
            client.worker.channel.sendall(client.received)
        else:
            client.worker = self.fork(client, job)
        for file in client.files:
            os.close(file)
        client.files, client.received = [], b""
        with contextlib.suppress(OSError), open(self.note(client), "w") as note:  # benchmarks alone read it
            json.dump({"pid": client.worker.pid, "used": _used(client.worker.pid) if found else 0.0}, note)

    def fork(self, client: Client, job: Job) -> Worker:
        mine, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                worker.die_with_parent(parent)
                for key in list(self.selector.get_map().values()):
                    if isinstance(key.fileobj, socket.socket):
                        key.fileobj.close()
                    for file in key.data.files if isinstance(key.data, Client) and key.data is not client else ():
                        os.close(file)
                self.selector.close()
                mine.close()
                worker.work(theirs, job, self.loaded, self.given)
            finally:
                os._exit(1)
        theirs.close()
        found = Worker(pid, mine, client)
        self.workers.append(found)
        self.selector.register(mine, selectors.EVENT_READ, found)
        return found

    def hear_worker(self, one: Worker) -> None:
        """It has finished its job, or has ended."""
        try:
            answer = worker.exactly(one.channel, STATUS)
            news, _ = worker.receive(one.channel) if len(answer) == STATUS else (b"", [])
        except OSError:
            answer = b""
        if len(answer) == STATUS:
            client, one.client = one.client, None
            if client is not None:
                once = client.job is None or client.job.once
                self.answer(client, answer)
                if not once and not any(answer):
                    one.idle_since = time.monotonic()
            if news and self.learns and not self.ending:
                self.learn(news.decode().split("\n"))
            return
        self.forget(one)
        _, status = os.waitpid(one.pid, 0)
        if one.client is not None:  # it was killed
            code = os.waitstatus_to_exitcode(status)
            self.answer(one.client, code.to_bytes(STATUS, "big", signed=True))

    def answer(self, client: Client, status: bytes) -> None:
        client.worker = None
        self.unnote(client)
        with contextlib.suppress(OSError):
            client.connection.sendall(status)
        self.close(client)

    def forget(self, one: Worker) -> None:
        self.workers.remove(one)
        self.selector.unregister(one.channel)
        one.channel.close()

    def dismiss(self, one: Worker) -> None:
        """End an idle worker."""
        self.forget(one)
        os.kill(one.pid, signal.SIGKILL)
        os.waitpid(one.pid, 0)

    def learn(self, names: list[str]) -> None:
        """Import what a job had to import, so that the next one need not."""
        for name in names:
            self.loaded.add(name)
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        self.loaded |= set(sys.modules)
        gc.freeze()
        if threads() > 1:
            self.end("threads")

    def note(self, client: Client) -> str:
        """A file that says which process runs the job of a client: see koct/workflow/helpers.py."""
        return os.path.join(self.folder, f"{client.pid}.json")

    def unnote(self, client: Client) -> None:
        with contextlib.suppress(OSError):
            os.remove(self.note(client))


def _used(pid: int) -> float:
    """Seconds of a core that a worker had used when a job began."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
