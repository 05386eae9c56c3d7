"""Fan-beam geometry and its operators: forward projection, weighted backprojection, ramp filter, analytic weights.

Every operator takes NumPy arrays and torch tensors, float32 or float64, on the CPU or on a GPU, and gives back the
same kind; torch can differentiate through all of them. Keep apart: `Projector.T`, the exact adjoint of the forward
projection, and `Backprojector`, the pixel-driven backprojection of FBP, which has an adjoint of its own.
"""

import math
from dataclasses import dataclass

import numpy as np

from koct.arrays import is_torch
from koct.errors import KoctError
from koct.operators.algebra import Diagonal, Operator

RAYS = ("printed", "exact")


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

    @property
    def bins(self):
        """Centres of the bins along the detector."""
        return (np.arange(self.B) - (self.B - 1) / 2) * self.bin

    def onto_detector(self, angle):
        """Where each pixel is seen from the source: detector position in bins, and distance U along the axis."""
        x, y = self.pixels[None, :], self.pixels[:, None]
        c, s = np.cos(angle), np.sin(angle)
        U = (self.source_isocentre + x * s) - y * c
        position = x * (c * self.source_detector / self.bin) + y * (s * self.source_detector / self.bin)
        position /= U
        position += (self.B - 1) / 2
        return position, U

    def taps(self, angle):
        """How each pixel looks at a view that is padded by one zero before and two after: (left, weight, share).

        Its value is weight · view[left] + share · (view[left + 1] − view[left]), with the weight (SI/U)² π/V.
        """
        position, U = self.onto_detector(angle)
        position = np.clip(position + 1, 0, self.B + 1)
        left = position.astype(np.int32)  # truncation is floor: nothing is negative
        weight = (self.source_isocentre / U) ** 2 * (np.pi / self.V)
        return left, weight, (position - left) * weight


class Kernel(Operator):
    """An operator whose loops are compiled: Numba's for the CPU, Triton's for CUDA.

    Subclasses give `_cpu` and `_cuda` on batches of arrays or CUDA tensors, both with a flag for the adjoint.
    """

    def __init__(self, geometry, domain, range):
        super().__init__(domain, range)
        self.geometry = geometry
        self._tables = {}

    def _apply(self, x):
        return self._run(x, adjoint=False)

    def _adjoint(self, y):
        return self._run(y, adjoint=True)

    def _run(self, x, adjoint):
        if is_torch(x):
            from koct.operators.autograd import Linear

            return Linear.apply(x, self, adjoint)
        if x.dtype not in (np.float32, np.float64):
            x = x.astype(float)
        return self._cpu(x, adjoint)

    def table(self, *key):
        """`_table(*key)`, made once."""
        if key not in self._tables:
            self._tables[key] = self._table(*key)
        return self._tables[key]


