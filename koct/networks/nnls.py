"""Non-negative least squares with the known forward operator: min ‖A y − x‖², y ≥ 0 where images cannot be negative.

FISTA starts at zero: the fewer iterations, the smoother the image. Their number has the least risk that can be
estimated from measurements and their noise (`koct.networks.unlabelled`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from koct.contracts import Cost, Problem, Training, Workload, option
from koct.networks.baselines import IterativeArchitecture, Scans, Solver, cost_of_solver, scans_of

TRIED = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 400, 1000)
AFTER = 3  # times as many iterations without a better one end the search


class NNLS(IterativeArchitecture):
    label = "NNLS"
    colour = "#404040"
    marker = "2"

    iterations: tuple[int, ...] | None = option(
        f"numbers of iterations to try with `validation: labels`; by default {', '.join(map(str, TRIED))}",
        default=None,
        items=1,
        minimum=1,
    )
    most_iterations: int = option("most iterations with `validation: none`", default=2000, minimum=1)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        if self.iterations and self.validation == "none":
            yield (
                "iterations are tried on labelled validation pairs: set validation to labels, or leave them out; "
                "most_iterations is the limit without labels"
            )

    def strengths(self, data: Training, solver: Any) -> Sequence[float | None]:
        return sorted(self.iterations or TRIED)

    def chosen(self, data: Training, solver: Any, scans: Scans) -> tuple[float | None, bool]:
        from koct.networks import unlabelled
        from koct.networks.variational import fista, norm, working

        x, A, nonnegative = working(scans.x), solver.term, solver.nonnegative
        noise = float(scans.variance.sum())
        wrong = unlabelled.model_error(A, x, nonnegative, noise)
        if not noise:
            limit = max(wrong, (unlabelled.EXACT * norm(x)) ** 2)
            found = unlabelled.residuals(A, x, nonnegative)
            done = next((k for k in self._numbers() if next(found) <= limit), None)
            return done or self.most_iterations, done is None
        risk = unlabelled.Risk(x, scans.variance + wrong / math.prod(x.shape))
        images, best, at = fista(A, risk.both, nonnegative), math.inf, 0
        for done in self._numbers():
            value = risk(A.A.flat(next(images)))
            if value < best:
                best, at = value, done
            elif done > AFTER * at:
                return at, False
        return at, True

    def _numbers(self) -> range:
        return range(1, self.most_iterations + 1)

    def solver(self, data: Training) -> Solver:
        from koct.networks.variational import EarlyStopping

        return EarlyStopping(data.forward, data.nonnegative_images)

    def cost(self, work: Workload) -> Cost:
        if self.validation == "labels":
            most = max(self.iterations or TRIED)
            return cost_of_solver(work, work.sizes.val, most, 0.4 * most)
        return cost_of_solver(work, 6 * scans_of(work.x_size), self.most_iterations, 0.4 * self.most_iterations)
