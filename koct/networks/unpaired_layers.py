"""Torch modules and solvers of networks that learn from scans, from images, or from nothing.

Batches of measurements are (n, 1, *x_shape) and of images (n, 1, *y_shape), as for `koct.networks.torch_layers`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from koct.networks.training import rates
from koct.networks.unlabelled import model_error
from koct.networks.variational import LeastSquares
from koct.operators.algebra import Operator

EXACT = 1e-4  # share of the measurements: where there is no noise, a smaller residual is none
WHITE = 8  # images of noise that say how large A is
STEP = 0.1  # of Stein's estimate, as a share of the noise: with 1 it is biased where networks are not linear
SMOOTHED = 1e-3  # length of a gradient, as a share of the largest value, below which TV is not sharp


class Splits(nn.Module):
    """Noise2Inverse: views in `count` groups, and a network that predicts the FBP of one from that of the others.

    A group has every `count`-th view. Its FBP is that of its views alone, which stand for all; where groups have as
    many views, their mean is the FBP of all views.
    """

    masks: torch.Tensor

    def __init__(self, network: nn.Module, reconstruction: Operator, count: int) -> None:
        super().__init__()
        self.network, self.reconstruction = network, reconstruction
        views, *others = reconstruction.domain
        group = (torch.arange(views) % count == torch.arange(count)[:, None]).float()
        masks = (views / group.sum(1, keepdim=True) * group).reshape(count, views, *(1 for _ in others))
        self.register_buffer("masks", masks, persistent=False)

    def images(self, x: torch.Tensor) -> torch.Tensor:
        """Return the FBP of every group of views, (n, count, *y_shape)."""
        return self.reconstruction(x * self.masks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mean of what the network makes of all groups but one."""
        return self._predicted(self.images(x)).mean(1, keepdim=True)

    def losses(self, x: torch.Tensor) -> torch.Tensor:
        """Return the squared error of one group, chosen at random, or of all unless the network is trained."""
        parts = self.images(x)
        if not self.training:
            return (self._predicted(parts) - parts).square().flatten(1).mean(1)
        chosen = torch.randint(parts.shape[1], (len(parts), 1, 1, 1), device=x.device).expand(-1, 1, *parts.shape[2:])
        target = parts.gather(1, chosen)
        others = (parts.sum(1, keepdim=True) - target) / (parts.shape[1] - 1)
        return (self.network(others).float() - target).square().flatten(1).mean(1)

    def _predicted(self, parts: torch.Tensor) -> torch.Tensor:
        others = (parts.sum(1, keepdim=True) - parts) / (parts.shape[1] - 1)
        return self.network(others.flatten(0, 1)[:, None]).float().reshape(parts.shape)


