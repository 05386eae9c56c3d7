"""Fan-beam geometry, its pixel-driven backprojection and the ramp filter: the known operators Aᵀ and K."""

import math
from dataclasses import dataclass

import numpy as np

from koct.ct.operators import Operator
from koct.errors import KoctError


@dataclass(frozen=True)
class FanBeam:
    """A flat detector of B bins and a source that turns over the half circle in V views, both ends included.

    Lengths are in mm. The image is H × H pixels, (x, y) = (column, row), and its half width `radius` is what
    the detector sees at the isocentre.
    """

    H: int
    V: int
    B: int
    source_isocentre: float = 1000.0
    source_detector: float = 1500.0
    bin: float = 1.0

    def __post_init__(self):
        for key in ("H", "V", "B"):
            if getattr(self, key) < 1:
                raise KoctError(f"{key} = {getattr(self, key)!r} must be at least 1; give a whole number")
        for key in ("source_isocentre", "source_detector", "bin"):
            if not 0 < getattr(self, key) < math.inf:
                raise KoctError(f"{key} = {getattr(self, key)!r} must be a length above 0; give it in mm")
        if math.sqrt(2) * self.radius >= self.source_isocentre:
            raise KoctError(
                f"source_isocentre = {self.source_isocentre!r} puts the source inside the image, whose corners are "
                f"{math.sqrt(2) * self.radius:.4g} from the centre; take fewer bins or a larger source_detector"
            )

    @property
    def radius(self):
        return 0.5 * self.B * self.bin * self.source_isocentre / self.source_detector

    @property
    def angles(self):
        return np.linspace(0, np.pi, self.V)

    @property
    def pixels(self):
        """Centres of the pixels, the same along x and y."""
        return np.linspace(-self.radius, self.radius, self.H)

    def onto_detector(self, angle):
        """Where each pixel is seen from the source: detector position in bins, and distance U along the axis."""
        x, y = self.pixels[None, :], self.pixels[:, None]
        c, s = np.cos(angle), np.sin(angle)
        U = (self.source_isocentre + x * s) - y * c
        position = x * (c * self.source_detector / self.bin) + y * (s * self.source_detector / self.bin)
        position /= U
        position += (self.B - 1) / 2
        return position, U


class Backprojector(Operator):
    """Aᵀ of the fan-beam network: pixel-driven, from (V, B) sinograms to (H, H) images, weight (SI/U)² π/V.

    Linear interpolation between bin centres, a bin beyond the detector being zero. It is not the adjoint of a
    forward projector; its own adjoint `.T` is exact.
    """

    def __init__(self, geometry):
        super().__init__((geometry.V, geometry.B), (geometry.H, geometry.H))
        self.geometry = geometry

    def _taps(self, angle):
        """For every pixel its left tap in a view padded by one zero before and two after, its share, its weight."""
        position, U = self.geometry.onto_detector(angle)
        position += 1
        np.clip(position, 0, self.geometry.B + 1, out=position)
        left = position.astype(np.intp)  # truncation is floor: nothing is negative
        position -= left
        weight = np.divide(self.geometry.source_isocentre, U, out=U)
        weight *= weight
        weight *= np.pi / self.geometry.V
        return left.ravel(), position.ravel(), weight.ravel()

    def _apply(self, x):
        image = np.zeros((len(x), math.prod(self.range)))
        views = np.pad(x, ((0, 0), (0, 0), (1, 2)))
        for view, angle in enumerate(self.geometry.angles):
            left, share, weight = self._taps(angle)
            for total, bins in zip(image, views[:, view], strict=True):
                value = np.diff(bins, append=0.0)[left]
                value *= share
                value += bins[left]
                value *= weight
                total += value
        return image.reshape(-1, *self.range)

    def _adjoint(self, y):
        V, B = self.domain
        sinogram = np.empty((len(y), V, B))
        for view, angle in enumerate(self.geometry.angles):
            left, share, weight = self._taps(angle)
            for bins, image in zip(sinogram[:, view], y.reshape(len(y), -1), strict=True):
                value = weight * image
                whole = np.bincount(left, value, B + 2)
                value *= share
                right = np.bincount(left, value, B + 2)
                bins[:] = (whole - right)[1 : B + 1] + right[:B]
        return sinogram

    def norm(self, tol=1e-6, max_iterations=1000):
        """Largest singular value by power iteration as in `Operator.norm`, but from the constant sinogram.

        No entry is negative, so neither is the leading singular vector: the start is close to it, and no
        iterate can be orthogonal to it.
        """
        v = np.ones(self.domain)
        v /= np.linalg.norm(v)
        estimate = 0.0
        for _ in range(max_iterations):
            u = self(v)
            previous, estimate = estimate, float(np.linalg.norm(u))
            if estimate - previous <= tol * estimate:
                return estimate
            v = self.T(u)
            v /= np.linalg.norm(v)
        raise ArithmeticError(f"the norm did not settle to {tol:g} in {max_iterations} power iterations")


class RampFilter(Operator):
    """K of the fan-beam network: each view's unpadded spectrum times |frequency| in cycles per bin; self-adjoint."""

    def __init__(self, V, B):
        super().__init__((V, B), (V, B))

    def _apply(self, x):
        B = self.domain[1]
        return np.fft.irfft(np.fft.rfft(x) * np.fft.rfftfreq(B), B)

    _adjoint = _apply

    def norm(self, tol=0.0, max_iterations=0):
        """The largest |frequency|: K is circulant, so this is exact and the arguments change nothing."""
        return float(np.abs(np.fft.fftfreq(self.domain[1])).max())
