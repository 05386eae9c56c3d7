"""Three 3×3 convolutions with PReLU between them, and their gradients, in eleven CUDA kernels written in Triton.

Unrolled networks consist of these on few channels, where a call of a library takes longer than its arithmetic: for
primal–dual an H200 takes 329 µs instead of 764 (docs/speed.md). Between the kernels images have their channels last,
and are padded by reading nothing: a tap outside an image is zero. A convolution is a matrix product for each of its
nine taps. Sums over pixels are those of equal parts, which are added in order: the same input gives the same bits.
"""
# Triton interprets the annotations of its kernels, so they have no type hints.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

PIXELS = 128  # of a program
PARTS = 64  # over which the gradients of weights are summed
# Loads that are pipelined pass by the cache in which neighbouring taps meet: an H200 takes 422 µs instead of 329.
STAGES = 1


@triton.jit
def _rows(at, exists, c, channels, per_channel):
    """The channels c of pixels whose first ones are at `at`, (pixels, channels); zero where either does not exist."""
    return tl.load(at[:, None] + c[None, :] * per_channel, mask=exists[:, None] & (c < channels)[None, :], other=0.0)


@triton.jit
def _factor(x, T: tl.constexpr):
    """Factors of a matrix product: in half precision, or rounded to TF32, since the hardware would cut them off."""
    if tl.float32 == T:
        x = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return x.to(T)


@triton.jit
def _nothing(rows: tl.constexpr, columns: tl.constexpr):
    return tl.zeros([rows, columns], dtype=tl.float32)


@triton.jit
def _convolve(
    source, weights, bias, slopes, before, added, out, activated, sums, count, height, width, inside, outside,
    added_channels, image_in, channel_in, pixel_in, image_out, channel_out, pixel_out, image_added, weight_in,
    weight_out, weight_tap, first_tap,
    INSIDE: tl.constexpr, OUTSIDE: tl.constexpr, PIXELS: tl.constexpr, T: tl.constexpr, PRECISION: tl.constexpr,
    BIAS: tl.constexpr, ACTIVATED: tl.constexpr, BACKWARD: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """out = a convolution of `source`, and what comes behind it.

    Forward: + bias, + `added` (the image of a residual), and PReLU(out) in `activated`. Backward: times the derivative
    of PReLU at `before`, with the sums that the gradient of the slopes needs.
    """
    p, size = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS), height * width  # through all images
    image, pixel = p // size, p % size
    i, j = pixel // width, pixel % width
    k, c = tl.arange(0, INSIDE), tl.arange(0, OUTSIDE)
    first = source + image * image_in + pixel * pixel_in
    total = tl.zeros([PIXELS, OUTSIDE], dtype=tl.float32)
    for tap in range(9):
        down, right = tap // 3 - 1, tap % 3 - 1
        there = (p < count) & (i + down >= 0) & (i + down < height) & (j + right >= 0) & (j + right < width)
        rows = _rows(first + (down * width + right) * pixel_in, there, k, inside, channel_in)
        at = weights + first_tap + tap * weight_tap + k[:, None] * weight_in + c[None, :] * weight_out
        columns = tl.load(at, mask=(k < inside)[:, None] & (c < outside)[None, :], other=0.0)
        total = tl.dot(_factor(rows, T), _factor(columns, T), total, input_precision=PRECISION)
    exists, known = p < count, c < outside
    mask = exists[:, None] & known[None, :]
    if BIAS:
        total += tl.load(bias + c, mask=known, other=0.0)[None, :]
    if BACKWARD:
        values = tl.load(before + p[:, None] * outside + c[None, :], mask=mask, other=0.0).to(tl.float32)
        slope = tl.load(slopes + c, mask=known, other=0.0)[None, :]
        below = tl.where(values > 0, 0.0, total * values)
        tl.store(sums + tl.program_id(0) * outside + c, tl.sum(below, 0), mask=known)
        total = tl.where(values > 0, total, total * slope)
    if ADDED:
        total += _rows(added + image * image_added + pixel, exists, c, added_channels, size)
    at = image * image_out + pixel * pixel_out
    at = at[:, None] + c[None, :] * channel_out
    tl.store(out + at, total, mask=mask)
    if ACTIVATED:
        slope = tl.load(slopes + c, mask=known, other=0.0)[None, :]
        tl.store(activated + at, tl.where(total > 0, total, total * slope), mask=mask)


