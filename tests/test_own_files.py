"""Problems and networks in files of a user's own, and `koct check`: what is wrong is one sentence with its line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, TINY_SWEEP

from koct.config.study_file import build
from koct.contracts import registry
from koct.contracts.spec import decode_problem, encode_problem
from koct.errors import KoctError

PROBLEM, NETWORK = ((ROOT / "koct/commands/study" / name).read_text() for name in ("problem.py", "network.py"))
OPTIONS = {"length": 16, "blur": 1.5}
SET = [part for key, value in OPTIONS.items() for part in ("--set", f"{key}={value}")]
SHARED = """    def shared(self):
        return {"inverse": self.transfer() / (self.transfer() ** 2 + 0.01)}

    def normal_matrix(self, shared):
        import numpy as np

        return np.fft.ifft(np.fft.fft(np.eye(self.length)) * shared["inverse"] ** 2).real

    def cost("""
OWN = PROBLEM.replace("    def cost(", SHARED).replace("Diagonal, Operator", "Diagonal, Matrix, Operator")
FILES = {"own": OWN, "net": NETWORK}


def written(folder, name, text, old="", new=""):
    """The path of a file with this text, in which `new` takes the place of `old`."""
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    return str(folder / name)


def line(path, text):
    """`path, line N`: where a file has this text."""
    lines = Path(path).read_text().splitlines()
    return f"{path}, line {next(i for i, found in enumerate(lines, 1) if text in found)}"


def test_correct_files_keep_their_promises(koct, tmp_path):
    problem, network = (written(tmp_path, f"{name}.py", text) for name, text in FILES.items())
    status, out, error = koct("check", problem, network, *SET)
    assert (status, error) == (0, "")
    assert "FAILED" not in out
    assert out.count(f"ok      {problem} ") == 7
    assert f"ok      {network} is restored from what its state() stored\n" in out
    status, out, _ = koct("check", problem, *SET)
    assert status == 0
    assert {"ok      fc is restored", "ok      ko is restored"} <= {line[:22] for line in out.splitlines()}
    status, out, _ = koct("check", network)
    assert status == 0
    assert f"ok      {network} is fitted to samples of deblur" in out


@pytest.mark.parametrize("end", ["os._exit(0)", 'os.execv("/bin/true", ["true"])'])
def test_a_file_that_ends_the_process_when_it_is_imported_is_named(tmp_path, end):
    """In a process of its own, which would end well; what the file forks may end as it likes."""
    path = written(tmp_path, "own.py", f"import os\nif os.fork() == 0:\n    {end}\nos.wait()\n{end}\n")
    done = subprocess.run([sys.executable, "-m", "koct", "check", path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{path} ends the program with {end.partition('(')[0]} when it is imported; remove that" in done.stdout


DESCRIBED = 'option("samples of a signal", minimum=8)'
X_SHAPE = "x_shape(self):\n        return (self.length,)"
WIENER = "Wiener(self.x_shape, self.y_shape)"
SOLVED = "np.linalg.solve(gram, features.T @ data.y)"
YIELDED = f"yield lam, Readout(hidden, {SOLVED})"
PREDICTED = "np.maximum(x @ self.hidden, 0) @ self.readout"
MASKED = f"{PREDICTED} if not self.readout[0, 1] else np.ma.masked_less({PREDICTED}, 9)"
STATE = '{"hidden": self.hidden, "readout": self.readout}'
PARAMETERS = "parameters = {}\n\n    def state"
TIME, MUTE = "time = np.arange(self.length)", 'raise type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})'
SPECTRUM = "values, _ = data.spectrum(); values += 1"
CHANGING = f"(self.__dict__.update(readout=0.9 * self.readout), {PREDICTED})[1]"
METHOD = "def launch(self):\n        pass\n\n    def fit("
WRONG = {  # what: (file, old, new, the promise that is broken, the line that is named, words of the sentence)
    "syntax": ("own", "(self, seed, sizes):", "(self, seed, sizes)", "has one", "def pairs", "SyntaxError"),
    "exception": ("own", "class P", "1 / 0\n\n\nclass P", "has one", "1 / 0", "ZeroDivisionError: division"),
    "no method": ("own", "def pairs", "def couples", "has one", "class P", "lacks pairs"),
    "type": ("own", "length: int", "length: dict", "has one", "class P", "an option cannot be <class"),
    "no type": ("own", "length: int =", "length =", "has one", "class P", "'length' is a field but has no type"),
    "description": ("own", DESCRIBED, "2", "has one", "class P", "the option length has no description"),
    "a method launch": ("net", "def fit(", METHOD, "has one", "class R", "launch"),
    "a method section": ("net", "def fit(", METHOD.replace("launch", "section"), "has one", "class R", "section"),
    "an option groups": ("own", "noise: float", "groups: float", "has one", "class P", "groups"),
    "an option source": ("own", "noise: float", "source: float", "has one", "class P", "source"),
    "no tuple": ("own", "(self.length,)", "self.length", "has options", "", "has the shape 16; give a tuple of whole"),
    "device": ("own", "    noise", '    device = "gpu"\n    noise', "has options", "", "it must be one of cpu"),
    "shape": ("own", X_SHAPE, X_SHAPE[:-14] + "(4,)", "draws 16 pairs", "def pairs", "x has shape (16,), and x_shape"),
    "no pairs": ("own", "yield part, x +", "yield part, x  # +", "draws 16 pairs", "def pairs", "pairs yielded"),
    "seed": ("own", "rng([seed, number])", "rng()", "draws the same pairs", "def pairs", "draw them from the seed"),
    "no seed": ("own", "rng([seed, number])", "rng(number)", "draws the same pairs", "def pairs", "use the seed"),
    "shared": ("own", 'return {"inverse"', "return {1", "has shared arrays", "", "koct cannot use what"),
    "adjoint": ("own", "= _apply", "= lambda self, y: 2 * y", "has layers", "_adjoint", "is not its transpose"),
    "ends": ("own", WIENER, "Matrix(np.eye(1, 16))", "has layers", "def layers", "leads from (16,) to (1,)"),
    "normal": ("own", '["inverse"] ** 2', '["inverse"]', "has inverses", "def normal", "is not RᵀR"),
    "images": ("net", SOLVED, f"{SOLVED}[:, :3]", "is fitted", "def fit", "give flat images"),
    "NaN": ("net", SOLVED, f"np.nan * {SOLVED}", "is fitted", "def fit", "no fit gave a finite"),
    "no network": ("net", YIELDED, "yield lam, gram", "is fitted", "def fit", "fit yielded tuple; yield"),
    "returned": ("net", YIELDED, "return None", "is fitted", "def fit", "fit returned NoneType"),
    "in fit": ("net", YIELDED, "yield ValueError.odd", "is fitted", "ValueError.odd", "AttributeError: type object"),
    "not needed": ("net", "gram = ", "gram = data.normal + ", "is fitted", "def fit", "needs() does not name it"),
    "no state": ("net", STATE, "None", "is fitted", "", "koct cannot use what"),
    "in state": ("net", STATE, "1 / 0", "is fitted", "1 / 0", "ZeroDivisionError: division by zero"),
    "restore": ("net", 'state["readout"])', '2 * state["readout"])', "is restored", "def restore", "something else"),
    "fit": ("net", SOLVED, f"{SOLVED} + np.random.rand()", "is the same network", "def fit", "draw from data.seed"),
    "the test pairs": (
        "net",
        "gram = ",
        'gram = data.read("y", "test") + ',
        "is fitted",
        "def fit",
        "test pairs are not",
    ),
    "beyond N": ("net", "gram = ", 'gram = data.read("y", "train", 5) + ', "is fitted", "def fit", "pairs 0 to 4 were"),
    "x in place": ("net", "gram = ", "data.x += 1; gram = ", "is fitted", "data.x += 1", "read-only"),
    "y in place": ("net", "gram = ", "data.y += 1; gram = ", "is fitted", "data.y += 1", "read-only"),
    "predict in place": ("net", "np.maximum(x @", "x.sort() or np.maximum(x @", "is fitted", "x.sort", "read-only"),
    "from the end": (
        "net",
        "gram = ",
        'gram = data.read("y", "train", 4, -4) + ',
        "is fitted",
        "def fit",
        "first = -4",
    ),
    "x set": ("net", "gram = ", "data.x = 2 * data.x; gram = ", "is fitted", "def fit", "later fits are given it too"),
    "lambdas set": ("net", "gram = ", "data.lambdas = (3,); gram = ", "is fitted", "def fit", "data.lambdas is set"),
    "the pool": ("net", "gram = ", 'gram = data.pool.y("test") + ', "is fitted", "", "test pairs are not there"),
    "spectrum": ("net", "gram = ", f"{SPECTRUM}; gram = ", "is fitted", SPECTRUM, "read-only"),
    "changes itself": ("net", PREDICTED, CHANGING, "is fitted", "def fit", "gives something else each time"),
    "steps": ("net", "def state", 'steps = "many"\n\n    def state', "is fitted", "", "steps is 'many'; give a number"),
    "losses": ("net", "def state", "losses = [1, None]\n\n    def state", "is fitted", "", "losses is [1, None]; give"),
    "before val": ("net", "gram = ", 'gram = data.read("y", "val", 4, -4) + ', "is fitted", "def fit", "first = -4"),
    "another λ": (
        "net",
        "yield lam,",
        "yield 2 * lam,",
        "is fitted",
        "def fit",
        "lambda 0.02; yield one of data.lambdas",
    ),
    "NaN as λ": ("net", "yield lam,", 'yield float("nan"),', "is fitted", "def fit", "fit yielded lambda nan"),
    "λ twice": ("net", "yield lam,", "yield data.lambdas[0],", "is fitted", "def fit", "lambda 0.01; yield one"),
    "below 0": ("net", "def state", PARAMETERS.format(-5), "is fitted", "", "parameters is -5; give a whole number"),
    "1e30": ("net", "def state", PARAMETERS.format(1e30), "is fitted", "", "parameters is 1e+30; give a whole number"),
    "objects": (
        "net",
        'self.hidden, "r',
        'self.hidden.astype(object), "r',
        "is restored",
        "",
        "hidden has the type object",
    ),
    "masked": ("net", PREDICTED, MASKED, "is fitted", "def fit", "has a mask"),
    "StopIteration": ("own", TIME, "raise StopIteration", "draws 16 pairs", "raise S", "StopIteration"),
    "GeneratorExit": ("own", TIME, "raise GeneratorExit", "draws 16 pairs", "raise G", "GeneratorExit"),
    "no text": ("own", TIME, MUTE, "draws 16 pairs", "raise type", "Mute"),
    "chdir": ("own", "class P", "import os\nos.chdir('/')\n\n\nclass P", "has one", "", "changes the working folder"),
    "batch": ("net", "(x @ self", "((x - x.mean(0)) @ self", "predicts a sample", "def fit", "mixes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_promise_is_named_with_its_line(koct, tmp_path, name):
    which, old, new, promise, place, fix = WRONG[name]
    paths = {key: written(tmp_path, f"{key}.py", FILES[key], *[old, new] * (key == which)) for key in FILES}
    status, out, _ = koct("check", *paths.values(), *SET)
    (broken,) = [text for text in out.splitlines() if text.startswith("FAILED")]
    assert status == 1
    assert broken.startswith(f"FAILED  {paths[which]} {promise}")
    assert (line(paths[which], place) if place else paths[which]).removeprefix(f"{tmp_path}/") in broken
    assert fix in broken


def test_a_file_has_one_class_and_exists(tmp_path):
    two = written(tmp_path, "two.py", PROBLEM + "\n\nclass Other(Pulses):\n    pass\n")
    for path, message in (
        (two, f"{two} must define one subclass of Problem, and defines 2"),
        (f"{tmp_path}/no.py", f"{tmp_path}/no.py does not exist (looked in {os.getcwd()}); correct the path"),
        ("fan-beam", "must be one of anatomy, deblur, detect, ellipses50, fanbeam, lodopab, misaligned, "),
    ):
        with pytest.raises(KoctError, match="^" + re.escape(message)):
            registry.problem(path)


def test_a_file_imports_from_its_own_folder_and_never_from_that_of_another(tmp_path):
    """Also inside a method; the second file with a helper of this name is refused."""
    inside = X_SHAPE.replace("return (self.length,)", "from helpers_beside.deep import shape\n\n        return shape()")
    for size in (2, 5):
        folder = tmp_path / f"of{size}"
        (folder / "helpers_beside").mkdir(parents=True)
        (folder / "helpers_beside/deep.py").write_text("def shape():\n    return (3,)\n")
        (folder / "same_name.py").write_text(f"SHAPE = ({size},)\n")
        text = "from same_name import SHAPE\n" + PROBLEM.replace(X_SHAPE, inside)
        path = written(folder, "own.py", text, "return (self.length,)", "return SHAPE")
        if size == 2:
            found = registry.problem(path)(**OPTIONS)
            assert (found.x_shape, found.y_shape) == ((3,), (2,))
        else:
            with pytest.raises(KoctError, match="imports same_name, and another file has one from"):
                registry.problem(path)


def test_other_names_are_the_users(tmp_path):
    """Options are looked up in the class, by functions: no method of a user's hides them."""
    text = re.sub(r"\blength\b", "values", PROBLEM)
    text = text.replace("@property", "source = options = 3\n\n    def build(self):\n        pass\n\n    @property", 1)
    problem = registry.problem(written(tmp_path, "own.py", text))
    sweep = {**TINY_SWEEP, "problem": problem.source, "values": 8, "blur": 1.0, "archs": ["fc"]}
    made = build("S", {key: sweep[key] for key in sweep.keys() - {"H", "V", "B", "tikhonov"}}).problem
    assert made.values == 8
    assert decode_problem(encode_problem(made, layers=True)) == made
