"""What reruns what: the modules a stage is made of, and which module may know of which."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from koct.contracts import Architecture, Problem
from koct.contracts.registry import module_of
from koct.workflow import sources
from koct.workflow.sources import digest, reached

KO, FC = (module_of(name, Architecture) for name in ("ko", "fc"))


@pytest.mark.parametrize(
    ("modules", "used", "unused"),
    [
        (
            ["koct.problems.surrogate"],
            {"koct.operators.parallel", "koct.operators.algebra", "koct.problems.phantoms"},
            ("koct.report", "koct.networks", "koct.bound", "koct.forecast", "koct.prediction"),
        ),
        (
            ["koct.study.cells", KO],
            {"koct.networks.solvers", "koct.metrics", "koct.problems.pools"},
            (FC, "koct.config", "koct.study.results", "koct.cli", "koct.report"),
        ),
        (["koct.bound.calibration"], {"koct.errors"}, ("koct.problems", "koct.operators", "koct.networks")),
    ],
)
def test_a_stage_is_made_of_what_it_imports_and_of_nothing_else(modules, used, unused):
    assert used <= reached(modules)
    assert not [name for name in reached(modules) if name.startswith(unused)]


# What changes a digest


def forget():
    """What was read of files that have changed since."""
    for function in vars(sources).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def fresh(*modules):
    forget()
    return digest(*map(str, modules))


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
    "a line break and brackets": ("r**n + max(1, 2)", "(r ** n) + max(\n            1,\n            2,\n        )"),
}
OTHER = {
    "a constant": ("2.5", "2.6"),
    "an argument": ("r, n=3", "n=3, r=1"),
    "an import": ("import math", "import cmath as math"),
    "a statement": ("        return", "        r = r + 1\n        return"),
}


def test_code_changes_the_digest_and_comments_docstrings_and_layout_do_not(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(CODE)
    before = fresh(path)
    for change, replaced in {**SAME, **OTHER}.items():
        path.write_text(CODE)
        replace(path, *replaced)
        assert (fresh(path) == before) == (change in SAME), change


INERT = {  # by file
    "problems/surrogate.py": ("1e6 + 20", "2e6 + 30"),  # cost of a problem
    "problems/fanbeam.py": ('"fan beam"', '"fan"'),  # its label
    "networks/fc.py": ("7.7 * n**3", "8 * n**3"),  # cost of an architecture
    "networks/ko.py": ("self.toward is not None:", "problem.x_size > 5:"),  # its check
    "errors.py": ("class KoctError(", "OTHER = 1\n\n\nclass KoctError("),
}
LIVE = {
    "problems/surrogate.py": ("np.random.default_rng(seed)", "np.random.default_rng(seed + 1)"),
    "problems/ct.py": ('device = "auto"', 'device = "cpu"'),
    "networks/ko.py": ('{"w": w}', '{"w": -w}'),
    "base/arrays.py": ("def product(", "def product(*, "),  # which fits import
}
ALL = [*(module_of(name, Problem) for name in ("surrogate", "fanbeam")), KO, FC, "koct.study.cells"]


def test_digests_change_with_what_can_change_a_number(tmp_path, monkeypatch):
    """Of a copy of koct, which is edited."""
    package = tmp_path / "koct"
    shutil.copytree(ROOT / "koct", package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", package)

    def digests():
        forget()
        return [digest(module) for module in ALL]

    before = digests()
    for name, change in INERT.items():
        replace(package / name, *change)
    assert digests() == before
    for name, change in LIVE.items():
        text = (package / name).read_text()
        replace(package / name, *change)
        assert digests() != before, name
        (package / name).write_text(text)
    forget()


# A user's own files

EMPTY, PART = {"helper/__init__.py": ""}, {"helper/part.py": "x = 1"}
LAYOUTS = {
    "imported plainly": {"own.py": "import helper"},
    "by a module of a package": {"own.py": "import pack", "pack/__init__.py": "from helper import x"},
    "a name in a module of a package": {"own.py": "from helper.part import x", **EMPTY, **PART},
    "a module as a name of a package": {"own.py": "from helper import part", **EMPTY, **PART},
    "relative, by its package": {"own.py": "import helper", "helper/__init__.py": "from .part import x", **PART},
    "by its neighbour": {"own.py": "import helper.first", "helper/first.py": "import helper.part", **EMPTY, **PART},
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


def test_the_digest_does_not_depend_on_the_folder(folder):
    digests = set()
    for place in ("second/third", "aaa", "zzz"):
        home = folder / place
        (home / "pack").mkdir(parents=True)
        (home / "own.py").write_text("import helper\nimport pack\nfrom koct.contracts import Problem\n")
        (home / "helper.py").write_text("x = 1\n")
        (home / "pack/__init__.py").write_text("y = 1\n")
        digests |= {digest(str(home / "own.py")), digest(f"{place}/own.py"), digest(f"./{place}/own.py")}
    assert len(digests) == 1
    (home / "helper.py").rename(home / "helped.py")
    replace(home / "own.py", "import helper", "import helped")
    assert fresh(home / "own.py") not in digests


def test_what_was_parsed_is_kept_and_not_believed_when_it_is_damaged(folder, monkeypatch):
    (folder / ".snakemake").mkdir()

    def read():
        forget()
        return sources._read("koct.errors")

    before = read()
    sources.keep()
    path = Path(sources.KEPT)
    kept = path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_parsed", None)  # which nobody calls
        assert read() == before
    for damaged in (kept.replace(before.hash, before.hash[::-1]), kept[:-9], "[]", ""):
        path.write_text(damaged)
        assert read() == before
        assert not sources._kept()
