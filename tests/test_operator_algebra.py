"""Sums and multiples of operators, the errors, and docs/operators.md."""

import contextlib
import io
import re

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from koct.operators.algebra import Matrix
from koct.operators.fanbeam import FanBeam, Projector
from koct.operators.testing import assert_adjoint

NUMBERS = st.floats(-1e3, 1e3).map(lambda number: round(number, 6))  # none that is too small for its square
SEEDS = st.integers(0, 2**32 - 1)


@given(NUMBERS, NUMBERS.filter(lambda c: abs(c) > 1e-3), SEEDS)
def test_the_matrix_of_an_expression_is_the_expression_of_the_matrices(b, c, seed):
    a, m, n = np.random.default_rng(seed).standard_normal((3, 4, 3))
    A, B, C = Matrix(a), Matrix(m), Matrix(n)
    for operator, expected in (
        (A + B, a + m),
        (A - B, a - m),
        (-A, -a),
        (b * A, b * a),
        (A * b, b * a),
        (A / c, a / c),
        (b * (A - B) / c + C, b * (a - m) / c + n),
        (A - (B - C), a - (m - n)),
        (-(A + b * B), -(a + b * m)),
        (A.T @ (B + C), a.T @ (m + n)),
        ((2 * A + B).T, (2 * a + m).T),
        (sum([A, B, C]), a + m + n),
    ):
        close = {"rtol": 1e-12, "atol": 1e-12 * (1 + abs(expected).max())}
        np.testing.assert_allclose(operator.matrix(), expected, **close)
        np.testing.assert_allclose(operator.T.matrix(), expected.T, **close)
        assert_adjoint(operator)


@pytest.mark.parametrize(
    ("combine", "error", "message"),
    [
        (lambda A: A * 1j, TypeError, "real numbers only, got complex"),
        (lambda A: A * np.ones(3), TypeError, r"got ndarray; A\(x\) applies it"),
        (lambda A: A * A, TypeError, "A @ B composes"),
        (lambda A: A * np.inf, TypeError, "finite real numbers only, got inf"),
        (lambda A: A / 0, ValueError, "cannot divide .* by zero"),
        (lambda A: A + 1, TypeError, r"got int; .* c \* Identity\(shape\)"),
        (lambda A: np.ones((3, 3)) @ A, TypeError, "unsupported operand"),
    ],
)
def test_what_is_no_operator_or_number_gets_a_sentence(combine, error, message):
    with pytest.raises(error, match=message):
        combine(Matrix(np.ones((3, 3))))


@pytest.mark.parametrize(
    ("shape", "fix"),
    [
        ((64,), r"reshape it to \(\.\.\., 8, 8\)"),
        ((5, 6, 8), r"the shape of its range, which its adjoint `\.T` takes"),
        ((8, 7), "any axes before them are a batch"),
    ],
)
def test_a_wrong_shape_says_what_to_do(shape, fix):
    message = rf"takes arrays of shape \(\.\.\., 8, 8\), got {re.escape(str(shape))}; .*{fix}"
    with pytest.raises(ValueError, match=message):
        Projector(FanBeam(8, 6, 8), "exact")(np.ones(shape))


@pytest.mark.long
def test_the_code_of_the_page_prints_what_the_page_shows():
    """Python in one session; every block of text is what the block before it prints."""
    pytest.importorskip("torch", reason="torch is not installed: no tensors, no gradients")
    page = (ROOT / "docs/operators.md").read_text()
    session, output, shown = {}, "", 0
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", page, re.S | re.M):
        if language == "text":
            assert output == text
            output, shown = "", shown + 1
            continue
        assert (language, output) == ("python", "")
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            exec(text, session)
        output = stream.getvalue()
    assert (shown >= 3, output) == (True, "")
