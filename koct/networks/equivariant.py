"""Robust equivariant imaging: the learned primal–dual network, learned from scans alone and the noise that is known.

Chen, Tachella and Davies, Robust equivariant imaging, 2022: Stein's estimate of the risk of what a scan sees, and for
what it does not see that images which are turned are images, too. Equivariant imaging (2021) is the same without noise.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import Any

from koct.contracts import Problem, Workload, option
from koct.networks.lpd import LearnedPrimalDual
from koct.networks.module import ScanArchitecture, check_noise


class EquivariantArchitecture(LearnedPrimalDual, ABC):
    """The learned primal–dual network with a loss of scans without images, which it learns from alone or besides."""

    # of 0, 0.2, 1, 5 and 50 the best with 64 scans of 12 views of ellipses at H = 32
    weight: float = option(
        "weight of the squared error of turned images, beside the risk of the measurements, both for a pixel",
        default=1.0,
        minimum=0,
    )

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from check_noise(problem)

    def iterated(self, A: Any, start: Any) -> Any:
        from koct.networks.unpaired_layers import Equivariance

        return Equivariance(super().iterated(A, start), A, self.weight)

    def samples(self, network: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """Return scans without images with the standard deviation of their noise."""
        if y is not None:
            return super().samples(network, x, y)
        variance = network.layers.problem.noise_variance(x) + 0 * x
        inputs = network.start(x)
        return inputs, network.tensor(variance).sqrt().reshape(inputs.shape) / network.scale

    def scan_losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        return module.losses(inputs, targets)


class Equivariant(ScanArchitecture, EquivariantArchitecture):
    label = "equivariant"
    colour = "#00838f"
    marker = "p"

    def multiplications(self, work: Workload) -> float:
        return 3 * super().multiplications(work)
