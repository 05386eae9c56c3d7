"""Filters of sinograms, and of images given by their spectrum."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from koct.base.arrays import ArrayT, library
from koct.errors import KoctError
from koct.operators.algebra import Constant, Operator


class RampFilter(Operator):
    """K, the ramp filter of every view of a (V, B) sinogram; self-adjoint.

    Parameters
    ----------
    V : number of views
    B : number of bins
    width : width of a bin at the isocentre, in mm, for the filter of FBP: a linear convolution, with the frequency in
        cycles per mm. Without it, the filter of the paper: the unpadded spectrum of a view times |frequency| in cycles
        per bin, which is a circular convolution and removes the mean of the view.
    cutoff : share of the Nyquist frequency at which a Hann window falls to zero; the smaller, the smoother. It needs a
        `width`.

    Examples
    --------
    >>> from koct.operators.filters import RampFilter
    >>> RampFilter(1, 4)(np.array([[0.0, 1.0, 0.0, 0.0]]))
    array([[-0.125,  0.25 , -0.125,  0.   ]])
    """

    def __init__(self, V: int, B: int, width: float | None = None, cutoff: float | None = None) -> None:
        super().__init__((V, B), (V, B))
        if width is not None and not 0 < width < np.inf:
            raise KoctError(f"width = {width!r} must be a length above 0; give it in mm")
        if cutoff is not None and not 0 < cutoff <= 1:
            raise KoctError(f"cutoff = {cutoff!r} must be above 0 and at most 1, the Nyquist frequency")
        if cutoff is not None and width is None:
            raise KoctError(f"cutoff = {cutoff!r} is for the linear filter; give its width too")
        self.width, self.cutoff = width, cutoff

    def _options(self) -> dict[str, object]:
        options = {"width": self.width, "cutoff": self.cutoff}
        return {name: value for name, value in options.items() if value is not None}

    def _apply(self, x: ArrayT) -> ArrayT:
        return x @ self._constant.like(x)

    _adjoint = _apply

    @property
    def view_matrix(self) -> np.ndarray:
        """(B, B): the symmetric matrix that filters one view, in float64."""
        return self._constant.values

    @property
    def period(self) -> int:
        """The least length of a view, padded by zeros, for which this is a circular convolution."""
        return self.domain[1] if self.width is None else 2 * self.domain[1] - 1

    @property
    def spectrum(self) -> np.ndarray:
        """(period // 2 + 1,): what it multiplies the discrete Fourier transform of a view of that length by."""
        response = self._impulse_response()
        return np.fft.rfft(response if self.width is None else np.concatenate([response, response[:0:-1]])).real

    @cached_property
    def _constant(self) -> Constant:
        """The matrix of a view: for a few hundred bins the product with it is as fast as FFTs."""
        distance = np.abs(np.subtract.outer(np.arange(self.domain[1]), np.arange(self.domain[1])))
        return Constant(self._impulse_response()[distance], self)

    def _impulse_response(self) -> np.ndarray:
        """(B,): the filtered unit impulse, 0, 1, 2, ... bins away from the impulse."""
        B = self.domain[1]
        if self.width is None:
            return np.fft.irfft(np.fft.rfftfreq(B), B) if B > 1 else np.zeros(1)
        if self.cutoff is not None:
            at, shift = np.arange(B), 1 / self.cutoff  # a factor of 1 + cos in frequency is three shifts in space
            parts = (_band_ramp(at + n * shift, self.cutoff / 2) / (4 if n else 2) for n in (-1, 0, 1))
            return np.sum(list(parts), axis=0) / self.width
        distance = np.arange(1, B)
        return np.concatenate([[1 / 4], np.where(distance % 2, -1 / (np.pi * distance) ** 2, 0)]) / self.width

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        """The largest singular value: exact."""
        if self.width is not None:
            return float(np.linalg.norm(self.view_matrix, 2))
        return float(np.abs(np.fft.fftfreq(self.domain[1])).max())


def _band_ramp(at: np.ndarray, limit: float) -> np.ndarray:
    """Return the integral of |f| cos(2πf·at) over the frequencies −limit ≤ f ≤ limit."""
    return limit**2 * (2 * np.sinc(2 * limit * at) - np.sinc(limit * at) ** 2)


class SpectralFilter(Operator):
    """A circular convolution of images: their discrete Fourier transform times a spectrum; self-adjoint.

    The image is taken as periodic: what leaves it on one side comes in on the other.

    Parameters
    ----------
    spectrum : real and even array (height, width), in the order of `numpy.fft.fftfreq`

    Examples
    --------
    >>> from koct.operators.filters import SpectralFilter, gaussian_spectrum
    >>> SpectralFilter(gaussian_spectrum(4, 1.0))(np.ones((4, 4)))[0]
    array([1., 1., 1., 1.])
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
        self._half = Constant(spectrum[:, : spectrum.shape[1] // 2 + 1].copy(), self)

    def _apply(self, x: ArrayT) -> ArrayT:
        if not len(x):
            return x  # of which torch has no transform
        fft = library(x).fft
        return fft.irfft2(fft.rfft2(x) * self._half.like(x), self.range)

    _adjoint = _apply

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
    """Return the spectrum (H, H) of a Gaussian blur with a standard deviation of `width` pixels; one at frequency 0."""
    frequency = np.fft.fftfreq(H)  # cycles per pixel
    one = np.exp(-2 * (np.pi * width * frequency) ** 2)
    return np.multiply.outer(one, one)
