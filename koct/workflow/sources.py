"""Which code a stage of the workflow runs, as a hash: a change to a module reruns just the stages that use it.

A module is a dotted name of this package or the path of a user's own file. What counts is its syntax tree: comments,
docstrings and layout rerun nothing. A data file beside a module of this package counts if the module names it.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from koct import PUBLIC, metrics
from koct.contracts import Architecture, Problem, registry
from koct.report.products import module_of as product_module
from koct.report.products import products
from koct.workflow.planned import DATA

PACKAGE = Path(__file__).parents[1]
KEPT = ".snakemake/koct.sources.json"
Parsed = tuple[str, list[tuple[int, str]], list[str]]  # hash of the syntax tree, its imports, names of data files
# What cannot change a number: messages, places of files, how options, problems and networks are found and encoded.
INERT = {
    "koct.contracts.blame",
    "koct.errors",
    "koct.contracts.options",
    "koct.contracts.registry",
    "koct.contracts.spec",
    "koct.base.stamps",
}
INERT |= {"koct.base.failures", "koct.study.paths"}
EVALUATION = "koct.study.evaluation"
OF_FITS = {"evaluate": "fit", "fit-torchrun": "fit"}  # stages whose specs have the code of a fit
# And neither can these parts of a problem or an architecture.
INERT_PARTS = {"chain", "cost", "check", "label", "colour", "marker", "pictured", "section"}


@cache
def digest(*modules: str) -> str:
    """A short hash of the code of `modules` and of every module of koct, or of their own folder, that they import."""
    found = sorted(f"{_name(module)} {_read(module).hash}" for module in reached(modules) - INERT)
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]


def reached(modules: Iterable[str]) -> set[str]:
    """`modules` and all that they import, also inside functions."""
    found: set[str] = set()
    todo = [(module, str(Path(module).parent)) for module in modules]
    while todo:
        module, folder = todo.pop()
        if module not in found:
            found.add(module)
            todo += ((other, folder) for other in _imports(module, folder))
    return found


@cache
def imported(module: str, function: str) -> list[str]:
    """Return the modules of koct that a function of a module imports."""
    body = ast.parse(file_of(module).read_bytes()).body
    (found,) = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == function)
    names = {
        (node.module, f"{node.module}.{alias.name}")
        for node in ast.walk(found)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return sorted(name if _path(name) else module for module, name in names)


def file_of(module: str) -> Path:
    """Return where the code of a module is."""
    path = _path(module)
    assert path is not None
    return path


def _name(module: str) -> str:
    """A user's file goes by its name alone: a moved folder reruns nothing."""
    return Path(module).name if module.endswith(".py") else module


class Module(NamedTuple):
    """What is read from a module's syntax tree."""

    hash: str
    imports: list[tuple[int, str]]  # every (level, name) in an import statement, also inside functions
    data: list[Path]  # the data files beside it that it names


@cache
def _read(module: str) -> Module:
    path = file_of(module)
    text = path.read_bytes()
    key = hashlib.sha256(text).hexdigest()
    tree, imports, names = _USED[key] = _kept().get(key) or _parsed(text, str(path))
    beside = [] if module.endswith(".py") else [path.with_name(name) for name in names]
    data = [file for file in beside if file.is_file()]
    if data:
        words = [tree, *(hashlib.sha256(file.read_bytes()).hexdigest() for file in data)]
        tree = hashlib.sha256(" ".join(words).encode()).hexdigest()
    return Module(tree, imports, data)


