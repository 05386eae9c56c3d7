"""Problems and architectures in files of a user's own: how they are loaded, and what goes wrong in them."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from koct import cli
from koct.config.study_file import read
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.problems import pools

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


def one_sentence(error):
    """The text of an error that is one line, and no traceback."""
    text = str(error).removeprefix("koct: error: ").strip()
    assert "\n" not in text
    assert "Traceback" not in text
    return text


# Loading


DESCRIBED = 'option("standard deviation of the noise", default=0.0, minimum=0)'
IN_A_FILE = {  # what is wrong: (what stands in the place of what, the line that is named, message)
    "import": ("import numpy as np", "import no_such_module", "import no_such", "ModuleNotFoundError: No module named"),
    "syntax": ("(self, seed, sizes):", "(self, seed, sizes)", "def pairs", "SyntaxError: expected ':'"),
    "exception": ("class Own(Problem):", "1 / 0\n\n\nclass Own(Problem):", "1 / 0", "ZeroDivisionError: division by"),
    "no y_shape": ("def y_shape", "def y_form", "class Own", "class Own lacks y_shape; "),
    "dict": ("noise: float", "noise: dict", "class Own", "an option cannot be <class 'dict'>: use int, float, str"),
    "no option": (DESCRIBED, "0.0", "class Own", "the option noise has no description: write noise = option"),
    "no type": ("noise: float =", "noise =", "class Own", "'noise' is a field but has no type annotation"),
}


@pytest.mark.parametrize(("old", "new", "place", "message"), IN_A_FILE.values(), ids=IN_A_FILE)
def test_a_file_that_cannot_be_used_is_one_sentence_with_its_line(tmp_path, old, new, place, message):
    path = written(tmp_path, "own.py", PROBLEM, old, new)
    with pytest.raises(KoctError) as caught:
        registry.problem(path)
    assert one_sentence(caught.value).startswith(line(path, place) + ": ")
    assert message in str(caught.value)


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
        assert one_sentence(caught.value).startswith(message)


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
            assert "same_name" in one_sentence(error)  # noqa: PT017
    assert found
    for size, problem in found:
        assert problem.x_shape == (size,)


# Pools and fits


@pytest.fixture
def fit(tmp_path, capsys):
    """Fit a cell by `koct fit` with files of a user's own; gives the exit status and what it printed as an error."""

    def run(problem, arch, lambdas=(1e-6, 1.0)):
        cell = Cell("S", registry.problem(problem)(), registry.architecture(arch)(), 4, 1, lambdas)
        pools.make(cell.problem, 1, SIZES, tmp_path / "pool.npy")
        spec = json.dumps({**cell.encode(), "inputs": ["pool"]})
        files = ["--inputs", str(tmp_path / "pool.npy")]
        files += ["--outputs", str(tmp_path / "row.json"), str(tmp_path / "fit.npy")]
        status = cli.main(["fit", "--spec", spec, *files])
        return status, capsys.readouterr().err

    return run


SOLVED = "yield lam, OwnNetwork(np.linalg.solve(normal, data.x.T @ data.y))"
APPLIED = "x @ self.matrix"
IN_A_FIT = {
    "shape": (APPLIED, "x", "def fit", "predict gave an array of shape (3, 2) for 3 samples; give flat images, (3, 3)"),
    "NaN": (APPLIED, f"np.nan * {APPLIED}", "def fit", "no fit gave a finite validation error; lambdas are [1e-06,"),
    "no network": (SOLVED, "yield lam, normal", "def fit", "fit yielded tuple; yield (lambda or None, a koct.contra"),
    "returned": (SOLVED, "return None", "def fit", "fit returned NoneType"),
    "exception in fit": (SOLVED, "yield ValueError.odd", "ValueError.odd", "AttributeError: type object 'ValueError'"),
    "exception in state": ('{"matrix": self.matrix}', "1 / 0", "1 / 0", "ZeroDivisionError: division by zero"),
    "unknown data": ("data.x.T @ data.x ", "data.sinograms ", "data.sinograms", "AttributeError: 'Data' object has no"),
    "not needed": ("data.x.T @ data.x ", "data.normal ", "def fit", "data.normal is used, and needs() does not name"),
}


@pytest.mark.parametrize(("old", "new", "place", "message"), IN_A_FIT.values(), ids=IN_A_FIT)
def test_what_goes_wrong_in_a_fit_is_one_sentence_with_its_line(tmp_path, fit, old, new, place, message):
    path = written(tmp_path, "matrix.py", ARCH, old, new)
    status, error = fit(written(tmp_path, "own.py", PROBLEM), path)
    assert status == 2
    assert one_sentence(error).startswith(line(path, place) + ": ")
    assert message in error
    assert not (tmp_path / "fit.npy").exists()
    assert not (tmp_path / "row.json").exists()


