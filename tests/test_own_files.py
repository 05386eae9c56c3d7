"""Problems and networks in files of a user's own, and `koct check`: what is wrong is one sentence with its line."""

import os
import re
from pathlib import Path

import pytest
from conftest import TINY_SWEEP

from koct.config.study_file import build
from koct.contracts import registry
from koct.contracts.spec import decode_problem, encode_problem
from koct.errors import KoctError

PROBLEM = '''"""Two numbers in, three out."""

import numpy as np

from koct.contracts import Layer, Problem, option


class Own(Problem):
    size: int = option("numbers of x", default=2, minimum=1)

    @property
    def x_shape(self):
        return (self.size,)

    @property
    def y_shape(self):
        return (3,)

    def pairs(self, seed, sizes):
        rng = np.random.default_rng(seed)
        for part in ("train", "val", "test"):
            x = rng.random((getattr(sizes, part), self.size))
            yield part, x, x @ np.arange(3.0 * self.size).reshape(self.size, 3)
'''
ARCH = '''"""A matrix by least squares."""

import numpy as np

from koct.contracts import Architecture, Network


class Own(Architecture):
    def fit(self, data):
        for lam in data.lambdas:
            normal = data.x.T @ data.x + lam * np.eye(2)
            yield lam, OwnNetwork(np.linalg.solve(normal, data.x.T @ data.y))

    def restore(self, state, data):
        return OwnNetwork(state["matrix"])


class OwnNetwork(Network):
    def __init__(self, matrix):
        self.matrix = matrix

    def predict(self, x):
        return x @ self.matrix

    def state(self):
        return {"matrix": self.matrix}
'''


def written(folder, name, text, old="", new=""):
    """The path of a file with this text, in which `new` takes the place of `old`."""
    assert old in text
    path = folder / name
    path.write_text(text.replace(old, new, 1) if old else text)
    return str(path)


def line(path, text):
    """`path, line N`: where a file has this text."""
    lines = Path(path).read_text().splitlines()
    return f"{path}, line {next(i for i, found in enumerate(lines, 1) if text in found)}"


LAYERS = """
    def shared(self):
        return {"matrix": np.arange(6.0).reshape(3, 2)}

    def layers(self, shared):
        from koct.operators.algebra import Diagonal, Matrix, Operator

        class Own(Operator):
            def _apply(self, x):
                return x @ shared["matrix"].T

            def _adjoint(self, y):
                return y @ shared["matrix"]

        return [Layer("weights", Diagonal(np.ones(2))), Layer("matrix", Own((2,), (3,)))]

    def normal_matrix(self, shared):
        return shared["matrix"].T @ shared["matrix"]
"""


def test_correct_files_keep_their_promises(koct, tmp_path):
    problem = written(tmp_path, "own.py", PROBLEM + LAYERS)
    status, out, error = koct("check", problem, written(tmp_path, "matrix.py", ARCH), "--set", "size=2")
    assert (status, error) == (0, "")
    assert "FAILED" not in out
    assert out.count(f"ok      {problem} ") == 7
    assert f"ok      {tmp_path}/matrix.py is restored from what its state() stored\n" in out
    status, out, _ = koct("check", problem)
    assert status == 0
    assert {"ok      fc is restored", "ok      ko is restored"} <= {line[:22] for line in out.splitlines()}


def test_a_network_alone_is_fitted_to_a_problem_of_koct(koct, tmp_path):
    path = written(tmp_path, "matrix.py", ARCH.replace("np.eye(2)", "np.eye(data.x.shape[1])"))
    status, out, _ = koct("check", path)
    assert status == 0
    assert f"ok      {path} is fitted to samples of deblur" in out


