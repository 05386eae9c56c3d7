"""The problem's own inverse, such as filtered backprojection; the validation pairs choose its smoothing, if any."""

from __future__ import annotations

from collections.abc import Sequence

from koct.contracts import Cost, Training, Workload
from koct.networks.baselines import ChainBaselineArchitecture, Solver, applied

WINDOWS = 10  # about as many operators as a problem has


class FBP(ChainBaselineArchitecture):
    label = "FBP"
    colour = "#8c8c8c"
    marker = "1"

    def strengths(self, data: Training, solver: Solver) -> Sequence[float | None]:
        return list(data.inverses)

    def solver(self, data: Training) -> Solver:
        return lambda x, strength: applied(data.inverses[strength], x, data.nonnegative_images)

    def cost(self, work: Workload) -> Cost:
        pairs = work.sizes.held_out * (work.x_size + work.y_size)
        operations = (WINDOWS * work.sizes.val + work.sizes.held_out) * work.layers.operations
        return Cost(operations, 6 * pairs, 4 * pairs)
