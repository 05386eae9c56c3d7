"""`koct check`: a correct file keeps every promise, and a wrong one breaks the right one, with its line."""

import pytest
from test_own_files import ARCH, DESCRIBED, PROBLEM, line, written

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


SOLVED = "np.linalg.solve(normal, data.x.T @ data.y)"
WRONG = {  # what: (file, old, new, the promise that is broken, the line that is named, the fix)
    "no method": ("own", "def pairs", "def couples", "has one class", "class Own", "lacks pairs"),
    "description": ("own", DESCRIBED, "0.0", "has one class", "class Own", "the option noise has no description"),
    "shape": ("own", "return (2,)", "return (4,)", "draws 16 pairs", "def pairs", "x has shape (2,), and x_shape says"),
    "seed": (
        "own",
        "default_rng(seed)",
        "default_rng()",
        "draws the same pairs",
        "def pairs",
        "draw them from the seed",
    ),
    "no seed": ("own", "default_rng(seed)", "default_rng(0)", "draws the same pairs", "def pairs", "use the seed"),
    "shared": ("own", 'return {"matrix"', "return {1", "has shared arrays", "", "koct cannot use what"),
    "adjoint": ("own", 'y @ shared["matrix"]', "y[:, :2]", "has layers", "def _adjoint", "is not its transpose"),
    "normal": ("own", 'shared["matrix"].T @', '2 * shared["matrix"].T @', "has inverses", "def normal", "is not RᵀR"),
    "no state": ("net", '{"matrix": self.matrix}', "None", "is fitted", "", "koct cannot use what"),
    "restore": ("net", 'state["matrix"])', '2 * state["matrix"])', "is restored", "def restore", "something else"),
    "fit": ("net", SOLVED, f"{SOLVED} + np.random.rand()", "is the same network", "def fit", "draw from data.seed"),
    "batch": ("net", "x @ self.matrix", "(x - x.mean(0)) @ self.matrix", "predicts a sample", "def fit", "mixes"),
    "images": ("net", "x @ self.matrix", "x", "is fitted", "def fit", "give flat images"),
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
