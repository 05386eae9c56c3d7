"""Sums and multiples of operators: what `A + B`, `A - B`, `-A`, `2 * A` and `A / 2` are."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from koct.base.arrays import ArrayT
from koct.operators.algebra import Operator


class Sum(Operator):
    """The sum of operators with the same domain and the same range; sums among them are taken apart."""

    _binding = 1

    def __init__(self, *terms: Operator) -> None:
        first, *others = terms
        for other in others:
            if (first.domain, first.range) != (other.domain, other.range):
                raise ValueError(f"cannot add {first} and {other}: their domains and their ranges must be the same")
        super().__init__(first.domain, first.range)
        self.terms: tuple[Operator, ...] = ()
        for term in terms:
            self.terms += term.terms if isinstance(term, Sum) else (term,)

    def __repr__(self) -> str:
        text = repr(self.terms[0])
        for term in self.terms[1:]:
            minus = isinstance(term, Scaled) and term.factor < 0
            text += f" - {-term!r}" if minus else f" + {term!r}"
        return text

    def __neg__(self) -> Operator:
        return Sum(*(-term for term in self.terms))

    def _apply(self, x: ArrayT) -> ArrayT:
        return _total([term._apply(x) for term in self.terms])

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return _total([term._adjoint(y) for term in self.terms])


class Scaled(Operator):
    """`factor * of` for a finite real factor; a multiple of a multiple has the product of their factors."""

    _binding = 2

    def __init__(self, factor: float, of: Operator) -> None:
        super().__init__(of.domain, of.range)
        self.factor, self.of = real(factor), of
        if isinstance(of, Scaled):
            self.factor, self.of = real(self.factor * of.factor), of.of

    def __repr__(self) -> str:
        factor = repr(self.factor).removesuffix(".0")
        return {"1": "", "-1": "-"}.get(factor, f"{factor} * ") + self.of._in_brackets(3)

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        """The absolute value of the factor times the norm of `of`."""
        return abs(self.factor) * self.of.norm(tol, max_iterations)

    def _apply(self, x: ArrayT) -> ArrayT:
        return self.factor * self.of._apply(x)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self.factor * self.of._adjoint(y)


def _total(parts: list[Any]) -> Any:
    first, *others = parts
    return sum(others, first)


def added(A: Operator, B: object) -> Operator:
    """`A + B`."""
    if isinstance(B, Operator):
        return Sum(A, B)
    name = type(B).__name__
    raise TypeError(f"only an operator can be added to {A}, got {name}; c times the identity is c * Identity(shape)")


def scaled(A: Operator, factor: object) -> Operator:
    """`factor * A`."""
    return Scaled(real(factor), A)


def divided(A: Operator, divisor: object) -> Operator:
    """`A / divisor`."""
    if real(divisor) == 0:
        raise ValueError(f"cannot divide {A} by zero")
    return Scaled(1 / real(divisor), A)


def real(number: object) -> float:
    """The number as a float; anything but a finite real number is an error that says what to write instead."""
    if isinstance(number, Operator):
        raise TypeError("an operator is multiplied by numbers only; A @ B composes two operators")
    if not isinstance(number, Real) or isinstance(number, bool):
        name = type(number).__name__
        raise TypeError(
            f"an operator is multiplied by real numbers only, got {name}; "
            f"A(x) applies it to an array, A @ Diagonal(x) multiplies its input by one, float(x) makes a number of x"
        )
    if not math.isfinite(number):
        raise ValueError(f"an operator is multiplied by finite numbers only, got {float(number)}")
    return float(number)
