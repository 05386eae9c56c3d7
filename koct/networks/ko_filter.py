"""KO with a learned filter: one weight per measurement and one filter for all views, the backprojection known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from koct.contracts import Architecture, Array, ChainLayer, Cost, Layer, Problem, Training, Workload, option
from koct.networks.architectures import GRADIENT, SolverArchitecture
from koct.networks.filter import cost_with_moments


class KOFilter(SolverArchitecture):
    label = "KO + filter"
    colour = "#0072b2"
    marker = "X"
    real_alone = True

    solver: Literal["ridge", "adagrad", "sgd", "adam"] = option(
        "`ridge`: alternating closed forms with the best λ, toward the analytic weights and the known filter;"
        " others: gradient descent from there",
        default="ridge",
    )
    tolerance: float = option(
        "`ridge` ends when a round lowers its objective by a smaller share", default=1e-4, above=0
    )
    rounds: int = option("most rounds of `ridge` for each λ", default=100, minimum=1)

    def contains(self, other: Architecture) -> bool:
        """Networks with the filter or the weights known, if they are pulled to the same or take the same steps."""
        if self.ridge:
            pulled = (getattr(other, "solver", None), getattr(other, "toward", None)) == ("ridge", "analytic")
            return other.name == "untrained" or (other.name in ("ko", "ko-ridge", "filter") and pulled)
        alike = all(getattr(other, key, None) == getattr(self, key) for key in ("solver", *GRADIENT))
        return other.name == "untrained" or (other.name == "ko" and alike)

    def known(self, data: Training) -> Any:
        from koct.networks.filtering import Filtered

        return Filtered(data.layers, data.nonnegative)

    def by_ridge(self, known: Any, data: Training) -> Iterator[tuple[float, dict[str, Array]]]:
        from koct.base.arrays import like
        from koct.networks.filtering import Alternation

        steps = Alternation(known, data.x, data.y, data.normal)
        for lam, learned in steps.fit(data.lambdas, self.tolerance, self.rounds):
            yield lam, {"w": like(learned.w, data.x), "spectrum": like(learned.spectrum, data.x)}

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        behind = chain_layers.learned_filters(layers, problem, views=1)
        return [chain_layers.learned_weights(layers, problem), *behind, *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        """About 20 rounds for each λ."""
        pairs, size = work.N * (work.x_size + work.y_size), work.x_size
        if self.ridge:
            rounds = work.lambdas * min(self.rounds, 20) * (size**3 / 3 + (4 * work.y_size**0.5 + 20) * size**2)
            return cost_with_moments(work, Cost(rounds, 8 * size**2, 16 * size**2))
        return Cost(self.steps * 1.2 * work.layers.operations, 6 * pairs, 4 * pairs)
