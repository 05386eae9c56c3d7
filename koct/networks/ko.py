"""KO, the operator-aware network: ŷ = R diag(w) x, with R known and one learned weight per measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from koct.contracts import Architecture, Array, ChainLayer, Cost, Layer, Problem, Training, Workload, option
from koct.networks.architectures import SolverArchitecture


class KO(SolverArchitecture):
    label = "KO"
    colour = "#0b6e4f"
    marker = "o"

    toward: Literal["zero", "analytic"] | None = option(
        "target of `ridge`: zero (default) or the analytic weights",
        default=None,
    )

    @property
    def predicted(self) -> Literal["subsets", "fixed point"] | None:
        if not self.ridge or type(self).fit is not KO.fit:
            return None
        return "fixed point" if self.toward == "analytic" else "subsets"

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        if not self.ridge and self.toward is not None:
            yield f"toward = {self.toward!r} means nothing to the solver {self.solver}; remove it"

    def contains(self, other: Architecture) -> bool:
        """The known chain alone, if it is what the weights are pulled to or start from."""
        return other.name == "untrained" and (not self.ridge or self.toward == "analytic")

    def known(self, data: Training) -> Any:
        from koct.networks.solvers import Known

        return Known(data.layers, data.nonnegative)

    def by_ridge(self, known: Any, data: Training) -> Iterator[tuple[float, dict[str, Array]]]:
        from koct.networks.solvers import weights_by_ridge

        toward = known.analytic if self.toward == "analytic" else None
        for lam, w in weights_by_ridge(known, data.x, data.y, data.normal, data.lambdas, toward):
            yield lam, {"w": w}

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        _, others = chain_layers.split(layers)
        return [chain_layers.learned_weights(layers, problem), *chain_layers.known(others), *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        """Measured on one core of a Neoverse N1: 5,000 steps at H = 512 take 600 s."""
        pairs, size = work.N * (work.x_size + work.y_size), work.x_size
        if self.ridge:
            operations = work.lambdas * size**3 / 3 + 2 * work.N * size**2
            return Cost(operations, 6 * pairs + 8 * work.N * size + 24 * size**2, 4 * pairs + 32 * size**2)
        return Cost(self.steps * work.layers.operations, 6 * pairs, 4 * pairs)
