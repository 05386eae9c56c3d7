"""The two-dimensional non-uniform discrete Fourier transform: k-space samples of an image, anywhere, as in radial MRI.

The sample at k = (kx, ky), in cycles per field of view, is F(k) = 1/H · Σ f(row, column) exp(−2πi (kx·x + ky·y)), with
x = (column − H//2)/H and y = (row − H//2)/H. On the grid of whole k from −H//2 on, the transform is then orthonormal:
its adjoint is its inverse, and noise has the same standard deviation in k-space and in the image. Complex samples and
images are real arrays with a last axis of length 2, (real part, imaginary part).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from koct.base.arrays import ArrayT, is_torch, library, stacked
from koct.operators.algebra import Constant, Matrix, Operator

OVERSAMPLING = 2
WIDTH = 12  # points of the oversampled grid under the kernel, on each axis: relative errors of 1e-11; 8 give 1e-7


@dataclass(frozen=True)
class RadialTrajectory:
    """Radial k-space samples on diameters that are equally spaced over 180°.

    k is in cycles per field of view, so H/2 is the Nyquist frequency of an image of H×H pixels.

    Parameters
    ----------
    spokes : number of diameters
    samples : points on each, in equal steps; number samples//2 is the centre of k-space
    radius : a spoke covers k from −radius to radius

    Examples
    --------
    >>> from koct.operators.nufft import RadialTrajectory
    >>> RadialTrajectory(spokes=4, samples=8, radius=4.0).k.shape
    (4, 8, 2)
    """

    spokes: int
    samples: int
    radius: float

    @property
    def spacing(self) -> float:
        """Distance between neighbours on a spoke, in cycles per field of view."""
        return 2 * self.radius / self.samples

    @property
    def offsets(self) -> np.ndarray:
        """(samples,): where the samples of a spoke are, in cycles per field of view; negative on one half."""
        return (np.arange(self.samples) - self.samples // 2) * self.spacing

    @property
    def k(self) -> np.ndarray:
        """(spokes, samples, 2): all samples as (kx, ky), in cycles per field of view."""
        angles = np.pi * np.arange(self.spokes) / self.spokes
        return np.multiply.outer(np.stack([np.cos(angles), np.sin(angles)], axis=1), self.offsets).swapaxes(1, 2)

    def density_compensation(self) -> np.ndarray:
        """(spokes, samples): the share of k-space that belongs to each sample, in (cycles per field of view)².

        A ring of width `spacing` and radius |k| is shared by two samples of every spoke: π·|k|·spacing/spokes each. In
        the centre |k| has a kink, where the trapezoidal rule of ∫ |k| F dk lacks spacing²/6 · F(0) (Euler–Maclaurin);
        the weight there is π·spacing²/(6·spokes). With zero an image would lose its mean, and with the area of the disc
        around the centre, a 4 instead of the 6, it would get too much of it.
        """
        distance = np.maximum(np.abs(self.offsets), self.spacing / 6)
        return np.tile(np.pi * self.spacing / self.spokes * distance, (self.spokes, 1))


class NonUniformFourier(Operator):
    """F, from images of H×H pixels to their samples at the points of a trajectory; `F.T` is the exact adjoint.

    Images are real, (H, H), or complex, (H, H, 2); samples are complex, (*shape, 2). The adjoint of the transform of
    real images is the real part of the complex adjoint.

    Gridding: the image divided by the transform of a Kaiser–Bessel kernel, an FFT with twice as many points on each
    axis, and a sparse interpolation with that kernel.

    Parameters
    ----------
    H : height and width of the image, in pixels
    trajectory : a `RadialTrajectory`, or an array (*shape, 2) of points (kx, ky) in cycles per field of view
    complex_images : whether images are complex

    Examples
    --------
    >>> from koct.operators.nufft import NonUniformFourier, RadialTrajectory
    >>> F = NonUniformFourier(8, RadialTrajectory(spokes=4, samples=8, radius=4.0))
    >>> F(np.ones((8, 8)))[0, 4].round(9) + 0.0  # k = 0: the sum of the image, divided by H
    array([8., 0.])
    """

    def __init__(self, H: int, trajectory: RadialTrajectory | np.ndarray, complex_images: bool = False) -> None:
        k = points(trajectory)
        super().__init__((H, H, 2) if complex_images else (H, H), k.shape)
        self.H, self.k, self.complex_images = H, k, complex_images
        self.grid = OVERSAMPLING * H
        one = 1 / kernel_transform((np.arange(H) - H // 2) / self.grid)
        self._roll_off = Constant(np.multiply.outer(one, one) / H, self)

    @cached_property
    def interpolation(self) -> Matrix:
        """From the spectrum on the oversampled grid to the samples, the same for real and imaginary parts."""
        place = self.k.reshape(-1, 2) * OVERSAMPLING
        near = np.ceil(place - WIDTH / 2)[..., None] + np.arange(WIDTH)  # (samples, 2, WIDTH)
        weights = kernel(near - place[..., None])
        columns, rows = np.moveaxis(near.astype(np.int64) % self.grid, 1, 0)  # kx runs along the columns
        taps = rows[:, :, None] * self.grid + columns[:, None, :]
        values = weights[:, 1, :, None] * weights[:, 0, None, :]
        samples = np.repeat(np.arange(len(place)), WIDTH**2)
        return Matrix.from_entries(samples, taps.ravel(), values.ravel(), (self.grid, self.grid), self.range[:-1])

    def _apply(self, x: ArrayT) -> ArrayT:
        if not len(x):
            return x.reshape(0, *self.range)  # torch has no transform of nothing
        image: Any = x
        if self.complex_images:
            image = image[..., 0] + 1j * image[..., 1]
        spectrum = library(x).fft.fft2(self._padded(image * self._roll_off.like(x)))
        real, imaginary = (self.interpolation._apply(part) for part in (spectrum.real, spectrum.imag))
        return stacked([real, imaginary], axis=-1)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        if not len(y):
            return y.reshape(0, *self.domain)
        samples: Any = y
        real, imaginary = (self.interpolation._adjoint(samples[..., part]) for part in (0, 1))
        # the inverse FFT divides by the number of points, which the adjoint does not
        grid = library(y).fft.ifft2(real + 1j * imaginary) * self.grid**2
        shift = self.H // 2
        grid = library(grid).roll(grid, (shift, shift), (-2, -1))
        image = grid[:, : self.H, : self.H] * self._roll_off.like(y)
        return stacked([image.real, image.imag], axis=-1) if self.complex_images else image.real

    def _padded(self, image: Any) -> Any:
        """On the oversampled grid, with pixel H//2 at its origin and zeros in the middle."""
        more, shift = self.grid - self.H, -(self.H // 2)
        if is_torch(image):
            padded = library(image).nn.functional.pad(image, (0, more, 0, more))
        else:
            padded = np.pad(image, ((0, 0), (0, more), (0, more)))
        return library(image).roll(padded, (shift, shift), (-2, -1))


def points(trajectory: RadialTrajectory | np.ndarray) -> np.ndarray:
    """Return the points (kx, ky) of a trajectory, (*shape, 2), in cycles per field of view."""
    k = trajectory.k if isinstance(trajectory, RadialTrajectory) else np.asarray(trajectory, float)
    if k.ndim < 2 or k.shape[-1] != 2:
        raise ValueError(f"a trajectory is an array (..., 2) of points (kx, ky), got the shape {k.shape}")
    return k


# The Kaiser–Bessel kernel; its shape is that of Beatty, Nishimura and Pauly (2005) for this width and oversampling

SHAPE = np.pi * np.sqrt((WIDTH * (1 - 0.5 / OVERSAMPLING)) ** 2 - 0.8)


def kernel(t: np.ndarray) -> np.ndarray:
    """The kernel at distances t, in points of the oversampled grid; zero beyond half its width."""
    inside = np.maximum(1 - (2 * t / WIDTH) ** 2, 0)
    return np.where(np.abs(t) <= WIDTH / 2, np.i0(SHAPE * np.sqrt(inside)), 0)


def kernel_transform(f: np.ndarray) -> np.ndarray:
    """Its continuous Fourier transform at frequencies |f| ≤ 1/4, in cycles per point of the oversampled grid."""
    root = np.sqrt(SHAPE**2 - (np.pi * WIDTH * f) ** 2)
    return WIDTH * np.sinh(root) / root


def normal_of_adjoint(H: int, trajectory: RadialTrajectory | np.ndarray, complex_images: bool = False) -> np.ndarray:
    """Return F Fᵀ, dense, (2·points, 2·points).

    Sums of waves over pixels are products of sums over rows and over columns.
    """
    k, place = points(trajectory), (np.arange(H) - H // 2) / H
    # exp(2πi kx x) for every column and exp(2πi ky y) for every row, (points, H) each
    x, y = (np.exp(2j * np.pi * np.multiply.outer(k[..., axis].ravel(), place)) for axis in (0, 1))
    difference = (x @ x.conj().T) * (y @ y.conj().T) / H**2  # of k − l, for all pairs of points (k, l)
    normal = np.empty((len(x), 2, len(x), 2))
    if complex_images:
        normal[:, 0, :, 0] = normal[:, 1, :, 1] = difference.real
        normal[:, 0, :, 1], normal[:, 1, :, 0] = difference.imag, -difference.imag
    else:  # cos a · cos b = (cos(a − b) + cos(a + b))/2, and so on
        total = (x @ x.T) * (y @ y.T) / H**2  # of k + l
        normal[:, 0, :, 0] = (difference.real + total.real) / 2
        normal[:, 1, :, 1] = (difference.real - total.real) / 2
        normal[:, 0, :, 1] = (difference.imag - total.imag) / 2
        normal[:, 1, :, 0] = -(difference.imag + total.imag) / 2
    return normal.reshape(2 * len(x), 2 * len(x))
