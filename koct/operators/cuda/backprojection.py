"""The loops of backprojection and of its transpose for CUDA, written in Triton, which is installed with torch.

No matrix is stored: the place of a pixel on the detector is computed where it is needed, once for up to eight images,
which lie side by side in memory. Every sum has a fixed order, so the same input gives the same bits.

Places are found in float64 for one point of every tile of pixels, or of every ray, and in the precision of the data
relative to that point. In float32 they are then off by less than 9 · 2⁻²⁴ times the distance to it, of at most 17
pixels or MOST_LINES lines: 9e-6 and 3.5e-5 bins if a pixel is as wide as a bin. Computed in float32 from the isocentre
on they would be off by 2e-4 bins at H = 512.
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

from koct.operators.cuda.layout import (
    TILE_COLUMNS,
    Groups,
    both_ways,
    lanes,
    reciprocal,
    spread,
    summed,
    tile_of,
    tile_rows,
    tiles,
    to_device,
    zeros,
)
from koct.operators.geometry import Scan

BORDER = 2  # zeros at both ends of a view, as many as a place touches bins
SEGMENTS = 8  # parts of an image whose sums over lines are computed at the same time
SCATTER_BLOCK = 32  # bins of a view that one program computes
MOST_LINES = 64  # lines of an image over which a ray is followed in the precision of the data


@dataclass(frozen=True)
class Tables:
    """What the kernels need to know of a geometry.

    `tiles` (tiles, V, 8) has, of the centre of a tile, its place on the detector as a bin and a share of one, the
    distance U, how U and how U times the place change with a step along x and along y, and what a view stands for in
    radians. `views` (V, 6) has A, B, C, D and whether the axes are swapped (see `Scan.detector_lines`), and what a view
    stands for, in float64. `count` are the pixels of a line that can be between the rays of neighbouring bins; it is 0
    if all pixels have to be visited.
    """

    tiles: torch.Tensor
    views: torch.Tensor
    count: int


def along_x_and_y(geometry: Scan) -> np.ndarray:
    """(4, V): how U times the place of a pixel, and how U changes with a step along x and along y."""
    lines, swapped, _ = geometry.detector_lines()
    return np.where(swapped, lines[[1, 0, 3, 2]], lines)


def backprojection_tables(geometry: Scan, dtype: torch.dtype, device: torch.device) -> Tables:
    """The tables of a geometry for data of this precision."""
    g, (lines, swapped, every_pixel) = geometry, geometry.detector_lines()
    views = np.stack([*lines, swapped, np.full(g.V, g.view_weight)], axis=1)
    count = 0 if every_pixel else _between(g, lines)
    return Tables(to_device(_tiles(g), dtype, device), to_device(views, torch.float64, device), count)


def _tiles(g: Scan) -> np.ndarray:
    x, y = ((np.arange(0, g.H, size) + (size - g.H) / 2)[:, None] for size in (TILE_COLUMNS, tile_rows(g.H)))
    x, y = x[None, :], y[:, None]  # of the centres, from the isocentre on; the last axis is that of the views
    across, down, wider, deeper = along_x_and_y(g)
    U = 1 + x * wider + y * deeper
    place = (x * across + y * down) / U
    bin = np.floor(place + (g.B - 1) / 2)
    share = place + (g.B - 1) / 2 - bin
    changes = wider, deeper, across - place * wider, down - place * deeper
    columns = bin, share, U, *changes, np.full(g.V, g.view_weight)
    return np.stack(np.broadcast_arrays(*columns), axis=-1).reshape(-1, g.V, 8)


def _between(g: Scan, lines: np.ndarray) -> int:
    """The largest number of pixels of a line of the image between the rays of two neighbouring bins.

    From a ray where it is U = 1 + across·C + along·D it takes U / (A − (bin + 1)·C) pixels to the next one.
    """
    A, B, C, D = lines[:, :, None]
    bin, end = np.arange(-1, g.B) - (g.B - 1) / 2, (g.H - 1) / 2
    step = A - bin * C
    start, slope = bin / step, -(B - bin * D) / step
    with np.errstate(divide="ignore", invalid="ignore"):  # rays along the other axis are inside on all lines or on none
        enters, leaves = np.sort([(side - start) / slope for side in (-end - 3, end + 3)], axis=0)
    first = np.where(np.isnan(enters), -end, np.clip(enters, -end, end))
    last = np.where(np.isnan(leaves), end, np.clip(leaves, -end, end))
    U = [1 + (start + along * slope) * C + along * D for along in (first, last)]
    widest = np.where(first <= last, np.maximum(*U) / abs(A - (bin + 1) * C), 0)
    return math.floor(float(widest.max()) + 2e-3) + 1


@triton.jit
def gather(
    x, tiles, tile, V, B, stride, WIDTH: tl.constexpr, PARTS: tl.constexpr, SPLIT: tl.constexpr,
    UNROLL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BORDER: tl.constexpr,
):  # fmt: skip
    """Sums over all views at the pixels of a tile, for two groups of images; the second may be missing.

    `stride` is the size of a group. Each of SPLIT threads takes a share of the views, and their sums are added up.
    """
    T: tl.constexpr = x.dtype.element_ty
    THREADS: tl.constexpr = SPLIT * ROWS * COLUMNS
    thread = tl.arange(0, THREADS)
    share, pixel = thread // (ROWS * COLUMNS), thread % (ROWS * COLUMNS)
    row = (pixel // COLUMNS - (ROWS - 1) * 0.5).to(T)  # from the centre of the tile on
    column = (pixel % COLUMNS - (COLUMNS - 1) * 0.5).to(T)
    total, more = zeros(THREADS, WIDTH, T), zeros(THREADS, WIDTH, T)
    table, pitch = tiles + tile * V * 8, B + 2 * BORDER
    x += lanes(WIDTH)
    for n in tl.range(tl.cdiv(V, SPLIT), loop_unroll_factor=UNROLL):
        v = n if SPLIT == 1 else n * SPLIT + share
        view = table + 8 * (v if SPLIT == 1 else tl.minimum(v, V - 1))
        bin, place, U = tl.load(view), tl.load(view + 1), tl.load(view + 2)
        wider, deeper = tl.load(view + 3), tl.load(view + 4)
        across, down = tl.load(view + 5), tl.load(view + 6)
        inverse = reciprocal(U + column * wider + row * deeper)
        place += (column * across + row * down) * inverse  # in bins from `bin` on
        floor = tl.floor(place)
        weight = inverse * inverse
        if SPLIT > 1:
            weight, v = tl.where(v < V, weight, 0.0), tl.minimum(v, V - 1)
        right = weight * (place - floor)
        one, two = spread(weight - right, WIDTH), spread(right, WIDTH)
        # places beyond the detector are in its border
        left = tl.minimum(tl.maximum(floor + bin, -BORDER), B).to(tl.int32)
        at = x + spread((v * pitch + BORDER + left) * WIDTH, WIDTH)
        total += one * tl.load(at)
        total += two * tl.load(at + WIDTH)
        if PARTS == 2:
            more += one * tl.load(at + stride)
            more += two * tl.load(at + stride + WIDTH)
    weight = tl.load(table + 7)
    return (
        weight * summed(total, SPLIT, ROWS * COLUMNS, WIDTH),
        weight * (summed(more, SPLIT, ROWS * COLUMNS, WIDTH) if PARTS == 2 else 0.0),
    )


@triton.jit
def _backproject(
    x, out, tiles, batch, V, B, H, WIDTH: tl.constexpr, PARTS: tl.constexpr, SPLIT: tl.constexpr,
    UNROLL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BORDER: tl.constexpr,
):  # fmt: skip
    tile, i, j = tile_of(H, ROWS, COLUMNS)
    group, stride = tl.program_id(1).to(tl.int64) * PARTS, V * (B + 2 * BORDER) * WIDTH
    x += group * stride
    sums = gather(x, tiles, tile, V, B, stride, WIDTH, PARTS, SPLIT, UNROLL, ROWS, COLUMNS, BORDER)
    exists, pixel = spread((i < H) & (j < H), WIDTH), spread(i * H + j, WIDTH)
    for part in tl.static_range(PARTS):
        image = (group + part) * WIDTH + lanes(WIDTH)
        tl.store(out + image * H * H + pixel, sums[part], mask=exists & (image < batch))


def gather_options(H: int, groups: Groups) -> dict[str, int]:
    """How the work of `gather` is shared: with few pixels by more threads, each of which goes through fewer views."""
    threads = H * H * groups.programs * max(1, groups.width // 4)
    split = 8 if threads <= 2**15 else 2 if threads <= 2**17 else 1
    unroll = max(1, 4 // (groups.width * groups.parts))
    options = {"SPLIT": split, "UNROLL": unroll, "ROWS": tile_rows(H), "COLUMNS": TILE_COLUMNS, "BORDER": BORDER}
    return {**options, **groups.options(), "num_warps": min(4 * split, 16)}


def backproject(x: torch.Tensor, tables: Tables, geometry: Scan) -> torch.Tensor:
    """`Backprojector` on contiguous sinograms (batch, V, B)."""
    g, batch = geometry, len(x)
    out = x.new_empty(batch, g.H, g.H)
    if batch:
        groups = Groups.of(batch)
        x = groups.together(x, BORDER)
        grid = tiles(g.H), groups.programs
        _backproject[grid](x, out, tables.tiles, batch, g.V, g.B, g.H, **gather_options(g.H, groups))
    return out


@triton.jit
def _crossing(bin, along, A, B_, C, D, middle):
    """Where the ray of a bin crosses a line of the image, as a column, and how that changes with the line.

    U times the place of a pixel is across·A + along·B, so on the ray across·(A − bin·C) + along·(B − bin·D) is `bin`.
    """
    step = A - bin * C
    slope = -(B_ - bin * D) / step
    return bin / step + along * slope + middle, slope


@triton.jit
def _between_rays(
    images, segment, one, two, A, B_, C, D, H, LINES, CHUNK, COUNT: tl.constexpr, WIDTH: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """Sums over the lines of a segment: of the pixels between two rays, and of the same times their distance to `one`.

    At most COUNT pixels of a line are between the two. `one` comes first along a line. Images have a border of COUNT.
    """
    T: tl.constexpr = images.dtype.element_ty
    middle, pitch = (H - 1) * 0.5, H + 2 * COUNT
    step, C_ = (A - one * C).to(T), C.to(T)
    total, shares = zeros(one.shape[0], WIDTH, T), zeros(one.shape[0], WIDTH, T)
    for chunk in range(0, LINES, CHUNK):
        line = segment * LINES + chunk
        along = line - middle
        first, slope = _crossing(one, along, A, B_, C, D, middle)
        last, last_slope = _crossing(two, along, A, B_, C, D, middle)
        U_first, change = (1 + (first - middle) * C + along * D).to(T), (C * slope + D).to(T)
        first_start, last_start = tl.floor(first), tl.floor(last)
        first, slope = (first - first_start).to(T), slope.to(T)
        last, last_slope = (last - last_start).to(T), last_slope.to(T)
        first_start, last_start = first_start.to(tl.int32) + 1, last_start.to(tl.int32)
        at = images + spread(line * pitch * WIDTH, WIDTH)
        number = tl.zeros([one.shape[0]], dtype=T)
        for _k in tl.range(tl.minimum(CHUNK, LINES - chunk), loop_unroll_factor=UNROLL):
            ray = tl.fma(number, slope, first)
            before = tl.floor(ray)
            pixel = first_start + before.to(tl.int32)
            end = last_start + tl.floor(tl.fma(number, last_slope, last)).to(tl.int32)
            distance = before + 1 - ray
            U = U_first + number * change + distance * C_
            distance *= step
            here = at + spread(tl.minimum(tl.maximum(pixel, -COUNT), H) * WIDTH, WIDTH)  # or in the border
            for n in tl.static_range(COUNT):
                inverse = reciprocal(U)
                weight = spread(tl.where(pixel + n <= end, inverse * inverse, 0.0), WIDTH)
                value = weight * tl.load(here + n * WIDTH)
                total += value
                shares += spread(distance * inverse, WIDTH) * value
                distance += step
                U += C_
            at += pitch * WIDTH
            number += 1
    return total, shares


@triton.jit
def scatter(
    images, own, others, views, groups, V, B, H, LINES, CHUNK,
    COUNT: tl.constexpr, SEGMENTS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """For every bin of a view, follow its ray and the next one line by line and add up the pixels between them.

    Such a pixel is between the two bins: `own` gets the share of this bin, and `others` that of the next one; every bin
    is the sum of the two. The first bin is the one before the detector. A thread follows the rays over the LINES of one
    segment of the image, and the sums of the segments are added up. Where a ray crosses a line is computed for the
    pixels on one side of it and for those on the other by the same operations: each pixel is counted once.
    """
    v, thread = tl.program_id(0), tl.arange(0, SEGMENTS * BLOCK)
    bins, segment = tl.program_id(1) * BLOCK + thread % BLOCK - 1, thread // BLOCK
    group = tl.program_id(2).to(tl.int64)
    view = views + 6 * v
    A, B_, C, D = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    swapped, scale = tl.load(view + 4).to(tl.int64), tl.load(view + 5).to(images.dtype.element_ty)
    rising, bin = A > 0, bins.to(tl.float64) - (B - 1) * 0.5
    one, two = tl.where(rising, bin, bin + 1), tl.where(rising, bin + 1, bin)
    images += (swapped * groups + group) * SEGMENTS * LINES * (H + 2 * COUNT) * WIDTH + COUNT * WIDTH + lanes(WIDTH)
    sums = _between_rays(images, segment, one, two, A, B_, C, D, H, LINES, CHUNK, COUNT, WIDTH, UNROLL)
    total, shares = summed(sums[0], SEGMENTS, BLOCK, WIDTH), summed(sums[1], SEGMENTS, BLOCK, WIDTH)
    shares = tl.where(rising, shares, total + shares)  # distances to the next bin, where that comes first
    bins = spread(tl.program_id(1) * BLOCK + tl.arange(0, BLOCK) - 1, WIDTH)
    place = ((group * V + v) * B + bins) * WIDTH + lanes(WIDTH)
    tl.store(own + place, scale * (total - shares), mask=(bins >= 0) & (bins < B) & (lanes(WIDTH) < WIDTH))
    tl.store(others + place + WIDTH, scale * shares, mask=(bins + 1 < B) & (lanes(WIDTH) < WIDTH))


@triton.jit
def _scatter_all(images, out, views, V, B, H, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The same where rays run along lines: visit every pixel of the image, in float64."""
    T: tl.constexpr = images.dtype.element_ty
    v, bins = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(2).to(tl.int64)
    middle, bin = (H - 1) * 0.5, bins.to(tl.float64) - (B - 1) * 0.5
    view = views + 6 * v
    A, B_, C, D = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    swapped = tl.load(view + 4) > 0
    images += group * H * H * WIDTH + lanes(WIDTH)
    total = zeros(BLOCK, WIDTH, T)
    for pixel in range(H * H):
        y, x = (pixel // H).to(tl.float64) - middle, (pixel % H).to(tl.float64) - middle
        across, along = tl.where(swapped, y, x), tl.where(swapped, x, y)
        inverse = 1 / (1 + across * C + along * D)
        near = tl.maximum(1 - tl.abs((across * A + along * B_) * inverse - bin), 0.0)
        total += spread((inverse * inverse * near).to(T), WIDTH) * tl.load(images + pixel * WIDTH)
    out += (group * V + v) * B * WIDTH
    exists = spread(bins < B, WIDTH) & (lanes(WIDTH) < WIDTH)
    tl.store(out + spread(bins * WIDTH, WIDTH) + lanes(WIDTH), total * tl.load(view + 5).to(T), mask=exists)


def segment_lines(H: int) -> int:
    """Lines of a segment; the last segment may reach beyond the image."""
    return triton.cdiv(H, SEGMENTS)


def launch_scatter(images: torch.Tensor, out: torch.Tensor, tables: Tables, geometry: Scan, groups: Groups) -> None:
    """`out` (2, groups, V, B, width), whose sum it is, from `both_ways` of images."""
    g = geometry
    grid = g.V, triton.cdiv(g.B + 1, SCATTER_BLOCK), groups.count
    sizes = groups.count, g.V, g.B, g.H, segment_lines(g.H), MOST_LINES
    options = {"COUNT": tables.count, "SEGMENTS": SEGMENTS, "BLOCK": SCATTER_BLOCK, "WIDTH": groups.width}
    options["UNROLL"] = max(1, 2 // groups.width)
    scatter[grid](images, *out, tables.views, *sizes, **options, num_warps=SEGMENTS * SCATTER_BLOCK // 32)


def backproject_transposed(y: torch.Tensor, tables: Tables, geometry: Scan) -> torch.Tensor:
    """The transpose of `backproject`, on images (batch, H, H)."""
    g, batch = geometry, len(y)
    if not batch:
        return y.new_empty(0, g.V, g.B)
    groups = Groups.of(batch, parts=1)
    if tables.count:
        images = both_ways(y, groups, tables.count, 0, SEGMENTS * segment_lines(g.H))
        parts = y.new_empty(2, groups.count, g.V, g.B, groups.width)
        launch_scatter(images, parts, tables, g, groups)
        out = parts[0] + parts[1]
    else:
        out = y.new_empty(groups.count, g.V, g.B, groups.width)
        grid = g.V, triton.cdiv(g.B, 128), groups.count
        _scatter_all[grid](groups.together(y), out, tables.views, g.V, g.B, g.H, WIDTH=groups.width, BLOCK=128)
    return groups.apart(out, batch)
