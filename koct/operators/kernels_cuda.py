"""The loops of backprojection and of its transpose for CUDA, written in Triton, which is installed with torch.

No matrix is stored: the place of a pixel on the detector is computed where it is needed, once for up to eight images,
which lie side by side in memory. Every sum has a fixed order, so the same input gives the same bits.

Places are found in float64 for one point of every tile of pixels, or of every ray, and in the precision of the data
relative to that point. In float32 they are then off by less than 9 · 2⁻²⁴ times the distance to it, of at most 18 pixels
or `LINES` lines: 1.2e-5 bins if a pixel is as wide as a bin. Computed in float32 from the isocentre on they would be off
by 1e-4 bins at H = 512.
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

from koct.operators.geometry import Scan

TILE_ROWS, TILE_COLUMNS = 16, 32  # pixels of an image that one program computes
BLOCK = 128  # bins of a view that one program computes
MOST_LINES = 64  # lines of an image over which a ray is followed in the precision of the data
THREADS = 2**18  # as many keep the GPU busy


def to_device(array: np.ndarray, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A NumPy array as a contiguous tensor."""
    return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)


def side_by_side(batch: int) -> tuple[int, int]:
    """(width, parts): how many images lie side by side in memory, and how many such groups one thread computes."""
    width = 1 if batch == 1 else 2 if batch == 2 else 4
    return width, 1 if batch <= 4 else 2


def grouped(x: torch.Tensor, width: int, parts: int) -> torch.Tensor:
    """(groups, n, width) from (batch, ...): images side by side, zeros in the place of images that are missing."""
    batch, x = len(x), x.reshape(len(x), -1)
    missing = -batch % (width * parts)
    if missing:
        x = torch.cat([x, x.new_zeros(missing, x.shape[1])])
    return x.unflatten(0, (-1, width)).transpose(1, 2).contiguous()


@dataclass(frozen=True)
class Tables:
    """What the kernels need to know of a geometry.

    `tiles` (tiles, V, 8) has, of the centre of a tile, its place on the detector as a bin and a share of one, the
    distance U, and how U and U times the place change with a step along x and along y. `views` (V, 6) are A, B, C, D,
    whether the axes are swapped (see `Scan.detector_lines`), and what a view stands for in radians. `count` are the
    pixels of a line that can touch a bin; it is 0 if all of them have to be visited.
    """

    tiles: torch.Tensor
    views: torch.Tensor
    count: int


def backprojection_tables(geometry: Scan, dtype: torch.dtype, device: torch.device) -> Tables:
    """The tables of a geometry for data of this precision."""
    g = geometry
    lines, swapped, every_pixel = g.detector_lines()
    views = np.stack([*lines, swapped, np.full(g.V, g.view_weight)], axis=1)
    return Tables(
        to_device(_tiles(g, np.where(swapped, lines[[1, 0, 3, 2]], lines)), dtype, device),
        to_device(views, torch.float64, device),
        0 if every_pixel else _touched(g, lines),
    )


def _tiles(g: Scan, lines: np.ndarray) -> np.ndarray:
    x, y = ((np.arange(0, g.H, size) + (size - g.H) / 2)[:, None] for size in (TILE_COLUMNS, TILE_ROWS))
    x, y = x[None, :], y[:, None]  # of the centres, from the isocentre on; the last axis is that of the views
    across, down, wider, deeper = lines
    U = 1 + x * wider + y * deeper
    place = (x * across + y * down) / U
    bin = np.floor(place + (g.B - 1) / 2)
    share = place + (g.B - 1) / 2 - bin
    columns = bin, share, U, wider, deeper, across - place * wider, down - place * deeper, np.zeros(g.V)
    return np.stack(np.broadcast_arrays(*columns), axis=-1).reshape(-1, g.V, 8)


