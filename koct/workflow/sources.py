"""Which code a stage of the workflow runs and which files of users it reads, as hashes: a change reruns what uses it.

A module is a dotted name of this package or the path of a user's own file. What counts is its syntax tree: comments,
docstrings and layout rerun nothing; of compiled files, all bytes do. A data file beside a module of this package counts
if the module names it.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from koct import PUBLIC, metrics
from koct.base.failures import say
from koct.base.imports import SUFFIXES, files_of_module, modules_in, not_theirs
from koct.base.stamps import checksum_of, digest_of_file, open_file
from koct.contracts import Architecture, Problem, registry
from koct.report.products import products
from koct.workflow.planned import DATA

PACKAGE = Path(__file__).parents[1]
DIGESTS = ".snakemake/koct.digests.json"
MOST_FILES = 100  # that a spec lists one by one
SETTLED = 60  # seconds after its last change that the digest of a file is kept: clocks differ, and are not exact
SLOW = 10**9  # bytes whose reading is announced
# What cannot change a number: messages, places of files, how options, problems and networks are found and encoded.
INERT = {"koct.errors", "koct.base.failures", "koct.base.imports", "koct.base.stamps", "koct.study.paths"}
INERT |= {f"koct.contracts.{name}" for name in ("blame", "options", "registry", "spec")}
EVALUATION = "koct.study.evaluation"
OF_FITS = {"evaluate": "fit", "transfer": "fit", "fit-torchrun": "fit"}  # stages whose specs have the code of a fit
# And neither can these parts of a problem or an architecture of koct; a user's may use them for anything.
INERT_PARTS = {"chain", "cost", "check", "label", "colour", "marker", "pictured", "hounsfield", "section"}

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
READ = {ast.Import, ast.ImportFrom, ast.Constant, ast.Call, *DOCUMENTED}  # nodes that are more than words


@cache
def digest(*modules: str) -> str:
    """Return a short hash of `modules` and of all that they import of koct and of their own folder."""
    of_koct = sorted(f"{one} {_read(one).hash}" for one in reached(modules) - INERT if not is_own(one))
    return _short([*of_koct, *(own_digest(module) for module in modules if is_own(module))])


@cache
def own_digest(module: str) -> str:
    """Return a short hash of a user's file and all that it imports from its folder, wherever that is."""
    start = os.path.realpath(module)
    used = filter(is_own, reached([start]))
    return _short(sorted(f"{os.path.relpath(one, os.path.dirname(start))} {_read(one).hash}" for one in used))


