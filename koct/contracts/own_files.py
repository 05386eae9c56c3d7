"""A user's own Python files: how they are imported, what they must define, and which line of theirs failed."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import os
import sys
import sysconfig
import typing
import zlib
from functools import cache
from pathlib import Path
from types import ModuleType

from koct.contracts.blame import blamed
from koct.contracts.options import kind_of
from koct.errors import KoctError

PACKAGE = Path(__file__).parents[1]
RESERVED = {"name", "source", "section", "launch"}  # what koct itself sets or reads of a class
_HELPERS: dict[str, Path] = {}  # the folder of every module that a user's file imports from its own


@cache
def import_file(source: str) -> ModuleType:
    """Import a user's file; what it imports from its own folder is found there, but hides nothing of Python's own."""
    try:
        path = Path(source).resolve()
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links in a circle
        raise KoctError(f"{source!r} is not the path of a file; correct it") from None
    if not is_file:
        what = "is not a file" if path.exists() else f"does not exist (looked in {os.getcwd()})"
        raise KoctError(f"{source} {what}; correct the path")
    folder = str(path.parent)
    if folder not in sys.path:
        installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        places = [i for i, entry in enumerate(sys.path) if entry in installed] or [len(sys.path)]
        sys.path.insert(places[0], folder)
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
    try:
        with blamed(source):
            spec.loader.exec_module(module)
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
            beside = (path.parent / f"{name}.py").is_file() or (path.parent / name).is_dir()
            if beside and name not in sys.stdlib_module_names | {"koct"}:
                folder = _HELPERS.setdefault(name, path.parent)
                if folder != path.parent:
                    raise KoctError(
                        f"{source} imports {name}, and another file has one from {folder}: rename one of them"
                    )


def check_class(cls: type, source: str) -> None:
    """Refuse a class that lacks a method, hides what koct sets, or whose options cannot be checked."""
    missing = sorted(cls.__abstractmethods__)  # type: ignore[attr-defined]
    try:
        where = f"{source}, line {inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        raise KoctError(f"{source}: class {cls.__name__} must be written as a class statement") from None
    if missing:
        raise KoctError(
            f"{where}: class {cls.__name__} lacks {' and '.join(missing)}; "
            f"koct/contracts/__init__.py says what each of them does"
        )
    try:
        _check_options(cls)
    except Exception as error:  # annotations are evaluated, and may hold anything
        raise KoctError(f"{where}: class {cls.__name__}: {error or type(error).__name__}") from None


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


def place(error: BaseException, sources: list[str]) -> str | None:
    """The innermost line of a traceback that lies in the folder of one of the files."""
    folders = {str(Path(source).resolve().parent): os.path.dirname(source) for source in sources}
    if isinstance(error, SyntaxError) and error.filename and str(Path(error.filename).parent) in folders:
        return f"{_shown(error.filename, folders)}, line {error.lineno}"
    where, step = None, error.__traceback__
    while step is not None:
        filename = step.tb_frame.f_code.co_filename
        theirs = any(Path(filename).is_relative_to(folder) for folder in folders)
        if theirs and not Path(filename).is_relative_to(PACKAGE) and "site-packages" not in filename:
            where = f"{_shown(filename, folders)}, line {step.tb_lineno}"
        step = step.tb_next
    return where


def _shown(filename: str, folders: dict[str, str]) -> str:
    """A file's path as the config writes it."""
    folder = next(folder for folder in folders if Path(filename).is_relative_to(folder))
    return os.path.join(folders[folder], os.path.relpath(filename, folder))