def _touched(g: Scan, lines: np.ndarray) -> int:
    """The largest number of pixels of a line that are less than a bin away from one bin."""
    A, B, C, D = lines[:, :, None]
    bin, end = np.arange(g.B) - (g.B - 1) / 2, (g.H - 1) / 2
    step, rise = A - bin * C, B - bin * D
    widest = 0.0
    for along in (-end, end):
        ray = np.clip((bin - along * rise) / step, -end - 3, end + 3)
        U = 1 + ray * C + along * D
        widest = max(widest, float((U / abs(step + C) + U / abs(step - C)).max()))
    return math.floor(widest + 2e-3) + 1


@triton.jit
def reciprocal(x):
    """1 / x; in float32 one instruction, off by one unit in the last place at most, in place of six."""
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:
        return 1 / x


@triton.jit
def gather(x, table, row, column, V, B, stride, WIDTH: tl.constexpr, PARTS: tl.constexpr):
    """Sums over all views at the pixels of a tile, in two parts of which the second may stay zero.

    `row` and `column` are distances from the centre of the tile, and `stride` is the size of a group of images.
    """
    T: tl.constexpr = x.dtype.element_ty
    image = tl.arange(0, WIDTH)[None, :]
    total = tl.zeros([row.shape[0], WIDTH], dtype=T)
    more = tl.zeros([row.shape[0], WIDTH], dtype=T)
    for v in range(V):
        bin, share, U = tl.load(table), tl.load(table + 1), tl.load(table + 2)
        wider, deeper = tl.load(table + 3), tl.load(table + 4)
        across, down = tl.load(table + 5), tl.load(table + 6)
        inverse = reciprocal(U + column * wider + row * deeper)
        place = share + (column * across + row * down) * inverse  # in bins from `bin` on
        # of the two bins beside a place beyond the detector, the one inside the detector counts
        left = tl.minimum(tl.maximum(tl.floor(place), -bin), B - 2 - bin)
        distance = place - left
        weight = inverse * inverse
        one = weight * tl.maximum(1 - tl.abs(distance), 0.0)
        two = weight * tl.maximum(1 - tl.abs(distance - 1), 0.0)
        at = x + (left + bin).to(tl.int32)[:, None] * WIDTH + image
        total += one[:, None] * tl.load(at)
        total += two[:, None] * tl.load(at + WIDTH)
        if PARTS == 2:
            more += one[:, None] * tl.load(at + stride)
            more += two[:, None] * tl.load(at + stride + WIDTH)
        table += 8
        x += B * WIDTH
    return total, more


