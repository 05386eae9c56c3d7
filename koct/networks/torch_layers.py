"""Torch modules of the networks: a U-Net, learned weights, and iterations with learned parts around known operators.

All take and give arrays (n, 1, height, width).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from koct.operators.algebra import Operator


def count(make: Callable[[], nn.Module]) -> int:
    """Return how many numbers a module learns, without making it."""
    with torch.device("meta"):
        return sum(value.numel() for value in make().parameters())


def two_convolutions(inside: int, outside: int) -> nn.Sequential:
    """Return two 3×3 convolutions, each with group norm and SiLU."""
    parts: list[nn.Module] = []
    for channels in (inside, outside):
        parts += [nn.Conv2d(channels, outside, 3, padding=1), nn.GroupNorm(math.gcd(8, outside), outside), nn.SiLU()]
    return nn.Sequential(*parts)


def compile_blocks(module: nn.Module) -> None:
    """Make the parts of a module that have no known operator in them faster on a GPU, in place.

    Learned steps get kernels of their own. What else there is is compiled: blocks of one shape once, and without what
    is chosen by timing, which would change the bits. Channels are kept last between convolutions, even if some of them
    have many more channels before than behind them, for which the compiler would not.
    """
    steps = [part for part in module.modules() if isinstance(part, LearnedStep)]
    for step in steps:
        step.fused = True
    blocks: list[nn.Module] = [part for part in module.modules() if isinstance(part, UNet)]
    for block in blocks or ([] if steps else [module]):
        block.compile(dynamic=False, options={"deterministic": True, "force_layout_optimization": True})


def zero(layer: nn.Conv2d) -> None:
    """Let a layer give zero at the start, so that training starts from what is known."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


def twice_as_fine(x: torch.Tensor) -> torch.Tensor:
    """Return images with four pixels for each; compiled, the gradient of `interpolate` has other bits each time."""
    n, channels, height, width = x.shape
    return x[:, :, :, None, :, None].expand(-1, -1, -1, 2, -1, 2).reshape(n, channels, 2 * height, 2 * width)


class UNet(nn.Module):
    """A residual U-Net: what it gives is added to the image. Its last layer is zero at the start.

    Level l has channels · 2^l channels on an image 2^l times smaller; images of any size are padded for it. Of several
    channels `inside`, the first is the image.
    """

    def __init__(self, channels: int = 32, levels: int = 4, inside: int = 1) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(levels)]
        self.down = nn.ModuleList(map(two_convolutions, [inside, *widths[:-1]], widths))
        self.up = nn.ModuleList(two_convolutions(fine + coarse, fine) for fine, coarse in itertools.pairwise(widths))
        self.last = nn.Conv2d(channels, 1, 1)
        zero(self.last)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        height, width = image.shape[-2:]
        step = 2 ** len(self.up)
        x = functional.pad(image, (0, -width % step, 0, -height % step))
        kept: list[torch.Tensor] = []
        for block in self.down:
            x = block(x if not kept else functional.max_pool2d(x, 2))
            kept.append(x)
        kept.pop()
        for block in reversed(self.up):
            x = block(torch.cat([kept.pop(), twice_as_fine(x)], 1))
        return image[:, :1] + self.last(x)[..., :height, :width]


class Mirrored(nn.Module):
    """A module whose images are mirrored and turned at random before it, and back behind it, while it is trained."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        if not self.training:
            out: torch.Tensor = self.inner(image)
            return out
        square = image.shape[-2] == image.shape[-1]
        changes = [lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.transpose(-2, -1)][: 2 + square]
        chosen = torch.rand(len(changes), len(image), 1, 1, 1, device=image.device) < 0.5
        for change, which in zip(changes, chosen, strict=True):
            image = torch.where(which, change(image), image)
        out = self.inner(image)
        for change, which in zip(reversed(changes), reversed(chosen), strict=True):
            out = torch.where(which, change(out), out)
        return out


class LearnedStep(nn.Sequential):
    """What three 3×3 convolutions with PReLU make of several images is added to the first; zero at the start.

    `fused` has kernels of its own for a GPU compute it.
    """

    fused = False

    def __init__(self, inside: int, channels: int, outside: int) -> None:
        last = nn.Conv2d(channels, outside, 3, padding=1)
        zero(last)
        super().__init__(
            nn.Conv2d(inside, channels, 3, padding=1),
            nn.PReLU(channels),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.PReLU(channels),
            last,
        )

    def forward(self, first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        images = torch.cat([first, *others], 1)
        if self.fused:
            from koct.networks.convolutions_cuda import three_convolutions

            return three_convolutions(images, *self.parameters())
        out: torch.Tensor = first + super().forward(images)
        return out


class LearnedWeights(nn.Module):
    """One weight for every measurement, as a multiple of the analytic one."""

    analytic: torch.Tensor

    def __init__(self, analytic: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("analytic", torch.as_tensor(np.array(analytic), dtype=torch.float32))
        self.factors = nn.Parameter(torch.ones(analytic.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.analytic * self.factors * x


class PrimalDual(nn.Module):
    """The learned primal–dual method (Adler and Öktem, 2018): by turns, learned steps for measurements and images.

    Each space has a memory of several channels. The operator is divided by its norm, and with it the measurements.
    """

    def __init__(self, A: Operator, start: Operator, iterations: int, memory: int, channels: int) -> None:
        super().__init__()
        self.size, self.memory = A.norm(tol=1e-2), memory
        self.A, self.start = A / self.size, start
        self.dual = nn.ModuleList(LearnedStep(memory + 2, channels, memory) for _ in range(iterations))
        self.primal = nn.ModuleList(LearnedStep(memory + 1, channels, memory) for _ in range(iterations))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = self.start(x).repeat(1, self.memory, 1, 1)
        x = x / self.size
        dual = torch.zeros_like(x).repeat(1, self.memory, 1, 1)
        for up, down in zip(self.dual, self.primal, strict=True):
            dual = up(dual, self.A(image[:, 1:2] if self.memory > 1 else image), x)
            image = down(image, self.A.T(dual[:, :1]))
        return image[:, :1]


class ProximalGradient(nn.Module):
    """Gradient steps of least squares, each followed by a learned step that takes the place of a proximal operator."""

    def __init__(self, A: Operator, start: Operator, iterations: int, channels: int, shared: bool) -> None:
        super().__init__()
        self.size = A.norm(tol=1e-2)
        self.A, self.start, self.iterations = A / self.size, start, iterations
        count = 1 if shared else iterations
        self.steps = nn.Parameter(torch.ones(count))
        self.priors = nn.ModuleList(LearnedStep(2, channels, 1) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = self.start(x)
        x = x / self.size
        for k in range(self.iterations):
            slope = self.A.T(self.A(image) - x)
            place = k % len(self.priors)
            image = self.priors[place](image - self.steps[place] * slope, slope)
        return image
