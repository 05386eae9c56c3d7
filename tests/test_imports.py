"""Who imports whom in the package, and that nothing of others is replaced from outside."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from types import SimpleNamespace

from conftest import ROOT
from snakemake.parser import parse
from snakemake.sourcecache import infer_source_file

KOCT = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "koct").rglob("*.py"))
}


def imported(path):
    """(module, at module level) of every import; what only a type checker reads is left out."""

    def walk(node, top):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, top) for alias in child.names)
            if isinstance(child, ast.ImportFrom):
                assert not child.level or "plugins" in path.parts, f"{path} has a relative import"
                deeper = [f"{child.module}.{alias.name}" for alias in child.names]
                yield from ((name if name in KOCT else child.module, top) for name in deeper)
            yield from walk(child, top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    return set(walk(ast.parse(path.read_text()), True))


IMPORTS = {module: imported(path) for module, path in KOCT.items()}


def test_no_module_imports_itself_in_a_circle():
    graph = {module: {name for name, top in found if top} for module, found in IMPORTS.items()}
    TopologicalSorter(graph).prepare()  # which raises an error that names a circle


CONTRACTS = """
from koct.contracts import Architecture, Problem
from koct.contracts.registry import architecture, problem, shipped
list(map(problem, shipped(Problem))), list(map(architecture, shipped(Architecture)))
"""


def loaded(modules, packages):
    """Which of these packages are loaded with modules, and with every problem and architecture."""
    code = f"import sys, {', '.join(modules)}\n{CONTRACTS}\nprint({packages} & set(sys.modules))"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_planning_a_run_imports_nothing_heavy_and_a_job_starts_without_pydantic():
    """The workflow imports these modules, and every problem and architecture, at every start."""
    names = ("options", "registry", "spec", "blame")
    planning = ["koct.contracts", *(f"koct.contracts.{name}" for name in names)]
    planning += [name for name in IMPORTS if name.startswith("koct.workflow")]
    assert loaded(planning, {"numpy", "scipy", "torch", "numba", "pyarrow", "yaml", "matplotlib"}) == "set()\n"
    jobs = ["koct.cli", "koct.commands.stages", "koct.contracts.spec", "koct.study.cells", "koct.workflow.planned"]
    assert loaded(jobs, {"pydantic"}) == "set()\n"


# Rooms from the top down: a module imports from its own room and from those below.
ROOMS = ["commands", "workflow", "report config", "study", "networks problems", "contracts", "metrics forecast"]
ROOMS += ["bound prediction", "operators", "base"]
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms.split()}


def test_arrows_between_rooms_point_down():
    wrong = []
    for module, names in IMPORTS.items():
        room = module.split(".")[1] if module.count(".") > 1 or module.split(".")[-1] in FLOOR else None
        for name, _ in names:
            other = name.split(".")[1] if name.startswith("koct.") else None
            if room in FLOOR and other in FLOOR and other != room and FLOOR[other] <= FLOOR[room]:
                wrong.append(f"{module} imports {name}")
    assert not wrong, "\n".join(wrong)


def python_of(path):
    """The Python code of a file; Snakemake's own parser knows what rules mean."""
    if path.suffix == ".py":
        return path.read_text()
    with open(path) as file:
        workflow = SimpleNamespace(sourcecache=SimpleNamespace(open=lambda _: file))
        return parse(infer_source_file(str(path)), workflow, {})[0]


def replaced(code):
    """What is assigned, deleted or set of modules, classes and functions of others, or of what Snakemake gives.

    Fields of Snakemake's settings may be: plain dataclasses, which it reads when a run has started.
    """
    foreign, assigned = {"workflow", "logger", "rules", "config"}, set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            foreign |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names} - {"koct"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] != "koct":
            foreign |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            assigned.add(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            assigned.add(".".join(map(ast.unparse, node.args[:2])))
    allowed = {name for name in assigned if re.fullmatch(r"workflow\.\w+_settings\.\w+", name)}
    return {name for name in assigned if re.split(r"[.\[]", name)[0] in foreign} - allowed


def test_nothing_of_others_is_replaced():
    codes = ["import numpy as np\nnp.dot = f", "def f():\n from a import B\n setattr(B, name, 1)", "workflow.x.y = 1"]
    assert all(map(replaced, codes))
    assert not replaced("from koct import stamps\nstamps.guard = None\nworkflow.dag_settings.forcerun = {}\nself.x = 1")
    paths = [*KOCT.values(), ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
    assert {str(path): names for path in paths if (names := replaced(python_of(path)))} == {}
