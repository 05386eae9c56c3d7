"""KO's learned weights, the known layers behind them, and a residual U-Net at the end, all trained together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from koct.contracts import ChainLayer, Layer, Problem, Workload
from koct.networks.module import UNetArchitecture


class JointUNet(UNetArchitecture):
    label = "KO + U-Net"
    colour = "#b8860b"
    marker = ">"
    moves = False

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        if not problem.has_layers:
            yield f"the problem {problem.name} has no known layers to learn with; take another architecture"

    def module(self, problem: Problem, layers: Any) -> Any:
        import numpy as np
        from torch import nn

        from koct.networks.torch_layers import LearnedWeights
        from koct.operators.algebra import split

        weights, behind = split([layer.operator for layer in layers])
        analytic = np.ones(problem.x_shape) if weights is None else weights.weights
        return nn.Sequential(LearnedWeights(analytic), behind.module(), self.unet())

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        weights, behind = chain_layers.learned_weights(layers, problem), chain_layers.split(layers)[1]
        return [weights, *chain_layers.known(behind), self.learned(), *chain_layers.relu(problem)]

    def multiplications(self, work: Workload) -> float:
        return super().multiplications(work) + work.layers.operations
