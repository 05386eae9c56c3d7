"""Which of the package's modules a stage is made of, so that a change to one reruns just the stages that use it."""

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# What cannot change a number: names of modules, messages, places of files. A new architecture refits no old one.
INERT = {"koct.problems", "koct.networks", "koct.errors", "koct.workflow.paths"}


@cache
def digest(*modules):
    """A short hash of the text of `modules` and of every koct module that they import, directly or not."""
    total = hashlib.sha256()
    for module in sorted(reached(modules) - INERT):
        total.update(f"{module}\0".encode() + _path(module).read_bytes() + b"\0")
    return total.hexdigest()[:16]


def reached(modules):
    """The names of `modules` and of all koct modules that they import, also inside functions."""
    found, todo = set(), list(modules)
    while todo:
        module = todo.pop()
        if module not in found:
            found.add(module)
            todo += _imports(module)
    return found


@cache
def _imports(module):
    names = set()
    for node in ast.walk(ast.parse(_path(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return sorted(name for name in names if name.startswith("koct.") and _path(name))


@cache
def _path(module):
    """The file of a module or package; None if `module` is a name inside one."""
    stem = PACKAGE.joinpath(*module.split(".")[1:])
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)
