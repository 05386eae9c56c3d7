"""Known layers are what KO builds on: one that is not linear, or whose adjoint is wrong, is refused by its line."""

import re

import pytest

from koct.contracts.registry import architecture, problem
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.study.cells import Data, checked_layers

OWN = """
import numpy as np

from koct.contracts import Layer, Problem
from koct.operators.algebra import Diagonal, Operator

PHASE = np.exp(1j * np.arange(12.0))


class Filter(Operator):
    def _apply(self, x):
        return {apply}

    def _adjoint(self, y):
        return {adjoint}


class Own(Problem):
    x_shape = y_shape = (12,)

    def pairs(self, seed, sizes):
        yield from ()

    def layers(self, shared):
        return Layer("weights", Diagonal(np.ones(12))), Layer("filter", {layer})
"""
APPLY = "np.fft.ifft(np.fft.fft(x) * PHASE).real"
ADJOINT = "np.fft.ifft(np.fft.fft(y) * PHASE.conj()).real"
LAYER = "Filter((12,), (12,))"
WRONG = {
    "no conj": (APPLY, ADJOINT.replace(".conj()", ""), "its adjoint is not its transpose", 14),
    "zeros": (APPLY, "0 * y", "_adjoint gives zeros", 14),
    "scaled": (APPLY, f"1.001 * {ADJOINT}", "its adjoint is not its transpose", 14),
    "not finite": (f"np.nan * {APPLY}", ADJOINT, "_apply gives numbers that are not finite", 11),
    "a ReLU": (f"{APPLY}.clip(0)", ADJOINT, "it is not linear", 11),
    "an offset": (f"{APPLY} + 1", ADJOINT, "it is not linear", 11),
    "a mean over the batch": (f"{APPLY} - {APPLY}.mean(0)", ADJOINT, "it is not linear", 11),
    "complex": (APPLY.removesuffix(".real"), ADJOINT, "_apply gives complex128", 11),
    "single": (APPLY, f"{ADJOINT}.astype(np.float32)", "_adjoint gives float32", 14),
}


def own(folder, apply=APPLY, adjoint=ADJOINT, layer=LAYER):
    (folder / "own.py").write_text(OWN.format(apply=apply, adjoint=adjoint, layer=layer))
    return problem(str(folder / "own.py"))()


@pytest.mark.parametrize(("apply", "adjoint", "message", "line"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("layer", [LAYER, f"2 * {LAYER} @ Diagonal(np.ones(12))"], ids=["alone", "inside"])
def test_a_wrong_operator_is_named_with_its_line(folder, apply, adjoint, message, line, layer):
    with pytest.raises(KoctError, match=re.escape(f"own.py, line {line}: the layer 'filter': {message}")):
        checked_layers(own(folder, apply, adjoint, layer), {})


def test_a_right_operator_is_taken_and_what_is_none_is_refused(folder):
    assert len(checked_layers(own(folder, layer=f"{LAYER}.T"), {})) == 2
    (folder / "other").mkdir()
    with pytest.raises(
        KoctError, match=r"own\.py, line 24: the layer 'filter' is of the type builtin_function_or_meth"
    ):
        checked_layers(own(folder / "other", layer="abs"), {})


def test_a_wrong_forward_operator_is_refused_too(folder):
    """Least squares and total variation step along its adjoint."""
    forward = f"Diagonal(np.ones(12)))\n\n    def forward(self, shared):\n        return ({LAYER}"
    wrong = own(folder, adjoint=WRONG["no conj"][1], layer=forward)
    with pytest.raises(KoctError, match=r"own\.py, line 14: the operator: its adjoint is not its transpose"):
        Data(Cell("own", wrong, architecture("nnls")(), 0, 1, ()), {}).forward  # noqa: B018
