"""Fourier transforms of images, filters given by their spectrum, and weights of complex samples.

Complex numbers are real arrays with a last axis of length 2, (real part, imaginary part): operators are real linear
maps, and ⟨a, b⟩ of such arrays is the real part of the complex inner product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from koct.base.arrays import ArrayT, library
from koct.operators.algebra import Diagonal, Operator
from koct.operators.constant import Constant


class ComplexDiagonal(Diagonal):
    """Multiplication of complex samples by one real weight each: on arrays of shape (*weights.shape, 2)."""

    def __init__(self, weights: Any) -> None:
        super().__init__(weights)
        self.domain = self.range = (*weights.shape, 2)

    def _apply(self, x: ArrayT) -> ArrayT:
        return self._constant.like(x)[..., None] * x

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self._apply(y)


class SpectralFilter(Operator):
    """A circular convolution of images: their discrete Fourier transform times `spectrum`, (height, width).

    The spectrum is real and even, in the order of `numpy.fft.fftfreq`, so the filter is self-adjoint. The image is
    taken as periodic: what leaves it on one side comes in on the other.
    """

    def __init__(self, spectrum: np.ndarray) -> None:
        spectrum = np.array(spectrum)
        if spectrum.ndim != 2:
            raise ValueError(f"the spectrum of a filter of images has two axes, got the shape {spectrum.shape}")
        super().__init__(spectrum.shape, spectrum.shape)
        mirrored = np.roll(spectrum[::-1, ::-1], 1, axis=(0, 1))
        if not np.allclose(spectrum, mirrored, rtol=1e-12, atol=0):
            raise ValueError("the spectrum of a filter of real images must be even: spectrum[-i, -j] = spectrum[i, j]")
        self.spectrum = spectrum
        self._half = Constant(spectrum[:, : spectrum.shape[1] // 2 + 1].copy(), type(self).__name__)

    def _apply(self, x: ArrayT) -> ArrayT:
        if not len(x):
            return x  # of which torch has no transform
        fft = library(x).fft
        return fft.irfft2(fft.rfft2(x) * self._half.like(x), self.range)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self._apply(y)

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        """The largest singular value: exact."""
        return float(np.abs(self.spectrum).max())

    def normal_matrix(self) -> np.ndarray:
        """The dense matrix of this filter applied twice, (pixels, pixels), in float64; it is block-circulant."""
        height, width = self.domain
        response = np.fft.ifft2(self.spectrum**2).real
        rows, columns = (np.subtract.outer(np.arange(n), np.arange(n)) % n for n in (height, width))
        return response[rows[:, None, :, None], columns[None, :, None, :]].reshape(self.shape)


def gaussian_spectrum(H: int, width: float) -> np.ndarray:
    """(H, H): the spectrum of a Gaussian blur with a standard deviation of `width` pixels; one at frequency zero."""
    frequency = np.fft.fftfreq(H)  # cycles per pixel
    one = np.exp(-2 * (np.pi * width * frequency) ** 2)
    return np.multiply.outer(one, one)
