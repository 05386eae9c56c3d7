"""`python -m koct.workers.server FOLDER KIND=SOCKET...`: keeps a zygote for each kind of job until stdin is closed."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
from typing import Any

from koct.workers.client import HUNG
from koct.workers.worker import die_with_parent

FAILURES = 2  # of a kind, after which its jobs run by themselves
INTERVAL = 1.0  # seconds between looks at what has become of the zygotes


class Server:
    def __init__(self, folder: str, listeners: dict[str, socket.socket]):
        self.folder, self.listeners = folder, listeners
        self.zygotes: dict[str, int] = {}
        self.failures = dict.fromkeys(listeners, 0)
        self.learns = dict.fromkeys(listeners, True)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def loop(self) -> None:
        """Start the zygotes of jobs that compute, and any other when somebody wants something of its kind."""
        for kind in self.listeners:
            if kind != "report":
                self.start(kind)
        while True:
            waiting = {listener: kind for kind, listener in self.listeners.items() if kind not in self.zygotes}
            watched: list[Any] = [0, *waiting]
            readable, _, _ = select.select(watched, [], [], INTERVAL)
            if 0 in readable and not os.read(0, 1):
                break
            for listener in readable:
                if listener in waiting:
                    self.start(waiting[listener])
            self.look_after()
        for pid in self.zygotes.values():  # they let the last jobs finish
            os.waitpid(pid, 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, kind: str) -> None:
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                die_with_parent(parent)
                for other, listener in self.listeners.items():
                    if other != kind:
                        listener.close()
                from koct.workers import zygote

                zygote.serve(self.folder, kind, self.listeners[kind], self.learns[kind])
            finally:
                os._exit(1)
        self.zygotes[kind] = pid

    def look_after(self) -> None:
        """Replace zygotes that have died or hang; give up a kind whose zygotes do so again and again."""
        for kind, pid in list(self.zygotes.items()):
            hung = os.path.exists(self.path(kind + HUNG)) and os.path.exists(self.path(f"{kind}.ready"))
            if hung:  # one that is not ready yet is slow, and no more
                os.kill(pid, signal.SIGKILL)
            done, _ = os.waitpid(pid, 0 if hung else os.WNOHANG)
            if not done:
                continue
            del self.zygotes[kind]
            self.failures[kind] += 1
            self.learns[kind] = False  # which may have been the reason
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.path(f"{kind}.ready"))
            if self.failures[kind] > FAILURES:
                self.listeners.pop(kind).shutdown(socket.SHUT_RDWR)  # who waits there is told
                for name in (kind, kind + HUNG):
                    with contextlib.suppress(FileNotFoundError):
                        os.remove(self.path(name))
            elif hung:
                os.rename(self.path(kind + HUNG), self.path(kind))


def main(folder: str, *kinds: str) -> None:
    os.chdir("/")
    numbers = dict(kind.split("=") for kind in kinds)
    Server(folder, {kind: socket.socket(fileno=int(number)) for kind, number in numbers.items()}).loop()


if __name__ == "__main__":
    main(*sys.argv[1:])
