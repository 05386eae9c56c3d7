"""A residual U-Net behind the known reconstruction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from koct.contracts import ChainLayer, Layer, Problem, Workload, option
from koct.networks.module import ModuleArchitecture, check_images


class UNetArchitecture(ModuleArchitecture):
    label = "U-Net"
    colour = "#7a1fa2"
    marker = "d"
    takes = "reconstruction"
    moves = True

    channels: int = option("channels of the finest level, doubled at each coarser one", default=32, minimum=1)
    levels: int = option("levels, each half as fine as the one before", default=4, minimum=1, maximum=8)

    mirrored: bool = option(
        "mirror and turn images at random in training, for images as likely as their mirror images",
        default=False,
    )

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from check_images(problem.name, problem.y_shape, "images")

    def module(self, problem: Problem, layers: Any) -> Any:
        return self.unet()

    def unet(self, inside: int = 1) -> Any:
        from koct.networks.torch_layers import Mirrored, UNet

        network = UNet(self.channels, self.levels, inside)
        return Mirrored(network) if self.mirrored else network

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        return [*chain_layers.known(layers), self.learned(), *chain_layers.relu(problem)]

    def learned(self) -> ChainLayer:
        from koct.networks.torch_layers import count

        return ChainLayer("U-Net", None, count(self.unet))

    def multiplications(self, work: Workload) -> float:
        """Every level takes as many as the others."""
        return 9.0 * work.y_size * self.channels**2 * (5.5 * self.levels - 4)
