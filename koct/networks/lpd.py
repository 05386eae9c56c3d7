"""The learned primal–dual network: the known operator and its adjoint by turns, with learned steps between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koct.contracts import Problem, Workload, option
from koct.networks.module import UnrolledArchitecture, check_images


class LearnedPrimalDual(UnrolledArchitecture):
    label = "primal–dual"
    colour = "#1f3fbf"
    marker = "p"

    memory: int = option("channels kept between iterations in either space", default=5, minimum=1)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from check_images(problem.name, problem.x_shape, "measurements")

    def iterated(self, A: Any, start: Any) -> Any:
        from koct.networks.torch_layers import PrimalDual

        return PrimalDual(A, start, self.iterations, self.memory, self.channels)

    def multiplications(self, work: Workload) -> float:
        each = 9.0 * self.channels * (2 * self.memory + self.channels)
        return self.iterations * (each * (work.x_size + work.y_size) + 2 * work.layers.operations)
