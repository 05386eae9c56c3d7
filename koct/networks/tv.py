"""Total variation with the known forward operator: min ½‖A y − x‖² + λ TV(y), y ≥ 0 where images cannot be negative.

λ has the least risk that can be estimated from measurements and their noise (`koct.networks.unlabelled`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from koct.contracts import Array, Cost, Problem, Training, Workload, option
from koct.networks.baselines import (
    FEW,
    IterativeArchitecture,
    Scans,
    Solver,
    cost_of_solver,
    scans_of,
    some_measurements,
)

WEAKEST, STRONGEST = -8, 2  # powers of ten between which λ is searched, as shares of ‖A‖² times the values of images
USUAL = -3  # where the search begins
STEPS = 20  # of FISTA for images whose values are near enough to the true ones


class TV(IterativeArchitecture):
    label = "TV"
    colour = "#000000"
    marker = "3"

    lambdas: tuple[float, ...] | None = option(
        "strengths λ to try with `validation: labels`; by default five, half a power of ten apart, around the"
        " best power of ten",
        default=None,
        items=1,
        above=0,
    )
    iterations: int = option("most iterations per image", default=1500, minimum=1)
    tolerance: float = option("relative change in 25 iterations at which an image is finished", default=1e-3, above=0)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        if problem.has_forward and len(problem.y_shape) > 3:
            yield (
                f"images of the problem {problem.name} have {len(problem.y_shape)} axes, and total variation is for "
                f"signals, (height, width) or (height, width, channels); remove {self.name} from archs"
            )
        if self.lambdas and self.validation == "none":
            yield "lambdas are tried on labelled validation pairs: set validation to labels, or leave them out"

    def solver(self, data: Training) -> Solver:
        from koct.base.arrays import to_numpy
        from koct.networks.variational import EarlyStopping, TotalVariation

        A, nonnegative = data.forward, data.nonnegative_images
        if self.validation == "labels":
            images = data.read("y", "val")
        else:
            images = to_numpy(EarlyStopping(A, nonnegative)(some_measurements(data), STEPS))
        scale = float(abs(images).max(axis=1).mean()) or 1.0  # the mean of their largest values
        return TotalVariation(A, nonnegative, scale, self.iterations, self.tolerance)

    def chosen(self, data: Training, solver: Any, scans: Scans) -> tuple[float | None, bool]:
        from koct.networks import unlabelled
        from koct.networks.variational import norm, working

        x, A, ends = working(scans.x), solver.term, (WEAKEST, STRONGEST)
        unit = A.prepare(x) * solver.scale
        noise = float(scans.variance.sum())
        wrong = unlabelled.model_error(A, x, solver.nonnegative, noise)

        def projected(measured: Array, power: float) -> Array:
            return A.A.flat(solver(measured, _rounded(unit * 10**power)))

        if noise:
            risk = unlabelled.Risk(x, scans.variance + wrong / math.prod(x.shape))
            found = unlabelled.least(lambda power: risk(projected(risk.both, power)), USUAL, ends)
        else:
            limit = max(wrong, (unlabelled.EXACT * norm(x)) ** 2)
            found = unlabelled.strongest(lambda power: norm(projected(x, power) - x) ** 2, limit, USUAL, ends)
        return _rounded(unit * 10**found.power), found.edge

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
                return [_rounded(unit * 10 ** (best + half / 2)) for half in range(-2, 3)]
            errors[beside] = error(beside)

    def cost(self, work: Workload) -> Cost:
        tried = (
            20 * scans_of(work.x_size) if self.validation == "none" else len(self.lambdas or range(7)) * work.sizes.val
        )
        return cost_of_solver(work, tried, self.iterations, 1.2 * min(self.iterations, 150))


def _rounded(lam: float) -> float:
    return float(f"{lam:.3g}")
