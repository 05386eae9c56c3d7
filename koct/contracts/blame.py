"""Whose mistake it was: sentences that name the line of a user's own file."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from koct.base.messages import text_of
from koct.contracts import Architecture, Problem
from koct.errors import KoctError

PACKAGE = Path(__file__).parents[1]
ENDS = (os._exit, os.execv, os.execve)  # of a process, behind which nothing of Python runs


@contextlib.contextmanager
def blamed(*sources: str) -> Iterator[None]:
    """Turn an exception out of a user's file, of any kind, into one sentence with the file and line it came from."""
    try:
        yield
    except (KoctError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if os.environ.get("KOCT_TRACEBACK") or type(error).__module__.startswith("koct."):
            raise
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
            error = error.__cause__  # which Python turns into the other where a generator raises it
        own = [source for source in sources if source.endswith(".py")]
        where = place(error, own)
        if where is None:  # in koct, perhaps over what a file of theirs gave
            if not own or isinstance(error, OSError | MemoryError | RuntimeError | GeneratorExit):
                raise
            where = f"koct cannot use what {' or '.join(own)} gave"
        raise KoctError(
            f"{where}: {type(error).__name__}: {text_of(error)} (KOCT_TRACEBACK=1 shows the traceback)"
        ) from None


@contextlib.contextmanager
def lasting(source: str) -> Iterator[None]:
    """Refuse a user's file that would end this process without a word: nobody would know that nothing was made.

    Python tells a profiler of every call before it is made. Processes that the file forks may end.
    """
    here, profiler = os.getpid(), sys.getprofile()

    def look(frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and any(function is end for end in ENDS) and os.getpid() == here:
            end = f"os.{function.__name__}"
            raise KoctError(f"{source} ends the program with {end} when it is imported; remove that")

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(profiler)


def line_of(component: Problem | Architecture, method: str) -> str:
    """`mine/cnn.py, line 12`: where a component of a user's defines a method; one of koct's has its name alone."""
    cls = type(component)
    if not cls.source.endswith(".py"):
        return f"the {'problem' if isinstance(component, Problem) else 'architecture'} {cls.source}"
    function = inspect.unwrap(getattr(cls, method))
    inherited = function.__module__ != cls.__module__
    line = inspect.getsourcelines(cls)[1] if inherited else function.__code__.co_firstlineno
    return f"{cls.source}, line {line}"


def line_of_operator(operator: Any, method: str) -> str | None:
    """`mine/blur.py, line 12`: where a user's own class of operators, also inside products and sums, has a method."""
    for part in _parts(operator):
        code = getattr(getattr(type(part), method), "__code__", None)
        if code is not None and not type(part).__module__.startswith("koct."):
            return f"{os.path.relpath(code.co_filename)}, line {code.co_firstlineno}"
    return None


def _parts(operator: Any) -> Iterator[Any]:
    """An operator and those that it is made of."""
    yield operator
    for value in vars(operator).values():
        for one in value if isinstance(value, list | tuple) else (value,):
            if hasattr(one, "_adjoint"):
                yield from _parts(one)


def place(error: BaseException, sources: list[str]) -> str | None:
    """The innermost line of a traceback in the folder of one of the files, with its path as a config writes it."""
    folders = {str(Path(source).resolve().parent): os.path.dirname(source) for source in sources}
    steps = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    steps += [(error.filename, error.lineno or 0)] if isinstance(error, SyntaxError) and error.filename else []
    for filename, line in reversed(steps):
        for folder, shown in folders.items():
            theirs = Path(filename).is_relative_to(folder) and not Path(filename).is_relative_to(PACKAGE)
            if theirs and "site-packages" not in filename:
                return f"{os.path.join(shown, os.path.relpath(filename, folder))}, line {line}"
    return None
