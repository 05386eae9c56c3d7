"""Operators: laws that hold for every class and every input."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import rotate
from scipy.sparse import csr_array

from koct.operators.algebra import ComplexDiagonal, Diagonal, Identity, Matrix
from koct.operators.fanbeam import Backprojector, FanBeam, ParallelBeam, Projector, fbp
from koct.operators.filters import RampFilter, SpectralFilter, gaussian_spectrum
from koct.operators.nufft import NonUniformFourier, RadialTrajectory
from koct.operators.parallel import projector, tikhonov_inverse, view_angles
from koct.operators.testing import adjoint_error, assert_adjoint


@pytest.mark.parametrize(("H", "V"), [(8, 10), (16, 20), (32, 40), (7, 9), (15, 13), (33, 31), (2, 1)])
def test_projector_is_rotate_and_sum_on_basis_images(H, V):
    """Which is the definition of the surrogate's projection."""
    images = np.eye(H * H).reshape(-1, H, H)[:: 1 + (H > 16) * 12]  # every one of a small image, some of a large
    options = {"axes": (1, 2), "order": 1, "reshape": False, "mode": "constant", "prefilter": False}
    expected = np.stack([rotate(images, angle, **options).sum(axis=1) for angle in view_angles(V)], axis=1)
    assert abs(projector(H, V)(images) - expected).max() < 1e-12


def test_a_large_sparse_operator_equals_its_dense_form(monkeypatch):
    image = np.random.default_rng(0).standard_normal((3, 24, 24))
    expected = projector(24, 30)(image)
    monkeypatch.setattr(Matrix, "SMALL", 0)
    A = projector(24, 30)
    assert not A.dense
    np.testing.assert_allclose(A(image), expected, rtol=1e-12, atol=1e-12)
    assert adjoint_error(A) < 1e-12


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_norm_is_the_largest_singular_value(rows, columns, seed):
    values = np.random.default_rng(seed).standard_normal((rows, columns))
    largest = np.linalg.svd(values, compute_uv=False)[0]
    assert Matrix(values).norm(tol=1e-14) == pytest.approx(largest, rel=1e-4)


def test_the_norm_of_an_operator_whose_singular_values_are_hard_to_tell_apart():
    """The inverse of a slow amplifier: power iteration does not settle in 10,000 steps."""
    lag = np.subtract.outer(np.arange(128), np.arange(128))
    slow = np.where(lag >= 0, np.exp(-np.maximum(lag, 0) / 4) / 4, 0)
    inverse = np.linalg.solve(slow.T @ slow + 0.01 * np.eye(128), slow.T)
    assert Matrix(inverse).norm() == pytest.approx(np.linalg.norm(inverse, 2), rel=1e-9)


def test_tikhonov_inverse_solves_the_normal_equations():
    A = projector(8, 10)
    for operator in (A, 1.0 * A, Matrix(csr_array(A.values), A.domain, A.range)):
        M, R = operator.matrix(), tikhonov_inverse(operator, 0.1)
        np.testing.assert_allclose((M.T @ M + 0.1 * np.eye(64)) @ R.matrix(), M.T, atol=1e-11)
        assert adjoint_error(R) < 1e-12


def each_class():
    """An operator of every class, and what is made of them."""
    rng = np.random.default_rng(5)
    g, values = FanBeam(8, 6, 8), rng.standard_normal((7, 48))
    entries = np.array([0, 6, 6]), np.array([47, 1, 2]), np.array([1.0, 2.0, 5.0])
    sparse = Matrix.from_entries(*entries, domain=(6, 8), range=(7,))
    radial = RadialTrajectory(9, 16, 4.0)
    F, density = NonUniformFourier(8, radial), ComplexDiagonal(radial.density_compensation())
    back, exact = Backprojector(g), Projector(g, "exact")
    return {
        "Diagonal": Diagonal(rng.standard_normal((6, 8))),
        "Matrix": Matrix(values, domain=(6, 8), range=(7,)),
        "compressed": Matrix(csr_array(sparse.values), (6, 8), (7,)),
        "parallel": projector(8, 6),
        "RampFilter": RampFilter(6, 8),
        "Backprojector": back,
        "Projector": exact,
        "printed": Projector(FanBeam(32, 3, 32), "printed"),
        "fbp": fbp(g),
        "fbp, arc": fbp(FanBeam(5, 4, 6, arc=90)),
        "fbp, own angles": fbp(FanBeam(5, 3, 6, degrees=(0.0, 30.0, 31.5))),
        "parallel beam, arc": fbp(ParallelBeam(5, 4, 6, arc=90)),
        "parallel beam, own angles": Projector(ParallelBeam(5, 3, 6, degrees=(31.5, 90.0, 200.0))),
        "SpectralFilter": SpectralFilter(np.cos(np.add.outer(np.fft.fftfreq(6) ** 2, np.fft.fftfreq(8) ** 2))),
        "NonUniformFourier": F,
        "complex images": NonUniformFourier(5, rng.standard_normal((7, 2)) * 9, complex_images=True),
        "gridding": F.T @ density,
        "sum": back - 2 * exact.T,
        "identity": Identity((6, 8)) / 3,
    }


CLASSES = pytest.mark.parametrize("name", each_class())


