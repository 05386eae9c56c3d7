"""Fourier transforms: the non-uniform one against the direct sum, filters, weights of samples."""

import numpy as np
import pytest

from koct.operators.algebra import Matrix
from koct.operators.filters import SpectralFilter, gaussian_spectrum
from koct.operators.nufft import NonUniformFourier, RadialTrajectory, points

TRAJECTORIES = [RadialTrajectory(9, 16, 4.0), RadialTrajectory(5, 15, 7.5), RadialTrajectory(1, 1, 3.0)]


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def dot_test(A):
    x, y = random((2, *A.domain)), random((2, *A.range), 1)
    return abs(np.vdot(A(x), y) - np.vdot(x, A.T(y))) / (np.linalg.norm(A(x)) * np.linalg.norm(y))


def direct(H, trajectory, complex_images=False):
    """The same operator as a dense matrix of the direct sum."""
    k = points(trajectory)
    place = (np.arange(H) - H // 2) / H
    x, y = (np.exp(-2j * np.pi * np.multiply.outer(k[..., axis].ravel(), place)) for axis in (0, 1))
    waves = (y[:, :, None] * x[:, None, :]).reshape(len(x), H * H) / H
    parts = np.stack([waves.real, waves.imag], axis=1)  # (points, 2, pixels)
    if not complex_images:
        return Matrix(parts.reshape(-1, H * H), (H, H), k.shape)
    of_imaginary = np.stack([-waves.imag, waves.real], axis=1)
    return Matrix(np.stack([parts, of_imaginary], axis=-1).reshape(-1, 2 * H * H), (H, H, 2), k.shape)


@pytest.mark.parametrize("complex_images", [False, True])
@pytest.mark.parametrize("H", [4, 8, 15])
def test_the_transform_is_the_direct_sum(H, complex_images):
    """Written out for one sample, as the module defines it; and for all of them, also beyond the Nyquist frequency."""
    image = random((H, H)) + 1j * random((H, H), 1) * complex_images
    x = np.stack([image.real, image.imag], axis=-1) if complex_images else image.real
    place = (np.arange(H) - H // 2) / H
    for trajectory in [*TRAJECTORIES, random((7, 2)) * 2 * H]:
        A, exact = (make(H, trajectory, complex_images) for make in (NonUniformFourier, direct))
        assert relative(A(x), exact(x)) < 1e-10
        assert relative(A.T(random(A.range)), exact.T(random(A.range))) < 1e-10
        kx, ky = A.k.reshape(-1, 2)[-1]
        wave = np.exp(-2j * np.pi * (kx * place[None, :] + ky * place[:, None]))
        real, imaginary = exact(x).reshape(-1, 2)[-1]
        assert real + 1j * imaginary == pytest.approx((wave * image).sum() / H, abs=1e-12)


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
        SpectralFilter(random((4, 4)))


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