DESCRIBED = 'option("numbers of x", default=2, minimum=1)'
YIELDED = "yield lam, OwnNetwork(np.linalg.solve(normal, data.x.T @ data.y))"
SOLVED = "np.linalg.solve(normal, data.x.T @ data.y)"
APPLIED = "x @ self.matrix"
STATE = '{"matrix": self.matrix}'
METHOD = "def launch(self):\n        pass\n\n    def fit("
WRONG = {  # what: (file, old, new, the promise that is broken, the line that is named, words of the sentence)
    "syntax": ("own", "(self, seed, sizes):", "(self, seed, sizes)", "has one", "def pairs", "SyntaxError"),
    "exception": ("own", "class Own(P", "1 / 0\n\n\nclass Own(P", "has one", "1 / 0", "ZeroDivisionError: division"),
    "no method": ("own", "def pairs", "def couples", "has one", "class Own", "lacks pairs"),
    "type": ("own", "size: int", "size: dict", "has one", "class Own", "an option cannot be <class"),
    "no type": ("own", "size: int =", "size =", "has one", "class Own", "'size' is a field but has no type"),
    "description": ("own", DESCRIBED, "2", "has one", "class Own", "the option size has no description"),
    "a method launch": ("net", "def fit(", METHOD, "has one", "class Own", "launch"),
    "an option source": ("own", "size: int", "source: int", "has one", "class Own", "source"),
    "no tuple": (
        "own",
        "(self.size,)",
        "self.size",
        "has options",
        "",
        "has the shape 2; give a tuple of whole numbers",
    ),
    "device": ("own", "    size", '    device = "gpu"\n    size', "has options", "", "it must be one of cpu"),
    "shape": ("own", "(self.size,)", "(4,)", "draws 16 pairs", "def pairs", "x has shape (2,), and x_shape says"),
    "no pairs": ("own", "yield part, x, x", "yield part, x  #", "draws 16 pairs", "def pairs", "pairs yielded"),
    "seed": ("own", "rng(seed)", "rng()", "draws the same pairs", "def pairs", "draw them from the seed"),
    "no seed": ("own", "rng(seed)", "rng(0)", "draws the same pairs", "def pairs", "use the seed"),
    "shared": ("own", 'return {"matrix"', "return {1", "has shared arrays", "", "koct cannot use what"),
    "adjoint": ("own", 'y @ shared["matrix"]', "y[:, :2]", "has layers", "def _adjoint", "is not its transpose"),
    "ends": ("own", ', Layer("matrix", Own((2,), (3,)))', "", "has layers", "def layers", "lead from (2,) to (2,)"),
    "normal": ("own", 'shared["matrix"].T @', '2 * shared["matrix"].T @', "has inverses", "def normal", "is not RᵀR"),
    "images": ("net", APPLIED, "x", "is fitted", "def fit", "give flat images"),
    "NaN": ("net", APPLIED, f"np.nan * {APPLIED}", "is fitted", "def fit", "no fit gave a finite"),
    "no network": ("net", YIELDED, "yield lam, normal", "is fitted", "def fit", "fit yielded tuple; yield"),
    "returned": ("net", YIELDED, "return None", "is fitted", "def fit", "fit returned NoneType"),
    "in fit": ("net", YIELDED, "yield ValueError.odd", "is fitted", "ValueError.odd", "AttributeError: type object"),
    "not needed": ("net", "data.x.T @ data.x ", "data.normal ", "is fitted", "def fit", "needs() does not name it"),
    "no state": ("net", STATE, "None", "is fitted", "", "koct cannot use what"),
    "restore": ("net", 'state["matrix"])', '2 * state["matrix"])', "is restored", "def restore", "something else"),
    "fit": ("net", SOLVED, f"{SOLVED} + np.random.rand()", "is the same network", "def fit", "draw from data.seed"),
    "batch": ("net", APPLIED, "(x - x.mean(0)) @ self.matrix", "predicts a sample", "def fit", "mixes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_promise_is_named_with_its_line(koct, tmp_path, name):
    which, old, new, promise, place, fix = WRONG[name]
    files = {"own": PROBLEM + LAYERS, "net": ARCH}
    files[which] = files[which].replace(old, new)
    paths = {key: written(tmp_path, f"{key}.py", text) for key, text in files.items()}
    status, out, _ = koct("check", *paths.values())
    (broken,) = [text for text in out.splitlines() if text.startswith("FAILED")]
    assert status == 1
    assert broken.startswith(f"FAILED  {paths[which]} {promise}")
    assert (line(paths[which], place) if place else paths[which]).removeprefix(f"{tmp_path}/") in broken
    assert fix in broken


def test_a_file_has_one_class_and_exists(tmp_path):
    two = written(tmp_path, "two.py", PROBLEM + "\n\nclass Other(Own):\n    pass\n")
    for path, message in (
        (two, f"{two} must define one subclass of Problem, and defines 2"),
        (f"{tmp_path}/no.py", f"{tmp_path}/no.py does not exist (looked in {os.getcwd()}); correct the path"),
        ("fan-beam", "must be one of anatomy, deblur, ellipses50, fanbeam, misaligned, mri, pairs, "),
    ):
        with pytest.raises(KoctError, match="^" + re.escape(message)):
            registry.problem(path)


def test_a_file_imports_from_its_own_folder_and_never_from_that_of_another(tmp_path):
    """Also inside a method; the second file with a helper of this name is refused."""
    beside = "from same_name import SHAPE\n" + PROBLEM
    inside = "from helpers_beside.deep import shape\n\n        return shape()"
    for size in (2, 5):
        folder = tmp_path / f"of{size}"
        (folder / "helpers_beside").mkdir(parents=True)
        (folder / "helpers_beside/deep.py").write_text("def shape():\n    return (3,)\n")
        (folder / "same_name.py").write_text(f"SHAPE = ({size},)\n")
        path = written(folder, "own.py", beside.replace("(self.size,)", "SHAPE"), "return (3,)", inside)
        if size == 2:
            assert (registry.problem(path)().x_shape, registry.problem(path)().y_shape) == ((2,), (3,))
        else:
            with pytest.raises(KoctError, match="imports same_name, and another file has one from"):
                registry.problem(path)


def test_other_names_are_the_users(tmp_path):
    """Options are looked up in the class, by functions: no method of a user's hides them."""
    text = re.sub(r"\bsize\b", "values", PROBLEM)
    text = text.replace("@property", "source = options = 3\n\n    def build(self):\n        pass\n\n    @property", 1)
    problem = registry.problem(written(tmp_path, "own.py", text))
    sweep = {**TINY_SWEEP, "problem": problem.source, "values": 2, "archs": ["fc"]}
    made = build("S", {key: sweep[key] for key in sweep.keys() - {"H", "V", "B", "tikhonov"}}).problem
    assert made.values == 2
    assert decode_problem(encode_problem(made, layers=True)) == made