@triton.jit
def tile_of(H, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The tile of this program, and of its pixels: row and column, and the distances of both from the tile's centre."""
    tile, pixel = tl.program_id(0), tl.arange(0, ROWS * COLUMNS)
    across = tl.cdiv(H, COLUMNS)
    row, column = pixel // COLUMNS, pixel % COLUMNS
    from_row, from_column = row - (ROWS - 1) * 0.5, column - (COLUMNS - 1) * 0.5
    return tile, tile // across * ROWS + row, tile % across * COLUMNS + column, from_row, from_column


@triton.jit
def _backproject(
    x, out, tiles, weight, batch, V, B, H,
    WIDTH: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    T: tl.constexpr = x.dtype.element_ty
    tile, i, j, row, column = tile_of(H, ROWS, COLUMNS)
    group = tl.program_id(1).to(tl.int64) * PARTS
    stride = V * B * WIDTH
    sums = gather(x + group * stride, tiles + tile * V * 8, row.to(T), column.to(T), V, B, stride, WIDTH, PARTS)
    exists, pixel = (i < H) & (j < H), i * H + j
    for part in tl.static_range(PARTS):
        image = (group + part) * WIDTH + tl.arange(0, WIDTH)
        at = out + image[None, :] * H * H + pixel[:, None]
        tl.store(at, sums[part] * weight, mask=exists[:, None] & (image < batch)[None, :])


def backproject(x: torch.Tensor, tables: Tables, geometry: Scan) -> torch.Tensor:
    """`Backprojector` on contiguous sinograms (batch, V, B)."""
    g, batch = geometry, len(x)
    out = x.new_empty(batch, g.H, g.H)
    if not batch:
        return out
    B = max(g.B, 2)
    if B > g.B:
        x = torch.nn.functional.pad(x, (0, 1))
    width, parts = side_by_side(batch)
    x = grouped(x, width, parts)
    grid = triton.cdiv(g.H, TILE_ROWS) * triton.cdiv(g.H, TILE_COLUMNS), len(x) // parts
    sizes = {"WIDTH": width, "PARTS": parts, "ROWS": TILE_ROWS, "COLUMNS": TILE_COLUMNS}
    _backproject[grid](x, out, tables.tiles, g.view_weight, batch, g.V, B, g.H, **sizes)
    return out


@triton.jit
def scatter(
    images, out, views, groups, V, B, H, LINES, SEGMENTS,
    COUNT: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """For every bin of a view, follow its ray line by line and add up the pixels of the line that touch the bin."""
    T: tl.constexpr = images.dtype.element_ty
    v, bins = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    group, segment = (tl.program_id(2) // SEGMENTS * PARTS).to(tl.int64), tl.program_id(2) % SEGMENTS
    middle, bin = (H - 1) * 0.5, bins.to(tl.float64) - (B - 1) * 0.5
    view = views + 6 * v
    A, B_, C, D = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    swapped = (tl.load(view + 4) > 0).to(tl.int64)
    # U times the distance to the bin is across·step + along·rise − bin; it is zero on the ray
    step, rise = A - bin * C, B_ - bin * D
    slope, along = -rise / step, segment * LINES - middle
    across = bin / step + along * slope
    start = tl.floor(across + middle)
    ray, U_ray = (across + middle - start).to(T), (1 + across * C + along * D).to(T)
    slope_, deeper = slope.to(T), (C * slope + D).to(T)
    before = tl.minimum(-1 / (step + C), 1 / (step - C)).to(T)  # the bin on one side, in pixels of a ray with U = 1
    step_, C_ = step.to(T), C.to(T)
    lowest, highest = (-COUNT - start).to(T), (H - start).to(T)  # there the pixels are zero
    pitch = H + 2 * COUNT
    stride = H * pitch * WIDTH
    images += (swapped * groups + group) * stride + (segment * LINES * pitch + COUNT) * WIDTH
    at = images + start.to(tl.int32)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros([BLOCK, WIDTH], dtype=T)
    more = tl.zeros([BLOCK, WIDTH], dtype=T)
    for line in range(tl.minimum(LINES, H - segment * LINES)):
        here, U = ray + line * slope_, U_ray + line * deeper
        first = tl.minimum(tl.maximum(tl.ceil(here + U * before - 1e-3), lowest), highest)
        distance = first - here
        U += distance * C_
        distance *= step_
        pixel = at + first.to(tl.int32)[:, None] * WIDTH
        for k in tl.static_range(COUNT):
            inverse = reciprocal(U)
            weight = inverse * inverse * tl.maximum(1 - tl.abs(distance * inverse), 0.0)
            total += weight[:, None] * tl.load(pixel + k * WIDTH)
            if PARTS == 2:
                more += weight[:, None] * tl.load(pixel + stride + k * WIDTH)
            distance += step_
            U += C_
        at += pitch * WIDTH
    scale = tl.load(view + 5).to(T)
    out += ((segment * groups + group) * V + v) * B * WIDTH
    place = bins[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    exists = (bins < B)[:, None] & (tl.arange(0, WIDTH) < WIDTH)[None, :]
    tl.store(out + place, total * scale, mask=exists)
    if PARTS == 2:
        tl.store(out + V * B * WIDTH + place, more * scale, mask=exists)


@triton.jit
def scatter_all(images, out, views, V, B, H, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The same where rays run along lines: visit every pixel of the image, in float64."""
    T: tl.constexpr = images.dtype.element_ty
    v, bins = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(2).to(tl.int64)
    middle, bin = (H - 1) * 0.5, bins.to(tl.float64) - (B - 1) * 0.5
    view = views + 6 * v
    A, B_, C, D = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    swapped = tl.load(view + 4) > 0
    image = tl.arange(0, WIDTH)[None, :]
    images += group * H * H * WIDTH
    total = tl.zeros([BLOCK, WIDTH], dtype=T)
    for pixel in range(H * H):
        y, x = (pixel // H).to(tl.float64) - middle, (pixel % H).to(tl.float64) - middle
        across, along = tl.where(swapped, y, x), tl.where(swapped, x, y)
        inverse = 1 / (1 + across * C + along * D)
        near = tl.maximum(1 - tl.abs((across * A + along * B_) * inverse - bin), 0.0)
        total += (inverse * inverse * near).to(T)[:, None] * tl.load(images + pixel * WIDTH + image)
    out += (group * V + v) * B * WIDTH
    tl.store(out + bins[:, None] * WIDTH + image, total * tl.load(view + 5).to(T), mask=(bins < B)[:, None])


def segments(bins: int, H: int) -> tuple[int, int]:
    """(segments, lines): into how many parts of how many lines an image is cut, to have enough threads for the GPU."""
    wanted = max(triton.cdiv(THREADS, bins), triton.cdiv(H, MOST_LINES))
    lines = max(triton.cdiv(H, wanted), min(H, 8))
    return triton.cdiv(H, lines), lines


def both_ways(images: torch.Tensor, width: int, parts: int, border: int, rows: bool) -> torch.Tensor:
    """(2, groups, height, H + 2 · border, width): images and transposed images, with zeros around them.

    The border is at both ends of every row and, if `rows`, above and below as well.
    """
    batch, H = images.shape[:2]
    groups = triton.cdiv(batch, width * parts) * parts
    top = border if rows else 0
    out = images.new_zeros(2, groups, H + 2 * top, H + 2 * border, width)
    inner = out[:, :, top : top + H, border : border + H].permute(0, 1, 4, 2, 3)  # (2, groups, width, H, H)
    whole = batch // width
    for k, way in enumerate((images, images.transpose(1, 2))):
        inner[k, :whole] = way[: whole * width].unflatten(0, (whole, width))
        if whole * width < batch:
            inner[k, whole, : batch - whole * width] = way[whole * width :]
    return out


def launch_scatter(
    images: torch.Tensor, out: torch.Tensor, tables: Tables, geometry: Scan, parts: int, lines: int
) -> None:
    """`out` (segments, groups, V, B, width) from `both_ways` of images: sums over the lines of each segment."""
    g, (count, groups, _, _, width) = geometry, out.shape
    grid = g.V, triton.cdiv(g.B, BLOCK), groups // parts * count
    options = {"COUNT": tables.count, "WIDTH": width, "PARTS": parts, "BLOCK": BLOCK}
    scatter[grid](images, out, tables.views, groups, g.V, g.B, g.H, lines, count, **options)


def backproject_transposed(y: torch.Tensor, tables: Tables, geometry: Scan) -> torch.Tensor:
    """The transpose of `backproject`, on images (batch, H, H)."""
    g, batch = geometry, len(y)
    if not batch:
        return y.new_empty(0, g.V, g.B)
    width, parts = side_by_side(batch)
    if tables.count:
        images = both_ways(y, width, parts, tables.count, rows=False)
        groups = images.shape[1]
        count, lines = segments(g.V * g.B * groups // parts, g.H)
        out = y.new_empty(count, groups, g.V, g.B, width)
        launch_scatter(images, out, tables, g, parts, lines)
        out = out.sum(0) if count > 1 else out[0]
    else:
        images = grouped(y, width, 1)
        out = y.new_empty(len(images), g.V, g.B, width)
        grid = g.V, triton.cdiv(g.B, BLOCK), len(images)
        scatter_all[grid](images, out, tables.views, g.V, g.B, g.H, WIDTH=width, BLOCK=BLOCK)
    return out.permute(0, 3, 1, 2).reshape(-1, g.V, g.B)[:batch]
