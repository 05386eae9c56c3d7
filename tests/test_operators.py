"""Operators: laws that hold for every input."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import rotate
from scipy.sparse import csr_array

from koct.errors import KoctError
from koct.operators.algebra import Diagonal, Matrix, Operator, Sparse
from koct.operators.fanbeam import Backprojector, FanBeam, Projector, fbp
from koct.operators.filters import RampFilter
from koct.operators.fourier import ComplexDiagonal, SpectralFilter
from koct.operators.nufft import NonUniformFourier, RadialTrajectory
from koct.operators.parallel import cosine_and_sine, projector, tikhonov_inverse, view_angles
from koct.operators.testing import adjoint_error


def rotate_and_sum(image, V):
    """The definition of the surrogate's projection."""
    turned = [
        rotate(image, angle, order=1, reshape=False, mode="constant", prefilter=False) for angle in view_angles(V)
    ]
    return np.stack([view.sum(axis=0) for view in turned])


SIZES = [(8, 10), (16, 20), (32, 40), (7, 9), (15, 13), (33, 31), (2, 1), (9, 12)]


@pytest.mark.parametrize(("H", "V"), SIZES)
def test_projector_is_rotate_and_sum_on_basis_images(H, V):
    images = np.eye(H * H).reshape(-1, H, H)[:: 1 + (H > 16) * 12]  # every one of a small image, some of a large
    expected = np.stack([rotate_and_sum(image, V) for image in images])
    assert abs(projector(H, V)(images) - expected).max() < 1e-12


def test_views_at_right_angles_keep_the_border():
    image = np.ones((16, 16))
    sinogram = projector(16, 2)(image)  # 0° and 90°
    np.testing.assert_array_equal(sinogram, np.full((2, 16), 16.0))


@given(st.integers(-720, 720))
def test_cosine_and_sine_in_degrees(degrees):
    c, s = cosine_and_sine(degrees)
    assert c == pytest.approx(np.cos(np.deg2rad(degrees)), abs=1e-14)
    assert s == pytest.approx(np.sin(np.deg2rad(degrees)), abs=1e-14)
    if degrees % 90 == 0:
        assert {abs(c), abs(s)} == {0.0, 1.0}


@pytest.mark.parametrize(("H", "V"), SIZES)
def test_adjoint_of_the_projector_and_of_its_inverse(H, V):
    A = projector(H, V)
    R = tikhonov_inverse(A, 0.1)
    W = Diagonal(np.random.default_rng(1).uniform(size=A.range))
    for operator in (A, R, R @ W, (R @ W @ A).T):
        assert adjoint_error(operator) < 1e-12


def test_a_large_sparse_operator_equals_its_dense_form():
    A = projector(24, 30)
    A.SMALL = 0
    image = np.random.default_rng(0).standard_normal((3, 24, 24))
    np.testing.assert_allclose(A(image), A.dense()(image), rtol=1e-12, atol=1e-12)
    assert adjoint_error(A) < 1e-12


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_norm_is_the_largest_singular_value(rows, columns, seed):
    values = np.random.default_rng(seed).standard_normal((rows, columns))
    largest = np.linalg.svd(values, compute_uv=False)[0]
    assert Matrix(values).norm(tol=1e-14) == pytest.approx(largest, rel=1e-4)


def test_norm_of_the_projector_and_of_zero():
    A = projector(8, 10)
    assert A.norm() == pytest.approx(np.linalg.norm(A.dense().values, 2), rel=1e-8)
    assert Matrix(np.zeros((3, 2))).norm() == 0


def test_tikhonov_inverse_of_any_operator():
    A = projector(4, 5)
    for other in (A.dense(), 1.0 * A, A.compressed()):
        np.testing.assert_allclose(tikhonov_inverse(other, 0.1).values, tikhonov_inverse(A, 0.1).values, atol=1e-12)


def test_tikhonov_inverse_solves_the_normal_equations():
    A = projector(8, 10)
    M = A.matrix()
    R = tikhonov_inverse(A, 0.1).matrix()
    np.testing.assert_allclose((M.T @ M + 0.1 * np.eye(64)) @ R, M.T, atol=1e-11)


def test_matrix_from_basis_vectors_is_the_matrix():
    rng = np.random.default_rng(3)
    values = rng.standard_normal((12, 6))
    A = Matrix(values, domain=(2, 3), range=(4, 3))
    np.testing.assert_array_equal(A.matrix(), values)
    np.testing.assert_array_equal(A.T.matrix(), values.T)
    assert A.shape == (12, 6)
    assert A.T.shape == (6, 12)


def test_batches_and_composition():
    rng = np.random.default_rng(4)
    A, B = Matrix(rng.standard_normal((4, 5))), Matrix(rng.standard_normal((5, 3)))
    x = rng.standard_normal((2, 7, 3))
    np.testing.assert_allclose((A @ B)(x), A(B(x)))
    np.testing.assert_allclose((A @ B)(x)[1, 3], (A @ B)(x[1, 3]))
    np.testing.assert_allclose((A @ B).matrix(), A.values @ B.values)


