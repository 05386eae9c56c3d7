"""How batches of images and sinograms lie in memory for the CUDA kernels, and what these kernels have in common.

Images lie side by side, so that a thread that has found the place of a pixel or a ray uses it for several of them.
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

TILE_COLUMNS = 32  # of a tile, the pixels of an image that one program computes
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

    def together(self, x: torch.Tensor, border: int = 0) -> torch.Tensor:
        """(count, n, m + 2 · border, width) from (batch, n, m): zeros at both ends, and for images that are missing."""
        batch, n, m = x.shape
        if batch == 1 and not border:
            return x
        out = x.new_zeros(self.count, n, m + 2 * border, self.width)
        inner, whole = out[:, :, border : border + m].permute(0, 3, 1, 2), batch // self.width
        inner[:whole] = x[: whole * self.width].view(whole, self.width, n, m)
        if whole * self.width < batch:
            inner[whole, : batch - whole * self.width] = x[whole * self.width :]
        return out

    def apart(self, x: torch.Tensor, batch: int) -> torch.Tensor:
        """(batch, n, m) from (count, n, m, width)."""
        if batch == 1:
            return x.view(x.shape[:-1])
        return x.permute(0, 3, 1, 2).reshape(-1, *x.shape[1:3])[:batch]


def tile_rows(H: int) -> int:
    """Rows of a tile: few in a small image, so that there are enough programs for the GPU."""
    return 4 if H <= 256 else 8


def tiles(H: int) -> int:
    """How many tiles an image has."""
    return triton.cdiv(H, tile_rows(H)) * triton.cdiv(H, TILE_COLUMNS)


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
def summed(values, SPLIT: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Sums over the SPLIT threads that share the work for COUNT results."""
    if SPLIT == 1:
        return values
    elif WIDTH == 1:
        return tl.sum(tl.reshape(values, (SPLIT, COUNT)), axis=0)
    else:
        return tl.sum(tl.reshape(values, (SPLIT, COUNT, WIDTH)), axis=0)


@triton.jit
def _both_ways(
    images, out, batch, groups, H, top, height, border, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    _tile, i, j = tile_of(H, ROWS, COLUMNS)
    group, pitch = tl.program_id(1).to(tl.int64), H + 2 * border
    size = tl.full([], 1, tl.int64) * height * pitch * WIDTH  # of a group; all groups may have more than 2³¹ pixels
    image = group * WIDTH + lanes(WIDTH)
    inside = spread((i < H) & (j < H), WIDTH) & (image < batch)
    values = tl.load(images + image * H * H + spread(i * H + j, WIDTH), mask=inside, other=0.0)
    out += group * size + lanes(WIDTH)
    tl.store(out + spread(((top + i) * pitch + border + j) * WIDTH, WIDTH), values, mask=inside)
    turned = out + size * groups
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
