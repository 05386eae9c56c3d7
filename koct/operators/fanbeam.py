"""Operators of fan and parallel beam: forward projection, backprojection, filtered backprojection (FBP), weights.

Do not confuse `Projector.T`, the exact adjoint of the forward projection, with `Backprojector`, the pixel-driven
backprojection of FBP, which has an adjoint of its own. `algebra` says which kinds of arrays operators take.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from koct.errors import KoctError
from koct.operators.algebra import Compiled, Diagonal, Operator
from koct.operators.filters import RampFilter
from koct.operators.geometry import RAYS, Scan
from koct.operators.geometry import FanBeam as FanBeam
from koct.operators.geometry import ParallelBeam as ParallelBeam

if TYPE_CHECKING:
    import torch


class Kernel(Compiled, ABC):
    """An operator of a geometry whose loops are compiled: by Numba for the CPU, by Triton for CUDA.

    Subclasses define `_table` as well, what the loops need to know of the geometry: without a device as NumPy arrays.
    """

    def __init__(self, geometry: Scan, domain: Iterable[int], range: Iterable[int]) -> None:
        super().__init__(domain, range)
        self.geometry = geometry
        self._tables: dict[tuple[object, ...], Any] = {}

    def table(self, dtype: Any, device: Any = None) -> Any:
        """`_table(dtype, device)`, computed once."""
        key = dtype, device
        if key not in self._tables:
            self._tables[key] = self._table(dtype, device)
        return self._tables[key]

    @abstractmethod
    def _table(self, dtype: Any, device: Any) -> Any: ...


class Projector(Kernel):
    """A, the forward projection from (H, H) images to (V, B) sinograms: bilinear samples, summed along every ray.

    A sinogram is in the unit of the image times mm.

    Parameters
    ----------
    geometry : the scan
    rays : "exact" for line integrals, in steps of half a pixel; "printed" for 2H samples from source to detector, which
        the printed numbers rest on although neighbours are several pixels apart, for the fan beam only

    Examples
    --------
    >>> from koct import FanBeam, Projector
    >>> A = Projector(FanBeam(H=8, V=6, B=12))
    >>> A(np.ones((5, 8, 8))).shape, A.T(np.ones((6, 12))).shape
    ((5, 6, 12), (8, 8))
    """

    def __init__(self, geometry: Scan, rays: str = "exact") -> None:
        super().__init__(geometry, (geometry.H, geometry.H), (geometry.V, geometry.B))
        if rays not in RAYS:
            raise KoctError(f"rays = {rays!r} must be one of {', '.join(RAYS)}")
        self.rays = rays

    def _options(self) -> dict[str, object]:
        return {"rays": self.rays}

    def _table(self, dtype: Any, device: Any) -> Any:
        rays, count = self.geometry.samples(self.rays)
        if device is None:
            return rays.astype(dtype), count
        from koct.operators.cuda import projection as projection_cuda

        return projection_cuda.ray_tables(self.geometry, rays, count, dtype, device)

    def _cpu(self, x: np.ndarray, adjoint: bool) -> np.ndarray:
        from koct.operators import kernels_cpu

        H = self.geometry.H
        rays, count = self.table(x.dtype)
        if adjoint:
            sinograms = np.ascontiguousarray(x.reshape(len(x), len(rays)).T)
            images = np.empty((H + 2, H + 2, len(x)), x.dtype)
            kernels_cpu.project_transposed(sinograms, images, rays, count, H)
            return np.ascontiguousarray(images[1:-1, 1:-1].transpose(2, 0, 1))
        images = np.zeros((H + 2, H + 2, len(x)), x.dtype)
        images[1:-1, 1:-1] = x.transpose(1, 2, 0)
        sinograms = np.empty((len(rays), len(x)), x.dtype)
        kernels_cpu.project(images, sinograms, rays, count, H)
        return np.ascontiguousarray(sinograms.T).reshape(-1, *self.range)

    def _cuda(self, x: torch.Tensor, adjoint: bool) -> torch.Tensor:
        from koct.operators.cuda import projection as projection_cuda

        run = projection_cuda.project_transposed if adjoint else projection_cuda.project
        return run(x, self.table(x.dtype, x.device), self.geometry)


class Backprojector(Kernel):
    """Aᵀ of the networks: pixel-driven backprojection from (V, B) sinograms to (H, H) images.

    Every view is interpolated linearly between the centres of its bins, with zeros beyond the detector, and weighted by
    what it stands for, π/V radians if the views cover the half circle; for the fan beam also by (SI/U)²: SI and U are
    the distances from the source to the isocentre and to the pixel, along the central ray. It is not the adjoint of a
    forward projector; its own adjoint `.T` is exact.

    Parameters
    ----------
    geometry : the scan

    Examples
    --------
    >>> from koct.operators.fanbeam import Backprojector, ParallelBeam
    >>> Backprojector(ParallelBeam(H=8, V=6, B=12))
    Backprojector((6, 12) -> (8, 8))
    """

    def __init__(self, geometry: Scan) -> None:
        super().__init__(geometry, (geometry.V, geometry.B), (geometry.H, geometry.H))

    def _table(self, dtype: Any, device: Any) -> Any:
        g = self.geometry
        if device is not None:
            from koct.operators.cuda import backprojection as backprojection_cuda

            return backprojection_cuda.backprojection_tables(g, dtype, device)
        stored, _ = self._lanes(1)  # the other views are mirror images
        shape = stored, g.H, g.H
        left, weight, share = np.empty(shape, np.uint16), np.empty(shape, dtype), np.empty(shape, dtype)
        for view, angle in enumerate(g.angles[:stored]):
            left[view], weight[view], share[view] = g.taps(angle)
        return left, weight, share

    def _cpu(self, x: np.ndarray, adjoint: bool) -> np.ndarray:
        """Eight lanes: four images at a time, each with its mirror image, or eight images; a rest makes four or two."""
        out = np.empty((len(x), *(self.domain if adjoint else self.range)), x.dtype)
        most, run = 4 if self.geometry.mirrored else 8, self._scatter if adjoint else self._gather
        first = 0
        while first < len(x):
            last = first + (most if len(x) - first >= most else most // 2)
            run(x[first:last], out[first:last])
            first = last
        return out

    def _lanes(self, images: int) -> tuple[int, int]:
        """Return how many views the table has, and how many lanes there are: 2, 4 or 8."""
        g = self.geometry
        views, used = ((g.V + 1) // 2, 2 * images) if g.mirrored else (g.V, images)
        return views, next(lanes for lanes in (2, 4, 8) if used <= lanes)

    def _gather(self, x: np.ndarray, out: np.ndarray) -> None:
        from koct.operators import kernels_cpu

        (n, V, B), H = x.shape, self.geometry.H
        stored, lanes = self._lanes(n)
        views = np.zeros((stored, B + 3, 2, lanes), x.dtype)
        bins = views[:, :, 0]
        bins[:, 1 : B + 1, :n] = x[:, :stored].transpose(1, 2, 0)
        if self.geometry.mirrored:
            bins[: V // 2, 1 : B + 1, n:] = x[:, : stored - 1 : -1, ::-1].transpose(1, 2, 0)
        np.subtract(bins[:, 1:], bins[:, :-1], out=views[:, :-1, 1])
        image = np.empty((H, H, lanes), x.dtype)
        kernels_cpu.gather(views.reshape(stored, -1), image.reshape(H, -1), *self.table(x.dtype), lanes)
        out[:] = image[..., :n].transpose(2, 0, 1)
        if self.geometry.mirrored:
            out += image[::-1, :, n:].transpose(2, 0, 1)

    def _scatter(self, y: np.ndarray, out: np.ndarray) -> None:
        from koct.operators import kernels_cpu

        (n, H, _), (V, B) = y.shape, self.domain
        stored, lanes = self._lanes(n)
        image = np.zeros((H, H, lanes), y.dtype)
        image[..., :n] = y.transpose(1, 2, 0)
        if self.geometry.mirrored:
            image[::-1, :, n:] = image[..., :n]
        views = np.empty((stored, 2, B + 3, 2, lanes), y.dtype)
        kernels_cpu.scatter(image.reshape(H, -1), views.reshape(stored, 2, -1), *self.table(y.dtype), lanes)
        views = views[:, 0] + views[:, 1]
        bins = views[:, 1 : B + 1, 0] - views[:, 1 : B + 1, 1] + views[:, :B, 1]
        out[:, :stored] = bins[..., :n].transpose(2, 0, 1)
        if self.geometry.mirrored:
            out[:, : stored - 1 : -1, ::-1] = bins[: V // 2, ..., n:].transpose(2, 0, 1)

    def _cuda(self, x: torch.Tensor, adjoint: bool) -> torch.Tensor:
        from koct.operators.cuda import backprojection as backprojection_cuda

        run = backprojection_cuda.backproject_transposed if adjoint else backprojection_cuda.backproject
        return run(x, self.table(x.dtype, x.device), self.geometry)

    def norm(self, tol: float = 1e-6, max_iterations: int = 1000) -> float:
        """The largest singular value by power iteration as in `Operator.norm`, but from the constant sinogram.

        The matrix has no negative entry, so neither has its leading singular vector: the constant sinogram is close to
        it and cannot be orthogonal to it.
        """
        return self._power_iteration(np.ones(self.domain), tol, max_iterations)


def backprojection_normal(back: Backprojector, ramp: RampFilter) -> np.ndarray:
    """Return RᵀR for R = `back` @ `ramp`: (V·B, V·B) in float64, computed for one pair of views after the other.

    A pixel touches two bins of each view, so one pass over the pixels gives all B² entries of a pair.
    """
    from koct.operators import kernels_cpu

    (V, B), g = back.domain, back.geometry
    K = ramp.view_matrix
    taps = [tuple(part.ravel() for part in g.taps(angle)) for angle in g.angles]
    normal = np.empty((V, B, V, B))
    block = np.empty((B + 3, B + 3))
    for v in range(V):
        for u in range(v + 1):
            kernels_cpu.add_pair(block, *taps[v], *taps[u])
            normal[v, :, u] = K @ block[1 : B + 1, 1 : B + 1] @ K
            normal[u, :, v] = normal[v, :, u].T
        if v % 10 == 9 or v == V - 1:
            print(f"normal matrix: {v + 1} of {V} views", flush=True)
    return normal.reshape(V * B, V * B)


def fbp(geometry: Scan, cutoff: float | None = None) -> Operator:
    """Return filtered backprojection.

    In theory it inverts the `Projector` with rays = "exact": sinograms are in the unit of the image times mm.

    Parameters
    ----------
    geometry : the scan
    cutoff : smooths by the Hann window of `RampFilter`; by default nothing does

    Returns
    -------
    operator : from (V, B) line integrals to (H, H) images

    Examples
    --------
    >>> from koct.operators.fanbeam import ParallelBeam, Projector, fbp
    >>> scan = ParallelBeam(H=16, V=64, B=24)
    >>> disc = 1.0 * (np.hypot(*np.meshgrid(scan.pixels, scan.pixels)) < 6)
    >>> image = fbp(scan)(Projector(scan)(disc))
    >>> bool(abs(image[7:9, 7:9] - 1).max() < 0.05)
    True
    """
    g = geometry
    return Backprojector(g) @ RampFilter(g.V, g.B, g.width, cutoff) @ Diagonal(analytic_weights(g))


def analytic_weights(geometry: Scan) -> np.ndarray:
    """Return the weights of FBP: what a measurement stands for times the cosine of its fan angle.

    A view stands for an interval of angles, `Scan.intervals`. Where two views measure the same line from its two ends,
    they share it by Parker's weights; the full circle has one half. A fan beam over less than 180° plus the fan angle
    never measures some lines. The first and the last view are the nearest to them and stand for them as well: the
    image then has the right values, but not the details that only these lines show. That is so for arcs of 180° and
    more; below, what is stood for shrinks to nothing at 180° minus the fan angle.

    Parameters
    ----------
    geometry : the scan

    Returns
    -------
    weights : (V, B)

    Examples
    --------
    >>> from koct.operators.fanbeam import ParallelBeam, analytic_weights
    >>> analytic_weights(ParallelBeam(H=8, V=2, B=3))
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """
    g = geometry
    first, last = g.intervals
    start, gamma = first.min(), g.fan_angles
    if g.span == math.tau:
        angle = np.full((g.V, g.B), 0.5) * (last - first)[:, None]
    else:
        arc = last.max() - start
        upper, lower = (_parker_integral(edge[:, None] - start, gamma[None, :], arc) for edge in (last, first))
        angle = upper - lower
        for view, side in ((g.angles.argmin(), 1), (g.angles.argmax(), -1)):
            angle[view] += np.maximum(side * gamma - abs(arc - np.pi) / 2, 0)  # half of the lines that are missing
    return angle * g.cosines / g.view_weight


def _parker_integral(beta: np.ndarray, gamma: np.ndarray, arc: float) -> np.ndarray:
    """Return the integral of Parker's weights over the angle of the view, from 0 to `beta`.

    Over an arc of π + 2ε they rise as sin² for 0 ≤ β ≤ 2(ε − γ), are one, and fall as sin² in the last 2(ε + γ).
    """

    def of_squared_sine(t: np.ndarray, length: np.ndarray) -> np.ndarray:
        """Return the integral of sin²(πu/2l) for 0 ≤ u ≤ min(t, l), where l is the `length`."""
        length = np.maximum(length, np.finfo(float).tiny)
        t = np.clip(t, 0, length)
        return t / 2 - length / (2 * np.pi) * np.sin(np.pi * t / length)

    rise, fall = (np.maximum(arc - np.pi + sign * 2 * gamma, 0) for sign in (-1, 1))
    return of_squared_sine(beta, rise) + np.maximum(beta - rise, 0) - of_squared_sine(beta - (arc - fall), fall)


def printed_weights(geometry: Scan) -> np.ndarray:
    """Return the weights of the paper: Parker's at the angle of each view times the cosine of the fan angle.

    At 180° they are zero on half of the first and of the last view, and every view counts the same: they sum to less
    than `analytic_weights`.

    Parameters
    ----------
    geometry : the scan

    Returns
    -------
    weights : (V, B)

    Examples
    --------
    >>> from koct.operators.fanbeam import FanBeam, printed_weights
    >>> printed_weights(FanBeam(H=8, V=3, B=4)).round(3)[0]
    array([0., 0., 1., 1.])
    """
    g = geometry
    beta, gamma = (g.angles - g.angles.min())[:, None], g.fan_angles[None, :]
    if g.span == math.tau:
        parker = np.full((g.V, g.B), 0.5)
    else:
        overscan = (g.span - np.pi) / 2  # half the angular range beyond the half circle, in radians
        with np.errstate(divide="ignore", invalid="ignore"):
            rising = np.sin(np.pi / 4 * beta / (overscan - gamma)) ** 2
            falling = np.sin(np.pi / 4 * (np.pi + 2 * overscan - beta) / (overscan + gamma)) ** 2
        parts = [beta < 2 * (overscan - gamma), beta <= np.pi - 2 * gamma, beta <= np.pi + 2 * overscan]
        parker = np.select(parts, [rising, np.ones_like(rising), falling], 0.0)
    return parker * g.cosines
