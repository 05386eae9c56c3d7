"""What reruns what: the modules a stage is made of, and which module may know of which."""

import ast
import io
import re
import shutil
import subprocess
import sys
import tokenize

import pytest
from conftest import ROOT

from koct.contracts import Architecture, Problem, registry
from koct.contracts.registry import module_of
from koct.report.registry import module_of as product_module
from koct.report.registry import products
from koct.workflow import sources
from koct.workflow.sources import digest, reached

KO, FC = (module_of(name, Architecture) for name in ("ko", "fc"))
KOCT = sorted((ROOT / "koct").rglob("*.py"))


def test_imports_are_followed_through_the_package():
    found = reached(["koct.problems.surrogate"])
    assert {"koct.operators.parallel", "koct.operators.algebra", "koct.problems.phantoms"} <= found
    assert "koct.report.drawing" not in found


def test_a_fit_does_not_depend_on_reports_or_on_the_other_architecture():
    found = reached(["koct.study.cells", KO])
    assert {"koct.networks.linalg", "koct.metrics", "koct.problems.pools"} <= found
    assert not found & {FC, "koct.config.study_file", "koct.study.results", "koct.cli", "koct.report.table"}


def test_ct_knows_nothing_of_learning_and_risk_nothing_of_ct():
    learning = ("koct.networks", "koct.bound", "koct.forecast", "koct.prediction")
    assert not any(name.startswith(learning) for name in reached(["koct.problems.surrogate"]))
    assert all(name.startswith(("koct.bound", "koct.errors")) for name in reached(["koct.bound.calibration"]))


def test_the_digest_is_stable_and_tells_modules_apart():
    assert digest("koct.study.cells", KO) == digest("koct.study.cells", KO)
    assert digest("koct.study.cells", KO) != digest("koct.study.cells", FC)


# What changes a digest


