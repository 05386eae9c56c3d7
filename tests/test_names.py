"""Names that a user's own file takes and koct uses: refused with their line, or meant as they are."""

import pytest
from test_own_files import ARCH, PROBLEM, line, written

from koct.config.study_file import build
from koct.contracts import registry
from koct.contracts.spec import decode_problem, encode_problem
from koct.errors import KoctError

METHOD = "def {}(self):\n        pass\n\n    def fit("
TAKEN = {
    "a method launch": (ARCH, "def fit(", METHOD.format("launch"), "launch"),
    "a method section": (ARCH, "def fit(", METHOD.format("section"), "section"),
    "an option source": (PROBLEM, "noise: float", "source: float", "source"),
    "an option groups": (PROBLEM, "noise: float", "groups: float", "groups"),
    "an option x_size": (PROBLEM, "noise: float", "x_size: float", "x_size"),
}


@pytest.mark.parametrize(("text", "old", "new", "message"), TAKEN.values(), ids=TAKEN)
def test_names_that_koct_uses_are_refused_with_their_line(tmp_path, text, old, new, message):
    path = written(tmp_path, "own.py", text, old, new)
    with pytest.raises(KoctError) as caught:
        registry.either(path)
    assert str(caught.value).startswith(f"{line(path, 'class Own(')}: class Own: ")
    assert message in str(caught.value)


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
