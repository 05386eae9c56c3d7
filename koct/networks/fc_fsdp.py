"""FC trained by gradient: ŷ = M x as in the dual form, but with M itself in memory, sharded over ranks by FSDP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from koct.contracts import (
    Array,
    ChainLayer,
    Cost,
    Layer,
    Network,
    Problem,
    TorchrunArchitecture,
    Training,
    Workload,
    option,
)
from koct.networks.architectures import KnownNetwork
from koct.networks.ranks import needed


class FcFsdp(TorchrunArchitecture):
    section = "fsdp"
    label = "FC (FSDP)"
    colour = "#5b4b8a"
    marker = "^"
    uses_lambdas = False
    requires_cell = "fc"  # its λ

    iterations: int = option(
        "steps of the preconditioned, accelerated gradient method over all N samples; 100 to 200 reach the "
        "error of the ridge",
        minimum=1,
    )

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"gram"})

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """The minimum of the ridge's objective with the λ of the ridge's cell."""
        from koct.networks.descent import Descent

        with data.ranks.together():
            lam = float(data.required["lam"])
        descent = Descent(data, lam, self.iterations)
        descent.train()
        yield descent.lam, descent

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        return KnownNetwork(Blocked(data.nonnegative), M=state["M"])

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        return chain_layers.dense(problem)

    def cost(self, work: Workload) -> Cost:
        """Return the cost of one rank, at the speed of a GPU; what is slower continues from its checkpoint."""
        memory = 2.5e9 + needed(work.y_size, work.x_size, work.N, self.ranks)  # torch, CUDA and NCCL first
        flops = 4 * work.N * work.y_size * work.x_size * self.iterations
        return Cost(2e12 + 1e-3 * flops / self.ranks, memory, memory)


class Blocked(NamedTuple):
    """ŷ = M x with M as blocks of rows (blocks, rows, x size), mapped; a prediction looks at one after the other."""

    nonnegative: bool

    def images(self, x: Array, M: Any) -> Array:
        import numpy as np

        from koct.base.arrays import joined, like

        image = joined(*(x @ like(np.array(block), x).T for block in M))
        return image.clip(min=0) if self.nonnegative else image
