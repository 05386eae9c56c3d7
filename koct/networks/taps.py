"""Learned sparse backprojection: weights and filter known; learned are each pixel's two detector taps in every view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import Architecture, Array, ChainLayer, Cost, Layer, Network, Problem, Training, Workload, option

if TYPE_CHECKING:
    from koct.networks.pixelwise import Taps


class LearnedTaps(Architecture):
    label = "taps"
    colour = "#4d4d4d"
    marker = "h"

    toward: Literal["zero", "analytic"] = option(
        "what the ridge pulls the taps to: those of the known backprojection, or zero", default="analytic"
    )

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers"})

    def check(self, problem: Problem) -> Iterable[str]:
        if not problem.interpolates:
            yield (
                f"the problem {problem.name} has no pixel-driven backprojection whose taps could be learned; "
                f"remove {self.source} from archs, or take a problem that ends in a Backprojector"
            )

    def contains(self, other: Architecture) -> bool:
        return other.name == "untrained" and self.toward == "analytic"

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """One network for each λ; every pixel has a closed form of its own."""
        from koct.networks import pixelwise

        taps = pixelwise.Taps(data.layers)
        prior = taps.analytic if self.toward == "analytic" else 0 * taps.analytic
        for lam, learned in pixelwise.fit(taps, data.x, data.y, prior, data.lambdas):
            yield lam, TapsNetwork(learned, taps, data.nonnegative)

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        import numpy as np

        from koct.networks.pixelwise import Taps

        return TapsNetwork(data.device.put(np.array(state["taps"])), Taps(data.layers), data.nonnegative)

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers
        from koct.networks.pixelwise import Taps

        *before, last = layers
        learned = ChainLayer(last.name, chain_layers.norm(last), int(Taps(layers).seen.sum()))
        return [*chain_layers.known(before), learned, *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        """Measured on one core: N = 64 at H = 128 takes 10 to 16 s."""
        pixels, pairs = work.y_size, work.N * (work.x_size + work.y_size)
        taps = 2 * work.x_size / work.y_size**0.5  # two for each view, if there are as many bins as rows
        unknowns = min(taps, work.N)
        operations = pixels * (work.N * taps * (unknowns + 40) + 3 * work.lambdas * unknowns**3)
        held = 4 * pixels * taps * (work.lambdas + 6) + 16 * pairs
        return Cost(operations, held + 6 * pairs + 2e8, held + 4e9)


class TapsNetwork(Network):
    """Taps (pixels, 2V) on the device of the data."""

    def __init__(self, learned: Array, taps: Taps, nonnegative: bool):
        self.learned, self.taps, self.nonnegative = learned, taps, nonnegative

    @property
    def parameters(self) -> int:
        """Taps on the detector: the others read zeros, and nothing depends on them."""
        return int(self.taps.seen.sum())

    def predict(self, x: Array) -> Array:
        image = self.taps.backproject(self.taps.sinograms(x), self.learned)
        return image.clip(min=0) if self.nonnegative else image

    def state(self) -> Mapping[str, Array]:
        return {"taps": self.learned}
