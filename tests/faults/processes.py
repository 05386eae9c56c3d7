"""Runs that can be killed: on a terminal of their own, with their jobs and what is left of them."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

import psutil


class OnTerminal:
    """A command that runs on a terminal, as the leader of its session and in the foreground."""

    def __init__(self, command, folder):
        self.terminal, theirs = pty.openpty()
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
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
            self._read(min(left, 0.02))
        return self.running

    def _read(self, seconds):
        if self.terminal is None:
            time.sleep(seconds)
        elif select.select([self.terminal], [], [], seconds)[0]:
            try:
                self.output += os.read(self.terminal, 65536)
            except OSError:  # nobody has the other side open
                time.sleep(seconds)

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

    def press_control_c(self):
        os.write(self.terminal, b"\x03")

    def end(self):
        """Read the rest, and see to it that it does not run any longer."""
        if self.running:
            end_group(self.process)
        while self.terminal is not None and select.select([self.terminal], [], [], 0)[0]:
            try:
                part = os.read(self.terminal, 65536)
            except OSError:
                break
            self.output += part
            if not part:
                break
        self.close_terminal()


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


def all_in(folder):
    """Processes that work in a folder or below it."""
    folder, found = Path(folder).resolve(), []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            place = Path(process.cwd())
            if (place == folder or folder in place.parents) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def commands_in(folder):
    """The command lines of these processes."""
    found = []
    for process in all_in(folder):
        with contextlib.suppress(psutil.Error):
            found.append(" ".join(process.cmdline()))
    return found


def end_all_in(folder):
    for process in all_in(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()
            process.wait(10)


def wait_for_all_in(folder, seconds):
    """Whether all of them end by themselves."""
    until = time.perf_counter() + seconds
    while all_in(folder):
        if time.perf_counter() > until:
            return False
        time.sleep(0.05)
    return True
