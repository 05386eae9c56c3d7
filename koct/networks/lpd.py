"""The learned primal–dual network: the known operator and its adjoint by turns, with learned steps between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koct.contracts import Problem, Workload, option
from koct.networks.module import ModuleArchitecture, check_forward, check_images


class LearnedPrimalDual(ModuleArchitecture):
    label = "primal–dual"
    colour = "#56b4e9"
    marker = "p"

    steps: int = option("steps of the optimiser, the same for every N", default=2000, minimum=1)
    batch: int = option("training pairs per step, at most N", default=4, minimum=1)
    lr: float = option("largest learning rate", default=1e-3, above=0)
    iterations: int = option("learned steps in either space", default=8, minimum=1)
    memory: int = option("channels that are kept from step to step in either space", default=5, minimum=1)
    channels: int = option("channels of the hidden convolutions", default=32, minimum=1)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from check_forward(problem)
        yield from check_images(problem, measurements=True)

    def module(self, problem: Problem, layers: Any) -> Any:
        from koct.networks.torch_layers import PrimalDual

        return PrimalDual(layers.forward, layers.reconstruction, self.iterations, self.memory, self.channels)

    def multiplications(self, work: Workload) -> float:
        each = 9.0 * self.channels * (2 * self.memory + self.channels)
        return self.iterations * (each * (work.x_size + work.y_size) + 2 * work.layers.operations)
