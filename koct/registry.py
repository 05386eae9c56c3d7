"""Problems and architectures by name: a file of koct/problems or koct/networks, or a Python file of a user's own."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import sysconfig
import typing
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from koct.contracts import Architecture, Problem
from koct.errors import KoctError
from koct.options import supported

PACKAGE = Path(__file__).parent
FOLDERS: dict[type, str] = {Problem: "problems", Architecture: "networks"}

Contract = typing.TypeVar("Contract", Problem, Architecture)


def problem(source: str) -> type[Problem]:
    """The problem that `source`, a name or the path of a .py file, stands for."""
    return _load(source, Problem)


def architecture(source: str) -> type[Architecture]:
    """The architecture that `source`, a name or the path of a .py file, stands for."""
    return _load(source, Architecture)


def is_file(source: str) -> bool:
    """Whether `source` is a user's own file, and not a name."""
    return source.endswith(".py")


def module_of(source: str, kind: type) -> str:
    """What `koct.workflow.sources.digest` calls the module: a dotted name, or the path of a user's own file."""
    return source if is_file(source) else f"koct.{FOLDERS[kind]}.{source.replace('-', '_')}"


@cache
def shipped(kind: type) -> tuple[str, ...]:
    """The names that koct has: of the files with a class of this kind. Reads them without importing any."""
    found = []
    for path in sorted((PACKAGE / FOLDERS[kind]).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            bases = node.bases if isinstance(node, ast.ClassDef) else []
            if any(isinstance(base, ast.Name) and base.id.endswith(kind.__name__) for base in bases):
                found.append(path.stem.replace("_", "-"))
    return tuple(found)


@cache
def _load(source: str, kind: type[Contract]) -> type[Contract]:
    if is_file(source):
        module, name = _import_file(source), Path(source).stem
        classes = _classes(module, kind)
    else:
        name, path = source, PACKAGE / FOLDERS[kind] / f"{source.replace('-', '_')}.py"
        classes = _classes(importlib.import_module(module_of(source, kind)), kind) if path.is_file() else []
        if not classes:
            known = ", ".join(shipped(kind))
            raise KoctError(f"must be one of {known}, or a Python file of your own (a path that ends in .py)")
    if len(classes) != 1:
        raise KoctError(
            f"{source} must define one subclass of {kind.__name__}, and defines {len(classes) or 'none'}: "
            f"see docs/your-own.md"
        )
    if is_file(source):
        _complete(classes[0], source)
    found: type[Contract] = classes[0]
    found.name, found.source = name, source
    return found


def _classes(module: ModuleType, kind: type) -> list[type]:
    """The classes of a kind that a module defines itself."""
    found = (value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, kind))
    return [value for value in found if value.__module__ == module.__name__]


def _complete(cls: type, source: str) -> None:
    """Refuse a class that lacks a method, or whose options cannot be checked."""
    missing = sorted(cls.__abstractmethods__)  # type: ignore[attr-defined]
    line = inspect.getsourcelines(cls)[1]
    if missing:
        raise KoctError(
            f"{source}, line {line}: class {cls.__name__} lacks {' and '.join(missing)}; "
            f"koct/contracts.py says what each of them does"
        )
    try:
        for option in cls.options().values():  # type: ignore[attr-defined]
            supported(option.kind)
    except (TypeError, NameError) as error:
        raise KoctError(f"{source}, line {line}: class {cls.__name__}: {error}") from None


def _import_file(source: str) -> ModuleType:
    """Import a user's file; what it imports from its own folder is found there, but hides nothing of Python's own."""
    path = Path(source).resolve()
    if not path.is_file():
        raise KoctError(f"{source} does not exist (looked in {os.getcwd()}); correct the path")
    folder = str(path.parent)
    if folder not in sys.path:
        installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        places = [i for i, entry in enumerate(sys.path) if entry in installed] or [len(sys.path)]
        sys.path.insert(places[0], folder)
    spec = importlib.util.spec_from_file_location(f"koct_file_{path.stem}_{zlib.crc32(bytes(path)):x}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    try:
        with blamed(source):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


@contextlib.contextmanager
def blamed(*sources: str) -> Iterator[None]:
    """Turn an exception out of a user's file into one sentence with the file and the line it came from."""
    try:
        yield
    except KoctError:
        raise
    except Exception as error:
        if os.environ.get("KOCT_TRACEBACK"):
            raise
        where = _place(error, [source for source in sources if is_file(source)])
        if where is None:
            raise
        what = str(error).strip().partition("\n")[0]
        raise KoctError(f"{where}: {type(error).__name__}: {what} (KOCT_TRACEBACK=1 shows the traceback)") from None


def _place(error: Exception, sources: list[str]) -> str | None:
    """The innermost line of a traceback that lies in the folder of one of the files."""
    folders = {str(Path(source).resolve().parent): os.path.dirname(source) for source in sources}
    if isinstance(error, SyntaxError) and error.filename and str(Path(error.filename).parent) in folders:
        return f"{_shown(error.filename, folders)}, line {error.lineno}"
    found, step = None, error.__traceback__
    while step is not None:
        filename = step.tb_frame.f_code.co_filename
        theirs = any(Path(filename).is_relative_to(folder) for folder in folders)
        if theirs and not Path(filename).is_relative_to(PACKAGE) and "site-packages" not in filename:
            found = f"{_shown(filename, folders)}, line {step.tb_lineno}"
        step = step.tb_next
    return found


def _shown(filename: str, folders: dict[str, str]) -> str:
    """A file's path as the config writes it."""
    folder = next(folder for folder in folders if Path(filename).is_relative_to(folder))
    return os.path.join(folders[folder], os.path.relpath(filename, folder))


def line_of(component: Problem | Architecture, method: str) -> str:
    """`mine/cnn.py, line 12`: where a component defines a method."""
    function = inspect.unwrap(getattr(type(component), method))
    line = function.__code__.co_firstlineno
    return f"{type(component).source}, line {line}"
