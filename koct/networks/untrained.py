"""The known layers as theory gives them, before any learning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from koct.contracts import ChainLayer, Cost, Layer, Problem, Training, Workload
from koct.networks.baseline import BaselineArchitecture, Solver, applied, check_layers


class Untrained(BaselineArchitecture):
    label = "untrained"
    colour = "#595959"
    marker = "."

    def check(self, problem: Problem) -> Iterable[str]:
        return check_layers(self, problem)

    def strengths(self, data: Training, solver: Solver) -> Sequence[float | None]:
        return [None]

    def solver(self, data: Training) -> Solver:
        from koct.operators.chain import product

        operator = product([layer.operator for layer in data.layers])
        return lambda x, _: applied(operator, x, data.nonnegative)

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        return [*chain_layers.known(layers), *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        pairs = work.sizes.held_out * (work.x_size + work.y_size)
        return Cost(2 * work.sizes.held_out * work.layers.operations, 6 * pairs, 4 * pairs)
