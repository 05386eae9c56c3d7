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

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import triton
import triton.language as tl

from koct.operators.geometry import Scan

TILE_COLUMNS = 32  # of a tile, the pixels of an image that one program computes
SEGMENTS = 8  # parts of an image whose sums over lines are computed at the same time
SCATTER_BLOCK = 32  # bins of a view that one program computes
MOST_LINES = 64  # lines of an image over which a ray is followed in the precision of the data
WIDTHS = 16, 8, 4  # images side by side in memory
WASTED = 1.25  # how much larger a batch may become to fill them


def to_device(array: np.ndarray, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A NumPy array as a contiguous tensor."""
    return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)


@dataclass(frozen=True)
class Groups:
    """How a batch lies in memory: `width` images side by side, and `parts` such groups for one thread."""

    width: int
    parts: int
    count: int

    @classmethod
    @cache
    def of(cls, batch: int, parts: int = 2) -> Groups:
        """For a batch of this size; fewer `parts` take fewer registers."""
        parts = 1 if batch <= 4 else parts
        width = batch if batch <= 2 else 4
        if batch > 4:
            filled = {width: triton.cdiv(batch, parts * width) * parts * width for width in WIDTHS}
            width = next((width for width in WIDTHS if filled[width] <= WASTED * batch), WIDTHS[-1])
        return cls(width, parts, triton.cdiv(batch, width * parts) * parts)

    @property
    def programs(self) -> int:
        return self.count // self.parts

    def options(self) -> dict[str, int]:
        return {"WIDTH": self.width, "PARTS": self.parts}

    def together(self, x: torch.Tensor) -> torch.Tensor:
        """(count, n, width) from (batch, ...), with zeros in the place of images that are missing."""
        batch, x = len(x), x.reshape(len(x), -1)
        if batch == 1:
            return x
        missing = self.count * self.width - batch
        if missing:
            x = torch.cat([x, x.new_zeros(missing, x.shape[1])])
        return x.unflatten(0, (self.count, self.width)).transpose(1, 2).contiguous()

    def apart(self, x: torch.Tensor, batch: int) -> torch.Tensor:
        """The reverse of `together`: (batch, n)."""
        if batch == 1:
            return x.reshape(1, -1)
        return x.reshape(self.count, -1, self.width).transpose(1, 2).reshape(self.count * self.width, -1)[:batch]


def tile_rows(H: int) -> int:
    """Rows of a tile: few in a small image, so that there are enough programs for the GPU."""
    return 4 if H <= 256 else 8


def tiles(H: int) -> int:
    """How many tiles an image has."""
    return triton.cdiv(H, tile_rows(H)) * triton.cdiv(H, TILE_COLUMNS)


@dataclass(frozen=True)
class Tables:
    """What the kernels need to know of a geometry.

    `tiles` (tiles, V, 8) has, of the centre of a tile, its place on the detector as a bin and a share of one, the
    distance U, how U and how U times the place change with a step along x and along y, and what a view stands for in
    radians. `views` (V, 5) has such changes from the isocentre on, and what a view stands for, in float64. `count` are
    the pixels of a line that can touch a bin; it is 0 if all of them have to be visited.
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
    g, lines = geometry, along_x_and_y(geometry)
    every_pixel = g.detector_lines()[2]
    counts = np.zeros(g.V) if every_pixel else _touched(g, lines)
    views = np.stack([*lines, np.full(g.V, g.view_weight), counts], axis=1)
    return Tables(
        to_device(_tiles(g, lines), dtype, device), to_device(views, torch.float64, device), int(counts.max())
    )


def _tiles(g: Scan, lines: np.ndarray) -> np.ndarray:
    x, y = ((np.arange(0, g.H, size) + (size - g.H) / 2)[:, None] for size in (TILE_COLUMNS, tile_rows(g.H)))
    x, y = x[None, :], y[:, None]  # of the centres, from the isocentre on; the last axis is that of the views
    across, down, wider, deeper = lines
    U = 1 + x * wider + y * deeper
    place = (x * across + y * down) / U
    bin = np.floor(place + (g.B - 1) / 2)
    share = place + (g.B - 1) / 2 - bin
    changes = wider, deeper, across - place * wider, down - place * deeper
    columns = bin, share, U, *changes, np.full(g.V, g.view_weight)
    return np.stack(np.broadcast_arrays(*columns), axis=-1).reshape(-1, g.V, 8)


def _touched(g: Scan, lines: np.ndarray) -> np.ndarray:
    """(V,): the largest number of pixels of a line that are less than a bin away from one bin of a view."""
    across, down, wider, deeper = lines[:, :, None]
    bin, end = np.arange(g.B) - (g.B - 1) / 2, (g.H - 1) / 2
    x, y = across - bin * wider, down - bin * deeper
    steep = abs(y) > abs(x)
    step, rise = np.where(steep, y, x), np.where(steep, x, y)
    C, D = np.where(steep, deeper, wider), np.where(steep, wider, deeper)
    widest = np.zeros(g.V)
    for along in (-end, end):
        ray = np.clip((bin - along * rise) / step, -end - 3, end + 3)
        U = 1 + ray * C + along * D
        widest = np.maximum(widest, (U / abs(step + C) + U / abs(step - C)).max(axis=1))
    return np.floor(widest + 2e-3) + 1


# Triton's layout of a column of one is not that of a vector, and converting between them takes time: with one image at
# a time everything is a vector.


@triton.jit
def spread(values, WIDTH: tl.constexpr):
    """One value for each of the images side by side."""
    if WIDTH == 1:
        return values
    else:
        return values[:, None]


@triton.jit
def lanes(WIDTH: tl.constexpr):
    """The numbers of the images side by side."""
    if WIDTH == 1:
        return 0
    else:
        return tl.arange(0, WIDTH)[None, :]


@triton.jit
def zeros(COUNT: tl.constexpr, WIDTH: tl.constexpr, T: tl.constexpr):
    if WIDTH == 1:
        return tl.zeros([COUNT], dtype=T)
    else:
        return tl.zeros([COUNT, WIDTH], dtype=T)


@triton.jit
def reciprocal(x):
    """1 / x; in float32 one instruction, off by one unit in the last place at most, in place of six."""
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:
        return 1 / x


@triton.jit
def tile_of(H, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The tile of this program, and the rows and columns of its pixels in the image."""
    tile, pixel, across = tl.program_id(0), tl.arange(0, ROWS * COLUMNS), tl.cdiv(H, COLUMNS)
    return tile, tile // across * ROWS + pixel // COLUMNS, tile % across * COLUMNS + pixel % COLUMNS


@triton.jit
def gather(
    x, tiles, tile, V, B, stride, WIDTH: tl.constexpr, PARTS: tl.constexpr, SPLIT: tl.constexpr,
    UNROLL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
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
    table = tiles + tile * V * 8
    x += lanes(WIDTH)
    for n in tl.range(tl.cdiv(V, SPLIT), loop_unroll_factor=UNROLL):
        v = n if SPLIT == 1 else n * SPLIT + share
        view = table + 8 * (v if SPLIT == 1 else tl.minimum(v, V - 1))
        bin, place, U = tl.load(view), tl.load(view + 1), tl.load(view + 2)
        wider, deeper = tl.load(view + 3), tl.load(view + 4)
        across, down = tl.load(view + 5), tl.load(view + 6)
        inverse = reciprocal(U + column * wider + row * deeper)
        place += (column * across + row * down) * inverse  # in bins from `bin` on
        # of the two bins beside a place beyond the detector, the one inside the detector counts
        left = tl.minimum(tl.maximum(tl.floor(place), -bin), B - 2 - bin)
        distance = place - left
        weight = inverse * inverse
        if SPLIT > 1:
            weight, v = tl.where(v < V, weight, 0.0), tl.minimum(v, V - 1)
        one = spread(weight * tl.maximum(1 - tl.abs(distance), 0.0), WIDTH)
        two = spread(weight * tl.maximum(1 - tl.abs(distance - 1), 0.0), WIDTH)
        at = x + spread((v * B + (left + bin).to(tl.int32)) * WIDTH, WIDTH)
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
def summed(values, SPLIT: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Sums over the SPLIT threads that share the work for COUNT results."""
    if SPLIT == 1:
        return values
    elif WIDTH == 1:
        return tl.sum(tl.reshape(values, (SPLIT, COUNT)), axis=0)
    else:
        return tl.sum(tl.reshape(values, (SPLIT, COUNT, WIDTH)), axis=0)


@triton.jit
def _backproject(
    x, out, tiles, batch, V, B, H, WIDTH: tl.constexpr, PARTS: tl.constexpr, SPLIT: tl.constexpr,
    UNROLL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    tile, i, j = tile_of(H, ROWS, COLUMNS)
    group, stride = tl.program_id(1).to(tl.int64) * PARTS, V * B * WIDTH
    sums = gather(x + group * stride, tiles, tile, V, B, stride, WIDTH, PARTS, SPLIT, UNROLL, ROWS, COLUMNS)
    exists, pixel = spread((i < H) & (j < H), WIDTH), spread(i * H + j, WIDTH)
    for part in tl.static_range(PARTS):
        image = (group + part) * WIDTH + lanes(WIDTH)
        tl.store(out + image * H * H + pixel, sums[part], mask=exists & (image < batch))


def gather_options(H: int, groups: Groups) -> dict[str, int]:
    """How the work of `gather` is shared: with few pixels by more threads, each of which goes through fewer views."""
    threads = H * H * groups.programs * max(1, groups.width // 4)
    split = 4 if threads <= 2**16 else 1
    unroll = max(1, 4 // (groups.width * groups.parts))
    options = {"SPLIT": split, "UNROLL": unroll, "ROWS": tile_rows(H), "COLUMNS": TILE_COLUMNS, **groups.options()}
    return {**options, "num_warps": 4 * split}


def backproject(x: torch.Tensor, tables: Tables, geometry: Scan) -> torch.Tensor:
    """`Backprojector` on contiguous sinograms (batch, V, B)."""
    g, batch = geometry, len(x)
    out = x.new_empty(batch, g.H, g.H)
    if not batch:
        return out
    B = max(g.B, 2)
    if B > g.B:
        x = torch.nn.functional.pad(x, (0, 1))
    groups = Groups.of(batch)
    grid = tiles(g.H), groups.programs
    _backproject[grid](groups.together(x), out, tables.tiles, batch, g.V, B, g.H, **gather_options(g.H, groups))
    return out


@triton.jit
def _both_ways(
    images, out, batch, groups, H, top, height, border, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    _tile, i, j = tile_of(H, ROWS, COLUMNS)
    group, pitch = tl.program_id(1).to(tl.int64), H + 2 * border
    image = group * WIDTH + lanes(WIDTH)
    inside = spread((i < H) & (j < H), WIDTH) & (image < batch)
    values = tl.load(images + image * H * H + spread(i * H + j, WIDTH), mask=inside, other=0.0)
    out += group * height * pitch * WIDTH + lanes(WIDTH)
    tl.store(out + spread(((top + i) * pitch + border + j) * WIDTH, WIDTH), values, mask=inside)
    turned = out + height * pitch * WIDTH * groups
    tl.store(turned + spread(((top + j) * pitch + border + i) * WIDTH, WIDTH), values, mask=inside)


def both_ways(images: torch.Tensor, groups: Groups, border: int, top: int, height: int) -> torch.Tensor:
    """(2, groups, height, H + 2 · border, width): images and transposed images, with zeros around them.

    The border is at both ends of every row. There are `top` rows of zeros above the image.
    """
    batch, H = images.shape[:2]
    out = images.new_zeros(2, groups.count, height, H + 2 * border, groups.width)
    grid = triton.cdiv(H, TILE_COLUMNS) ** 2, groups.count
    sizes = batch, groups.count, H, top, height, border
    _both_ways[grid](images, out, *sizes, WIDTH=groups.width, ROWS=TILE_COLUMNS, COLUMNS=TILE_COLUMNS)
    return out


@triton.jit
def scatter(
    images, out, views, groups, V, B, H, LINES, CHUNK,
    COUNT: tl.constexpr, SEGMENTS: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """For every bin of a view, follow its ray line by line and add up the pixels of the line that touch the bin.

    A thread follows a ray over the LINES of one segment of the image, and the sums of the segments are added up.
    """
    T: tl.constexpr = images.dtype.element_ty
    v, thread = tl.program_id(0), tl.arange(0, SEGMENTS * BLOCK)
    bins, segment = tl.program_id(1) * BLOCK + thread % BLOCK, thread // BLOCK
    group = tl.program_id(2).to(tl.int64) * PARTS
    middle, bin = (H - 1) * 0.5, bins.to(tl.float64) - (B - 1) * 0.5
    view = views + 6 * v
    across, down, wider, deeper = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    # U times the distance of a pixel to the bin is x·step + y·rise − bin, or, of a steep ray, x·rise + y·step − bin
    x_, y_ = across - bin * wider, down - bin * deeper
    steep = tl.abs(y_) > tl.abs(x_)
    step, rise = tl.where(steep, y_, x_), tl.where(steep, x_, y_)
    C, D = tl.where(steep, deeper, wider), tl.where(steep, wider, deeper)
    slope = -rise / step
    before = tl.minimum(-1 / (step + C), 1 / (step - C)).to(T)  # the bin on one side, in pixels of a ray with U = 1
    slope_, change, step_, C_ = slope.to(T), (C * slope + D).to(T), step.to(T), C.to(T)
    widest = tl.load(view + 5) == COUNT
    pitch = H + 2 * COUNT
    stride = SEGMENTS * LINES * pitch * WIDTH
    images += (spread(steep.to(tl.int64) * groups, WIDTH) + group) * stride + lanes(WIDTH)
    total, more = zeros(SEGMENTS * BLOCK, WIDTH, T), zeros(SEGMENTS * BLOCK, WIDTH, T)
    for chunk in range(0, LINES, CHUNK):
        line = segment * LINES + chunk
        along = line - middle
        root = bin / step + along * slope + middle  # where the ray crosses the line, as a column
        start = tl.floor(root)
        ray, U_ray = (root - start).to(T), (1 + (root - middle) * C + along * D).to(T)
        lowest, highest = (-COUNT - start).to(T), (H - start).to(T)  # there the pixels are zero
        at = images + spread((line * pitch + COUNT + start.to(tl.int32)) * WIDTH, WIDTH)
        for k in range(tl.minimum(CHUNK, LINES - chunk)):
            here, U = ray + k * slope_, U_ray + k * change
            first = tl.minimum(tl.maximum(tl.ceil(here + U * before - 1e-3), lowest), highest)
            distance = first - here
            U += distance * C_
            distance *= step_
            pixel = at + spread(first.to(tl.int32) * WIDTH, WIDTH)
            for n in tl.static_range(COUNT):
                if n < COUNT - 1 or widest:  # the last one is needed in few views
                    inverse = reciprocal(U)
                    weight = spread(inverse * inverse * tl.maximum(1 - tl.abs(distance * inverse), 0.0), WIDTH)
                    total += weight * tl.load(pixel + n * WIDTH)
                    if PARTS == 2:
                        more += weight * tl.load(pixel + stride + n * WIDTH)
                    distance += step_
                    U += C_
            at += pitch * WIDTH
    scale = tl.load(view + 4).to(T)
    bins = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    out += (group * V + v) * B * WIDTH
    place, exists = spread(bins * WIDTH, WIDTH) + lanes(WIDTH), spread(bins < B, WIDTH) & (lanes(WIDTH) < WIDTH)
    tl.store(out + place, scale * summed(total, SEGMENTS, BLOCK, WIDTH), mask=exists)
    if PARTS == 2:
        tl.store(out + V * B * WIDTH + place, scale * summed(more, SEGMENTS, BLOCK, WIDTH), mask=exists)


@triton.jit
def _scatter_all(images, out, views, V, B, H, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The same where rays run along lines: visit every pixel of the image, in float64."""
    T: tl.constexpr = images.dtype.element_ty
    v, bins = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(2).to(tl.int64)
    middle, bin = (H - 1) * 0.5, bins.to(tl.float64) - (B - 1) * 0.5
    view = views + 6 * v
    across, down, wider, deeper = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    images += group * H * H * WIDTH + lanes(WIDTH)
    total = zeros(BLOCK, WIDTH, T)
    for pixel in range(H * H):
        y, x = (pixel // H).to(tl.float64) - middle, (pixel % H).to(tl.float64) - middle
        inverse = 1 / (1 + x * wider + y * deeper)
        near = tl.maximum(1 - tl.abs((x * across + y * down) * inverse - bin), 0.0)
        total += spread((inverse * inverse * near).to(T), WIDTH) * tl.load(images + pixel * WIDTH)
    out += (group * V + v) * B * WIDTH
    exists = spread(bins < B, WIDTH) & (lanes(WIDTH) < WIDTH)
    tl.store(out + spread(bins * WIDTH, WIDTH) + lanes(WIDTH), total * tl.load(view + 4).to(T), mask=exists)


def segment_lines(H: int) -> int:
    """Lines of a segment; the last segment may reach beyond the image."""
    return triton.cdiv(H, SEGMENTS)


def launch_scatter(images: torch.Tensor, out: torch.Tensor, tables: Tables, geometry: Scan, groups: Groups) -> None:
    """`out` (groups, V, B, width) from `both_ways` of images."""
    g, block = geometry, SCATTER_BLOCK
    grid = g.V, triton.cdiv(g.B, block), groups.programs
    sizes = groups.count, g.V, g.B, g.H, segment_lines(g.H), MOST_LINES
    options = {"COUNT": tables.count, "SEGMENTS": SEGMENTS, "BLOCK": block, **groups.options()}
    scatter[grid](images, out, tables.views, *sizes, **options, num_warps=SEGMENTS * block // 32)


def backproject_transposed(y: torch.Tensor, tables: Tables, geometry: Scan) -> torch.Tensor:
    """The transpose of `backproject`, on images (batch, H, H)."""
    g, batch = geometry, len(y)
    if not batch:
        return y.new_empty(0, g.V, g.B)
    groups = Groups.of(batch, parts=1)
    out = y.new_empty(groups.count, g.V, g.B, groups.width)
    if tables.count:
        images = both_ways(y, groups, tables.count, 0, SEGMENTS * segment_lines(g.H))
        launch_scatter(images, out, tables, g, groups)
    else:
        grid = g.V, triton.cdiv(g.B, 128), groups.count
        images = groups.together(y)
        _scatter_all[grid](images, out, tables.views, g.V, g.B, g.H, WIDTH=groups.width, BLOCK=128)
    return groups.apart(out, batch).reshape(batch, g.V, g.B)
