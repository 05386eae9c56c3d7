"""Problems and networks in files of a user's own, and `koct check`: what is wrong is one sentence with its line."""

import os
from pathlib import Path

import pytest

from koct.config.study_file import build
from koct.contracts import Sizes, registry
from koct.contracts.spec import decode_problem, encode_problem
from koct.errors import KoctError

SIZES = Sizes(train=4, val=3, test=3)
PROBLEM = '''"""Two numbers in, three out."""

import numpy as np

from koct.contracts import Layer, Problem, option


class Own(Problem):
    noise: float = option("standard deviation of the noise", default=0.0, minimum=0)

    @property
    def x_shape(self):
        return (2,)

    @property
    def y_shape(self):
        return (3,)

    def pairs(self, seed, sizes):
        rng = np.random.default_rng(seed)
        for part in ("train", "val", "test"):
            x = rng.random((getattr(sizes, part), 2))
            yield part, x, x @ np.arange(6.0).reshape(2, 3)
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
    status, out, error = koct("check", problem, written(tmp_path, "matrix.py", ARCH), "--set", "noise=0.5")
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


DESCRIBED = 'option("standard deviation of the noise", default=0.0, minimum=0)'
YIELDED = "yield lam, OwnNetwork(np.linalg.solve(normal, data.x.T @ data.y))"
SOLVED = "np.linalg.solve(normal, data.x.T @ data.y)"
APPLIED = "x @ self.matrix"
STATE = '{"matrix": self.matrix}'
METHOD = "def {}(self):\n        pass\n\n    def fit("
WRONG = {  # what: (file, old, new, the promise that is broken, the line that is named, words of the sentence)
    "import": (
        "own",
        "import numpy as np",
        "import no_such",
        "has one",
        "import no_such",
        "ModuleNotFoundError",
    ),
    "syntax": (
        "own",
        "(self, seed, sizes):",
        "(self, seed, sizes)",
        "has one",
        "def pairs",
        "SyntaxError",
    ),
    "exception": (
        "own",
        "class Own(P",
        "1 / 0\n\n\nclass Own(P",
        "has one",
        "1 / 0",
        "ZeroDivisionError: division",
    ),
    "no method": ("own", "def pairs", "def couples", "has one", "class Own", "lacks pairs"),
    "type": (
        "own",
        "noise: float",
        "noise: dict",
        "has one",
        "class Own",
        "an option cannot be <class",
    ),
    "no type": ("own", "noise: float =", "noise =", "has one", "class Own", "'noise' is a field but has no type"),
    "description": ("own", DESCRIBED, "0.0", "has one", "class Own", "the option noise has no description"),
    "a method launch": ("net", "def fit(", METHOD.format("launch"), "has one", "class Own", "launch"),
    "a method section": ("net", "def fit(", METHOD.format("section"), "has one", "class Own", "section"),
    "an option source": ("own", "noise: float", "source: float", "has one", "class Own", "source"),
    "an option groups": ("own", "noise: float", "groups: float", "has one", "class Own", "groups"),
    "no tuple": ("own", "return (2,)", "return 2", "has options", "", "has the shape 2; give a tuple of whole numbers"),
    "device": (
        "own",
        "    noise",
        '    device = "gpu"\n    noise',
        "has options",
        "",
        "it must be one of cpu",
    ),
    "shape": ("own", "return (2,)", "return (4,)", "draws 16 pairs", "def pairs", "x has shape (2,), and x_shape says"),
    "no pairs": ("own", "yield part, x, x", "yield part, x  #", "draws 16 pairs", "def pairs", "pairs yielded"),
    "seed": ("own", "rng(seed)", "rng()", "draws the same pairs", "def pairs", "draw them from the seed"),
    "no seed": ("own", "rng(seed)", "rng(0)", "draws the same pairs", "def pairs", "use the seed"),
    "shared": ("own", 'return {"matrix"', "return {1", "has shared arrays", "", "koct cannot use what"),
    "adjoint": ("own", 'y @ shared["matrix"]', "y[:, :2]", "has layers", "def _adjoint", "is not its transpose"),
    "ends": (
        "own",
        ', Layer("matrix", Own((2,), (3,)))',
        "",
        "has layers",
        "def layers",
        "leads from (2,) to (2,)",
    ),
    "normal": ("own", 'shared["matrix"].T @', '2 * shared["matrix"].T @', "has inverses", "def normal", "is not RᵀR"),
    "images": ("net", APPLIED, "x", "is fitted", "def fit", "give flat images"),
    "NaN": (
        "net",
        APPLIED,
        f"np.nan * {APPLIED}",
        "is fitted",
        "def fit",
        "no fit gave a finite",
    ),
    "no network": (
        "net",
        YIELDED,
        "yield lam, normal",
        "is fitted",
        "def fit",
        "fit yielded tuple; yield",
    ),
    "returned": ("net", YIELDED, "return None", "is fitted", "def fit", "fit returned NoneType"),
    "in fit": ("net", YIELDED, "yield ValueError.odd", "is fitted", "ValueError.odd", "AttributeError: type object"),
    "not needed": ("net", "data.x.T @ data.x ", "data.normal ", "is fitted", "def fit", "needs() does not name it"),
    "no state": ("net", STATE, "None", "is fitted", "", "koct cannot use what"),
    "in state": ("net", STATE, "1 / 0", "is fitted", "1 / 0", "ZeroDivisionError: division by zero"),
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


def test_ko_is_refused_for_a_problem_without_layers(koct, tmp_path):
    status, out, _ = koct("check", written(tmp_path, "own.py", PROBLEM), "--set", "archs=[ko]")
    assert status == 1
    assert "--set ko: the problem own has no known layers to learn with; take another architecture" in out


def test_a_file_has_one_class_and_exists(tmp_path):
    two = written(tmp_path, "two.py", PROBLEM + "\n\nclass Other(Own):\n    pass\n")
    none = written(tmp_path, "none.py", ARCH)
    for path, message in (
        (two, f"{two} must define one subclass of Problem, and defines 2"),
        (none, f"{none} must define one subclass of Problem, and defines none"),
        (f"{tmp_path}/no.py", f"{tmp_path}/no.py does not exist (looked in {os.getcwd()}); correct the path"),
        (
            "fan-beam",
            "must be one of anatomy, deblur, ellipses50, fanbeam, misaligned, mri, pairs, ",
        ),
    ):
        with pytest.raises(KoctError) as caught:
            registry.problem(path)
        assert str(caught.value).startswith(message)


def test_a_file_can_import_from_its_own_folder(tmp_path):
    (tmp_path / "helper_beside.py").write_text("SHAPE = (3,)\n")
    (tmp_path / "helpers_beside").mkdir()
    (tmp_path / "helpers_beside" / "deep.py").write_text("def shape():\n    return (2,)\n")
    text = PROBLEM.replace("return (2,)", "from helpers_beside.deep import shape\n\n        return shape()")
    path = written(tmp_path, "own.py", "from helper_beside import SHAPE\n" + text, "return (3,)", "return SHAPE")
    problem = registry.problem(path)()
    assert (problem.x_shape, problem.y_shape) == ((2,), (3,))


def test_helpers_of_one_name_in_two_folders_are_not_confused(tmp_path):
    """Each file has its own helper, or is refused; it never silently gets the other's."""
    found = []
    for size in (2, 5):
        folder = tmp_path / f"of{size}"
        folder.mkdir()
        (folder / "same_name.py").write_text(f"SHAPE = ({size},)\n")
        text = "from same_name import SHAPE\n" + PROBLEM
        try:
            found.append((size, registry.problem(written(folder, "own.py", text, "return (2,)", "return SHAPE"))()))
        except KoctError as error:
            assert "same_name" in str(error)  # noqa: PT017
    assert found
    for size, problem in found:
        assert problem.x_shape == (size,)


def test_other_names_are_the_users(tmp_path):
    """Options are looked up in the class, by functions: no method of a user's hides them."""
    text = PROBLEM.replace("noise: float", "values: float").replace(
        "def pairs(", METHOD.format("build").replace("fit(", "pairs(")
    )
    problem = registry.problem(
        written(tmp_path, "own.py", text.replace("@property", "source = options = 3\n\n    @property", 1))
    )
    sweep = {"problem": problem.source, "values": 2, "archs": ["fc"], "pool": {"train": 4, "val": 3, "test": 3}}
    made = build("S", {**sweep, "N": [2, 4], "seeds": [1], "lambdas": [1.0], "metric": "mse"}).problem
    assert made.values == 2.0
    assert decode_problem(encode_problem(made, layers=True)) == made