def risk(
    h: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, std: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return h(x), and Stein's unbiased estimate of the squared error (n,) of h(x) to x without its noise.

    The noise is independent and normal, with this standard deviation. In the mean over noise n of the same kind,
    ⟨n, h(x + t n) − h(x)⟩ / t is, for small t, the divergence, weighted by the variance (Ramani, Blu and Unser, 2008).
    """
    noise = std * torch.randn_like(x)
    found, moved = h(torch.cat([x, x + STEP * noise])).float().chunk(2)
    each = (found - x).square() - std.square() + 2 * noise * (moved - found) / STEP
    return found, each.flatten(1).sum(1)


class Equivariance(nn.Module):
    """Robust equivariant imaging: a network whose images explain scans up to noise, and that knows turned images.

    The first is Stein's estimate of the risk of A f(x). It leaves free what A does not see. The second is not: images
    that are turned are images, so that the network has to find y again in A y for every turned y = f(x).
    """

    def __init__(self, network: nn.Module, A: Operator, weight: float) -> None:
        super().__init__()
        self.network, self.A, self.weight = network, A, weight
        # the squared residual of images whose pixels are off by one, independently: both errors are those of a pixel
        white = np.random.default_rng(0).standard_normal((WHITE, A.shape[1]))
        self.unit = float((A.flat(white) ** 2).sum()) / WHITE

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.network(x)
        return out

    def losses(self, x: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
        images: list[torch.Tensor] = []

        def projected(x: torch.Tensor) -> torch.Tensor:
            images.append(self.network(x).float())
            return self.A(images[0])

        _, unseen = risk(projected, x, std)
        turned = turn(images[0][: len(x)])
        again = self.network(self.A(turned) + std * torch.randn_like(x)).float()
        return unseen / self.unit + self.weight * (again - turned).square().flatten(1).mean(1)


def turn(images: torch.Tensor) -> torch.Tensor:
    """Return images (n, 1, height, width), each turned by a random angle; what comes from outside is zero."""
    found: torch.Tensor = Turn.apply(images, 2 * math.pi * torch.rand(len(images), 1, 1, device=images.device))
    return found


class Turn(torch.autograd.Function):
    """Images, turned by angles (n, 1, 1), between pixels bilinearly.

    The gradient is gathered as well: that of `grid_sample` adds on a GPU in any order, and has other bits each time
    (https://github.com/pytorch/pytorch/issues/68959).
    """

    @staticmethod
    def forward(images: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        row, column = _centred(images)
        x, y = _rotated(column, row, angle)
        height, width = images.shape[-2:]
        places = torch.stack([2 * x / width, 2 * y / height], -1)  # −1 and 1 are the ends of the outer pixels
        return nn.functional.grid_sample(images, places, align_corners=False)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return for each pixel the sum of those whose value came from less than a pixel away."""
        (images,), (angle,) = gradients, ctx.saved_tensors
        height, width = images.shape[-2:]
        row, column = _centred(images)
        x, y = _rotated(column, row, -angle)
        first = torch.floor(y + (height - 1) / 2), torch.floor(x + (width - 1) / 2)
        found = torch.zeros_like(images[:, 0])
        for down, right in itertools.product(range(-1, 3), repeat=2):
            i, j = first[0] + down, first[1] + right
            there = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            x, y = _rotated(j - (width - 1) / 2, i - (height - 1) / 2, angle)
            weight = (1 - (x - column).abs()).clip(min=0) * (1 - (y - row).abs()).clip(min=0) * there
            place = (i.clip(0, height - 1) * width + j.clip(0, width - 1)).long()
            found = found + weight * images.flatten(1).gather(1, place.flatten(1)).reshape(found.shape)
        return found[:, None], None


def _centred(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return row (height, 1) and column (width,) of every pixel, from the centre of the image."""
    row, column = (torch.arange(size, device=images.device) - (size - 1) / 2 for size in images.shape[-2:])
    return row[:, None], column


def _rotated(x: torch.Tensor, y: torch.Tensor, angle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cos(angle) * x - torch.sin(angle) * y, torch.sin(angle) * x + torch.cos(angle) * y


class Denoiser(nn.Module):
    """A U-Net that is told how noisy its image is, in a second channel; signals are images of one row."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor, std: torch.Tensor | None = None) -> torch.Tensor:
        """Return images (n, 1, *y_shape) without noise of the standard deviation `std`, (n,)."""
        rows = image if image.ndim == 4 else image[:, :, None]
        level = torch.zeros_like(rows) if std is None else std.reshape(-1, 1, 1, 1).expand_as(rows)
        out: torch.Tensor = self.network(torch.cat([rows, level], 1))
        return out.reshape(image.shape)


class Weighed(NamedTuple):
    """Least squares with one over the variance of the noise as weights, for flat measurements (n, size)."""

    A: Operator
    x: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(cls, A: Operator, x: torch.Tensor, variance: torch.Tensor) -> Weighed:
        """What has no noise among others, such as bins that measure nothing, has no weight."""
        exact = (EXACT * x.square().mean(1, keepdim=True).sqrt()).square()
        variance = torch.where(variance.amax(1, keepdim=True) > 0, variance, exact + 0 * variance)
        return cls(A, x, torch.where(variance > 0, 1 / variance, 0))

    def limit(self, nonnegative: bool) -> torch.Tensor:
        """Return `residual` of the true images in the mean, (n,): that of the noise, and an estimate of what A adds."""
        there, squares = self.weights > 0, LeastSquares(self.A)
        count, noise = there.sum(1), torch.where(there, 1 / self.weights, 0).sum(1)
        wrong = [
            model_error(squares, x, nonnegative, float(of_noise))
            for x, of_noise in zip(self.x.float().split(1), noise, strict=True)
        ]
        return count * (1 + torch.as_tensor(wrong, device=noise.device) / noise.clip(min=torch.finfo(noise.dtype).tiny))

    def residual(self, y: torch.Tensor) -> torch.Tensor:
        """Return ‖A y − x‖², weighted, of flat images: (n,)."""
        return (self.weights * (self.A.flat(y) - self.x).square()).sum(1)

    def nearest(self, z: torch.Tensor, penalty: float, iterations: int) -> torch.Tensor:
        """Return the y with the least residual + penalty ‖y − z‖², of flat images, by conjugate gradients from z."""
        AT = self.A.T

        def normal(y: torch.Tensor) -> torch.Tensor:
            return AT.flat(self.weights * self.A.flat(y)) + penalty * y

        y, r = z, AT.flat(self.weights * (self.x - self.A.flat(z)))
        p, square = r, r.square().sum(1, keepdim=True)
        for _ in range(iterations):
            q = normal(p)
            step = square / (p * q).sum(1, keepdim=True).clip(min=torch.finfo(q.dtype).tiny)
            y, r = y + step * p, r - step * q
            square, before = r.square().sum(1, keepdim=True), square
            p = r + square / before.clip(min=torch.finfo(q.dtype).tiny) * p
        return y


def half_quadratic(
    term: Weighed,
    denoise: Callable[[torch.Tensor, float], torch.Tensor],
    levels: Sequence[float],
    weights: Sequence[float],
    iterations: int,
    limit: torch.Tensor,
) -> torch.Tensor:
    """Return flat images by half-quadratic splitting, with a denoiser as the prior (Zhang et al., 2021).

    By turns, y is what fits the measurements and is near z, and z is y without noise of a level; levels fall. `weights`
    of the prior fall, too. An image is that of the first of them with a residual within its limit (n,): Morozov's
    discrepancy principle. Where none has, it is that with the least residual.
    """
    images, residuals = [], []
    for weight in weights:
        z = torch.zeros(len(term.x), term.A.shape[1], dtype=term.x.dtype, device=term.x.device)
        for level in levels:
            z = denoise(term.nearest(z, weight / level**2, iterations), level)
        images.append(z)
        residuals.append(term.residual(z))
    found = torch.stack(residuals)
    first = (found <= torch.maximum(limit, found.amin(0))).int().argmax(0)
    return torch.stack(images)[first, torch.arange(len(first), device=first.device)]


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Return the sum over pixels of the length of the gradient of images (n, 1, height, width): (n,)."""
    down = nn.functional.pad(images.diff(dim=-2), (0, 0, 0, 1))
    right = nn.functional.pad(images.diff(dim=-1), (0, 1))
    size = images.detach().abs().flatten(1).amax(1)[:, None, None, None]
    sharp = (SMOOTHED * size).square() + torch.finfo(images.dtype).tiny  # an empty image has a gradient too
    return (down.square() + right.square() + sharp).sqrt().flatten(1).sum(1)


def image_prior(
    A: Operator, x: torch.Tensor, start: torch.Tensor, shape: tuple[int, ...], network: nn.Module, lam: float,
    lr: float, steps: int,
) -> torch.Tensor:  # fmt: skip
    """Return flat images (n, size) of networks, each of whose weights are fitted to one scan (Baguer et al., 2020).

    ½‖A y − x‖² + λ TV(y) falls along Adam's steps, whose rate falls to zero, for what a network makes of `start`, flat
    images (n, size). All begin with the weights of `network`. An image is that of the step with the least objective.
    """
    rows = shape if len(shape) == 2 else (1, *shape)
    tiny = torch.finfo(x.dtype).tiny
    scale = start.abs().amax(1)[:, None, None, None].clip(min=tiny)
    inputs = start.reshape(-1, 1, *rows) / scale
    weights = {
        name: value.detach().expand(len(x), *value.shape).clone().requires_grad_()
        for name, value in network.named_parameters()
    }
    of_each = torch.func.vmap(lambda own, image: torch.func.functional_call(network, own, (image[None],))[0])
    optimiser = torch.optim.Adam(weights.values(), lr)
    found, least, unit = start, torch.full((len(x),), math.inf, device=x.device), None
    for rate in rates("cosine", lr, steps):
        images = scale * of_each(weights, inputs)
        objectives = (A.flat(images.flatten(1)) - x).square().sum(1) / 2 + lam * total_variation(images)
        better = objectives < least
        found = torch.where(better[:, None], images.detach().flatten(1), found)
        least = torch.where(better, objectives.detach(), least)
        unit = objectives.detach().clip(min=tiny) if unit is None else unit
        optimiser.zero_grad()
        (objectives / unit).sum().backward()
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
    return found
