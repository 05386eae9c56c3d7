"""Unrolled proximal gradient: steps of least squares with the known operator, and a learned prior between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koct.contracts import Problem, Workload, option
from koct.networks.module import ModuleArchitecture, check_forward, check_images


class Unrolled(ModuleArchitecture):
    label = "unrolled"
    colour = "#e69f00"
    marker = "h"

    steps: int = option("steps of the optimiser, the same for every N", default=2000, minimum=1)
    batch: int = option("training pairs per step, at most N", default=4, minimum=1)
    lr: float = option("largest learning rate", default=1e-3, above=0)
    iterations: int = option("steps of least squares", default=8, minimum=1)
    channels: int = option("channels of the hidden convolutions", default=32, minimum=1)
    shared: bool = option("whether all steps have the same weights", default=False)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from check_forward(problem)
        yield from check_images(problem)

    def module(self, problem: Problem, layers: Any) -> Any:
        from koct.networks.torch_layers import ProximalGradient

        return ProximalGradient(layers.forward, layers.reconstruction, self.iterations, self.channels, self.shared)

    def multiplications(self, work: Workload) -> float:
        each = 9.0 * self.channels * (3 + self.channels)
        return self.iterations * (each * work.y_size + 2 * work.layers.operations)
