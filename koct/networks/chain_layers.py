"""What the chains of networks have in common: known layers with their norms, a dense matrix, the ReLU.

Networks import this inside `chain`: no fit depends on it, and none is made again when it changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from koct.contracts import ChainLayer, Layer, Problem


def known(layers: Iterable[Layer]) -> list[ChainLayer]:
    """Known layers with their operator norms, by power iteration where there is no formula."""
    return [ChainLayer(layer.name, float(layer.operator.norm())) for layer in layers]


def split(layers: Sequence[Layer]) -> tuple[Layer | None, Sequence[Layer]]:
    """(weights, others): the first layer if it is diagonal and others follow, as in `koct.operators.algebra`."""
    from koct.operators.algebra import Diagonal

    first, *others = layers
    return (first, others) if isinstance(first.operator, Diagonal) and others else (None, layers)


def relu(problem: Problem) -> list[ChainLayer]:
    """The ReLU at the end, where images cannot be negative."""
    return [ChainLayer("ReLU", 1.0)] if problem.nonnegative else []


def dense(problem: Problem) -> list[ChainLayer]:
    """One dense learned matrix M; it is the first layer, so nothing depends on its norm."""
    return [ChainLayer("M", 1.0, problem.x_size * problem.y_size), *relu(problem)]


def learned_weights(layers: Sequence[Layer], problem: Problem) -> ChainLayer:
    """One learned weight per measurement, real or complex, which starts from the problem's weights or from one."""
    weights, _ = split(layers)
    if weights is None:
        return ChainLayer("weights", 1.0, problem.x_size)
    return ChainLayer("weights", float(weights.operator.norm()), math.prod(weights.operator.weights.shape))


def learned_filters(layers: Sequence[Layer], problem: Problem, views: int) -> list[ChainLayer]:
    """Learned filters in the place of the known one, with the norm of that, and the known layers behind them."""
    from koct.networks.filtering import split_filter

    _, ramp, rest = split_filter(layers)
    period, size = (problem.x_shape[-1], 1.0) if ramp is None else (ramp.period, ramp.norm())
    return [ChainLayer("learned filter", size, views * (period // 2 + 1)), *known(rest)]
