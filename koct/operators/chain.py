"""The chain of known layers: the weights of the measurements in front, and everything behind them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from koct.operators.algebra import Diagonal, Operator


def split(operators: Sequence[Operator]) -> tuple[Diagonal | None, Operator]:
    """(weights, R): the first operator if it is diagonal and others follow, and the product of those behind it."""
    weights, *others = operators
    if isinstance(weights, Diagonal) and others:
        return weights, product(others)
    return None, product(operators)


def product(operators: Sequence[Operator]) -> Operator:
    """The operators one after the other, the first one first."""
    return reduce(lambda inner, outer: outer @ inner, operators)


def normal_matrix(R: Operator, block: int = 64) -> Any:
    """RᵀR, dense, from basis vectors a block at a time."""
    size = R.shape[1]
    normal = np.empty((size, size))
    for first in range(0, size, block):
        basis = np.eye(min(block, size - first), size, first)
        normal[first : first + block] = R.T.flat(R.flat(basis))
    return normal