class Projector(Kernel):
    """A, the forward projection from (H, H) images to (V, B) sinograms: bilinear samples along every ray, summed.

    rays = "printed": 2H samples on the whole way from the source to the detector, which made the printed numbers
    although neighbours are several pixels apart. rays = "exact": a line integral, in steps of half a pixel.
    """

    def __init__(self, geometry, rays):
        super().__init__(geometry, (geometry.H, geometry.H), (geometry.V, geometry.B))
        if rays not in RAYS:
            raise KoctError(f"rays = {rays!r} must be one of {', '.join(RAYS)}")
        self.rays = rays

    def samples(self):
        """(rays, count): row and column of each ray's first sample, in pixels, the steps, a sample's weight."""
        g = self.geometry
        pixel = 2 * g.radius / max(g.H - 1, 1)
        reach = math.sqrt(2) * (g.radius + pixel)  # nothing farther from the isocentre touches a pixel
        c, s = np.cos(g.angles)[:, None], np.sin(g.angles)[:, None]
        source = -g.source_isocentre * s, g.source_isocentre * c
        along = g.source_detector * s + g.bins * c, g.bins * s - g.source_detector * c
        length = np.broadcast_to(np.hypot(g.source_detector, g.bins), (g.V, g.B))
        if self.rays == "printed":
            step = np.full((g.V, g.B), 1 / (2 * g.H - 1))
            first = math.floor((g.source_isocentre - reach) / length.max() * (2 * g.H - 1))
            last = math.ceil((g.source_isocentre + reach) / g.source_detector * (2 * g.H - 1))
            first, last = max(first, 0), min(last, 2 * g.H - 1)
            count, start, weight = last - first + 1, first * step, length / (2 * g.H)
        else:
            count = math.ceil(2 * math.sqrt(2) * g.radius / (pixel / 2)) + 1
            step = pixel / 2 / length
            start = g.source_isocentre / length - (count - 1) / 2 * step
            weight = np.full((g.V, g.B), pixel / 2)
        x, y = ((at + start * way + g.radius) / pixel for at, way in zip(source, along, strict=True))
        dx, dy = (step * way / pixel for way in along)
        return np.stack([y, x, dy, dx, weight], axis=-1).reshape(-1, 5), count

    def _table(self, dtype, device=None):
        rays, count = self.samples()
        if device is None:
            return rays.astype(dtype), count
        from koct.operators import kernels_cuda

        return kernels_cuda.put(rays, dtype, device), count

    def _cpu(self, x, adjoint):
        from koct.operators import kernels_cpu

        H = self.geometry.H
        rays, count = self.table(x.dtype)
        if adjoint:
            sinograms = np.ascontiguousarray(x.reshape(len(x), -1).T)
            images = np.empty((H + 2, H + 2, len(x)), x.dtype)
            kernels_cpu.project_transposed(sinograms, images, rays, count, H)
            return np.ascontiguousarray(images[1:-1, 1:-1].transpose(2, 0, 1))
        images = np.zeros((H + 2, H + 2, len(x)), x.dtype)
        images[1:-1, 1:-1] = x.transpose(1, 2, 0)
        sinograms = np.empty((len(rays), len(x)), x.dtype)
        kernels_cpu.project(images, sinograms, rays, count, H)
        return np.ascontiguousarray(sinograms.T).reshape(-1, *self.range)

    def _cuda(self, x, adjoint):
        from koct.operators import kernels_cuda

        run = kernels_cuda.project_transposed if adjoint else kernels_cuda.project
        return run(x, *self.table(x.dtype, x.device), self.geometry)