@pytest.mark.parametrize(
    ("given", "message"), [("return None", "pairs returned NoneType"), ("yield 1, 2", "pairs yielded")]
)
def test_pairs_that_are_no_triples_are_one_sentence_with_their_line(tmp_path, given, message):
    path = written(tmp_path, "own.py", PROBLEM.partition("        rng =")[0] + f"        {given}\n")
    with pytest.raises(KoctError) as caught:
        pools.make(registry.problem(path)(), 1, SIZES, tmp_path / "pool.npy")
    assert one_sentence(caught.value).startswith(f"{line(path, 'def pairs')}: {message}")


# Layers

LAYERS = """
    def layers(self, shared):
        from koct.operators.algebra import Diagonal, Matrix

        weights = Diagonal(np.ones(2))
        return [Layer("weights", weights), Layer("first", Matrix(np.ones((5, 2)))), Layer("second", Matrix(LAST))]
"""
GRADIENT = {"solver": "sgd", "lr": 0.1, "iterations": 1, "batch": 1}


def fit_ko(tmp_path, source):
    """The exit status of `koct fit` of KO on a problem of a user's own."""
    problem = registry.problem(source)()
    pools.make(problem, 1, SIZES, tmp_path / "pool.npy")
    spec = Cell("S", problem, registry.architecture("ko")(**GRADIENT), 4, 1, ()).encode()
    files = ["--inputs", str(tmp_path / "pool.npy"), "--outputs", str(tmp_path / "fit.npy")]
    return cli.main(["fit", "--spec", json.dumps({**spec, "inputs": ["pool"]}), *files])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 5), "the layers lead from (2,) to (4,), and the shapes are (2,) and (3,)"),
        ((3, 6), "the layer 'first' gives shape (5,), and 'second' behind it takes (6,)"),
    ],
)
def test_layers_whose_shapes_do_not_fit_are_one_sentence_with_their_line(tmp_path, capsys, shape, message):
    good = written(tmp_path, "good.py", PROBLEM + LAYERS.replace("LAST", "np.ones((3, 5))"))
    assert fit_ko(tmp_path, good) == 0
    path = written(tmp_path, "own.py", PROBLEM + LAYERS.replace("LAST", f"np.ones({shape})"))
    capsys.readouterr()
    assert fit_ko(tmp_path, path) == 2
    assert one_sentence(capsys.readouterr().err) == f"{line(path, 'def layers')}: {message}"


# The config


def config(problem, archs):
    grid = {"pool": asdict(SIZES), "N": [2, 4], "seeds": [1], "lambdas": [1.0], "metric": "mse"}
    sweep = {"problem": problem, "archs": archs, "ko": GRADIENT, **grid}
    return {"study": "s", "studies": {"s": ["S"]}, "sweeps": {"S": sweep}}


def test_ko_is_refused_for_a_problem_without_layers(tmp_path):
    path = written(tmp_path, "own.py", PROBLEM)
    (found,) = registry.architecture("ko")(**GRADIENT).check(registry.problem(path)())
    assert found == "the problem own has no known layers to learn with; take another architecture"
    with pytest.raises(KoctError) as caught:
        read(config(path, ["ko"]))
    assert one_sentence(caught.value) == f"config: sweeps.S.ko: {found}"
    known = written(tmp_path, "known.py", PROBLEM + LAYERS.replace("LAST", "np.ones((3, 5))"))
    assert read(config(known, ["ko"]))[0].archs[0].name == "ko"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return (2,)", "return 2", "has the shape 2; give a tuple of whole numbers"),
        ("return (3,)", "return [3]", r"has the shape \[3\]; give a tuple of whole numbers"),
        ("    noise", '    device = "gpu"\n    noise', "device = 'gpu'; it must be one of cpu, auto"),
        ("    noise", '    validation_metric = "psnr"\n    noise', "validation_metric = 'psnr'; it must be one of mse"),
    ],
)
def test_a_problem_that_says_what_cannot_be_is_refused(tmp_path, old, new, message):
    path = written(tmp_path, "own.py", PROBLEM + LAYERS.replace("LAST", "np.ones((3, 5))"), old, new)
    with pytest.raises(KoctError, match=message) as caught:
        read(config(path, ["ko"]))
    assert path in one_sentence(caught.value)
