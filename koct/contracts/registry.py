"""Problems and architectures by name: a file of koct/problems or koct/networks, or a Python file of a user's own."""

from __future__ import annotations

import importlib
import os
import typing
from abc import ABC
from functools import cache
from types import ModuleType

from koct.contracts import Architecture, Problem
from koct.errors import KoctError

PACKAGE = os.path.dirname(os.path.dirname(__file__))
FOLDERS: dict[type, str] = {Problem: "problems", Architecture: "networks"}

Contract = typing.TypeVar("Contract", Problem, Architecture)


def problem(source: str) -> type[Problem]:
    """The problem that `source`, a name or the path of a .py file, stands for."""
    return _load(source, Problem)


def architecture(source: str) -> type[Architecture]:
    """The architecture that `source`, a name or the path of a .py file, stands for."""
    return _load(source, Architecture)


def either(source: str) -> type[Problem] | type[Architecture]:
    """What a user's own file defines."""
    from koct.contracts.own_files import import_file

    if not is_file(source):
        raise KoctError(f"{source} is not a Python file of your own: its name must end in .py")
    module = import_file(source)
    if not _classes(module, Problem) and not _classes(module, Architecture):
        raise KoctError(f"{source} must define one subclass of Problem or of Architecture: see docs/your-own.md")
    return problem(source) if _classes(module, Problem) else architecture(source)


def is_file(source: str) -> bool:
    """Whether `source` is a user's own file, and not a name."""
    return source.endswith(".py")


def module_of(source: str, kind: type) -> str:
    """What `koct.workflow.sources.digest` calls the module: a dotted name, or the path of a user's own file."""
    return source if is_file(source) else f"koct.{FOLDERS[kind]}.{source.replace('-', '_')}"


@cache
def shipped(kind: type) -> tuple[str, ...]:
    """The names that koct has: of the files with a class of this kind. Reads them without importing any.

    A class with ABC among its bases is not one of them, but what several of them share.
    """
    import ast
    from pathlib import Path

    stems = []
    for path in sorted(Path(PACKAGE, FOLDERS[kind]).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            bases = node.bases if isinstance(node, ast.ClassDef) else []
            names = [base.id for base in bases if isinstance(base, ast.Name)]
            if any(name.endswith(kind.__name__) for name in names) and "ABC" not in names:
                stems.append(path.stem.replace("_", "-"))
    return tuple(stems)


@cache
def _load(source: str, kind: type[Contract]) -> type[Contract]:
    if is_file(source):
        from koct.contracts.own_files import check_class, import_file

        name, classes = os.path.basename(source).removesuffix(".py"), _classes(import_file(source), kind)
    else:
        name, path = source, os.path.join(PACKAGE, FOLDERS[kind], f"{source.replace('-', '_')}.py")
        known_name = source.replace("-", "_").isidentifier() and os.path.isfile(path)
        classes = _classes(importlib.import_module(module_of(source, kind)), kind) if known_name else []
        if not classes:
            known = ", ".join(shipped(kind))
            raise KoctError(f"must be one of {known}, or a Python file of your own (a path that ends in .py)")
    if len(classes) != 1:
        raise KoctError(
            f"{source} must define one subclass of {kind.__name__}, and defines {len(classes) or 'none'}: "
            f"see docs/your-own.md"
        )
    if is_file(source):
        check_class(classes[0], source)
    cls: type[Contract] = classes[0]
    cls.name, cls.source = name, source
    return cls


def _classes(module: ModuleType, kind: type) -> list[type]:
    """The classes of a kind that a module defines itself, except for base classes."""
    values = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, kind))
    return [value for value in values if value.__module__ == module.__name__ and ABC not in value.__bases__]