class Backprojector(Kernel):
    """Aᵀ of the fan-beam network: pixel-driven, from (V, B) sinograms to (H, H) images, weight (SI/U)² π/V.

    Linear interpolation between bin centres, a bin beyond the detector being zero. It is not the adjoint of a
    forward projector; its own adjoint `.T` is exact.
    """

    def __init__(self, geometry):
        super().__init__(geometry, (geometry.V, geometry.B), (geometry.H, geometry.H))

    def _table(self, dtype, device=None):
        g = self.geometry
        if device is not None:
            from koct.operators import kernels_cuda

            return kernels_cuda.backprojection_table(g, device)
        half = (g.V + 1) // 2  # the other views are mirror images
        shape = half, g.H, g.H
        left, weight, share = np.empty(shape, np.uint16), np.empty(shape, dtype), np.empty(shape, dtype)
        for view, angle in enumerate(g.angles[:half]):
            left[view], weight[view], share[view] = g.taps(angle)
        return left, weight, share

    def _cpu(self, x, adjoint):
        """Two images at a time, each with its mirror image: four lanes; a last odd one has two."""
        out = np.empty((len(x), *(self.domain if adjoint else self.range)), x.dtype)
        run = self._scatter if adjoint else self._gather
        for first in range(0, len(x), 2):
            run(x[first : first + 2], out[first : first + 2])
        return out

    def _gather(self, x, out):
        from koct.operators import kernels_cpu

        (n, V, B), H = x.shape, self.geometry.H
        half = (V + 1) // 2
        views = np.zeros((half, B + 3, 2, n, 2), x.dtype)
        bins = views[:, :, 0]
        bins[:, 1 : B + 1, :, 0] = x[:, :half].transpose(1, 2, 0)
        bins[: V // 2, 1 : B + 1, :, 1] = x[:, : half - 1 : -1, ::-1].transpose(1, 2, 0)
        np.subtract(bins[:, 1:], bins[:, :-1], out=views[:, :-1, 1])
        image = np.empty((H, H, n, 2), x.dtype)
        kernels_cpu.gather(views.reshape(half, -1), image.reshape(H, -1), *self.table(x.dtype), 2 * n)
        np.add(image[..., 0], image[::-1, :, :, 1], out=out.transpose(1, 2, 0))

    def _scatter(self, y, out):
        from koct.operators import kernels_cpu

        (n, H, _), (V, B) = y.shape, self.domain
        half = (V + 1) // 2
        image = np.empty((H, H, n, 2), y.dtype)
        image[..., 0] = y.transpose(1, 2, 0)
        image[::-1, :, :, 1] = image[..., 0]
        views = np.empty((half, 2, B + 3, 2, n, 2), y.dtype)
        kernels_cpu.scatter(image.reshape(H, -1), views.reshape(half, 2, -1), *self.table(y.dtype), 2 * n)
        views = views[:, 0] + views[:, 1]
        bins = views[:, 1 : B + 1, 0] - views[:, 1 : B + 1, 1] + views[:, :B, 1]
        out[:, :half] = bins[..., 0].transpose(2, 0, 1)
        out[:, : half - 1 : -1, ::-1] = bins[: V // 2, ..., 1].transpose(2, 0, 1)

    def _cuda(self, x, adjoint):
        from koct.operators import kernels_cuda

        run = kernels_cuda.backproject_transposed if adjoint else kernels_cuda.backproject
        return run(x, self.table(x.dtype, x.device), self.geometry)

    def norm(self, tol=1e-6, max_iterations=1000):
        """Largest singular value by power iteration as in `Operator.norm`, but from the constant sinogram.

        No entry is negative, so neither is the leading singular vector: the start is close to it, and no
        iterate can be orthogonal to it.
        """
        return self._power_iteration(np.ones(self.domain), tol, max_iterations)


class RampFilter(Operator):
    """K, the ramp filter of every view; self-adjoint.

    Without a `width` it is that of the network: the unpadded spectrum times |frequency| in cycles per bin, a circular
    convolution that loses the mean of a view. With the width of a bin at the isocentre it is that of FBP: a linear
    convolution, in cycles per mm.
    """

    def __init__(self, V, B, width=None):
        super().__init__((V, B), (V, B))
        self.width = width
        self._matrices = {}

    def _apply(self, x):
        return x @ self._matrix(x)

    _adjoint = _apply

    def _matrix(self, x):
        """The filter as a symmetric matrix of the kind of x: for a few hundred bins as fast as FFTs."""
        key = (x.dtype, x.device) if is_torch(x) else x.dtype
        if key not in self._matrices:
            lag = np.abs(np.subtract.outer(np.arange(self.domain[1]), np.arange(self.domain[1])))
            matrix = self._wave()[lag]
            self._matrices[key] = x.new_tensor(matrix) if is_torch(x) else matrix.astype(x.dtype)
        return self._matrices[key]

    def _wave(self):
        """The filtered unit pulse: its value at the pulse, one bin away, two, and so on."""
        B = self.domain[1]
        if self.width is None:
            return np.fft.irfft(np.fft.rfftfreq(B), B) if B > 1 else np.zeros(1)
        lag = np.arange(1, B)
        return np.concatenate([[1 / 4], np.where(lag % 2, -1 / (np.pi * lag) ** 2, 0)]) / self.width

    def norm(self, tol=1e-10, max_iterations=10_000):
        """The largest |frequency| of the circular filter, exactly; power iteration for the other."""
        if self.width is not None:
            return super().norm(tol, max_iterations)
        return float(np.abs(np.fft.fftfreq(self.domain[1])).max())


def fbp(geometry):
    """Filtered backprojection, from line integrals to images: in theory the inverse of the exact `Projector`."""
    g = geometry
    ramp = RampFilter(g.V, g.B, width=g.bin * g.source_isocentre / g.source_detector)
    return Backprojector(g) @ ramp @ Diagonal(analytic_weights(g))


def analytic_weights(geometry):
    """(V, B): Parker's weights for the half circle, times the cosine of the fan angle; where training starts."""
    g = geometry
    beta, gamma = g.angles[:, None], np.arctan2(g.bins, g.source_detector)[None, :]
    overscan = 0.0  # angular range beyond the half circle
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.sin(np.pi / 4 * beta / (overscan - gamma)) ** 2
        falling = np.sin(np.pi / 4 * (np.pi + 2 * overscan - beta) / (overscan + gamma)) ** 2
    parts = [beta < 2 * (overscan - gamma), beta <= np.pi - 2 * gamma, beta <= np.pi + 2 * overscan]
    parker = np.select(parts, [rising, np.ones_like(rising), falling], 0.0)
    return parker * (g.source_detector / np.hypot(g.source_detector, g.bins))
