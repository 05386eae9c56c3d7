"""YAML without its traps: keys that are given twice, and numbers that are read otherwise than written.

A mistake is one sentence with the file, the line and the fix. What passes means to a plain reader of YAML 1.1, such as
Snakemake, what it says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import Any

from koct.errors import KoctError

# Octal in YAML 1.1, and decimal or text elsewhere; or base 60.
TRAP = re.compile(r"[-+]?0o?[0-9_]+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")

MOST = 1_000_000  # values of a file

Path = str | PathLike[str]


def load(path: Path) -> dict[Any, Any]:
    """Return the mapping in a file; a KoctError has a line for everything that is wrong with it."""
    import yaml

    try:
        with open(path, "rb") as file:
            data = file.read()
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise KoctError(f"{path}, line {line} is not UTF-8 text; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise KoctError(f"{path} cannot be read: {why}; correct the path") from None
    reader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def read() -> Any:
        node = yaml.compose(text, reader)
        wrong = [*_traps(node, set()), *_too_large(node)]
        return wrong, None if wrong else yaml.load(text, reader)

    wrong, content = understood(str(path), read)
    if not wrong and not isinstance(content, dict):
        wrong = [" must have keys at its top level, such as `key: value`; give it some"]
    if wrong:
        raise KoctError("\n".join(f"{path}{sentence}" for sentence in wrong))
    return dict(content)


def value(what: str, text: str) -> Any:
    """Return the value of a text that a user wrote, named `what`."""
    import yaml

    def read() -> Any:
        if wrong := list(_too_large(yaml.compose(text, yaml.SafeLoader))):
            raise KoctError(f"{what}{wrong[0]}")
        return yaml.safe_load(text)

    return understood(what, read)


def understood(what: str, read: Callable[[], Any]) -> Any:
    """Return what a reader of YAML gives, and turn what it complains of into one sentence."""
    import yaml

    try:
        return read()
    except yaml.YAMLError as error:
        sentence = _syntax(error)
    except RecursionError:
        sentence = " nests too deeply to be read; simplify it"
    except (ValueError, OverflowError, KeyError, AttributeError, TypeError) as error:  # such as 2024-13-45, no day
        sentence = f" has a value that cannot be read: {error}; correct it, or write it in quotes"
    raise KoctError(f"{what}{sentence}") from None


def _too_large(node: Any) -> Iterator[str]:
    if (size := _size(node, {})) > MOST:
        yield f" becomes {size:.0e} values when all its aliases are followed; write at most {MOST:,}"


def _size(node: Any, known: dict[int, int]) -> int:
    """Return how many values a node stands for when all aliases below it are followed."""
    if node is None or isinstance(node.value, str):
        return 1
    if id(node) not in known:
        known[id(node)] = 0  # an alias inside of what it names
        parts = [part for child in node.value for part in (child if isinstance(child, tuple) else (child,))]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]


def check_files(paths: Iterable[Path]) -> None:
    """Raise one KoctError for all files; what can be read only once, such as a pipe, is left alone."""
    wrong = []
    for path in dict.fromkeys(os.fspath(path) for path in paths):
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            continue
        below = os.path.relpath(path)
        try:
            load(path if below.startswith("..") else below)
        except KoctError as error:
            wrong.append(str(error))
    if wrong:
        raise KoctError("\n".join(wrong))


def _traps(node: Any, seen: set[int]) -> Iterator[str]:
    """Yield what is wrong at a node of the file and below it, each sentence with its line."""
    if node is None or id(node) in seen:  # an alias leads to a node again
        return
    seen.add(id(node))
    if isinstance(node.value, str):
        if not node.style and TRAP.fullmatch(node.value):
            fix = "write a number without leading zeros and colons, and a text in quotes"
            yield f", line {node.start_mark.line + 1}: YAML 1.1 reads {node.value} otherwise than it looks; {fix}"
        return
    lines: dict[tuple[str, str], int] = {}
    for child in node.value:
        key, *_ = pair = child if isinstance(child, tuple) else (child,)
        if len(pair) > 1 and isinstance(key.value, str):
            line = key.start_mark.line + 1
            if (key.tag, key.value) in lines:
                fix = "write `<<: [*one, *other]`" if key.value == "<<" else "remove one of them, or rename it"
                first = lines[key.tag, key.value]
                yield f", line {line}: {key.value} is there twice, first in line {first}; {fix}"
            lines.setdefault((key.tag, key.value), line)
        for part in pair:
            yield from _traps(part, seen)


def _syntax(error: Any) -> str:
    mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    fix = "indent with spaces, not tabs" if "cannot start any token" in (what or "") else "correct it"
    return f" is not valid YAML{where}: {what or str(error).partition(chr(10))[0]}; {fix}"
