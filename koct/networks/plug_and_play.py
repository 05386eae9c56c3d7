"""Plug-and-play: a denoiser that learns from images alone, and the known operator at the test.

Venkatakrishnan, Bouman and Wohlberg, 2013; a U-Net that is told the noise, and half-quadratic splitting as Zhang et
al., Plug-and-play image restoration with deep denoiser prior, 2021. The noise of the problem and the error of its
operator choose the weight of the prior. No fit knows an operator, so that one serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from koct.contracts import ChainLayer, Cost, Layer, Problem, Workload, option
from koct.networks.module import SPLIT_ALONE, ModuleArchitecture, UNetArchitecture, check_explained


class PlugAndPlay(UNetArchitecture):
    label = "plug-and-play"
    colour = "#ef6c00"
    marker = "X"
    learns_from = "images"
    numbers = 2

    validation: Literal["none", "split"] = option(SPLIT_ALONE, default="none")  # type: ignore[assignment]
    noisiest: float = option(
        "standard deviation of the strongest noise learned, over the mean peak of images",
        default=0.5,
        above=0,
    )
    clearest: float = option("the same of the weakest noise", default=0.02, above=0)
    weights: tuple[float, ...] = option(
        "weights of the denoised image at the test, times the variance of its noise, largest first: the first"
        " with a residual that noise and the error of the operator explain is taken",
        default=(30.0, 10.0, 3.0, 1.0, 0.3, 0.1),
        items=1,
        above=0,
    )
    iterations: int = option(
        "half-quadratic steps at the test, from the strongest noise to the weakest", default=8, minimum=2
    )
    inner: int = option("conjugate gradients of a half-quadratic step", default=8, minimum=1)

    @property
    def inside(self) -> int:
        return 2  # the image and its noise

    def check(self, problem: Problem) -> Iterable[str]:
        yield from ModuleArchitecture.check(self, problem)
        yield from check_explained(problem)
        if self.clearest >= self.noisiest:
            yield f"clearest = {self.clearest:g} must be below noisiest = {self.noisiest:g}; lower it"

    def module(self, problem: Problem, layers: Any) -> Any:
        from koct.networks.unpaired_layers import Denoiser

        return Denoiser(self.unet())

    def samples(self, network: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """Return images twice: the first will get noise."""
        images = network.tensor(y).reshape(-1, 1, *network.y_shape) / network.scale
        return images, images

    def losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Return squared errors over the standard deviation of the noise, which is drawn for every image."""
        import torch

        std = self.clearest * (self.noisiest / self.clearest) ** torch.rand(len(inputs), device=inputs.device)
        noise = std.reshape(-1, *(1 for _ in inputs.shape[1:])) * torch.randn_like(inputs)
        return (module(inputs + noise, std).float() - targets).square().flatten(1).mean(1) / std

    def reconstruct(self, network: Any, x: Any) -> Any:
        import numpy as np
        import torch

        from koct.networks.training import TOGETHER
        from koct.networks.unpaired_layers import Weighed, half_quadratic

        problem, A, module = network.layers.problem, network.layers.forward, network.module.eval()
        variance = network.tensor(problem.noise_variance(x) + 0 * x) / network.scale**2
        nonnegative = problem.nonnegative or problem.nonnegative_images

        def denoise(images: Any, level: float) -> Any:
            std = torch.full((len(images),), level, device=images.device)
            out = module(images.reshape(-1, 1, *network.y_shape), std).float().reshape(images.shape)
            return out.clip(min=0) if nonnegative else out

        levels = np.geomspace(self.noisiest, self.clearest, self.iterations).tolist()
        parts = zip((network.tensor(x) / network.scale).split(TOGETHER), variance.split(TOGETHER), strict=True)
        with torch.no_grad():
            terms = (Weighed.of(A, *part) for part in parts)
            found = [
                half_quadratic(term, denoise, levels, self.weights, self.inner, term.limit(nonnegative))
                for term in terms
            ]
        return network.scale * torch.cat(found)

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        return ()

    def cost(self, work: Workload) -> Cost:
        each = self.multiplications(work) + (1 + 2 * self.inner) * work.layers.operations
        fitted = super().cost(work) or Cost()
        return fitted._replace(
            operations=fitted.operations + len(self.weights) * self.iterations * work.sizes.test * each
        )