def test_wrong_shapes_are_named():
    A = Matrix(np.ones((4, 5)))
    with pytest.raises(ValueError, match=r"Matrix\(.*\) takes arrays of shape \(\.\.\., 5\), got \(2, 4\)"):
        A(np.ones((2, 4)))
    with pytest.raises(ValueError, match="cannot compose"):
        A @ A
    with pytest.raises(ValueError, match="cannot map"):
        Matrix(np.ones((4, 5)), domain=(2, 2), range=(4,))


def test_entries_with_the_same_place_add_up():
    A = Sparse(np.array([0, 0, 1]), np.array([1, 1, 0]), np.array([1.0, 2.0, 5.0]), domain=(2,), range=(2,))
    expected = [[0, 3], [5, 0]]
    np.testing.assert_array_equal(A.dense().values, expected)
    np.testing.assert_array_equal(A.compressed().values.toarray(), expected)


def each_class():
    """An operator of every class; the domain of each is (6, 8)."""
    rng = np.random.default_rng(5)
    g, values = FanBeam(8, 6, 8), rng.standard_normal((7, 48))
    sparse = Sparse(np.array([0, 6, 6]), np.array([47, 1, 2]), np.array([1.0, 2.0, 5.0]), domain=(6, 8), range=(7,))
    return {
        "Diagonal": Diagonal(rng.standard_normal((6, 8))),
        "Matrix": Matrix(values, domain=(6, 8), range=(7,)),
        "Sparse": sparse,
        "compressed": sparse.compressed(),
        "RampFilter": RampFilter(6, 8),
        "Backprojector": Backprojector(g),
        "Projector.T": Projector(g, "exact").T,
        "fbp": fbp(g),
        "SpectralFilter": SpectralFilter(np.cos(np.add.outer(np.fft.fftfreq(6) ** 2, np.fft.fftfreq(8) ** 2))),
    }


@pytest.mark.parametrize("name", each_class())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_of_the_input_is_kept(name, dtype):
    A = each_class()[name]
    x, y = (np.random.default_rng(6).standard_normal((2, *shape)).astype(dtype) for shape in (A.domain, A.range))
    for operator, batch in ((A, x), (A.T, y)):
        out = operator(batch)
        assert out.dtype == dtype
        assert operator(batch).tobytes() == out.tobytes()  # the second call takes what the first has converted
        expected = operator(batch.astype(np.float64))
        np.testing.assert_allclose(out, expected, rtol=0, atol=8 * np.finfo(dtype).eps * abs(expected).max())


@pytest.mark.parametrize("name", each_class())
def test_integers_and_booleans_are_converted_to_float64(name):
    A = each_class()[name]
    for dtype in (np.int64, np.uint8, bool, ">f8"):
        x = np.random.default_rng(7).integers(0, 2, (3, 6, 8)).astype(dtype)
        np.testing.assert_array_equal(A(x), A(x.astype(np.float64)), strict=True)


@pytest.mark.parametrize("name", each_class())
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16", "object"])
def test_other_dtypes_are_refused(name, dtype):
    A = each_class()[name]
    for operator in (A, A.T):
        with pytest.raises(TypeError, match=re.escape(repr(operator)) + f".*, got {np.dtype(dtype)}"):
            operator(np.ones(operator.domain, dtype))


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="takes NumPy arrays and torch tensors, got list"):
        Diagonal(np.ones(2))([1.0, 2.0])


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_of_other_classes_are_plain_arrays_or_refused():
    A, x = Diagonal(np.arange(4.0)), np.arange(16.0).reshape(4, 4)
    found = A(np.asmatrix(x))  # whose product with an array is that of matrices
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, A(x))
    with pytest.raises(TypeError, match=r"Diagonal.* takes arrays without a mask; use x\.filled\(0\)"):
        A(np.ma.masked_array(np.ones(4), [0, 0, 1, 0]))


def test_lists_make_operators():
    np.testing.assert_array_equal(Matrix([[1, 2], [3, 4]])(np.ones(2)), [3, 7])
    np.testing.assert_array_equal(Diagonal([1, 2])(np.ones(2)), [1, 2])
    np.testing.assert_array_equal(Sparse([1], [0], [5.0], (2,), (2,)).matrix(), [[0, 0], [5, 0]])
    assert Diagonal(3.0)(np.array(2.0)) == 6


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([0, 2], [0, 0], "rows has 2, and there are 2, counted from 0"),
        ([0, -1], [0, 0], "rows has -1, and there are 2"),
        ([0, 0], [0, 3], "columns has 3, and there are 3"),  # which would be the first of the next row
        ([0], [0, 1], r"lists of one length, got the shapes \(\(1,\), \(2,\), \(2,\)\)"),
    ],
)
def test_entries_outside_the_matrix_are_refused(rows, columns, message):
    with pytest.raises(ValueError, match=message):
        Sparse(np.array(rows), np.array(columns), np.ones(2), domain=(3,), range=(2,))


