"""Non-negative least squares with the known forward operator: min ‖A y − x‖², y ≥ 0 where images cannot be negative.

FISTA starts at zero, and the validation pairs choose when it stops: the fewer iterations, the smoother the image.
"""

from __future__ import annotations

from collections.abc import Sequence

from koct.contracts import Cost, Training, Workload, option
from koct.networks.baselines import IterativeArchitecture, Solver, cost_of_solver


class NNLS(IterativeArchitecture):
    label = "NNLS"
    colour = "#404040"
    marker = "2"

    iterations: tuple[int, ...] = option(
        "numbers of iterations to try; the validation pairs choose one",
        default=(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 400, 1000),
        items=1,
        minimum=1,
    )

    def strengths(self, data: Training, solver: Solver) -> Sequence[float | None]:
        return sorted(self.iterations)

    def solver(self, data: Training) -> Solver:
        from koct.networks.variational import EarlyStopping

        return EarlyStopping(data.forward, data.nonnegative_images)

    def cost(self, work: Workload) -> Cost:
        return cost_of_solver(work, 1, max(self.iterations), 0.4 * max(self.iterations))
