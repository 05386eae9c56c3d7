"""YAML without its traps: keys that are given twice, and numbers that are read otherwise than written.

A mistake is one sentence with the file, the line and the fix. What passes means to a plain reader of YAML 1.1, such as
Snakemake, what it says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from os import PathLike
from typing import Any

from koct.errors import KoctError

LEADING_ZERO = re.compile(r"[-+]?0(o?[0-9_]+)")  # octal in YAML 1.1, decimal or text elsewhere
CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")  # base 60
TAG = "tag:yaml.org,2002:"

Path = str | PathLike[str]


def load(path: Path) -> dict[Any, Any]:
    """Return the mapping in a file; a KoctError has a line for everything that is wrong with it."""
    text = _text(path)
    try:
        import yaml
    except ImportError:
        raise KoctError(f"{path}: reading YAML requires PyYAML; install it with `pip install pyyaml`") from None
    wrong: list[str] = []
    try:
        content, wrong = _parsed(text)
    except yaml.YAMLError as error:
        wrong.append(_syntax(error))
    if not wrong and not isinstance(content, dict):
        wrong.append(" must have keys at its top level, such as `key: value`; give it some")
    if wrong:
        raise KoctError("\n".join(f"{path}{sentence}" for sentence in dict.fromkeys(wrong)))
    assert isinstance(content, dict)
    return content


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


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise KoctError(f"{path} cannot be read: {why}; correct the path") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise KoctError(f"{path}, line {line} is not UTF-8 text; save the file as UTF-8") from None


def _parsed(text: str) -> tuple[Any, list[str]]:
    """Return what a text says, and what is wrong with it: sentences that begin with the line."""
    loader = _loader()(text)
    try:
        return loader.get_single_data(), loader.wrong
    finally:
        loader.dispose()


@cache
def _loader() -> Any:
    """Return PyYAML's safe loader with a list `wrong`, to which it adds what it reads otherwise than it looks."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def __init__(self, text: str):
            super().__init__(text)
            self.wrong: list[str] = []
            self.flat: set[int] = set()  # mappings that were looked at

        def flatten_mapping(self, node: Any) -> None:
            """See each key once, before what `<<` merges comes in; that may be given again."""
            lines: dict[Any, int] = {}
            for key, _ in node.value if id(node) not in self.flat else ():
                if isinstance(key, yaml.ScalarNode):
                    name = "<<" if key.tag == f"{TAG}merge" else self.construct_object(key)
                    if name in lines:
                        fix = "write `<<: [*one, *other]`" if name == "<<" else "remove one of them, or rename it"
                        self.wrong.append(_at(key, f"{key.value} is there twice, first in line {lines[name]}; {fix}"))
                    lines.setdefault(name, key.start_mark.line + 1)
            self.flat.add(id(node))
            super().flatten_mapping(node)

        def read(self, node: Any) -> Any:
            """Return a scalar that is what it looks like."""
            plain = node.value
            try:
                value = base.yaml_constructors[node.tag](self, node)
            except (ValueError, KeyError, AttributeError, OverflowError):
                value = None
            if value is None:
                kind = node.tag.removeprefix(TAG)
                self.wrong.append(_at(node, f"{plain[:60]} cannot be read as {kind}; correct it"))
            elif not node.style and (LEADING_ZERO.fullmatch(plain) or (CLOCK.fullmatch(plain) and value != plain)):
                fix = "write a number without leading zeros and colons, and a text in quotes"
                self.wrong.append(_at(node, f"{plain} is read as {value!r} by YAML 1.1; {fix}"))
            return value

    for kind in ("int", "float", "timestamp", "bool", "str"):
        Loader.add_constructor(f"{TAG}{kind}", Loader.read)
    return Loader


def _at(place: Any, sentence: str) -> str:
    return f", line {place.start_mark.line + 1}: {sentence}"


def _syntax(error: Any) -> str:
    mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    fix = "indent with spaces, not tabs" if "cannot start any token" in (what or "") else "correct it"
    return f" is not valid YAML{where}: {what or str(error).partition(chr(10))[0]}; {fix}"
