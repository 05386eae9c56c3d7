"""The loops of forward projection and of its exact adjoint for CUDA, written in Triton, which is installed with torch.

Both find samples along rays by the same operations in the precision of the data, so their weights are equal bit by bit.
The adjoint asks for every pixel which samples touch it, so that nothing has to be added up by atomic operations: the
same input gives the same bits.
"""
# Triton interprets the annotations of its kernels, so they have no type hints.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl

from koct.operators.cuda.backprojection import along_x_and_y
from koct.operators.cuda.layout import (
    TILE_COLUMNS,
    Groups,
    both_ways,
    lanes,
    reciprocal,
    spread,
    tile_of,
    tile_rows,
    tiles,
    to_device,
    zeros,
)
from koct.operators.geometry import Scan

# A program of one warp ends with its own rays, and unrolled loops have 16 loads in flight: at H = 256 with 4 images an
# H200 takes 107 µs instead of 260 with 128 rays a program and one step at a time.
BLOCK = 32  # rays of a view that one program follows
UNROLL = 4
BORDER = 2  # zeros around an image: as many as a sample touches
MARGIN = 1e-3  # pixels, bins or samples by which ranges are wider than they would be without rounding


@dataclass(frozen=True)
class Rays:
    """`Scan.samples` as kernels read it, and where the adjoint looks for rays.

    `rays` is (5, V·B). `views` (V, 8) has how the place of a pixel on the detector changes (see `Scan.detector_lines`,
    but along x and y), whether rays run along x, how far from that place rays can touch the pixel, in bins, how many
    do, and a zero. `nearest` are the most samples of a ray that can touch a pixel.
    """

    rays: torch.Tensor
    samples: int
    views: torch.Tensor
    nearest: int


def ray_tables(geometry: Scan, rays: np.ndarray, samples: int, dtype: torch.dtype, device: torch.device) -> Rays:
    """The tables of a geometry and its rays for data of this precision."""
    g = geometry
    lines = across, down, wider, deeper = along_x_and_y(g)
    end, reach = (g.H - 1) / 2, np.zeros(g.V)
    for x in (-end, end):
        for y in (-end, end):
            U = 1 + x * wider + y * deeper
            place = (x * across + y * down) / U
            nearer = np.maximum(U - abs(wider) - abs(deeper), 1e-3 * U)  # the source may be close to the image
            reach = np.maximum(reach, (abs(across - place * wider) + abs(down - place * deeper)) / nearer)
    reach += MARGIN + 1e-6 * g.B
    near = np.minimum(np.floor(2 * reach) + 1, g.B)
    views = np.stack([*lines, abs(down) > abs(across), reach, near, np.zeros(g.V)], axis=1)
    step = np.hypot(rays[:, 2], rays[:, 3]).min()
    nearest = min(math.floor(2 * math.sqrt(2) / step + 2 * MARGIN) + 1, samples)
    return Rays(to_device(rays.T, dtype, device), samples, to_device(views, dtype, device), nearest)


@triton.jit
def _crossed(start, step, H, samples):
    """The samples of a ray between which one coordinate is inside the image, or a little outside it."""
    safe = tl.where(tl.abs(step) < 1e-6, 1e-6, step)
    one, two = (-1 - start) / safe, (H - start) / safe
    first = tl.minimum(tl.maximum(tl.minimum(one, two) - 1, 0.0), samples)
    last = tl.maximum(tl.minimum(tl.maximum(one, two) + 1, samples - 1.0), -1.0)
    along = tl.abs(step) < 1e-6  # the coordinate hardly changes
    first, last = tl.floor(first).to(tl.int32), tl.ceil(last).to(tl.int32)
    return tl.where(along, 0, first), tl.where(along, samples - 1, last)


