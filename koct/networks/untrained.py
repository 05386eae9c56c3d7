"""The known layers as theory gives them, before any learning."""

from __future__ import annotations

from koct.contracts import Cost, Training, Workload
from koct.networks.baselines import ChainBaselineArchitecture, Solver, applied


class Untrained(ChainBaselineArchitecture):
    label = "untrained"
    colour = "#595959"
    marker = "."

    def solver(self, data: Training) -> Solver:
        from koct.operators.algebra import product

        operator = product([layer.operator for layer in data.layers])
        return lambda x, _: applied(operator, x, data.nonnegative)

    def cost(self, work: Workload) -> Cost:
        pairs = work.sizes.held_out * (work.x_size + work.y_size)
        return Cost(2 * work.sizes.held_out * work.layers.operations, 6 * pairs, 4 * pairs)
