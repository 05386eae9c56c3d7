"""Noise2Inverse: a U-Net that learns from scans alone, by predicting some views from the others.

Hendriksen, Pelt and Batenburg, Noise2Inverse: self-supervised deep convolutional denoising for tomography, 2020.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koct.contracts import Problem, Workload, option
from koct.networks.module import ScanArchitecture, UNetArchitecture


class Noise2Inverse(ScanArchitecture, UNetArchitecture):
    label = "Noise2Inverse"
    colour = "#c2185b"
    marker = "d"

    splits: int = option("groups of views; each one's FBP is predicted from the others'", default=2, minimum=2)
    gain: float = option(
        "share of the validation loss that doubling must gain for `warmup-stable-decay` to continue; most of that loss "
        "is the noise of what is predicted, which no step lowers",
        default=2e-4,
        above=0,
        maximum=1,
        later=True,
    )

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        if not problem.interpolates:
            yield f"the problem {problem.name} has no views whose backprojections could be split; take equivariant"
        elif problem.x_shape[0] < self.splits:
            yield f"splits = {self.splits} is more than the {problem.x_shape[0]} views; take at most so many"

    def module(self, problem: Problem, layers: Any) -> Any:
        from koct.networks.unpaired_layers import Splits

        return Splits(self.unet(), layers.reconstruction, self.splits)

    def scan_losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        return module.losses(inputs)

    def multiplications(self, work: Workload) -> float:
        return super().multiplications(work) + work.layers.operations
