"""Total variation with the known forward operator: min ½‖A y − x‖² + λ TV(y), y ≥ 0 where images cannot be negative.

The validation pairs choose λ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from koct.contracts import Cost, Problem, Training, Workload, option
from koct.networks.baselines import IterativeArchitecture, Solver, cost_of_solver

WEAKEST, STRONGEST = -8, 2  # powers of ten between which λ is searched, as shares of ‖A‖² times the values of images
FEW = 8  # validation images that are enough to find the power of ten


class TV(IterativeArchitecture):
    label = "TV"
    colour = "#000000"
    marker = "3"

    lambdas: tuple[float, ...] | None = option(
        "strengths λ of the total variation to try; by default five, half a power of ten apart, around the best power "
        "of ten for some validation images",
        default=None,
        items=1,
        above=0,
    )
    iterations: int = option("most iterations for an image", default=1500, minimum=1)
    tolerance: float = option(
        "an image is finished when it changes by less than this share of itself in 25 iterations", default=1e-3, above=0
    )

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        if problem.has_forward and len(problem.y_shape) not in (2, 3):
            yield (
                f"images of the problem {problem.name} have {len(problem.y_shape)} axes, and total variation is for "
                f"(height, width) or (height, width, channels); remove {self.name} from archs"
            )

    def solver(self, data: Training) -> Solver:
        from koct.networks.variational import TotalVariation

        scale = float(abs(data.read("y", "val")).max(axis=1).mean()) or 1.0  # the mean of their largest values
        return TotalVariation(data.forward, data.nonnegative_images, scale, self.iterations, self.tolerance)

    def strengths(self, data: Training, solver: Any) -> Sequence[float | None]:
        if self.lambdas:
            return self.lambdas
        from koct.base.arrays import to_numpy

        x, y = data.device.put(data.read("x", "val")[:FEW]), data.read("y", "val")[:FEW]
        unit = solver.term.prepare(x) * solver.scale

        def error(power: int) -> float:
            return float(((to_numpy(solver(x, unit * 10.0**power)) - y) ** 2).mean())

        errors = {power: error(power) for power in (-5, -4, -3)}
        while True:
            best = min(errors, key=errors.__getitem__)
            beside = best - 1 if best == min(errors) else best + 1
            if beside in errors or not WEAKEST <= beside <= STRONGEST:
                return [float(f"{unit * 10 ** (best + half / 2):.3g}") for half in range(-2, 3)]
            errors[beside] = error(beside)

    def cost(self, work: Workload) -> Cost:
        return cost_of_solver(work, len(self.lambdas or range(7)), self.iterations, 1.2 * min(self.iterations, 150))