def _parsed(text: bytes, name: str) -> Parsed:
    """Hash a file without comments, docstrings, layout and what cannot change a number; also what it imports."""
    tree, imports, words = ast.parse(text, name), set[tuple[int, str]](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports.update((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = f"{node.module}." if node.module else ""
            imports.add((node.level, before.removesuffix(".")))
            imports.update((node.level, before + alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(DATA):
            words.add(node.value)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            contract = isinstance(node, ast.ClassDef) and any(map(_names_contract, node.bases))
            docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
            node.body = [one for one in node.body if one not in docstring and not (contract and _is_inert(one))]
    code = " ".join(_words(tree)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(code).hexdigest(), sorted(imports), sorted(word for word in words if "/" not in word)


def _words(node: Any) -> list[str]:
    """Return a syntax tree as words that are the same in every version of Python: what is empty is left out."""
    if isinstance(node, list):
        return [word for item in node for word in _words(item)] + ["end"]
    if not isinstance(node, ast.AST):
        return [repr(node)]
    words = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if value is not None and value != [] and not isinstance(value, ast.expr_context):
            words += name, *_words(value)
    return words


def _names_contract(base: ast.expr) -> bool:
    return isinstance(base, ast.Name) and base.id.endswith(("Problem", "Architecture"))


def _is_inert(statement: ast.stmt) -> bool:
    """Whether a statement in a problem or an architecture defines what cannot change a number."""
    if isinstance(statement, ast.FunctionDef):
        return statement.name in INERT_PARTS
    targets = statement.targets if isinstance(statement, ast.Assign) else [None]
    return all(isinstance(target, ast.Name) and target.id in INERT_PARTS for target in targets)


# Parsing all of koct takes a second, so what it gave is kept by the content of each file.
_USED: dict[str, Parsed] = {}


@cache
def _kept() -> dict[str, Parsed]:
    """Return what was read before by this version of this module; nothing if that cannot be told."""
    try:
        kept = json.loads(Path(KEPT).read_bytes())
        whole = kept["by"] == _signature(kept["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return kept["files"] if whole else {}


def keep() -> None:
    """Write down what was read, for the next run."""
    if _USED.keys() - _kept().keys():
        from koct.base.files import write_text  # which imports NumPy

        with contextlib.suppress(OSError):
            write_text(KEPT, signed(_USED))


def signed(files: Mapping[str, Parsed]) -> str:
    return json.dumps({"by": _signature(files), "files": files})


def _signature(files: Mapping[str, Parsed]) -> str:
    return hashlib.sha256(Path(__file__).read_bytes() + json.dumps(files).encode()).hexdigest()


@cache
def _imports(module: str, folder: str) -> list[str]:
    """The modules of koct, and of the user's `folder`, that a module imports."""
    names = _read(module).imports
    absolute = [PUBLIC.get(name.removeprefix("koct."), name) for level, name in names if not level]
    found = [name for name in absolute if name.startswith("koct.") and _path(name)]
    if module.endswith(".py"):
        for level, name in names:
            start = Path(module).parents[level - 1] if level else Path(folder)
            found += map(str, _beside(start, name, level))
    return sorted(found)


def _beside(folder: Path, name: str, level: int) -> Iterator[Path]:
    """The files of a user's folder that an import of `name` runs; a package runs its __init__ files too."""
    parts = name.split(".") if name else []
    if not level and (parts[0] in sys.stdlib_module_names or parts[0] == "koct"):
        return
    for depth in range(0 if level else 1, len(parts) + 1):
        stem = folder.joinpath(*parts[:depth])
        files = (stem.with_suffix(".py"), stem / "__init__.py") if depth else (stem / "__init__.py",)
        yield from (path for path in files if path.is_file())


@cache
def _path(module: str) -> Path | None:
    """The file of a module or package; None if `module` is a name inside one."""
    if module.endswith(".py"):
        return Path(module)
    stem = PACKAGE.joinpath(*module.split(".")[1:])
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


# The code of a stage


def code(stage: str, spec: Mapping[str, Any]) -> str:
    """The hash of a stage's code; its spec names the problem and the architectures."""
    return digest(*modules(stage, spec))


def evaluation() -> str:
    """The hash of what turns a network into errors: of its own, so that a new metric refits nothing."""
    return digest(*_evaluation())


def _evaluation() -> tuple[str, ...]:
    return (EVALUATION, *metrics.modules())


def modules(stage: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What a stage starts from: what its verb imports, and its problem, networks and metrics."""
    if stage in products():
        return (product_module(stage),)
    stage = OF_FITS.get(stage, stage)
    found = [module for module in imported("koct.commands.stages", stage.replace("-", "_")) if module != EVALUATION]
    if stage in ("collect", "theory"):
        found += metrics.modules()
    if "problem" in spec:
        problem = spec["problem"]["source"]
        archs = [spec["arch"]["source"]] if "arch" in spec else spec.get("archs", [])
        found += [registry.module_of(problem, Problem), *(registry.module_of(arch, Architecture) for arch in archs)]
        if stage in ("fit", "figure-recons"):
            found.append(metrics.module_of(registry.problem(problem).validation_metric))
        if stage == "fit" and registry.architecture(archs[0]).launch == "torchrun":
            found.append("koct.study.distributed")
    return tuple(found)


def code_of(stage: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """The hashes that a spec has, of the code as it is now."""
    found = {"code": code(stage, spec), "evaluation": evaluation()}
    return {key: value for key, value in found.items() if key in spec}


def files_of(stage: str, spec: Mapping[str, Any]) -> set[str]:
    """The source files that a job runs, and the data files that these name."""
    started = {*modules(stage, spec), *(_evaluation() if "evaluation" in spec else ())}
    return {os.path.abspath(path) for one in reached(started) for path in (file_of(one), *_read(one).data)}
