"""Training steps of weights in front of a ramp filter and a backprojection, in four CUDA kernels written in Triton.

1. the samples of the step times the weights, filtered; 2. backprojected, minus the images, cut off below zero, squared
for the loss; 3. the transposed backprojection of that; 4. filtered again, times the samples, and the update of the
weights. Between them all values have to meet: a filter needs a whole view, a pixel all views, and a bin all pixels.
"""
# Triton interprets the annotations of its kernels, so they have no type hints.
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from koct.networks.solvers import Known
from koct.operators.algebra import Composition
from koct.operators.cuda import backprojection as backprojection_cuda
from koct.operators.cuda.backprojection import gather
from koct.operators.cuda.layout import Groups, lanes, spread, tile_of, tiles, zeros
from koct.operators.fanbeam import Backprojector
from koct.operators.filters import RampFilter

ROWS = 16  # of a matrix product: views times images that lie side by side
COLUMNS = 32  # bins of a matrix product that one program computes
DEPTH = 64  # bins of a matrix product that one iteration sums over
MOST_BINS = 1024  # above, the matrix of the filter would be read more slowly than a Fourier transform is computed


def possible(known: Known, x: torch.Tensor) -> bool:
    """Whether the known layers and the measurements x are what the kernels are written for."""
    R = known.R
    if not (isinstance(R, Composition) and isinstance(R.outer, Backprojector) and isinstance(R.inner, RampFilter)):
        return False
    B = R.outer.geometry.B
    return x.dtype == torch.float32 and 1 < B <= MOST_BINS and R.outer.table(x.dtype, x.device).count > 0