class Wrong(Operator):
    """Gives something else than it says."""

    def __init__(self, factor=1.0):
        super().__init__((2, 3), (2, 3))
        self.factor = factor

    def _apply(self, x):
        return self.factor * x

    def _adjoint(self, y):
        return y.swapaxes(1, 2)


def test_what_an_operator_gives_is_looked_at():
    with pytest.raises(ValueError, match=r"Wrong.*\.T gave the shape \(1, 3, 2\); `_apply` and `_adjoint` must keep"):
        Wrong().T(np.ones((2, 3)))
    with pytest.raises(ArithmeticError, match="gives numbers that are not finite, so it has no norm"):
        Wrong(np.nan).norm()
    with pytest.raises(NotImplementedError, match="Operator must define _apply"):
        Operator((2,), (2,))(np.ones(2))


def test_sizes_that_make_no_sense_are_refused():
    for make in (lambda: FanBeam(8.5, 6, 8), lambda: FanBeam("8", 6, 8), lambda: FanBeam(0, 6, 8)):
        with pytest.raises(KoctError, match=r"H = .* must be at least 1; give a whole number"):
            make()
    for width in (0, -1.0, np.nan):
        with pytest.raises(KoctError, match=r"width = .* must be a length above 0; give it in mm"):
            RampFilter(6, 8, width)
    with pytest.raises(ValueError, match=r"has two axes, got the shape \(4,\)"):
        SpectralFilter(np.ones(4))


def test_the_norm_of_weights_is_exact():
    assert Diagonal(np.array([1.0, -3.0, 2.9999999])).norm() == 3
    assert ComplexDiagonal(np.array([1.0, -3.0])).norm() == 3


def test_nothing_to_transform():
    torch = pytest.importorskip("torch")
    F = NonUniformFourier(8, RadialTrajectory(3, 8, 4.0))
    for A in (F, F.T, each_class()["SpectralFilter"]):
        assert A(torch.zeros(0, *A.domain)).shape == (0, *A.range)
    with pytest.raises(TypeError, match=r"takes dense tensors, got torch\.sparse_coo; use x\.to_dense\(\)"):
        F(torch.eye(8).to_sparse())


def test_complex_values_are_refused():
    for make in (Diagonal, Matrix, lambda values: Matrix(csr_array(values))):
        with pytest.raises(TypeError, match="needs real values, got complex128"):
            make(np.ones((2, 2)) * 1j)


def test_a_matrix_in_double_precision_is_one_product():
    """To the last bit: stored results were made with this product."""
    rng = np.random.default_rng(8)
    values, x, y = rng.standard_normal((40, 30)), rng.standard_normal((7, 5, 6)), rng.standard_normal((7, 40))
    A = Matrix(values, domain=(5, 6), range=(40,))
    np.testing.assert_array_equal(A(x), (values @ x.reshape(7, -1).T).T)
    np.testing.assert_array_equal(A.T(y), (values.T @ y.reshape(7, -1).T).T.reshape(7, 5, 6))


def test_stored_values_cannot_be_changed_through_an_operator():
    weights = np.ones((2, 3))
    for values in (Diagonal(weights).weights, Matrix(weights).values):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 2
    D = Diagonal(weights)
    weights[:] = 2
    np.testing.assert_array_equal(D(np.ones((2, 3), np.float32)), 1)
    np.testing.assert_array_equal(D(np.ones((2, 3))), 1)


@pytest.mark.parametrize("name", each_class())
def test_an_empty_batch(name):
    A = each_class()[name]
    assert A(np.ones((0, *A.domain))).shape == (0, *A.range)
    assert A.T(np.ones((0, *A.range))).shape == (0, *A.domain)


def test_repr_names_shapes_and_options():
    g = FanBeam(128, 60, 128)
    assert repr(Projector(g, "exact")) == "Projector((128, 128) -> (60, 128), rays='exact')"
    assert repr(Projector(g, "exact").T) == "Projector((128, 128) -> (60, 128), rays='exact').T"
    assert repr(RampFilter(4, 9, width=0.5)) == "RampFilter((4, 9) -> (4, 9), width=0.5)"
    assert repr(projector(4, 5)) == "Sparse((4, 4) -> (5, 4))"
    A = Backprojector(g) @ RampFilter(60, 128)
    assert repr(A) == "Backprojector((60, 128) -> (128, 128)) @ RampFilter((60, 128) -> (60, 128))"
    assert repr(A.T) == f"({A!r}).T"
    assert repr(Operator((2,), (3, 4))) == "Operator((2,) -> (3, 4))"
