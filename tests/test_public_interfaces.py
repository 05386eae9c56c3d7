"""Other people's code is used through its public interface: nothing of it is replaced from outside."""

import ast
import re
from types import SimpleNamespace

import pytest
from conftest import ROOT
from snakemake.parser import parse
from snakemake.sourcecache import infer_source_file

GIVEN = {"workflow", "logger", "rules", "config"}  # what Snakemake gives to a Snakefile
# Fields of Snakemake's settings: plain dataclasses, which it reads when a run has started.
SETTINGS = re.compile(r"workflow\.\w+_settings\.\w+")


def sources():
    yield from sorted((ROOT / "koct").rglob("*.py"))
    yield ROOT / "Snakefile"
    yield from sorted((ROOT / "rules").glob("*.smk"))


def python_of(path):
    """The Python code of a file; Snakemake's own parser knows what rules mean."""
    if path.suffix == ".py":
        return path.read_text()
    with open(path) as file:
        workflow = SimpleNamespace(sourcecache=SimpleNamespace(open=lambda _: file))
        return parse(infer_source_file(str(path)), workflow, {})[0]


def foreign(tree):
    """The names in a file that are modules, classes or functions of others, or objects that Snakemake gives."""
    names = set(GIVEN)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names} - {"koct"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] != "koct":
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def assigned(tree):
    """The attributes that are assigned, deleted or set in a file, as written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            yield ".".join(map(ast.unparse, node.args[:2]))


def replaced(code):
    tree = ast.parse(code)
    names = foreign(tree)
    allowed = {name for name in assigned(tree) if SETTINGS.fullmatch(name)}
    return {name for name in assigned(tree) if re.split(r"[.\[]", name)[0] in names} - allowed


@pytest.mark.parametrize(
    "code",
    ["import numpy as np\nnp.dot = f", "def f():\n from a import B\n setattr(B, name, 1)", "workflow.scheduler.x = 1"],
)
def test_a_replacement_is_noticed(code):
    assert replaced(code)


def test_settings_and_what_is_koct_s_are_no_replacement():
    assert not replaced("from koct import stamps\nstamps.guard = None\nworkflow.dag_settings.forcerun = {}\nself.x = 1")


def test_nothing_of_others_is_replaced():
    assert {str(path): names for path in sources() if (names := replaced(python_of(path)))} == {}