@triton.jit
def _project(
    images, out, rays, views, samples, batch, groups, V, B, H,
    BORDER: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Follow the rays of a view through the images, all of them along the same row, or the same column, at a time.

    Neighbouring rays then read neighbouring pixels: of the transposed image if they run along x.
    """
    v, bins = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(2).to(tl.int64)
    exists = bins < B
    ray, count = v * B + tl.minimum(bins, B - 1), V * B
    y0, x0, dy = tl.load(rays + ray), tl.load(rays + count + ray), tl.load(rays + 2 * count + ray)
    dx, weight = tl.load(rays + 3 * count + ray), tl.load(rays + 4 * count + ray)
    along_x = tl.load(views + 8 * v + 4) > 0
    first_y, last_y = _crossed(y0, dy, H, samples)
    first_x, last_x = _crossed(x0, dx, H, samples)
    start = tl.where(along_x, first_x, first_y)
    first, last = tl.maximum(first_x, first_y), tl.where(exists, tl.minimum(last_x, last_y), -1)
    meets = first <= last
    begin = tl.min(tl.where(meets, first - start, samples))
    end = tl.max(tl.where(meets, last - start, -1))
    pitch = H + 2 * BORDER
    down, right = tl.where(along_x, 1, pitch) * WIDTH, tl.where(along_x, pitch, 1) * WIDTH
    images += (along_x.to(tl.int64) * groups + group) * pitch * pitch * WIDTH + BORDER * (down + right)
    images += lanes(WIDTH)
    total = zeros(BLOCK, WIDTH, y0.dtype)
    for n in tl.range(begin, end + 1, loop_unroll_factor=UNROLL):
        k = start + n
        y, x = y0 + k * dy, x0 + k * dx
        top, left = tl.floor(y), tl.floor(x)
        v_, u_ = spread(y - top, WIDTH), spread(x - left, WIDTH)
        # samples beyond the image, or beyond the end of the ray, go to its border, where all pixels are zero
        i = tl.minimum(tl.maximum(top.to(tl.int32), -BORDER), tl.where(k <= last, H, -BORDER))
        j = tl.minimum(tl.maximum(left.to(tl.int32), -BORDER), H)
        at = images + spread(i * down + j * right, WIDTH)
        a, b = tl.load(at), tl.load(at + right)
        c, d = tl.load(at + down), tl.load(at + down + right)
        upper, lower = a + u_ * (b - a), c + u_ * (d - c)
        total += upper + v_ * (lower - upper)
    image = group * WIDTH + lanes(WIDTH)
    at = out + (image * V + v) * B + spread(bins, WIDTH)
    tl.store(at, spread(weight, WIDTH) * total, mask=spread(exists, WIDTH) & (image < batch))


@triton.jit
def _project_transposed(
    sinograms, out, rays, views, samples, batch, V, B, H,
    NEAREST: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """For every pixel and view, visit the rays near the pixel, and of each the samples that touch the pixel."""
    T: tl.constexpr = sinograms.dtype.element_ty
    _tile, i, j = tile_of(H, ROWS, COLUMNS)
    group = tl.program_id(1).to(tl.int64) * PARTS
    row, column = i.to(T), j.to(T)
    y, x = row - (H - 1) * 0.5, column - (H - 1) * 0.5
    count = V * B
    stride = count * WIDTH
    sinograms += group * stride + lanes(WIDTH)
    total, more = zeros(ROWS * COLUMNS, WIDTH, T), zeros(ROWS * COLUMNS, WIDTH, T)
    for v in range(V):
        view = views + 8 * v
        # `first` is computed twice, once for the rays and once for their measurements, which other threads hold. So
        # every rounding is written down: of x·a + y·b a compiler would round one product or the other as it likes, and
        # a ray would meet the measurement of its neighbour where the place is close to a whole number.
        U = tl.fma(y, tl.load(view + 3), tl.fma(x, tl.load(view + 2), 1.0))
        place = tl.fma(tl.fma(x, tl.load(view), y * tl.load(view + 1)), reciprocal(U), (B - 1) * 0.5)
        first = tl.maximum(tl.ceil(place - tl.load(view + 5)), 0.0).to(tl.int32)
        for n in range(tl.load(view + 6).to(tl.int32)):
            bin = first + n
            exists = (bin >= 0) & (bin < B)
            ray = v * B + tl.minimum(tl.maximum(bin, 0), B - 1)
            y0 = tl.load(rays + ray, mask=exists, other=-1e9)  # a ray that does not exist is far away
            x0 = tl.load(rays + count + ray)
            dy, dx = tl.load(rays + 2 * count + ray), tl.load(rays + 3 * count + ray)
            square = reciprocal(dy * dy + dx * dx)
            middle = ((row - y0) * dy + (column - x0) * dx) * square
            k = tl.ceil(middle - 1.41422 * tl.sqrt(square) - 1e-3)
            k = tl.minimum(tl.maximum(k, 0.0), samples - NEAREST)
            near = tl.zeros([ROWS * COLUMNS], dtype=T)
            for _n in tl.static_range(NEAREST):
                down, right = (y0 + k * dy) - row, (x0 + k * dx) - column
                near += tl.maximum(1 - tl.abs(down), 0.0) * tl.maximum(1 - tl.abs(right), 0.0)
                k += 1
            at, near = sinograms + spread(ray * WIDTH, WIDTH), spread(near, WIDTH)
            total += near * tl.load(at)
            if PARTS == 2:
                more += near * tl.load(at + stride)
    sums = total, more
    inside, pixel = spread((i < H) & (j < H), WIDTH), spread(i * H + j, WIDTH)
    for part in tl.static_range(PARTS):
        image = (group + part) * WIDTH + lanes(WIDTH)
        tl.store(out + image * H * H + pixel, sums[part], mask=inside & (image < batch))


def project(x: torch.Tensor, tables: Rays, geometry: Scan) -> torch.Tensor:
    """`Projector` on contiguous images (batch, H, H)."""
    g, batch = geometry, len(x)
    out = x.new_empty(batch, g.V, g.B)
    if batch:
        groups = Groups(min(batch, 4) if batch != 3 else 4, 1, triton.cdiv(batch, 4))
        images = both_ways(x, groups, BORDER, BORDER, g.H + 2 * BORDER)
        grid = g.V, triton.cdiv(g.B, BLOCK), groups.count
        sizes = tables.samples, batch, groups.count, g.V, g.B, g.H
        options = {"BORDER": BORDER, "WIDTH": groups.width, "BLOCK": BLOCK, "UNROLL": UNROLL}
        _project[grid](images, out, tables.rays, tables.views, *sizes, **options, num_warps=1)
    return out


def project_transposed(y: torch.Tensor, tables: Rays, geometry: Scan) -> torch.Tensor:
    """The adjoint of `project`, on contiguous sinograms (batch, V, B)."""
    g, batch = geometry, len(y)
    out = y.new_empty(batch, g.H, g.H)
    if batch:
        groups = Groups.of(batch)
        sinograms = groups.together(y * tables.rays[4].view(g.V, g.B))
        sizes = tables.samples, batch, g.V, g.B, g.H
        options = {"NEAREST": tables.nearest, "ROWS": tile_rows(g.H), "COLUMNS": TILE_COLUMNS, **groups.options()}
        grid = tiles(g.H), groups.programs
        _project_transposed[grid](sinograms, out, tables.rays, tables.views, *sizes, **options)
    return out
