"""The loops of fan and parallel beam for CUDA, written in Triton, which is installed with torch.

Only a few numbers are stored for every view or ray: the position of a pixel on the detector is computed where it is
needed. A stored sparse matrix would have to be read from memory in every iteration, 1.5 GB at H = 512. Every sum has a
fixed order, so the same input gives the same bits; the only exception is `project_transposed`, which no training uses.
"""
# Triton interprets the annotations of its kernels, so they have no type hints.
# mypy: allow-untyped-defs, allow-incomplete-defs

import numpy as np
import torch
import triton
import triton.language as tl

from koct.operators.geometry import Scan

BLOCK = 128
SEGMENTS = 8  # parts of an image that `backproject_transposed` sums at the same time


def to_device(array: np.ndarray, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A NumPy array as a contiguous tensor."""
    return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)


def backprojection_table(geometry: Scan, device: torch.device) -> tuple[torch.Tensor, bool]:
    """What the kernels need to find pixels on the detector: a (V, 6) table, and whether to visit every pixel of a line.

    The row of a view is A, B, C, D, whether the axes are swapped (see `Scan.detector_lines`), and what a view stands
    for in radians. Positions are differences of large numbers, so they are computed in float64; everything else is
    computed in the precision of the data.
    """
    lines, swapped, every_pixel = geometry.detector_lines()
    views = np.stack([*lines, swapped, np.full(geometry.V, geometry.view_weight)], axis=1)
    return to_device(views, torch.float64, device), every_pixel


@triton.jit
def _gather(x, out, views, V, B, H, BLOCK: tl.constexpr):
    T: tl.constexpr = x.dtype.element_ty
    image = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = pixel < H * H
    middle, centre = (H - 1) * 0.5, (B - 1) * 0.5
    px, py = (pixel % H).to(tl.float64) - middle, (pixel // H).to(tl.float64) - middle
    x += image * V * B
    total = tl.zeros([BLOCK], dtype=T)
    for v in range(V):
        view = views + 6 * v
        swapped = tl.load(view + 4) > 0
        across, along = tl.where(swapped, py, px), tl.where(swapped, px, py)
        U = 1 + across * tl.load(view + 2) + along * tl.load(view + 3)
        offset = across * tl.load(view) + along * tl.load(view + 1)
        inverse = 1 / U.to(T)
        floor = tl.floor(offset.to(T) * inverse + centre)
        share = (offset - (floor - centre).to(tl.float64) * U).to(T) * inverse
        left = floor.to(tl.int32)
        one = tl.load(x + v * B + left, mask=exists & (left >= 0) & (left < B), other=0.0)
        two = tl.load(x + v * B + left + 1, mask=exists & (left >= -1) & (left < B - 1), other=0.0)
        total += inverse * inverse * (one + share * (two - one))
    tl.store(out + image * H * H + pixel, total * tl.load(views + 5).to(T), mask=exists)


@triton.jit
def _scatter(images, out, views, batch, V, B, H, LINES, ALL: tl.constexpr, BLOCK: tl.constexpr):
    """For every bin of a view, visit the image line by line and add up the pixels that touch the bin."""
    T: tl.constexpr = images.dtype.element_ty
    v, bins = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    image, segment = (tl.program_id(2) % batch).to(tl.int64), tl.program_id(2) // batch
    exists = bins < B
    middle = (H - 1) * 0.5
    bin = bins.to(tl.float64) - (B - 1) * 0.5
    view = views + 6 * v
    A, B_, C, D = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    swapped = (tl.load(view + 4) > 0).to(tl.int64)
    images += (swapped * batch + image) * H * H
    step, rise = A - bin * C, B_ - bin * D  # U times the distance to the bin is across·step + along·rise − bin
    before, after = (1 / (step + C)).to(T), (1 / (step - C)).to(T)
    step_, C_ = step.to(T), C.to(T)
    total = tl.zeros([BLOCK], dtype=T)
    for line in range(segment * LINES, tl.minimum(segment * LINES + LINES, H)):
        along = (line - middle).to(tl.float64)
        offset = along * rise - bin
        if ALL:
            first = tl.zeros([BLOCK], dtype=tl.int32)
            count = H
        else:
            # where the line meets the bins before and after this one; a pixel lost to rounding hardly touches the bin
            shift, slope = -offset.to(T), (1 + along * D).to(T)
            one, two = (shift - slope) * before + middle, (shift + slope) * after + middle
            first = tl.ceil(tl.minimum(one, two) - 1e-3).to(tl.int32)
            count = tl.max(tl.where(exists, tl.floor(tl.maximum(one, two) + 1e-3).to(tl.int32) - first, -1)) + 1
        across = first.to(tl.float64) - middle
        distance = (across * step + offset).to(T)
        U = (1 + across * C + along * D).to(T)
        row = images + line * H
        for k in range(count):
            inverse = 1 / U
            near = tl.maximum(1.0 - tl.abs(distance * inverse), 0.0)
            inside = exists & (first + k >= 0) & (first + k < H)
            total += inverse * inverse * near * tl.load(row + first + k, mask=inside, other=0.0)
            distance += step_
            U += C_
    tl.store(out + ((segment * batch + image) * V + v) * B + bins, total * tl.load(view + 5).to(T), mask=exists)


def backproject(x: torch.Tensor, table: tuple[torch.Tensor, bool], geometry: Scan) -> torch.Tensor:
    """`Backprojector` on contiguous sinograms (batch, V, B)."""
    (views, _), g = table, geometry
    out = x.new_empty(len(x), g.H, g.H)
    if len(x):
        _gather[triton.cdiv(g.H * g.H, BLOCK), len(x)](x, out, views, g.V, g.B, g.H, BLOCK=BLOCK)
    return out


def backproject_transposed(y: torch.Tensor, table: tuple[torch.Tensor, bool], geometry: Scan) -> torch.Tensor:
    """The transpose of `backproject`, on images (batch, H, H)."""
    (views, every_pixel), g = table, geometry
    images = torch.stack([y, y.transpose(1, 2)])
    parts = y.new_empty(SEGMENTS, len(y), g.V, g.B)
    if len(y):
        grid = g.V, triton.cdiv(g.B, BLOCK), len(y) * SEGMENTS
        sizes = len(y), g.V, g.B, g.H, triton.cdiv(g.H, SEGMENTS)
        _scatter[grid](images, parts, views, *sizes, ALL=every_pixel, BLOCK=BLOCK)
    return parts.sum(0)


@triton.jit
def _project(images, out, rays, count, samples, H, BLOCK: tl.constexpr):
    image = tl.program_id(1).to(tl.int64)
    ray = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = ray < count
    y0, x0 = tl.load(rays + 5 * ray, mask=exists, other=0), tl.load(rays + 5 * ray + 1, mask=exists, other=0)
    dy, dx = tl.load(rays + 5 * ray + 2, mask=exists, other=0), tl.load(rays + 5 * ray + 3, mask=exists, other=0)
    images += image * H * H
    total = tl.zeros([BLOCK], dtype=y0.dtype)
    for k in range(samples):
        y, x = y0 + k * dy, x0 + k * dx
        top, left = tl.floor(y), tl.floor(x)
        i, j = top.to(tl.int32), left.to(tl.int32)
        v, u = y - top, x - left
        above, below = exists & (i >= 0) & (i < H), exists & (i >= -1) & (i < H - 1)
        west, east = (j >= 0) & (j < H), (j >= -1) & (j < H - 1)
        at = images + i * H + j
        a, b = tl.load(at, mask=above & west, other=0.0), tl.load(at + 1, mask=above & east, other=0.0)
        c, d = tl.load(at + H, mask=below & west, other=0.0), tl.load(at + H + 1, mask=below & east, other=0.0)
        upper, lower = a + u * (b - a), c + u * (d - c)
        total += upper + v * (lower - upper)
    weight = tl.load(rays + 5 * ray + 4, mask=exists, other=0)
    tl.store(out + image * count + ray, weight * total, mask=exists)


@triton.jit
def _project_transposed(sinograms, out, rays, count, samples, H, BLOCK: tl.constexpr):
    image = tl.program_id(1).to(tl.int64)
    ray = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = ray < count
    y0, x0 = tl.load(rays + 5 * ray, mask=exists, other=0), tl.load(rays + 5 * ray + 1, mask=exists, other=0)
    dy, dx = tl.load(rays + 5 * ray + 2, mask=exists, other=0), tl.load(rays + 5 * ray + 3, mask=exists, other=0)
    weight = tl.load(rays + 5 * ray + 4, mask=exists, other=0)
    value = weight * tl.load(sinograms + image * count + ray, mask=exists, other=0.0)
    out += image * H * H
    for k in range(samples):
        y, x = y0 + k * dy, x0 + k * dx
        top, left = tl.floor(y), tl.floor(x)
        i, j = top.to(tl.int32), left.to(tl.int32)
        v, u = y - top, x - left
        above, below = exists & (i >= 0) & (i < H), exists & (i >= -1) & (i < H - 1)
        west, east = (j >= 0) & (j < H), (j >= -1) & (j < H - 1)
        at = out + i * H + j
        tl.atomic_add(at, (1 - v) * (1 - u) * value, mask=above & west)
        tl.atomic_add(at + 1, (1 - v) * u * value, mask=above & east)
        tl.atomic_add(at + H, v * (1 - u) * value, mask=below & west)
        tl.atomic_add(at + H + 1, v * u * value, mask=below & east)


def project(x: torch.Tensor, rays: torch.Tensor, samples: int, geometry: Scan) -> torch.Tensor:
    """`Projector` on contiguous images (batch, H, H); `rays` and `samples` are what `Projector.samples` returns."""
    g = geometry
    out = x.new_empty(len(x), g.V, g.B)
    if len(x):
        _project[triton.cdiv(len(rays), BLOCK), len(x)](x, out, rays, len(rays), samples, g.H, BLOCK=BLOCK)
    return out


def project_transposed(y: torch.Tensor, rays: torch.Tensor, samples: int, geometry: Scan) -> torch.Tensor:
    """The transpose of `project`, on contiguous sinograms (batch, V, B)."""
    g = geometry
    out = y.new_zeros(len(y), g.H, g.H)
    if len(y):
        _project_transposed[triton.cdiv(len(rays), BLOCK), len(y)](y, out, rays, len(rays), samples, g.H, BLOCK=BLOCK)
    return out
