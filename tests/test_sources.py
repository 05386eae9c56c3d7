"""What changes the digest of a stage's code: whatever can change a number, in any module that the stage uses."""

import shutil

import pytest
from conftest import ROOT

from koct.contracts import Architecture, Problem
from koct.contracts.registry import module_of
from koct.workflow import sources
from koct.workflow.sources import digest

MODULES = [*(module_of(name, Problem) for name in ("surrogate", "fanbeam")), "koct.study.cells"]
MODULES += [module_of(name, Architecture) for name in ("ko", "fc")]


def forget():
    """Forget what was read of files that have changed since; `_parsed` depends on their contents alone."""
    for function in vars(sources).values():
        if hasattr(function, "cache_clear") and function is not sources._parsed:
            function.cache_clear()


def fresh(*modules):
    forget()
    return [digest(str(module)) for module in modules]


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
    "problems/ct.py": ("image height and width in pixels", "pixels of an image"),  # description of an option
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


def test_digests_change_with_what_can_change_a_number(tmp_path, monkeypatch):
    """Of a copy of koct, which is edited."""
    package = tmp_path / "koct"
    shutil.copytree(ROOT / "koct", package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", package)
    before = fresh(*MODULES)
    for name, change in INERT.items():
        replace(package / name, *change)
    assert fresh(*MODULES) == before
    for name, change in LIVE.items():
        text = (package / name).read_text()
        replace(package / name, *change)
        assert fresh(*MODULES) != before, name
        (package / name).write_text(text)
    forget()


HIDDEN = {  # what own.py imports or uses, with what it is at first: no part of a user's file is inert
    "nt.py": "x = 1",  # the standard library of another system has one of this name
    "helper.so": "machine code of 1",
    "helper.pyc": "byte code of 1",
    "base.py": "class Mine(Problem):\n    label = 1\n",
    "own.py": "import nt, helper, base\nclass Own(Problem):\n    marker = 1\n    def chain(self): return 1\n",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_whatever_a_users_file_imports_counts_whole(folder, name):
    for path, text in HIDDEN.items():
        (folder / path).write_text(text)
    before = fresh("own.py")
    for count in range(HIDDEN[name].count("1")):
        words = HIDDEN[name].split("1")
        (folder / name).write_text("1".join(words[: count + 1]) + "2" + "1".join(words[count + 1 :]))
        assert fresh("own.py") != before


def test_the_contents_of_two_modules_of_one_name_are_not_exchanged_unnoticed(folder):
    def made(first, second):
        for place, text in (("a", first), ("b", second)):
            for path in (folder / place / "net.py", folder / "pack" / place / "part.py"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        (folder / "own.py").write_text("from pack.a import part\nfrom pack.b import part as other\n")
        forget()
        return digest("own.py"), digest("a/net.py", "b/net.py")

    one, two = made("x = 1", "x = 2"), made("x = 2", "x = 1")
    assert one[0] != two[0]
    assert one[1] != two[1]


PART = {"helper/__init__.py": "", "helper/part.py": "x = 1"}
LAYOUTS = [  # files in which own.py uses one with x = 1
    {"own.py": "import helper", "helper.py": "x = 1"},
    {"own.py": "import pack", "pack/__init__.py": "from helper import x", "helper.py": "x = 1"},
    {"own.py": "from helper.part import x", **PART},
    {"own.py": "from helper import part", **PART},
    {"own.py": "import helper", **PART, "helper/__init__.py": "from .part import x"},
    {"own.py": "import helper.first", "helper/first.py": "import helper.part", **PART},
    {"own.py": "from helper import *", **PART, "helper/__init__.py": "__all__ = ['part']"},
    {"own.py": "import compiled", "compiled.pyc": "byte code that imports helper", "helper.py": "x = 1"},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_helpers_in_a_users_folder_are_followed_wherever_it_is(folder, layout):
    (name,) = [name for name, text in layout.items() if text == "x = 1"]
    digests, changed = set(), set()
    for place in ("second/third", "aaa", "zzz"):
        for path, text in layout.items():
            (folder / place / path).parent.mkdir(exist_ok=True, parents=True)
            (folder / place / path).write_text(f"{text}\nfrom koct.contracts import Problem\n")
        digests |= {*fresh(folder / place / "own.py", f"{place}/own.py", f"./{place}/own.py")}
        (folder / place / name).write_text("x = 2\n")
        changed |= {*fresh(folder / place / "own.py")}
    assert len(digests) == len(changed) == 1
    assert digests != changed


def test_a_link_to_a_users_file_counts_with_what_is_beside_its_target(folder):
    (folder / "code").mkdir()
    (folder / "code/problem.py").write_text("import helper")
    (folder / "problem.py").symlink_to("code/problem.py")
    helper = folder / "code/helper.py"
    seen = set()
    for text in ("x = 1", "x = 2", "x =", f"x = {'9' * 5000}"):  # the last two are read as they are, not as code
        helper.write_text(text)
        assert fresh("problem.py") == fresh("code/problem.py")
        seen |= {*fresh("problem.py")}
    assert len(seen) == 4