def forget():
    """What was read of files that have changed since."""
    for function in vars(sources).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def fresh(*modules):
    forget()
    return digest(*map(str, modules))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of koct to edit, which digests are then made of."""
    copy = tmp_path / "koct"
    shutil.copytree(ROOT / "koct", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    yield copy
    forget()


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


CODE = '''"""A module."""

import math

FACTOR = 2.5


class Shape:
    """A shape."""

    def area(self, r, n=3):
        """Its area."""
        return FACTOR * math.pi * r**n + max(1, 2)
'''
SAME = {
    "a comment": ("FACTOR = 2.5\n", "# what follows\nFACTOR = 2.5  # a factor\n"),
    "a docstring": ('"""Its area."""', '"""The area\n\n        of a disc."""'),
    "no docstring": ('    """A shape."""\n\n', ""),
    "another first line": ('"""A module."""', "'''Shapes.'''"),
    "blank lines": ("\n\nclass", "\n\n\n\nclass"),
    "a line break": ("+ max(1, 2)", "+ max(\n            1,\n            2,\n        )"),
    "brackets": ("r**n", "(r ** n)"),
}
OTHER = {
    "a constant": ("2.5", "2.6"),
    "its type": ("max(1", "max(1.0"),
    "an operator": ("r**n +", "r**n -"),
    "a default argument": ("n=3", "n=4"),
    "an argument": ("r, n=3", "n=3, r=1"),
    "a name": ("math.pi", "math.tau"),
    "an import": ("import math", "import cmath as math"),
    "a statement": ("        return", "        r = r + 1\n        return"),
    "a decorator": ("    def area", "    @staticmethod\n    def area"),
    "a base class": ("class Shape:", "class Shape(dict):"),
    "cost of a class that is no problem": ("def area", "def cost"),
}


@pytest.mark.parametrize(("old", "new"), SAME.values(), ids=SAME)
def test_comments_docstrings_and_layout_leave_the_digest_alone(tmp_path, old, new):
    path = tmp_path / "own.py"
    path.write_text(CODE)
    before = fresh(path)
    replace(path, old, new)
    assert fresh(path) == before


@pytest.mark.parametrize(("old", "new"), OTHER.values(), ids=OTHER)
def test_code_changes_the_digest(tmp_path, old, new):
    path = tmp_path / "own.py"
    path.write_text(CODE)
    before = fresh(path)
    replace(path, old, new)
    assert fresh(path) != before


def test_a_cost_counts_where_it_computes(tmp_path):
    """`cost` is left out of problems and architectures, and of nothing else."""
    path = tmp_path / "own.py"
    for base, counts in (("Problem", False), ("TorchrunArchitecture", False), ("Network", True), ("dict", True)):
        text = f"class Own({base}):\n    def cost(self):\n        return 1\n    def fit(self):\n        return 1\n"
        path.write_text(text)
        before = fresh(path)
        replace(path, "cost(self):\n        return 1", "cost(self):\n        return 2")
        assert (fresh(path) != before) == counts
        path.write_text(text)
        replace(path, "fit(self):\n        return 1", "fit(self):\n        return 2")
        assert fresh(path) != before


INERT = {
    "cost of a problem": ("problems/surrogate.py", "1e6 + 20", "2e6 + 30"),
    "check of a problem": ("problems/surrogate.py", "if self.B != self.H:", "if self.B > self.H:"),
    "label of a problem": ("problems/fanbeam.py", '"fan beam"', '"fan"'),
    "cost of an architecture": ("networks/fc.py", "7.7 * n**3", "8 * n**3"),
    "check of an architecture": ("networks/ko.py", "if not problem.has_layers:", "if problem.x_size > 5:"),
    "label of an architecture": ("networks/fc.py", 'label = "FC"', 'label = "dense"'),
    "colour of an architecture": ("networks/ko.py", 'colour = "#', 'colour = "#f'),
    "messages": ("errors.py", "class KoctError(", "OTHER = 1\n\n\nclass KoctError("),
}
LIVE = {
    "pairs": ("problems/surrogate.py", "np.random.default_rng(seed)", "np.random.default_rng(seed + 1)"),
    "device of a problem": ("problems/fanbeam.py", 'device = "auto"', 'device = "cpu"'),
    "nonnegative": ("problems/fanbeam.py", "nonnegative = True", "nonnegative = False"),
    "a fit": ("networks/fc.py", "values.clip(min=0)", "values.clip(min=1e-12)"),
    "a network": ("networks/ko.py", "weighted(self.w, x)", "weighted(-self.w, x)"),
    "what a fit imports": ("networks/linalg.py", "def product(", "def product(*, "),
}
ALL = [*(module_of(name, Problem) for name in ("surrogate", "fanbeam")), KO, FC, "koct.study.cells"]


@pytest.mark.parametrize(("name", "old", "new"), INERT.values(), ids=INERT)
def test_what_cannot_change_a_number_leaves_all_digests_alone(package, name, old, new):
    before = [fresh(module) for module in ALL]
    replace(package / name, old, new)
    assert [fresh(module) for module in ALL] == before


@pytest.mark.parametrize(("name", "old", "new"), LIVE.values(), ids=LIVE)
def test_what_changes_a_number_changes_the_digest(package, name, old, new):
    before = [fresh(module) for module in ALL]
    replace(package / name, old, new)
    assert [fresh(module) for module in ALL] != before


# A user's own files

LAYOUTS = {
    "imported plainly": {"own.py": "import helper"},
    "a name of it": {"own.py": "from helper import x"},
    "under another name": {"own.py": "import helper as other"},
    "inside a function": {"own.py": "def pairs():\n    from helper import x\n    return x"},
    "where it is tried": {"own.py": "try:\n    import helper\nexcept ImportError:\n    helper = None"},
    "by another helper": {"own.py": "import first", "first.py": "import helper"},
    "a package": {"own.py": "import helper", "helper/__init__.py": "x = 1"},
    "a module of a package": {"own.py": "import helper.part", "helper/__init__.py": "", "helper/part.py": "x = 1"},
    "a name in a module of a package": {
        "own.py": "from helper.part import x",
        "helper/__init__.py": "",
        "helper/part.py": "x = 1",
    },
    "a module as a name of a package": {
        "own.py": "from helper import part",
        "helper/__init__.py": "",
        "helper/part.py": "x = 1",
    },
    "a folder without __init__": {"own.py": "import helper.part", "helper/part.py": "x = 1"},
    "relative, by its package": {
        "own.py": "import helper",
        "helper/__init__.py": "from .part import x",
        "helper/part.py": "x = 1",
    },
    "relative, as a module": {
        "own.py": "import helper",
        "helper/__init__.py": "from . import part",
        "helper/part.py": "x = 1",
    },
    "by its neighbour in a package": {
        "own.py": "import helper.first",
        "helper/__init__.py": "",
        "helper/first.py": "import helper.part",
        "helper/part.py": "x = 1",
    },
    "by a module of a package": {"own.py": "import pack", "pack/__init__.py": "from helper import x"},
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_helpers_in_a_users_folder_are_followed(tmp_path, layout):
    """Python finds the helper, and so does the digest."""
    if not any(name.startswith("helper/") for name in layout):
        layout = {**layout, "helper.py": "x = 1"}
    for name, text in layout.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    own, (helper,) = tmp_path / "own.py", [tmp_path / name for name, text in layout.items() if text == "x = 1"]
    run = "import sys, own; getattr(own, 'pairs', int)(); print(*sys.modules.values(), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert str(helper) in done.stdout
    before = fresh(own)
    assert str(helper) in reached([str(own)])
    helper.write_text("x = 2\n")
    assert fresh(own) != before


def test_names_of_the_standard_library_and_of_koct_are_not_looked_for_in_a_users_folder(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("import json\nimport math\nfrom koct.study import cells\nfrom koct import fbp\n")
    for name in ("json.py", "math.py", "cells.py", "koct.py", "unused.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert {path for path in reached([str(own)]) if path.endswith(".py")} == {str(own)}
    assert {"koct.study.cells", "koct.operators.fanbeam"} <= reached([str(own)])


def test_the_digest_does_not_depend_on_the_folder(tmp_path, monkeypatch):
    digests = set()
    for folder in ("first", "second/third", "aaa", "zzz"):
        home = tmp_path / folder
        (home / "pack").mkdir(parents=True)
        (home / "own.py").write_text("import helper\nimport pack\nfrom koct.contracts import Problem\n")
        (home / "helper.py").write_text("x = 1\n")
        (home / "pack/__init__.py").write_text("y = 1\n")
        monkeypatch.chdir(tmp_path)
        digests |= {fresh(home / "own.py"), fresh(f"{folder}/own.py"), fresh(f"./{folder}/own.py")}
    assert len(digests) == 1
    (home / "helper.py").rename(home / "helped.py")
    replace(home / "own.py", "import helper", "import helped")
    assert fresh(home / "own.py") not in digests


# Nothing outside its own file names a problem or an architecture

NAMES = {tuple(name.split("-")): name for kind in (Problem, Architecture) for name in registry.shipped(kind)}
del NAMES[("pairs",)]  # what every problem has, and a word of the language: only its module can be told from them
WORDS = {"koct.problems.pairs"}
OWN = {module_of(name, kind): name for kind in (Problem, Architecture) for name in registry.shipped(kind)}
PAPER = {product_module(name): {"PRODUCT"} for name in products()}  # captions
PAPER["koct.report.tables.table_fullscale"] |= {"table"}
PAPER["koct.report.tables.table_scaling"] |= {"table", "_versus"}
PAPER["koct.report.printed"] = {"PAIR"}  # the two networks of the paper
# An architecture says itself which one's cells it reads, or which one it is a variant of.
REQUIRED = {("koct.networks.fc_fsdp", "fc"), ("koct.networks.ko_ridge", "ko")}
REQUIRED |= {("koct.networks.ko_filter", name) for name in ("ko", "ko-ridge", "filter")}  # it contains them
REQUIRED |= {("koct.networks.ko_filter_adagrad", "ko-filter")}
REQUIRED |= {("koct.config.contract_suite", name) for name in ("fc", "ko", "deblur")}  # beside files that come alone
FREE = {"untrained", "fbp", "nnls", "tv"}  # words of the field: reports define them, and operators are called so
# Words that everybody needs: they name an architecture where nothing else is said, and where it is imported.
COMMON = {"filter", "filters", "taps"}
LADDER = {"untrained", "fbp", "nnls", "tv", "ko-filter-adagrad", "ko-ridge", "ko-filter", *COMMON}


def names_in(text):
    """Problems and architectures among the words of a text or the parts of an identifier, the longest first."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    words = re.findall(r"[a-z0-9]+", spaced.lower())
    while words:
        found = next((name for name in sorted(NAMES, key=len, reverse=True) if tuple(words[: len(name)]) == name), None)
        if found:
            yield NAMES[found]
        del words[: len(found or "1")]


