"""Learned sparse backprojection: weights and filter known; learned are each pixel's two detector taps in every view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from koct.contracts import Architecture, ChainLayer, Cost, Layer, Network, Problem, Training, Workload, option
from koct.networks.architectures import KnownArchitecture, KnownNetwork


class LearnedTaps(KnownArchitecture):
    label = "taps"
    colour = "#4d4d4d"
    marker = "h"

    toward: Literal["zero", "analytic"] = option(
        "target of the ridge: the taps of the known backprojection, or zero", default="analytic"
    )

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers"})

    def check(self, problem: Problem) -> Iterable[str]:
        if not problem.interpolates:
            yield f"the problem {problem.name} has no Backprojector with taps to learn; remove {self.source} from archs"

    def contains(self, other: Architecture) -> bool:
        return other.name == "untrained" and self.toward == "analytic"

    def known(self, data: Training) -> Any:
        from koct.networks.pixelwise import Taps

        return Taps(data.layers, data.nonnegative)

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """One network for each λ; every pixel has a closed form of its own."""
        from koct.networks import pixelwise

        known = self.known(data)
        prior = known.analytic if self.toward == "analytic" else 0 * known.analytic
        for lam, learned in pixelwise.fit(known, data.x, data.y, prior, data.lambdas):
            yield lam, KnownNetwork(known, taps=learned)

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers
        from koct.networks.pixelwise import Taps

        *before, last = layers
        learned = ChainLayer(last.name, float(last.operator.norm()), Taps(layers, problem.nonnegative).parameters)
        return [*chain_layers.known(before), learned, *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        """Measured on one core: N = 64 at H = 128 takes 10 to 16 s."""
        pixels, pairs = work.y_size, work.N * (work.x_size + work.y_size)
        taps = 2 * work.x_size / work.y_size**0.5  # two for each view, if there are as many bins as rows
        unknowns = min(taps, work.N)
        operations = pixels * (work.N * taps * (unknowns + 40) + 3 * work.lambdas * unknowns**3)
        held = 4 * pixels * taps * (work.lambdas + 6) + 16 * pairs
        return Cost(operations, held + 6 * pairs + 2e8, held + 4e9)
