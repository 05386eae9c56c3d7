"""Total variation with the known forward operator: min ½‖A y − x‖² + λ TV(y), y ≥ 0 where images cannot be negative.

The validation pairs choose λ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from koct.contracts import Cost, Problem, Training, Workload, option
from koct.networks.baseline import BaselineArchitecture, Solver, check_forward, cost_of_solver

SHARES = tuple(
    10 ** (k / 2) for k in range(-15, 1)
)  # of ‖A‖² times the size of the values of images: the default for λ


class TV(BaselineArchitecture):
    label = "TV"
    colour = "#000000"
    marker = "3"

    lambdas: tuple[float, ...] | None = option(
        "strengths λ of the total variation to try; by default sixteen from 10^-7.5 to 1 times ‖A‖² times the mean "
        "over the validation images of their largest value",
        default=None,
        items=1,
        above=0,
    )
    iterations: int = option("most iterations for an image", default=1500, minimum=1)
    tolerance: float = option(
        "an image is finished when it changes by less than this share of itself in 25 iterations", default=1e-3, above=0
    )

    def check(self, problem: Problem) -> Iterable[str]:
        yield from check_forward(self, problem)
        if problem.has_forward and len(problem.y_shape) not in (2, 3):
            yield (
                f"images of the problem {problem.name} have {len(problem.y_shape)} axes, and total variation is for "
                f"(height, width) or (height, width, channels); remove {self.name} from archs"
            )

    def strengths(self, data: Training) -> Sequence[float | None]:
        return self.lambdas or self._default(data)

    def _default(self, data: Training) -> list[float]:
        from koct.networks.variational import LeastSquares

        term = LeastSquares(data.forward)
        term.prepare(data.device.put(data.read("x", "val", 1)))
        return [float(f"{share * term.L * scale(data):.3g}") for share in SHARES]

    def solver(self, data: Training) -> Solver:
        from koct.networks.variational import TotalVariation

        return TotalVariation(data.forward, data.nonnegative_images, scale(data), self.iterations, self.tolerance)

    def cost(self, work: Workload) -> Cost:
        return cost_of_solver(work, self.iterations, len(self.lambdas or SHARES))


def scale(data: Training) -> float:
    """Return the mean over the validation images of their largest absolute value."""
    return float(abs(data.read("y", "val")).max(axis=1).mean()) or 1.0