@CLASSES
def test_adjoint_matrix_and_batches(name):
    A = each_class()[name]
    assert_adjoint(A)
    assert_adjoint(A.T, seed=3)
    assert_adjoint(3 * A + A)
    rng = np.random.default_rng(2)
    for operator in (A, A.T):
        x = rng.standard_normal((2, 3, *operator.domain))
        close = {"rtol": 1e-11, "atol": 1e-11 * abs(operator(x)).max()}
        np.testing.assert_allclose(operator(x[1, 2]).ravel(), operator.matrix() @ x[1, 2].ravel(), **close)
        np.testing.assert_allclose(operator(x)[1, 2], operator(x[1, 2]), **close)
        np.testing.assert_allclose(operator.T.matrix(), operator.matrix().T, **close)
        assert operator(x[:0]).shape == (0, 3, *operator.range)


@CLASSES
def test_the_precision_of_the_input_is_kept(name):
    A = each_class()[name]
    assert_adjoint(A, dtype="float32")
    for operator in (A, A.T):
        x = np.random.default_rng(6).standard_normal((2, *operator.domain)).astype(np.float32)
        out, expected = operator(x), operator(x.astype(float))
        assert (out.dtype, expected.dtype) == (np.float32, np.float64)
        assert operator(x).tobytes() == out.tobytes()  # the second call takes what the first has converted
        tolerance = 1e-5 if name in ("printed", "gridding") or "Fourier" in repr(A) else 8 * np.finfo(np.float32).eps
        np.testing.assert_allclose(out, expected, rtol=0, atol=tolerance * abs(expected).max())
    for dtype in (np.int64, np.uint8, bool, ">f8"):
        x = np.random.default_rng(7).integers(0, 2, (3, *A.domain)).astype(dtype)
        np.testing.assert_array_equal(A(x), A(x.astype(np.float64)), strict=True)


@pytest.mark.parametrize(
    ("dtype", "fix"),
    [("float16", r"x\.astype\(np\.float32\)"), ("complex64", r"x\.real and to x\.imag"), ("object", r"np\.float64\)")],
)
def test_other_dtypes_are_refused(dtype, fix):
    for A in each_class().values():
        message = re.escape(repr(A)) + f" takes real numbers in float32 or float64, got {dtype}; .*{fix}$"
        with pytest.raises(TypeError, match=message):
            A(np.ones(A.domain, dtype))


# Fourier transforms

TRAJECTORIES = [RadialTrajectory(9, 16, 4.0), RadialTrajectory(5, 15, 7.5), RadialTrajectory(1, 1, 3.0)]


@pytest.mark.parametrize("complex_images", [False, True])
@pytest.mark.parametrize("H", [4, 8, 15])
def test_the_non_uniform_transform_is_the_direct_sum(H, complex_images):
    """Also beyond the Nyquist frequency."""
    rng, place = np.random.default_rng(0), (np.arange(H) - H // 2) / H
    x = rng.standard_normal((H, H, 2) if complex_images else (H, H))
    image = x[..., 0] + 1j * x[..., 1] if complex_images else x
    for trajectory in [*TRAJECTORIES, rng.standard_normal((7, 2)) * 2 * H]:
        A = NonUniformFourier(H, trajectory, complex_images)
        kx, ky = np.moveaxis(A.k, -1, 0)[..., None, None]
        expected = (np.exp(-2j * np.pi * (kx * place + ky * place[:, None])) * image).sum((-2, -1)) / H
        found = A(x)[..., 0] + 1j * A(x)[..., 1]
        assert np.linalg.norm(found - expected) < 1e-10 * np.linalg.norm(expected)
        assert_adjoint(A)


def test_a_filter_is_a_circular_convolution():
    """A wide Gaussian spectrum has the sampled Gaussian as its response, and the closed form is the matrix squared."""
    H, width = 16, 1.3
    A = SpectralFilter(gaussian_spectrum(H, width))
    impulse = np.zeros((H, H))
    impulse[0, 0] = 1
    distance = np.minimum(np.arange(H), H - np.arange(H))
    gauss = np.exp(-(distance**2) / (2 * width**2)) / np.sqrt(2 * np.pi * width**2)
    np.testing.assert_allclose(A(impulse), np.outer(gauss, gauss), atol=1e-4)
    np.testing.assert_allclose(A(np.roll(impulse, (15, 3), (0, 1))), np.roll(A(impulse), (15, 3), (0, 1)), atol=1e-15)
    np.testing.assert_allclose(A.normal_matrix(), A.matrix().T @ A.matrix(), atol=1e-14)
    assert A.norm() == pytest.approx(np.linalg.norm(A.matrix(), 2))
    with pytest.raises(ValueError, match=r"has two axes, got the shape \(4,\)"):
        SpectralFilter(np.ones(4))
    with pytest.raises(ValueError, match="must be even"):
        SpectralFilter(np.random.default_rng(0).standard_normal((4, 4)))


@pytest.mark.parametrize("trajectory", TRAJECTORIES[:2], ids=str)
def test_density_compensation_shares_out_the_disc(trajectory):
    """Weights are areas: |k| but for the centre, and together the disc that the spokes cover."""
    weights = trajectory.density_compensation()
    assert weights.sum() == pytest.approx(np.pi * trajectory.radius**2, rel=0.01)
    centre = trajectory.samples // 2
    assert trajectory.k[:, centre].tolist() == [[0, 0]] * trajectory.spokes
    assert weights[0, centre] == pytest.approx(np.pi * trajectory.spacing**2 / 6 / trajectory.spokes)
    np.testing.assert_allclose(weights[:, centre + 1] / weights[:, centre], 6)
    np.testing.assert_allclose(weights[:, centre + 3] / weights[:, centre + 1], 3)