def _short(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def is_own(module: str) -> bool:
    """Return whether a module is the path of a user's file, and not a dotted name."""
    return module.endswith(SUFFIXES)


def reached(modules: Iterable[str]) -> set[str]:
    """Return `modules` and all that they import, also inside functions."""
    seen: set[str] = set()
    todo = [(module, os.path.dirname(os.path.realpath(module))) for module in modules]  # beside what a link leads to
    while todo:
        module, folder = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += ((other, folder) for other in _imports(module, folder))
    return seen


@cache
def imported(module: str, function: str) -> list[str]:
    """Return the modules of koct that a function of a module imports."""
    path = _path(module)
    assert path is not None
    (definition,) = (
        node
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    )
    names = {
        (node.module, f"{node.module}.{alias.name}")
        for node in ast.walk(definition)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return sorted(name if _path(name) else module for module, name in names)


class Module(NamedTuple):
    """What is read from a module's syntax tree."""

    hash: str
    imports: list[tuple[int, str]]  # every (level, name) in an import statement, also inside functions
    files: list[Path]  # its own, and the data files beside it that it names


@cache
def _read(module: str) -> Module:
    path = _path(module)
    assert path is not None
    text, own = path.read_bytes(), is_own(module)
    whole = Module(hashlib.sha256(text).hexdigest(), [(1, "*")], [path])  # which may import all that is beside it
    if own and path.suffix != ".py":
        return whole
    try:
        tree, imports, names = _parsed(text, str(path), own)
    except (SyntaxError, ValueError):  # a user's file may import it all the same, and go on without it
        if not own:
            raise
        return whole
    beside = [] if own else [path.with_name(name) for name in names]
    data = [file for file in beside if file.is_file()]
    if data:
        words = [tree, *(hashlib.sha256(file.read_bytes()).hexdigest() for file in data)]
        tree = hashlib.sha256(" ".join(words).encode()).hexdigest()
    return Module(tree, imports, [path, *data])


@cache
def _parsed(text: bytes, name: str, own: bool) -> tuple[str, list[tuple[int, str]], list[str]]:
    """Return the hash of a module's syntax tree, what it imports, and the names of data files in it.

    The tree has no comments, docstrings and layout, and in koct's own modules nothing that cannot change a number.
    """
    tree, imports, names = ast.parse(text, name), set[tuple[int, str]](), set[str]()
    for node in ast.walk(tree):
        if type(node) not in READ:  # most are not; this takes a third of the time
            continue
        if isinstance(node, ast.Import):
            imports.update((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = f"{node.module}." if node.module else ""
            imports.add((node.level, before.removesuffix(".")))
            imports.update((node.level, before + alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value.endswith(DATA):
                names.add(node.value)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "option" and not own:
                node.args = []  # its description
        elif isinstance(node, DOCUMENTED):
            bases = [base.id for base in getattr(node, "bases", ()) if isinstance(base, ast.Name)]
            contract = not own and any(base.endswith(("Problem", "Architecture")) for base in bases)
            docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
            node.body = [one for one in node.body if one not in docstring and not (contract and _is_inert(one))]
    words: list[str] = []
    _write(tree, words)
    code = " ".join(words).encode("utf-8", "surrogatepass")
    return hashlib.sha256(code).hexdigest(), sorted(imports), sorted(name for name in names if "/" not in name)


def _write(node: Any, words: list[str]) -> None:
    """Append a syntax tree as words that are the same in every version of Python: what is empty is left out."""
    if isinstance(node, list):
        for item in node:
            _write(item, words)
        words.append("end")
    elif isinstance(node, ast.AST):
        words.append(type(node).__name__)
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != [] and not isinstance(value, ast.expr_context):
                words.append(name)
                _write(value, words)
    else:
        words.append(repr(node))


def _is_inert(statement: ast.stmt) -> bool:
    """Return whether a statement in a problem or an architecture defines what cannot change a number."""
    if isinstance(statement, ast.FunctionDef):
        return statement.name in INERT_PARTS
    targets = statement.targets if isinstance(statement, ast.Assign) else [None]
    return all(isinstance(target, ast.Name) and target.id in INERT_PARTS for target in targets)


@cache
def _imports(module: str, folder: str) -> list[str]:
    """Return the modules of koct, and of the user's `folder`, that a module imports."""
    names = _read(module).imports
    absolute = [PUBLIC.get(name.removeprefix("koct."), name) for level, name in names if not level]
    imports = [name for name in absolute if name.startswith("koct.") and _path(name)]
    if is_own(module):
        for level, name in names:
            start = Path(module).parents[level - 1] if level else Path(folder)
            imports += map(str, _beside(start, name, level))
    return sorted(set(imports))


def _beside(folder: Path, name: str, level: int) -> Iterator[Path]:
    """Yield the files of a user's folder that an import of `name` runs; a package runs its __init__ files too."""
    parts = name.split(".") if name else []
    if not level and not_theirs(parts[0]):
        return
    for depth in range(0 if level else 1, len(parts) + 1):
        stem = folder.joinpath(*parts[:depth])
        if stem.name == "*":  # names in __all__ may be those of modules
            yield from modules_in(stem.parent) if stem.parent.is_dir() else ()
        for one in (stem, stem / "__init__") if depth else (stem / "__init__",):
            yield from files_of_module(one)


@cache
def _path(module: str) -> Path | None:
    """Return the file of a module or package; None if `module` is a name inside one."""
    if is_own(module):
        return Path(module)
    stem = PACKAGE.joinpath(*module.split(".")[1:])
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


# The code of a stage


def code(stage: str, spec: Mapping[str, Any]) -> str:
    """Return the hash of a stage's code; its spec names the problem and the architectures."""
    return digest(*modules(stage, spec))


def evaluation() -> tuple[str, ...]:
    """Return what turns a network into errors: it has a hash of its own, so that a new metric refits nothing."""
    return (EVALUATION, *metrics.modules())


def modules(stage: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a stage starts from: what its verb imports, and its problem, networks and metrics."""
    if stage in products():
        return (products()[stage].module,)
    stage = OF_FITS.get(stage, stage)
    names = [module for module in imported("koct.commands.stages", stage.replace("-", "_")) if module != EVALUATION]
    if stage == "collect":
        names += metrics.modules()
    if stage == "theory":
        names.append(metrics.module_of(metrics.column(spec["metric"])))
    if "problem" in spec:
        problem = spec["problem"]["source"]
        archs = [spec["arch"]["source"]] if "arch" in spec else spec.get("archs", [])
        names += [registry.module_of(problem, Problem), *(registry.module_of(arch, Architecture) for arch in archs)]
        if stage in ("fit", "theory", "figure-recons"):
            names.append(metrics.module_of(registry.problem(problem).validation_metric))
        if stage == "fit" and registry.architecture(archs[0]).launch == "torchrun":
            names.append("koct.study.distributed")
    return tuple(names)


def code_of(stage: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes that a spec has, of the code as it is now."""
    hashes = {"code": code(stage, spec), "evaluation": digest(*evaluation())}
    return {key: value for key, value in hashes.items() if key in spec}


def files_of(stage: str, spec: Mapping[str, Any]) -> set[str]:
    """Return the source files that a job runs, and the data files that these name."""
    starts = {*modules(stage, spec), *(evaluation() if "evaluation" in spec else ())}
    paths = {one: _read(one).files for one in reached(starts)}
    return {os.path.realpath(one) if is_own(one) else str(path) for one in paths for path in paths[one]}


# What jobs know of the files that a problem reads: digests of their contents, kept until a file changes


def checksums(problem: Problem) -> dict[str, Any]:
    """Return the digests of what a problem reads, under `files`, if it reads any: one, if there are many files."""
    digests = summed(contents(problem.files()))
    return {"files": digests} if digests else {}


def contents(paths: Iterable[str]) -> dict[str, str]:
    """Return the digests of files; of a folder, of all files below it."""
    paths = list(paths)
    digests = _digests([path for path in paths if not os.path.isdir(path)])
    for folder in filter(os.path.isdir, paths):
        files, links = _below(folder)
        digests[folder] = checksum_of(_digests(files) | links)
    return digests


def summed(digests: Mapping[str, str]) -> dict[str, str]:
    """Return one digest of many files, which every stamp would repeat, and those of a few as they are."""
    return {f"{len(digests)} files": checksum_of(digests)} if len(digests) > MOST_FILES else dict(digests)


def states(paths: Iterable[str]) -> dict[str, Any]:
    """Return what the system says of files and of all below folders: another content has another state."""
    by_file: dict[str, Any] = {}
    for path in paths:
        files, links = _below(path) if os.path.isdir(path) else ([path], {})
        by_file |= links
        for file in files:
            with contextlib.suppress(OSError):
                by_file[file] = _state(os.stat(file))
    return by_file


def _below(folder: str) -> tuple[list[str], dict[str, str]]:
    """Return all files below a folder, and the links that lead nowhere or to a folder that was seen: where they lead.

    Other links are followed.
    """
    files: list[str] = []
    links: dict[str, str] = {}
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        real = os.path.realpath(place)
        if real in seen:
            links[place] = os.path.relpath(real, os.path.realpath(folder))
            folders.clear()
            continue
        seen.add(real)
        for path in (os.path.join(place, name) for name in sorted(names)):
            if os.path.exists(path):
                files.append(path)
            else:
                links[path] = os.readlink(path)
    return files, links


def _state(about: os.stat_result) -> list[int]:
    """Return size, times and inode of a file; no `cp -p` or `touch` sets the time of its last change (ctime)."""
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]


def _digests(paths: list[str]) -> dict[str, str]:
    """Return the digest of every file. They are kept, and computed again when anything of a file differs."""
    about = {path: os.stat(path) for path in paths}
    settled = time.time() - SETTLED
    states = {path: _state(stat) for path, stat in about.items() if stat.st_ctime < settled}
    kept = _kept_digests() if states else {}
    digests = {path: kept[path][1] for path, state in states.items() if kept.get(path, [None])[0] == state}
    missing = [path for path in paths if path not in digests]
    size = sum(about[path].st_size for path in missing)
    if size > SLOW:
        say(f"reading {size / 1e9:.1f} GB of {', '.join(missing[:3])}{' …' * (len(missing) > 3)} for changes")
    with ThreadPoolExecutor() as threads:
        digests |= zip(missing, threads.map(digest_of_file, missing), strict=True)
    if new := {path: [states[path], digests[path]] for path in missing if path in states}:
        from koct.base.files import write_text  # which imports NumPy

        with contextlib.suppress(OSError):  # without them, the next run reads the files again
            write_text(DIGESTS, json.dumps({**kept, **new}))
    return {path: digests[path] for path in paths}


def _kept_digests() -> dict[str, Any]:
    """Return {path: (state, digest)} of what was computed before; nothing if that cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError), open_file(DIGESTS) as file:
        kept = json.load(file)
        return {path: (state, str(digest)) for path, (state, digest) in kept.items()}
    return {}
