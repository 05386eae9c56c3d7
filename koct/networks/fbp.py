"""The problem's own inverse, such as filtered backprojection, with the window that has the least risk, if any.

For inverses R_s and R_0, that without a window, measurements x and their noise n, the risk of s is, but for what R_0
itself gets wrong, ‖(R_s − R_0)x‖² − E‖(R_s − R_0)n‖² + E‖R_s n‖² (Mallows' C_p). It needs no image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from koct.contracts import Cost, Training, Workload
from koct.networks.baselines import ChainBaselineArchitecture, Scans, Solver, TunedArchitecture, applied, scans_of

WINDOWS = 10  # about as many operators as a problem has
DRAWS = 4  # of noise for every scan


class FBP(TunedArchitecture, ChainBaselineArchitecture):
    label = "FBP"
    colour = "#8c8c8c"
    marker = "1"

    def strengths(self, data: Training, solver: Any) -> Sequence[float | None]:
        return list(data.inverses)

    def chosen(self, data: Training, solver: Any, scans: Scans) -> tuple[float | None, bool]:
        estimates = risks(data.inverses, scans)
        best = min(estimates, key=estimates.__getitem__)
        return best, len(estimates) > 1 and best == list(estimates)[-1]  # none is weaker than what R_0 smooths

    def solver(self, data: Training) -> Solver:
        return lambda x, strength: applied(data.inverses[strength], x, data.nonnegative_images)

    def cost(self, work: Workload) -> Cost:
        pairs = work.sizes.held_out * (work.x_size + work.y_size)
        tried = WINDOWS * (work.sizes.val if self.validation == "labels" else (1 + DRAWS) * scans_of(work.x_size))
        return Cost((tried + work.sizes.held_out) * work.layers.operations, 6 * pairs, 4 * pairs)


def risks(inverses: Mapping[float | None, Any], scans: Scans) -> dict[float | None, float]:
    """Return the estimated risk of inverses by their strength, summed over pixels and scans; the weakest is first."""
    import numpy as np

    from koct.base.arrays import like
    from koct.networks.variational import norm

    rng = np.random.default_rng(0)
    noise = [like(rng.standard_normal(tuple(scans.x.shape)), scans.x) * scans.variance**0.5 for _ in range(DRAWS)]
    weakest = next(iter(inverses.values()))
    image, *without = (weakest.flat(x) for x in (scans.x, *noise))
    found = {}
    for strength, operator in inverses.items():
        bias = norm(operator.flat(scans.x) - image) ** 2
        passed = [operator.flat(n) for n in noise]
        lost = [norm(one - other) ** 2 for one, other in zip(passed, without, strict=True)]
        found[strength] = bias + sum(norm(one) ** 2 - other for one, other in zip(passed, lost, strict=True)) / DRAWS
    return found
