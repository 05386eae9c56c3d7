"""YAML without its traps: keys that are given twice, numbers that are read otherwise than written, bombs of aliases.

A mistake is one sentence with the file, the line, the key and the fix. What passes means to a plain reader of YAML 1.1,
such as Snakemake, what it says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from os import PathLike
from typing import Any

from koct.errors import KoctError

LARGEST = 10_000_000  # bytes of a file
MOST_NODES = 1_000_000  # keys and values once every alias is replaced by what it stands for
DEEPEST = 50  # mappings and lists inside each other
LONGEST = 10_000  # bits of a number: Python prints none that is much longer

LEADING_ZERO = re.compile(r"([-+]?)(0[0-9_]+|0o[0-7_]+)")  # octal in YAML 1.1, decimal or text elsewhere
CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")  # base 60
TAG = "tag:yaml.org,2002:"
NUMBERS = (f"{TAG}int", f"{TAG}float")
TEXT, MERGE = f"{TAG}str", f"{TAG}merge"

Path = str | PathLike[str]


def load(path: Path) -> dict[Any, Any]:
    """The mapping in a file; a KoctError with a line for everything that is wrong with it."""
    return _Reader(path).read()


def check(path: Path) -> None:
    """A KoctError with a line for everything that is wrong with a file."""
    load(path)


def check_files(paths: Iterable[Path]) -> None:
    """One KoctError for all files; what can be read only once, such as a pipe, is left alone."""
    wrong = []
    for path in dict.fromkeys(os.fspath(path) for path in paths):
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            continue
        below = os.path.relpath(path)
        try:
            check(path if below.startswith("..") else below)
        except KoctError as error:
            wrong.append(str(error))
    if wrong:
        raise KoctError("\n".join(wrong))


class _Reader:
    """One file: what is wrong with it gathers in `wrong`."""

    def __init__(self, path: Path):
        try:
            import yaml
        except ImportError:
            raise KoctError(f"{path}: reading YAML requires PyYAML; install it with `pip install pyyaml`") from None
        self.yaml: Any = yaml
        self.kind: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.path = path
        self.wrong: list[tuple[int, str]] = []  # lines, and what is wrong there
        self.sizes: dict[int, tuple[int, int]] = {}  # of a node by its id: nodes in it, and how deep they lie
        self.open: set[int] = set()  # nodes that the walk is inside of

    def read(self) -> dict[Any, Any]:
        text = self._text()
        try:
            found = self._parsed(text)
        except self.yaml.YAMLError as error:
            found = _json(text)
            if found is None:
                self._refuse_syntax(text, error)
        if not self.wrong and not isinstance(found, dict):
            self._refuse(None, "must have keys at its top level, such as `key: value`; give it some")
        if self.wrong:
            raise KoctError("\n".join(dict.fromkeys(text for _, text in sorted(self.wrong))))
        assert isinstance(found, dict)
        return found

    def _text(self) -> str:
        try:
            with open(self.path, "rb") as file:
                data = file.read(LARGEST + 1)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise KoctError(f"{self.path} cannot be read: {why}; correct the path") from None
        if len(data) > LARGEST:
            raise KoctError(f"{self.path} has more than {LARGEST // 10**6} MB; give a smaller file")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise KoctError(f"{self.path}, line {line} is not UTF-8 text; save the file as UTF-8") from None

    def _parsed(self, text: str) -> Any:
        """What the text says, or None with sentences in `wrong`."""
        if not self._shallow(text):
            return None
        loader = self.kind(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            self._walk(node, [], loader)
            return None if self.wrong else loader.construct_document(node)
        finally:
            loader.dispose()

    def _shallow(self, text: str) -> bool:
        """Look at the nesting first: the parser in C ends the process where it is too deep."""
        depth = 0
        for event in self.yaml.parse(text, Loader=self.kind):
            if isinstance(event, self.yaml.CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    self._refuse(event, f"lists and mappings nest more than {DEEPEST} deep; remove some")
                    return False
            elif isinstance(event, self.yaml.CollectionEndEvent):
                depth -= 1
        return True

    def _walk(self, node: Any, path: list[str | int], loader: Any) -> tuple[int, int]:
        """Look at a node and all in it, once; gives its size with every alias written out, and its depth."""
        if id(node) in self.sizes:
            return self.sizes[id(node)]
        if id(node) in self.open:
            self._refuse(node, f"{_dotted(path)} contains itself through an alias; remove the alias")
            return 1, 1
        self.open.add(id(node))
        inside = [(1, 0)]
        scalar = isinstance(node, self.yaml.ScalarNode)
        if scalar:
            self._check_scalar(node, path, loader)
        elif isinstance(node, self.yaml.SequenceNode):
            inside += [self._walk(item, [*path, place], loader) for place, item in enumerate(node.value)]
        else:
            self._check_keys(node, path, loader)
            for key, value in node.value:
                name = key.value if isinstance(key, self.yaml.ScalarNode) else "?"
                size, depth = self._walk(value, [*path, name], loader)
                if key.tag == MERGE:  # its keys come into this mapping
                    depth -= 2 if isinstance(value, self.yaml.SequenceNode) else 1
                inside += [self._walk(key, [*path, name], loader), (size, depth)]
        self.open.discard(id(node))
        nodes, depth = sum(size for size, _ in inside), max(depth for _, depth in inside) + (not scalar)
        if nodes > MOST_NODES >= max(size for size, _ in inside):
            self._refuse(node, f"{_dotted(path)} has more than {MOST_NODES:,} values with its aliases; use fewer")
        if depth == DEEPEST + 1:
            self._refuse(node, f"{_dotted(path)} nests more than {DEEPEST} deep with its aliases; write them out")
        self.sizes[id(node)] = min(nodes, MOST_NODES + 1), depth
        return self.sizes[id(node)]

    def _check_keys(self, node: Any, path: list[str | int], loader: Any) -> None:
        """Each key once; what `<<` merges may be given again."""
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                continue  # which no dictionary can have: construction says so
            merge = key.tag == MERGE
            try:
                value = key.value if merge or key.tag == TEXT else loader.construct_object(key)
            except (ValueError, KeyError, AttributeError):
                continue  # a scalar that is wrong by itself
            if value in lines:
                fix = "write `<<: [*one, *other]`" if merge else "remove one of them, or rename it"
                where = _dotted([*path, key.value])
                self._refuse(key, f"{where} is there twice, first in line {lines[value]}; {fix}")
            lines.setdefault(value, key.start_mark.line + 1)

    def _check_scalar(self, node: Any, path: list[str | int], loader: Any) -> None:
        """A number that is what it looks like, and any other value that can be read."""
        text, number = node.value, node.tag in NUMBERS
        if node.tag == MERGE or (node.tag == TEXT and (node.style or not text.startswith(("0", "-0", "+0")))):
            return
        try:
            value = loader.construct_object(node)
        except (ValueError, KeyError, AttributeError, OverflowError) as error:
            kind = node.tag.removeprefix(TAG)
            why = str(error).partition(";")[0] if isinstance(error, ValueError) else "it is none"
            self._refuse(node, f"{_dotted(path)} = {_short(text)} cannot be read as {kind}: {why}; correct it")
            return
        if isinstance(value, int) and value.bit_length() > LONGEST:
            self._refuse(node, f"{_dotted(path)} = {_short(text)} has too many digits; correct it")
            return
        read = _number(value) if number else "text"
        zero = LEADING_ZERO.fullmatch(text)
        if zero and (number or not node.style):
            why, plain = f"which YAML 1.1 reads as {read}", _without_zeros(zero)
        elif number and CLOCK.fullmatch(text):
            why, plain = f"which YAML 1.1 reads as {read}, in base 60", read
        else:
            return
        self._refuse(
            node, f"{_dotted(path)} is {_short(text)}, {why}; write {plain}, or put it in quotes if it is text"
        )

    def _refuse(self, at: Any, sentence: str) -> None:
        line = at.start_mark.line + 1 if at is not None else 0
        self.wrong.append((line, f"{self.path}, line {line}: {sentence}" if line else f"{self.path} {sentence}"))

    def _refuse_syntax(self, text: str, error: Any) -> None:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).partition("\n")[0]
        what = f"{error.context}, {what}" if what.startswith("but ") else what
        where, fix = "", "correct it"
        if mark is not None:
            lines = text.splitlines() or [""]
            line, column = (mark.line, mark.column) if mark.line < len(lines) else (len(lines) - 1, len(lines[-1]))
            where = f" at line {line + 1}, column {column + 1}"
            fix = "indent with spaces, not tabs" if lines[line][column : column + 1] == "\t" else fix
        elif isinstance(getattr(error, "position", None), int):
            where = f" at line {text.count(chr(10), 0, error.position) + 1}"
        self.wrong.append((0, f"{self.path} is not valid YAML{where}: {what}; {fix}"))


def _json(text: str) -> dict[Any, Any] | None:
    """Of JSON that is not YAML too: tabs may indent it."""
    import json

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key is there twice")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _dotted(path: Iterable[str | int]) -> str:
    """A path of keys and places as one writes it: sweeps.H8.N[1]."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{_short(part)}" for part in path)
    return text.removeprefix(".") or "the top level"


def _short(text: str) -> str:
    """A value in one line."""
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number(value: int | float) -> str:
    """A number, if it is short enough to be written down."""
    return str(value) if isinstance(value, float) or value.bit_length() < 200 else "a very large number"


def _without_zeros(number: re.Match[str]) -> str:
    """0o17 as 15, 010 as 10."""
    sign, digits = number[1].removeprefix("+"), number[2].replace("_", "")
    return sign + (_number(int(digits[2:] or "0", 8)) if digits[1] == "o" else _short(digits.lstrip("0") or "0"))
