"""Known layers are what KO builds on: one that is not linear, or whose adjoint is wrong, is refused by its line."""

import re

import pytest
from test_own_files import OPTIONS, PROBLEM, WIENER, line, written

from koct.contracts.registry import architecture, problem
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.study.cells import Data, checked_layers

APPLY, ADJOINT = "np.roll(x, 1, axis=-1)", "np.roll(y, -1, axis=-1)"
WRONG = {
    "transposed": (APPLY, "np.roll(y, 1, axis=-1)", "its adjoint is not its transpose", "_adjoint"),
    "zeros": (APPLY, "0 * y", "_adjoint gives zeros", "_adjoint"),
    "scaled": (APPLY, f"1.001 * {ADJOINT}", "its adjoint is not its transpose", "_adjoint"),
    "not finite": (f"np.nan * {APPLY}", ADJOINT, "_apply gives numbers that are not finite", "_apply"),
    "a ReLU": (f"{APPLY}.clip(0)", ADJOINT, "it is not linear", "_apply"),
    "an offset": (f"{APPLY} + 1", ADJOINT, "it is not linear", "_apply"),
    "a mean over the batch": (f"{APPLY} - {APPLY}.mean(0)", ADJOINT, "it is not linear", "_apply"),
    "complex": (f"1j * {APPLY}", ADJOINT, "_apply gives complex128", "_apply"),
    "single": (APPLY, f"{ADJOINT}.astype(np.float32)", "_adjoint gives float32", "_adjoint"),
}


def own(folder, apply=APPLY, adjoint=ADJOINT, layer=WIENER):
    """The problem of `koct init` with another operator."""
    text = PROBLEM.replace("_adjoint = _apply", f"def _adjoint(self, y):\n                return {adjoint}")
    text = text.replace("np.fft.ifft(np.fft.fft(x) * inverse).real", apply)
    return problem(written(folder, "own.py", text, WIENER, layer))(**OPTIONS)


@pytest.mark.parametrize(("apply", "adjoint", "message", "method"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("layer", [WIENER, f"2 * {WIENER} @ Diagonal(np.ones(16))"], ids=["alone", "inside"])
def test_a_wrong_operator_is_named_with_its_line(folder, apply, adjoint, message, method, layer):
    wrong = own(folder, apply, adjoint, layer)
    where = f"{line('own.py', f'def {method}')}: the layer 'Wiener filter': "
    with pytest.raises(KoctError, match=re.escape(where + message)):
        checked_layers(wrong, {})


def test_a_right_operator_is_taken_and_what_is_none_is_refused(folder):
    assert len(checked_layers(own(folder, layer=f"{WIENER}.T"), {})) == 2
    (folder / "other").mkdir()
    with pytest.raises(
        KoctError, match=r"own\.py, line \d+: the layer 'Wiener filter' is of the type builtin_function"
    ):
        checked_layers(own(folder / "other", layer="abs"), {})


def test_a_wrong_forward_operator_is_refused_too(folder):
    """Least squares and total variation step along its adjoint."""
    wrong = own(folder, adjoint="0 * y")
    type(wrong).forward = lambda self, shared: self.layers(shared)[1].operator
    with pytest.raises(
        KoctError, match=re.escape(f"{line('own.py', 'def _adjoint')}: the operator: _adjoint gives zeros")
    ):
        Data(Cell("own", wrong, architecture("nnls")(), 0, 1, ()), {}).forward  # noqa: B018
