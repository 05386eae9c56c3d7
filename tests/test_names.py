"""Names that a user's own file takes and koct uses: refused with their line, or meant as they are."""

import numpy as np
import pytest
from test_own_files import ARCH, PROBLEM, written

from koct.contracts import Network, registry
from koct.errors import KoctError
from koct.study import cells

TAKEN = {
    "a method build": (
        PROBLEM,
        "def pairs(",
        "def build(self):\n        pass\n\n    def pairs(",
        ", line 19: build of",
    ),
    "a method options": (PROBLEM, "def pairs(", "def options(self):\n        pass\n\n    def pairs(", ": options of"),
    "a method from_values": (
        ARCH,
        "def fit(",
        "def from_values(self):\n        pass\n\n    def fit(",
        ": from_values of",
    ),
    "an attribute source": (PROBLEM, "@property", "source = 3\n\n    @property", ", line 8: source of class Own hides"),
    "a method launch": (ARCH, "def fit(", "def launch(self):\n        pass\n\n    def fit(", ": launch of class Own"),
    "an option values": (PROBLEM, "noise: float", "values: float", ", line 8: the option values of class Own hides"),
    "an option build": (PROBLEM, "noise: float", "build: float", ", line 8: the option build of class Own hides"),
    "an option pairs": (PROBLEM, "noise: float", "groups: float", ": the option groups of class Own hides"),
    "an option x_size": (PROBLEM, "noise: float", "x_size: float", ": the option x_size of class Own hides"),
    "a method section": (
        ARCH,
        "def fit(",
        "def section(self):\n        pass\n\n    def fit(",
        "section of class Own is",
    ),
}


@pytest.mark.parametrize(("text", "old", "new", "message"), TAKEN.values(), ids=TAKEN)
def test_names_that_koct_uses_are_refused_with_their_line(tmp_path, text, old, new, message):
    path = written(tmp_path, "own.py", text, old, new)
    with pytest.raises(KoctError) as caught:
        registry.either(path)
    assert str(caught.value).startswith(path)
    assert message in str(caught.value)


def test_the_parameters_of_a_torch_module_are_counted(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")

    class Net(torch.nn.Module, Network):
        def predict(self, x):
            return x

        def state(self):
            return {"w": np.zeros((2, 3))}

    assert cells._count(Net()) == 6


def test_an_exception_that_is_no_error_is_one_sentence(tmp_path):
    path = written(
        tmp_path, "own.py", PROBLEM, "import numpy as np", "raise type('Stop', (BaseException,), {})('here')"
    )
    with pytest.raises(KoctError, match=r"own\.py, line 3: Stop: here"):
        registry.problem(path)
