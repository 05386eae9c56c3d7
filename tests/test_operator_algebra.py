"""Sums and multiples of operators, the shipped adjoint test, the errors, trained weights, and docs/operators.md."""

import contextlib
import importlib
import io
import re

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from koct.operators.algebra import Diagonal, Matrix, Operator
from koct.operators.blocks import Identity, Stack
from koct.operators.fanbeam import FanBeam, Projector
from koct.operators.filters import RampFilter
from koct.operators.parallel import projector
from koct.operators.testing import adjoint_error, assert_adjoint

NUMBERS = st.floats(-1e3, 1e3).map(lambda number: round(number, 6))  # none that is too small for its square
SEEDS = st.integers(0, 2**32 - 1)


def matrices(count, seed, rows=4, columns=3):
    rng = np.random.default_rng(seed)
    return [Matrix(rng.standard_normal((rows, columns))) for _ in range(count)]


# Algebra


@given(NUMBERS, NUMBERS.filter(lambda c: abs(c) > 1e-3), SEEDS)
def test_the_matrix_of_an_expression_is_the_expression_of_the_matrices(b, c, seed):
    A, B, C = matrices(3, seed)
    a, m, n = A.values, B.values, C.values
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


def test_an_operator_before_an_array_is_applied_to_it():
    (A,) = matrices(1, 0)
    x = np.ones((5, 3))
    np.testing.assert_array_equal(A @ x, A(x))
    np.testing.assert_array_equal(A.T @ A @ x, A.T(A(x)))


@pytest.mark.parametrize(
    ("combine", "error", "message"),
    [
        (lambda A: A * 1j, TypeError, "real numbers only, got complex"),
        (lambda A: A * np.ones(3), TypeError, r"got ndarray; A\(x\) applies it"),
        (lambda A: A * A, TypeError, "A @ B composes"),
        (lambda A: A * np.inf, ValueError, "finite numbers only, got inf"),
        (lambda A: A / 0, ValueError, "cannot divide .* by zero"),
        (lambda A: A + 1, TypeError, r"got int; .* c \* Identity\(shape\)"),
        (lambda A: np.ones((3, 3)) @ A, TypeError, "unsupported operand"),
    ],
)
def test_what_is_no_operator_or_number_gets_a_sentence(combine, error, message):
    with pytest.raises(error, match=message):
        combine(Matrix(np.ones((3, 3))))


def test_identity_and_stack():
    A, B = Matrix(np.arange(6.0).reshape(2, 3)), Identity((3,))
    S = Stack(A, 0.1 * B)
    np.testing.assert_array_equal(S.matrix(), np.concatenate([A.values, 0.1 * np.eye(3)]))
    np.testing.assert_array_equal(S.T.matrix(), S.matrix().T)
    x = np.ones(3)
    B(x)[0] = 7  # a copy, not x itself
    assert (x == 1).all()
    assert (3 * B).norm() == 3
    P = projector(8, 10)
    assert Stack(P, P, 2 * P).range == (30, 8)
    assert_adjoint(Stack(P, P, 2 * P))


# The adjoint test


class Wrong(Operator):
    """A shift whose adjoint shifts the same way."""

    def _apply(self, x):
        return np.roll(x, 1, axis=-1)

    _adjoint = _apply


class Mixing(Operator):
    """Adds up the members of a batch in one direction only."""

    def _apply(self, x):
        return x + 0 * x.sum(0)

    def _adjoint(self, y):
        return np.broadcast_to(y.sum(0), y.shape)


@pytest.mark.parametrize("kind", [Wrong, Mixing])
def test_a_wrong_adjoint_is_found(kind):
    A = kind((5,), (5,))
    assert not adjoint_error(A) < 1e-3
    with pytest.raises(
        AssertionError, match=rf"the adjoint of {kind.__name__}\(\(5,\) -> \(5,\)\) is not its transpose"
    ):
        assert_adjoint(A)


# Errors


@pytest.mark.parametrize(
    ("shape", "fix"),
    [
        ((64,), r"reshape it to \(\.\.\., 8, 8\)"),
        ((5, 6, 8), r"the shape of its range, which its adjoint `\.T` takes"),
        ((8, 7), "any axes before them are a batch"),
    ],
)
def test_a_wrong_shape_says_what_to_do(shape, fix):
    with pytest.raises(
        ValueError, match=rf"takes arrays of shape \(\.\.\., 8, 8\), got {re.escape(str(shape))}; .*{fix}"
    ):
        Projector(FanBeam(8, 6, 8), "exact")(np.ones(shape))


# torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed: no tensors, no gradients")


def test_constants_made_inside_a_transform_are_not_kept(torch):
    K, x = RampFilter(3, 4), torch.randn(2, 3, 4, dtype=torch.float64)
    inside = torch.func.vmap(torch.func.grad(lambda x: (K(x) ** 2).sum()))(x)
    K(x).numpy()
    leaf = x.clone().requires_grad_()
    (K(leaf) ** 2).sum().backward()
    torch.testing.assert_close(leaf.grad, inside)


def test_trained_weights_inside_a_sum(torch):
    weights = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    A = Diagonal(weights) - 0.5 * Identity((2, 3))
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    A(x).sum().backward()
    torch.testing.assert_close(weights.grad, x.sum(0))
    assert A.norm() == 0.5
    assert A.matrix(x).requires_grad
    with pytest.raises(TypeError, match=r"got Tensor; .* float\(x\) makes a number"):
        torch.tensor(2.0) * A
    with pytest.raises(TypeError, match=r"Matrix needs a dense tensor, got torch\.sparse_coo; use values\.to_dense"):
        Matrix(torch.eye(3).to_sparse())


# The page


def test_the_code_of_the_page_prints_what_the_page_shows(torch):
    """Python in one session; every block of text is what the block before it prints."""
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


def test_the_page_lists_every_operator():
    page = (ROOT / "docs/operators.md").read_text()
    for path in (ROOT / "koct/operators").glob("*.py"):
        if not path.stem.endswith("_cuda"):  # which need Triton, and have no operators
            importlib.import_module(f"koct.operators.{path.stem}")
    classes, waiting = set(), [Operator]
    while waiting:
        new = [kind for kind in waiting.pop().__subclasses__() if kind.__module__.startswith("koct.operators")]
        classes.update(kind.__name__ for kind in new)
        waiting += new
    assert len(classes) >= 15
    for name in classes - {"Kernel", "Adjoint", "Composition", "Sum", "Scaled"}:
        assert re.search(rf"`\w+\.{name}\(", page), name


def test_the_norm_of_an_operator_whose_singular_values_are_hard_to_tell_apart():
    """The inverse of a slow amplifier: power iteration does not settle in 10,000 steps."""
    lag = np.subtract.outer(np.arange(128), np.arange(128))
    slow = np.where(lag >= 0, np.exp(-np.maximum(lag, 0) / 4) / 4, 0)
    inverse = np.linalg.solve(slow.T @ slow + 0.01 * np.eye(128), slow.T)
    assert Matrix(inverse).norm() == pytest.approx(np.linalg.norm(inverse, 2), rel=1e-9)
