"""Problems and architectures by name: a file of koct/problems or koct/networks, or a Python file of a user's own.

Of a user's own files: how they are imported, and what they must define.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import os
import sys
import typing
import zlib
from abc import ABC
from functools import cache
from pathlib import Path
from types import ModuleType

from koct.base.imports import files_of_module, import_from, not_theirs
from koct.base.messages import text_of
from koct.contracts import Architecture, Problem
from koct.contracts.blame import PACKAGE, blamed, lasting
from koct.contracts.options import kind_of
from koct.errors import KoctError

FOLDERS: dict[type, str] = {Problem: "problems", Architecture: "networks"}
RESERVED = {"name", "source", "numbers", "section", "launch"}  # what koct itself sets or reads of a class
_HELPERS: dict[str, Path] = {}  # the folder of every module that a user's file imports from its own

Contract = typing.TypeVar("Contract", Problem, Architecture)


def problem(source: str) -> type[Problem]:
    """The problem that `source`, a name or the path of a .py file, stands for."""
    return _load(source, Problem)


def architecture(source: str) -> type[Architecture]:
    """The architecture that `source`, a name or the path of a .py file, stands for."""
    return _load(source, Architecture)


def either(source: str) -> type[Problem] | type[Architecture]:
    """What a user's own file defines, or the problem or architecture of koct that has this name."""
    if source in shipped(Problem):
        return problem(source)
    if source in shipped(Architecture):
        return architecture(source)
    if not is_file(source):
        raise KoctError(
            f"{source} is neither a problem or network of koct nor a Python file of your own, whose name ends in .py"
        )
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
    stems = []
    for path in sorted((PACKAGE / FOLDERS[kind]).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            bases = node.bases if isinstance(node, ast.ClassDef) else []
            names = [base.id for base in bases if isinstance(base, ast.Name)]
            if any(name.endswith(kind.__name__) for name in names) and "ABC" not in names:
                stems.append(path.stem.replace("_", "-"))
    return tuple(stems)


@cache
def _load(source: str, kind: type[Contract]) -> type[Contract]:
    if is_file(source):
        name, classes = os.path.basename(source).removesuffix(".py"), _classes(import_file(source), kind)
    else:
        name, stem = source, source.replace("-", "_")
        there = stem.isidentifier() and (PACKAGE / FOLDERS[kind] / f"{stem}.py").is_file()
        classes = _classes(importlib.import_module(module_of(source, kind)), kind) if there else []
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


@cache
def import_file(source: str) -> ModuleType:
    """Import a user's file; what it imports from its own folder is found there, but hides nothing of Python's own."""
    if not os.path.isfile(source):
        what = "is not a file" if os.path.exists(source) else f"does not exist (looked in {os.getcwd()})"
        raise KoctError(f"{source} {what}; correct the path")
    path = Path(source).resolve()
    import_from(path.parent)
    try:
        with blamed(source):
            _claim(source, path)
    except (RecursionError, MemoryError):
        raise KoctError(f"{source}: Python cannot read an expression that nests so deeply; simplify it") from None
    spec = importlib.util.spec_from_file_location(f"koct_file_{path.stem}_{zlib.crc32(bytes(path)):x}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    here = os.getcwd()
    try:
        with blamed(source), lasting(source):
            spec.loader.exec_module(module)
        if os.getcwd() != here:
            os.chdir(here)
            raise KoctError(f"{source} changes the working folder when it is imported; remove os.chdir there")
    except SystemExit as end:
        del sys.modules[spec.name]
        raise KoctError(
            f"{source} ends the program with sys.exit({end.code!r}) when it is imported; "
            f'put that under `if __name__ == "__main__":`'
        ) from None
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _claim(source: str, path: Path) -> None:
    """Refuse two helpers of one name in two folders: Python would give both files the first one."""
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        for name in (name.partition(".")[0] for name in names):
            stem = path.parent / name
            if (stem.is_dir() or any(files_of_module(stem))) and not not_theirs(name):
                folder = _HELPERS.setdefault(name, path.parent)
                if folder != path.parent:
                    raise KoctError(
                        f"{source} imports {name}, and another file has one from {folder}: rename one of them"
                    )


def check_class(cls: type, source: str) -> None:
    """Refuse a class that lacks a method, hides what koct sets, or whose options cannot be checked."""
    where = f"{source}, line {inspect.getsourcelines(cls)[1]}"
    if missing := sorted(cls.__abstractmethods__):  # type: ignore[attr-defined]
        raise KoctError(
            f"{where}: class {cls.__name__} lacks {' and '.join(missing)}; "
            f"koct/contracts/__init__.py says what each of them does"
        )
    try:
        _check_options(cls)
    except Exception as error:  # annotations are evaluated, and may hold anything
        raise KoctError(f"{where}: class {cls.__name__}: {text_of(error) or type(error).__name__}") from None


def _check_options(cls: type) -> None:
    contract = next(base for base in cls.__mro__ if base.__module__ == "koct.contracts")
    hints = typing.get_type_hints(cls)
    for each in dataclasses.fields(cls):  # type: ignore[arg-type]
        if "option" not in each.metadata:
            raise TypeError(f'the option {each.name} has no description: write {each.name} = option("...")')
        hidden = getattr(contract, each.name, None)
        if each.name in RESERVED or callable(hidden) or isinstance(hidden, property):
            raise TypeError(f"the option {each.name} hides what koct calls so; rename it")
        kind_of(hints[each.name])
    for name in ("name", "section"):
        if not isinstance(getattr(cls, name, ""), str):
            raise TypeError(f"{name} hides a text that koct reads; rename it")
    if getattr(cls, "launch", None) != getattr(contract, "launch", None):
        raise TypeError("launch is koct's; rename it, or subclass TorchrunArchitecture to be started by torchrun")