@triton.jit
def _weigh(
    source, gradient, sums, count, height, width, inside, outside, part, total_size, first, image_in, channel_in,
    pixel_in, image_out, channel_out, pixel_out,
    INSIDE: tl.constexpr, OUTSIDE: tl.constexpr, PIXELS: tl.constexpr, T: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of three taps of the weights, and of the bias, of a convolution: over one part of the pixels."""
    down, size = tl.program_id(1) - 1, height * width
    k, c = tl.arange(0, INSIDE), tl.arange(0, OUTSIDE)
    left, middle, right = _nothing(OUTSIDE, INSIDE), _nothing(OUTSIDE, INSIDE), _nothing(OUTSIDE, INSIDE)
    bias = tl.zeros([OUTSIDE], dtype=tl.float32)
    for start in range(0, part, PIXELS):
        p = tl.program_id(0) * part + start + tl.arange(0, PIXELS)
        image, pixel = p // size, p % size
        i, j = pixel // width + down, pixel % width
        exists = p < count
        slopes = _rows(gradient + image * image_out + pixel * pixel_out, exists, c, outside, channel_out)
        columns = _factor(tl.trans(slopes), T)
        there, at = exists & (i >= 0) & (i < height), source + image * image_in + (pixel + down * width) * pixel_in
        rows = _rows(at - pixel_in, there & (j > 0), k, inside, channel_in)
        left = tl.dot(columns, _factor(rows, T), left, input_precision=PRECISION)
        rows = _rows(at, there, k, inside, channel_in)
        middle = tl.dot(columns, _factor(rows, T), middle, input_precision=PRECISION)
        rows = _rows(at + pixel_in, there & (j + 1 < width), k, inside, channel_in)
        right = tl.dot(columns, _factor(rows, T), right, input_precision=PRECISION)
        bias += tl.sum(slopes.to(tl.float32), 0)
    sums += tl.program_id(0) * total_size + first
    at = sums + c[:, None] * (9 * inside) + 3 * (down + 1) * inside + k[None, :]
    mask = (c < outside)[:, None] & (k < inside)[None, :]
    tl.store(at, left, mask=mask)
    tl.store(at + inside, middle, mask=mask)
    tl.store(at + 2 * inside, right, mask=mask)
    tl.store(sums + 9 * inside * outside + c, bias, mask=(c < outside) & (down == 0))


class Images(NamedTuple):
    """Images (n, channels, height, width) in memory, with their channels apart or last."""

    values: torch.Tensor
    channels: int
    last: bool

    def strides(self, size: int) -> tuple[int, int, int]:
        """Of an image, a channel and a pixel."""
        return self.channels * size, *((1, self.channels) if self.last else (size, 1))


def _padded(channels: int) -> int:
    return max(16, triton.next_power_of_2(channels))


class _Sizes(NamedTuple):
    """What all kernels of a batch have in common."""

    shape: torch.Size
    T: Any
    precision: str
    stored: torch.dtype

    @classmethod
    def of(cls, images: torch.Tensor, half: bool) -> _Sizes:
        if half:
            return cls(images.shape, tl.bfloat16, "ieee", torch.bfloat16)
        return cls(images.shape, tl.float32, "tf32", torch.float32)

    @property
    def pixels(self) -> tuple[int, int, int]:
        n, _, height, width = self.shape
        return n * height * width, height, width

    def empty(self, like: torch.Tensor, channels: int) -> torch.Tensor:
        return like.new_empty(self.pixels[0] * channels, dtype=self.stored)

    def convolve(
        self, source: Images, weights: torch.Tensor, out: Images, *, bias=None, slopes=None, before=None, added=None,
        activated=None, sums=None,
    ) -> None:  # fmt: skip
        """Write a convolution of `source` to `out`; with `before` the transposed one."""
        count, height, width = self.pixels
        size, back = height * width, sums is not None or bias is None
        by_out, by_in, _, by_tap = weights.stride()
        steps = (by_out, by_in, -by_tap, 8 * by_tap) if back else (by_in, by_out, by_tap, 0)
        nothing, channels = out.values, 0 if added is None else added.shape[1]
        tensors = (nothing if each is None else each for each in (bias, slopes, before, added))
        others = (nothing if each is None else each for each in (activated, sums))
        _convolve[(triton.cdiv(count, PIXELS),)](
            source.values, weights, *tensors, out.values, *others, count, height, width, source.channels, out.channels,
            channels, *source.strides(size), *out.strides(size), channels * size, *steps,
            INSIDE=_padded(source.channels), OUTSIDE=_padded(out.channels), PIXELS=PIXELS, T=self.T,
            PRECISION=self.precision, BIAS=bias is not None, ACTIVATED=activated is not None,
            BACKWARD=sums is not None, ADDED=added is not None, num_stages=STAGES,
        )  # fmt: skip

    def weigh(self, source: Images, gradient: Images, sums: torch.Tensor, first: int) -> None:
        """Write the gradients of weights and bias, part by part, to columns of `sums` from `first` on."""
        count, height, width = self.pixels
        part = triton.cdiv(triton.cdiv(count, len(sums)), PIXELS) * PIXELS
        _weigh[(len(sums), 3)](
            source.values, gradient.values, sums, count, height, width, source.channels, gradient.channels, part,
            sums.shape[1], first, *source.strides(height * width), *gradient.strides(height * width),
            INSIDE=_padded(source.channels), OUTSIDE=_padded(gradient.channels), PIXELS=PIXELS, T=self.T,
            PRECISION=self.precision, num_stages=STAGES,
        )  # fmt: skip


class ThreeConvolutions(torch.autograd.Function):
    """images[:, :outside] + three 3×3 convolutions with PReLU of all channels of images (n, inside, height, width)."""

    @staticmethod
    def forward(ctx: Any, images: torch.Tensor, half: bool, *parameters: torch.Tensor) -> torch.Tensor:
        w1, b1, s1, w2, b2, s2, w3, b3 = parameters
        n, inside, height, width = images.shape
        channels, outside, sizes = len(w1), len(w3), _Sizes.of(images, half)
        z1, a1, z2, a2 = (sizes.empty(images, channels) for _ in range(4))
        out = images.new_empty(n, outside, height, width)
        first, last = Images(images, inside, False), Images(out, outside, False)
        sizes.convolve(first, w1, Images(z1, channels, True), bias=b1, slopes=s1, activated=a1)
        sizes.convolve(Images(a1, channels, True), w2, Images(z2, channels, True), bias=b2, slopes=s2, activated=a2)
        # of the images that are added only the first channels exist in `out`
        sizes.convolve(Images(a2, channels, True), w3, last, bias=b3, added=images)
        ctx.save_for_backward(images, z1, a1, z2, a2, w1, s1, w2, s2, w3)
        ctx.sizes = sizes
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        images, z1, a1, z2, a2, w1, s1, w2, s2, w3 = ctx.saved_tensors
        sizes, g = ctx.sizes, gradients[0].contiguous()
        inside, channels, outside = images.shape[1], len(w1), len(w3)
        d1, d2 = (sizes.empty(images, channels) for _ in range(2))
        back = torch.empty_like(images)
        slopes = images.new_empty(2, triton.cdiv(sizes.pixels[0], PIXELS), channels)
        lengths = [w.numel() + len(w) for w in (w1, w2, w3)]
        sums = images.new_empty(PARTS, sum(lengths))
        last, second = Images(g, outside, False), Images(d2, channels, True)
        hidden = Images(d1, channels, True)
        sizes.convolve(last, w3, second, slopes=s2, before=z2, sums=slopes[1])
        sizes.convolve(second, w2, hidden, slopes=s1, before=z1, sums=slopes[0])
        sizes.convolve(hidden, w1, Images(back, inside, False), added=g)
        sizes.weigh(Images(images, inside, False), hidden, sums, 0)
        sizes.weigh(Images(a1, channels, True), second, sums, lengths[0])
        sizes.weigh(Images(a2, channels, True), last, sums, lengths[0] + lengths[1])
        slope1, slope2 = slopes.sum(1)
        found = []
        for w, part in zip((w1, w2, w3), sums.sum(0).split(lengths), strict=True):
            by_out, by_in = w.shape[:2]
            found += [part[: w.numel()].view(by_out, 3, 3, by_in).permute(0, 3, 1, 2), part[w.numel() :]]
        return back, None, found[0], found[1], slope1, found[2], found[3], slope2, found[4], found[5]


def three_convolutions(images: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
    """Return `ThreeConvolutions` of images, by matrix products in the precision that autocast asks for, or TF32."""
    half = torch.is_autocast_enabled(images.device.type)
    out: torch.Tensor = ThreeConvolutions.apply(images.float().contiguous(), half, *parameters)
    return out