def is_common(node, word, name):
    """Whether it is a word like any other."""
    alone = isinstance(node, ast.Constant | ast.alias) and word == name
    return name in COMMON and not alone and word != module_of(name, Architecture)


def is_allowed(module, name):
    """In its own file, and in those of operators, which may be called as the problem that uses them."""
    operator = name == "fanbeam" and module.startswith("koct.operators.")
    return OWN.get(module) == name or (module, name) in REQUIRED or operator or name in FREE


def offenders_in_python(module, text):
    """(line, name) of what a module names outside docstrings."""
    tree = ast.parse(text)
    skipped = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            skipped.add(body[0].value)
    for node in tree.body:
        defined = {getattr(node, "name", "")} | {getattr(target, "id", "") for target in getattr(node, "targets", [])}
        if defined & PAPER.get(module, set()):
            skipped |= set(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        words = [getattr(node, key, None) for key in ("name", "asname", "id", "attr", "arg", "module", "value")]
        for word in filter(lambda word: isinstance(word, str), words):
            if isinstance(node, ast.ImportFrom | ast.alias) and word.startswith("koct.operators."):
                continue
            if word in WORDS and module not in WORDS:
                yield getattr(node, "lineno", 0), word
            for name in names_in(word):
                if not is_allowed(module, name) and not is_common(node, word, name):
                    yield getattr(node, "lineno", 0), name


def offenders_in_rules(text):
    """(line, name) in a Snakefile, without its comments."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.STRING):
            names = names_in(token.string)
            yield from ((token.start[0], name) for name in names if name not in COMMON or token.string[1:-1] == name)


def offenders_in_yaml(text):
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, name) for name in names_in(re.sub(r"(^|\s)#.*", "", line)))


def test_nothing_outside_its_own_file_names_a_problem_or_an_architecture():
    assert (
        set(NAMES.values()) == {"surrogate", "fanbeam", "parallelbeam", "mri", "deblur", "ko", "fc", "fc-fsdp"} | LADDER
    )
    found = []
    for path in KOCT:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not module.startswith(("koct.bound", "koct.__init__")):  # the paper's terms, and operators
            found += [(path, *offender) for offender in offenders_in_python(module, path.read_text())]
    for path in [ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk"))]:
        found += [(path, *offender) for offender in offenders_in_rules(path.read_text())]
    for path in sorted((ROOT / "profiles").rglob("*.yaml")):
        found += [(path, *offender) for offender in offenders_in_yaml(path.read_text())]
    assert not found, "\n".join(f"{path.relative_to(ROOT)}:{line} names {name}" for path, line, name in found)


PLANTED = {
    "text": 'device = "auto" if problem == "fanbeam" else "cpu"',
    "words of a text": 'raise KoctError("the surrogate needs numba")',
    "an f-string": 'print(f"{n} cells of fc-fsdp")',
    "a key": 'COST = {"ko": 3}',
    "a function": "def draw_fanbeam(stream): ...",
    "a class": "class FcFsdpRow: ...",
    "a variable": "is_surrogate = True",
    "an attribute": "row = sweep.ko",
    "an argument": "def of(sweep, *, fc): ...",
    "a keyword": "dict(fc=1)",
    "an import": "import koct.problems.surrogate",
    "an import of a name": "from koct.networks.fc_fsdp import Trained",
    "an import of a module": "from koct.networks import ko",
    "an import in a function": "def f():\n    from koct.problems.fanbeam import CHUNK",
    "another name": "from koct.networks import linalg as fc",
    "a common word": 'COST = {"filter": 3}',
    "an import of a common word": "from koct.networks.taps import TapsNetwork",
    "an import of a module by a common word": "from koct.networks import filters",
    "an import of a problem that is called by a word": "from koct.problems.pairs import Found",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_name_that_is_planted_is_found(text):
    assert list(offenders_in_python("koct.study.cells", f'"""A module about the surrogate and KO."""\n{text}\n'))


def test_what_is_no_name_is_not_found():
    fine = "from koct.operators.fanbeam import FanBeam\nkoct = token = 'a book'\n\n\ndef f():\n    'Of KO and FC.'"
    assert not list(offenders_in_python("koct.study.cells", fine))
    assert not list(offenders_in_python("koct.study.cells", "taps = filter(None, ['ramp filter'])"))
    assert not list(offenders_in_python("koct.networks.ko", "class KONetwork: ..."))
    assert list(offenders_in_python("koct.networks.ko", "class FCNetwork: ..."))
    tables = "def _versus():\n    return 'ko'\n\n\nOTHER = 'ko'"
    assert list(offenders_in_python("koct.report.tables.table_scaling", tables)) == [(5, "ko")]
    rules = 'rule fit_ko:  # of fc\n    output: "results/fc-fsdp"\n'
    assert list(offenders_in_rules(rules)) == [(1, "ko"), (2, "fc-fsdp")]
    assert list(offenders_in_yaml("fc: 1\n# fc\na: fanbeam  # ko\n")) == [(1, "fc"), (3, "fanbeam")]
