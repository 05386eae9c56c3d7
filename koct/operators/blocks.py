"""The identity, and operators on top of each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from koct.base.arrays import ArrayT, copy, joined
from koct.operators.algebra import Operator


class Identity(Operator):
    """x to a copy of x, for arrays of this shape; `c * Identity(shape)` multiplies by c."""

    def __init__(self, shape: Iterable[int]) -> None:
        shape = tuple(shape)
        super().__init__(shape, shape)

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        return 1.0

    def _apply(self, x: ArrayT) -> ArrayT:
        return copy(x)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return copy(y)


class Stack(Operator):
    """x to the outputs of all operators, one after the other along their first axis.

    The operators have the same domain, and ranges that differ at most in their first axis.
    """

    def __init__(self, *operators: Operator) -> None:
        if not operators:
            raise ValueError("Stack needs at least one operator")
        for each in operators:
            if not isinstance(each, Operator):
                raise TypeError(f"Stack takes operators, got {type(each).__name__}; use Stack(*operators) for a list")
        for first, other in pairwise(operators):
            if first.domain != other.domain or first.range[1:] != other.range[1:] or not (first.range and other.range):
                raise ValueError(
                    f"cannot stack {first} and {other}: "
                    f"their domains, and their ranges but for the first axis, must be the same"
                )
        super().__init__(operators[0].domain, (sum(A.range[0] for A in operators), *operators[0].range[1:]))
        self.operators = operators

    def __repr__(self) -> str:
        return f"Stack({', '.join(map(repr, self.operators))})"

    def _apply(self, x: ArrayT) -> ArrayT:
        parts: Any = joined(*(A._apply(x) for A in self.operators))
        return parts

    def _adjoint(self, y: ArrayT) -> ArrayT:
        total: Any = 0
        first = 0
        for A in self.operators:
            total = total + A._adjoint(y[:, first : first + A.range[0]])
            first += A.range[0]
        return total
