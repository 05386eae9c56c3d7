"""How a command ends that could not do its work: one sentence on stderr, and an exit status."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable

from koct.base.messages import text_of
from koct.errors import KoctError

NO = 1  # a verb's answer is no, or nobody reads it
MISTAKE = 2  # something that the user can put right
BUG = 3  # something that only a change to koct can put right
INTERRUPTED = 130  # Ctrl-C, as shells report it

FIXES = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "correct the path"),
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.EISDIR: "give the path of a file",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "change the permissions, or choose another place"),
    errno.EROFS: "choose another place",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room and run it again"),
}


def say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # there may be no stderr
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)


def say_peak_memory() -> None:
    """The last line of a job's log."""
    import resource

    say(f"koct: peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def flushed() -> OSError | None:
    """Write what waits in stdout; if it cannot be written, why, and then it is given up."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):  # Python would try again at its end, and say so
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    except (ValueError, AttributeError):  # it is closed, or there is none
        pass
    return None


def ended(error: BaseException, writing: Iterable[str] = ()) -> int:
    """Say what went wrong; gives the exit status. `writing` are the files that the command was to write."""
    unwritten = flushed()
    if isinstance(error, KeyboardInterrupt):
        say("koct: interrupted")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return NO
    if unwritten is not None and isinstance(error, OSError) and error.filename is None:
        error, writing = unwritten, ()
    sentence = _sentence(error, ", ".join(writing))
    if sentence is not None:
        say(f"koct: error: {sentence}")
        return MISTAKE
    if os.environ.get("KOCT_TRACEBACK"):
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    what = " ".join(text_of(error).split())[:500]
    say(
        f"koct: internal error: {type(error).__name__}: {what} (KOCT_TRACEBACK=1 shows the traceback; please report it)"
    )
    return BUG


def unwritten() -> int:
    """The exit status of a command that has done its work: whether its output could be written."""
    error = flushed()
    return 0 if error is None else ended(error)


def _sentence(error: BaseException, writing: str) -> str | None:
    """What a user can put right; None if it is a bug."""
    if isinstance(error, KoctError):
        return str(error)
    if isinstance(error, RecursionError):
        return "an input nests too deeply to be read; simplify it (KOCT_TRACEBACK=1 shows where)"
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "koct":
        return f"the Python package {error.name.partition('.')[0]} is not installed; `make setup` installs koct's own"
    if isinstance(error, OSError) and error.errno is not None:
        where = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
        what = f"{where or writing or 'the output cannot be written'}: {error.strerror or os.strerror(error.errno)}"
        return f"{what}; {FIXES[error.errno]}" if error.errno in FIXES else what
    return None
