"""Unrolled proximal gradient: steps of least squares with the known operator, and a learned prior between them."""

from __future__ import annotations

from typing import Any

from koct.contracts import Workload, option
from koct.networks.module import UnrolledArchitecture


class Unrolled(UnrolledArchitecture):
    label = "unrolled"
    colour = "#00a3a3"
    marker = "h"

    shared: bool = option("share weights among all iterations", default=False)

    def iterated(self, A: Any, start: Any) -> Any:
        from koct.networks.torch_layers import ProximalGradient

        return ProximalGradient(A, start, self.iterations, self.channels, self.shared)

    def multiplications(self, work: Workload) -> float:
        each = 9.0 * self.channels * (3 + self.channels)
        return self.iterations * (each * work.y_size + 2 * work.layers.operations)
