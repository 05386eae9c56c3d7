"""Who imports whom in the package."""

import ast
import subprocess
import sys

from conftest import ROOT

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


def cycle(graph):
    """Some modules that import each other, in order; empty if there are none."""
    done = set()

    def visit(module, path):
        if module in path:
            return [*path[path.index(module) :], module]
        if module not in done:
            for other in sorted(graph.get(module, ())):
                if found := visit(other, [*path, module]):
                    return found
            done.add(module)
        return []

    return next(filter(None, (visit(module, []) for module in sorted(graph))), [])


IMPORTS = {module: imported(path) for module, path in KOCT.items()}


def test_no_module_imports_itself_in_a_circle():
    graph = {module: {name for name, top in found if top} for module, found in IMPORTS.items()}
    assert cycle(graph) == []
    graph["koct.errors"] = {"koct.cli"}
    assert cycle(graph)[0] == cycle(graph)[-1]


CONTRACTS = """
from koct.contracts import Architecture, Problem
from koct.contracts.registry import architecture, problem, shipped
list(map(problem, shipped(Problem))), list(map(architecture, shipped(Architecture)))
"""


def loaded(modules, packages):
    """Which of these packages are loaded with modules, and with every problem and architecture."""
    code = f"import sys, {', '.join(modules)}\n{CONTRACTS}\nprint({packages} & set(sys.modules))"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_planning_a_run_imports_nothing_heavy():
    """The workflow imports these modules, and every problem and architecture, at every start."""
    names = ("options", "registry", "spec", "blame")
    planning = ["koct.contracts", *(f"koct.contracts.{name}" for name in names)]
    planning += [name for name in IMPORTS if name.startswith("koct.workflow")]
    for module in planning:
        for name in (name for name, top in IMPORTS[module] if top):
            assert name.split(".")[0] in {"koct", *sys.stdlib_module_names}, f"{module} imports {name}"
    assert loaded(planning, {"numpy", "scipy", "torch", "numba", "pyarrow", "yaml", "matplotlib"}) == "set()\n"


def test_a_job_starts_without_pydantic():
    jobs = ["koct.cli", "koct.commands.stages", "koct.contracts.spec", "koct.study.cells", "koct.workflow.planned"]
    assert loaded(jobs, {"pydantic"}) == "set()\n"


# Rooms from the top down: a module imports from its own room and from those below.
ROOMS = [
    ("commands",),
    ("workflow",),
    ("report", "config"),
    ("study",),
    ("networks", "problems"),
    ("contracts",),
    ("metrics", "forecast"),
    ("bound", "prediction"),
    ("operators",),
    ("base",),
]
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}


def test_arrows_between_rooms_point_down():
    wrong = []
    for module, names in IMPORTS.items():
        room = module.split(".")[1] if module.count(".") > 1 or module.split(".")[-1] in FLOOR else None
        for name, _ in names:
            other = name.split(".")[1] if name.startswith("koct.") else None
            if room in FLOOR and other in FLOOR and other != room and FLOOR[other] <= FLOOR[room]:
                wrong.append(f"{module} imports {name}")
    assert not wrong, "\n".join(wrong)
