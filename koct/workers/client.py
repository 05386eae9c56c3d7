"""The process of a job: it hands its command to a worker and waits.

Hundreds of these start in a run, so this module imports what Python has loaded anyway: `socket`, `signal` or `json`
would each add half the time that Python itself takes to start.
"""

from __future__ import annotations

import contextlib
import os
import sys

VARIABLE = "KOCT_WORKERS"  # of the environment: the folder of the sockets, one for each kind of job
GPU_PROBLEMS = "KOCT_GPU_PROBLEMS"  # and the problems of the study that can use a GPU
PATIENCE = 10.0  # seconds in which a zygote has to answer; importing torch takes most of them
HUNG = ".hung"  # ending of the name of a socket behind which nobody answered

# The verbs that compute; others make tables and figures.
COMPUTING = ("pool", "known", "normal", "gram", "fit", "evaluate", "theory")
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

READY, GO, INTERRUPT = b"r", b"g", b"i"
LENGTH = 8  # bytes in front of a request
STATUS = 2  # bytes of an exit status; negative for a signal


def run(argv: list[str]) -> int | None:
    """The exit status of a command that a worker has run; None if this process has to run it."""
    folder = os.environ.get(VARIABLE)
    if not folder or not argv or "RANK" in os.environ:
        return None
    try:
        import _socket
    except ImportError:
        return None
    kinds, once = _kinds(argv)
    for kind in kinds:
        path = os.path.join(folder, kind)
        if os.path.exists(path):
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)  # type: ignore[attr-defined]
            try:
                return _ask(connection, path, _request(argv, once))
            finally:
                connection.close()
    return None


def _kinds(argv: list[str]) -> tuple[list[str], bool]:
    """(kinds, the best first; whether no other job may use the same process). Only speed depends on the kind.

    A user's own Python file always gets a process of its own, and so does what draws: both may change what is global.
    """
    problems = filter(None, os.environ.get(GPU_PROBLEMS, "").split(os.pathsep))
    text = " ".join(argv)
    kinds = ["cpu" if argv[0] in COMPUTING else "report"]
    if any(f'"source": "{problem}"' in text for problem in problems):
        return ["gpu", *kinds], argv[0] not in COMPUTING or '.py"' in text
    return kinds, True


def _request(argv: list[str], once: bool) -> bytes:
    """What a worker has to know, and what tells whether it is of this version; neither can contain a zero byte."""
    mask = os.umask(0)
    os.umask(mask)
    about = [str(int(once)), str(mask), os.getcwd(), *identity(), str(len(argv)), *argv]
    variables = [name + b"=" + value for name, value in os.environb.items()]
    return b"\0".join([*map(os.fsencode, about), *variables])


def identity() -> tuple[str, str, str]:
    """What a client and its zygote must have in common besides the environment; python3 is also called python."""
    return sys.prefix, sys.version, PACKAGE


def _ask(connection, path, request):  # type: ignore[no-untyped-def]
    """The status of the command, or None if it was not run, or not to its end."""
    import _socket

    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    try:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)]  # type: ignore[attr-defined]
        connection.sendmsg([len(request).to_bytes(LENGTH, "big")], rights)
        connection.sendall(request)
        if connection.recv(1) != READY:
            return None
        connection.settimeout(None)
    except TimeoutError:
        _complain(path)
        return None
    except OSError:
        return None
    return _wait(connection)


def _complain(path: str) -> None:
    """Spare the next jobs the wait. The server looks after what is called so."""
    with contextlib.suppress(OSError):
        os.rename(path, path + HUNG)


def _wait(connection):  # type: ignore[no-untyped-def]
    """From here on the command is the worker's. Ctrl-C is handed on; another signal ends this process and thus it."""
    message, interrupted, answer = GO, False, b""
    while True:
        try:
            if message:
                connection.sendall(message)
                message = b""
            answer = connection.recv(STATUS)
            break
        except KeyboardInterrupt:
            message, interrupted = INTERRUPT, True
        except OSError:
            break
    if len(answer) == STATUS:
        status = int.from_bytes(answer, "big", signed=True)
        return status if status >= 0 else _die(-status)
    if interrupted:
        raise KeyboardInterrupt
    os.write(2, b"koct: the worker of this job was lost; the job starts again without one\n")
    return None


def _die(number: int) -> int:
    """End as the worker did, so that the shell sees the same."""
    import _signal

    with contextlib.suppress(OSError, ValueError):  # that of SIGKILL cannot be set
        _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