@triton.jit(do_not_specialize=["step"])  # or it would be compiled for steps 1, 16, 32, … as well
def _filtered(
    x, w, matrix, z, chosen, counter, step, batch, V, B, PADDED: tl.constexpr, BORDER: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """z (groups, V, B + 2 · BORDER, WIDTH): the samples of a step times the weights, filtered."""
    row, bins = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    v, image = row // PADDED, row % PADDED
    exists = (v < V) & (image < batch)
    sample = tl.load(chosen + (tl.load(counter) + step) * batch + image, mask=exists, other=0)
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for first in range(0, B, DEPTH):
        j = first + tl.arange(0, DEPTH)
        inside = exists[:, None] & (j < B)[None, :]
        weights = tl.load(w + (v * B)[:, None] + j[None, :], mask=inside, other=0.0)
        values = tl.load(x + (sample * V * B + v * B)[:, None] + j[None, :], mask=inside, other=0.0)
        inside = (j < B)[:, None] & (bins < B)[None, :]
        factor = tl.load(matrix + j[:, None] * B + bins[None, :], mask=inside, other=0.0)
        total = tl.dot(weights * values, factor, total, input_precision="ieee")
    place = (image // WIDTH * V + v)[:, None] * (B + 2 * BORDER) + BORDER + bins[None, :]
    at = place * WIDTH + (image % WIDTH)[:, None]
    tl.store(z + at, total, mask=(v < V)[:, None] & (bins < B)[None, :])


@triton.jit(do_not_specialize=["step"])
def _residual(
    z, y, images, losses, tiles, chosen, counter, step, batch, groups, V, B, H, height, MARGIN: tl.constexpr,
    NONNEGATIVE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, SPLIT: tl.constexpr, UNROLL: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BORDER: tl.constexpr,
):  # fmt: skip
    """Both ways (see `layout_cuda.both_ways`) the residual that the gradient needs, and the sum of its squares."""
    tile, i, j = tile_of(H, ROWS, COLUMNS)
    group, stride = tl.program_id(1) * PARTS, V * (B + 2 * BORDER) * WIDTH
    z += group * stride
    sums = gather(z, tiles, tile, V, B, stride, WIDTH, PARTS, SPLIT, UNROLL, ROWS, COLUMNS, BORDER)
    exists, pitch = spread((i < H) & (j < H), WIDTH), H + 2 * MARGIN
    straight = spread((i * pitch + MARGIN + j) * WIDTH, WIDTH) + lanes(WIDTH)
    turned = spread((groups * height * pitch + j * pitch + MARGIN + i) * WIDTH, WIDTH) + lanes(WIDTH)
    squares = zeros(ROWS * COLUMNS, WIDTH, tl.float32)
    for part in tl.static_range(PARTS):
        image = (group + part) * WIDTH + lanes(WIDTH)
        sample = tl.load(chosen + (tl.load(counter) + step) * batch + image, mask=image < batch, other=0)
        both = exists & (image < batch)
        wanted = tl.load(y + sample * H * H + spread(i * H + j, WIDTH), mask=both, other=0.0)
        found = sums[part]
        residual = (tl.maximum(found, 0.0) if NONNEGATIVE else found) - wanted
        residual = tl.where(both, residual, 0.0)
        squares += residual * residual
        if NONNEGATIVE:
            residual = tl.where(found > 0, residual, 0.0)
        there = images + (group + part) * height * pitch * WIDTH
        tl.store(there + straight, residual, mask=exists & (image >= 0))
        tl.store(there + turned, residual, mask=exists & (image >= 0))
    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    loss = tl.sum(squares) / (batch * H * H)
    tl.store(losses + step * tl.num_programs(0) * tl.num_programs(1) + program, loss)


@triton.jit(do_not_specialize=["step"])
def _updated(
    own, others, x, w, matrix, one, two, biases, chosen, counter, step, scale, lr, new, new_square, eps,
    batch, groups, V, B, SOLVER: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """The step of the solver in the weights w, with what it keeps in `one` and `two`."""
    VIEWS: tl.constexpr = ROWS // WIDTH
    row, bins = tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    v, lane = tl.program_id(0) * VIEWS + row // WIDTH, row % WIDTH
    gradient = tl.zeros([VIEWS, COLUMNS], dtype=tl.float32)
    for group in range(groups):
        filtered = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        for first in range(0, B, DEPTH):
            j = first + tl.arange(0, DEPTH)
            inside = (v < V)[:, None] & (j < B)[None, :]
            at = ((group * V + v)[:, None] * B + j[None, :]) * WIDTH + lane[:, None]
            values = tl.load(own + at, mask=inside, other=0.0) + tl.load(others + at, mask=inside, other=0.0)
            inside = (j < B)[:, None] & (bins < B)[None, :]
            factor = tl.load(matrix + j[:, None] * B + bins[None, :], mask=inside, other=0.0)
            filtered = tl.dot(values, factor, filtered, input_precision="ieee")
        image = group * WIDTH + lane
        exists = (v < V) & (image < batch)
        sample = tl.load(chosen + (tl.load(counter) + step) * batch + image, mask=exists, other=0)
        at = x + (sample * V * B + v * B)[:, None] + bins[None, :]
        values = tl.load(at, mask=exists[:, None] & (bins < B)[None, :], other=0.0)
        gradient += tl.sum(tl.reshape(values * filtered, (VIEWS, WIDTH, COLUMNS)), axis=1)
    gradient *= scale
    views = tl.program_id(0) * VIEWS + tl.arange(0, VIEWS)
    at, exists = (views * B)[:, None] + bins[None, :], (views < V)[:, None] & (bins < B)[None, :]
    if SOLVER == "adagrad":
        squares = tl.load(one + at, mask=exists, other=0.0) + gradient * gradient
        tl.store(one + at, squares, mask=exists)
        gradient /= tl.sqrt_rn(squares) + eps
    if SOLVER == "adam":
        mean, square = tl.load(one + at, mask=exists, other=0.0), tl.load(two + at, mask=exists, other=0.0)
        mean += new * (gradient - mean)
        square += new_square * (gradient * gradient - square)
        tl.store(one + at, mean, mask=exists)
        tl.store(two + at, square, mask=exists)
        bias = biases + 2 * (tl.load(counter) + step)
        gradient = mean / tl.load(bias) / (tl.sqrt_rn(square / tl.load(bias + 1)) + eps)
    tl.store(w + at, tl.load(w + at, mask=exists, other=0.0) - lr * gradient, mask=exists)


class Steps:
    """Steps of a solver in the weights w on pairs x and y: `chosen` says which of them each step sees.

    Step number `counter` + `step` is `run(step, losses)`, which puts the parts of its loss into `losses[step]`.
    """

    def __init__(self, known: Known, w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, chosen: Any, optimiser: Any):
        R: Any = known.R  # see `possible`
        back, ramp = R.outer, R.inner
        g = self.geometry = back.geometry
        self.known, self.w, self.x, self.y, self.optimiser = known, w, x, y, optimiser
        self.chosen = torch.as_tensor(chosen, device=w.device)
        self.counter = torch.zeros(1, dtype=torch.int64, device=w.device)
        self.tables = back.table(x.dtype, x.device)
        self.matrix = torch.tensor(ramp.view_matrix, dtype=x.dtype, device=x.device)
        groups = self.groups = Groups.of(self.chosen.shape[1], parts=1)
        self.height = backprojection_cuda.SEGMENTS * backprojection_cuda.segment_lines(g.H)
        self.z = x.new_zeros(groups.count, g.V, g.B + 2 * backprojection_cuda.BORDER, groups.width)
        self.images = x.new_zeros(2, groups.count, self.height, g.H + 2 * self.tables.count, groups.width)
        self.back = x.new_empty(2, groups.count, g.V, g.B, groups.width)
        self.tiles = tiles(g.H), groups.programs
        steps = np.arange(1, len(self.chosen) + 1)[:, None]
        self.biases = torch.as_tensor(1 - np.array(optimiser.betas) ** steps, dtype=x.dtype, device=x.device)

    def parts_of_losses(self, steps: int) -> torch.Tensor:
        """Room for this many steps: the sum of a row is a loss."""
        return self.w.new_empty(steps, self.tiles[0] * self.tiles[1])

    def run(self, step: int, losses: torch.Tensor) -> None:
        g, groups, batch = self.geometry, self.groups, self.chosen.shape[1]
        when = self.chosen, self.counter, step
        product = {"WIDTH": groups.width, "ROWS": ROWS, "COLUMNS": COLUMNS, "DEPTH": DEPTH}
        across, padded = triton.cdiv(g.B, COLUMNS), groups.count * groups.width
        _filtered[triton.cdiv(g.V * padded, ROWS), across](
            self.x, self.w, self.matrix, self.z, *when, batch, g.V, g.B, PADDED=padded,
            BORDER=backprojection_cuda.BORDER, **product,
        )  # fmt: skip
        sizes = batch, groups.count, g.V, g.B, g.H, self.height
        options = {"MARGIN": self.tables.count, "NONNEGATIVE": self.known.nonnegative}
        options |= backprojection_cuda.gather_options(g.H, groups)
        _residual[self.tiles](self.z, self.y, self.images, losses, self.tables.tiles, *when, *sizes, **options)
        backprojection_cuda.launch_scatter(self.images, self.back, self.tables, g, groups)
        o = self.optimiser
        kept = (*o.kept, self.w, self.w)[:2]  # a solver that keeps less reads nothing there
        numbers = 2 / (batch * g.H * g.H), o.lr, *(1 - beta for beta in o.betas), o.eps
        tensors = *self.back, self.x, self.w, self.matrix, *kept, self.biases
        _updated[triton.cdiv(g.V, ROWS // groups.width), across](
            *tensors, *when, *numbers, batch, groups.count, g.V, g.B, SOLVER=o.solver, **product
        )
