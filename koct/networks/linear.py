"""Ridge regression for networks that are linear in their parameters θ: argmin_θ ‖Dθ − y‖² + λ‖θ − θ₀‖².

D, the design, maps θ to the predictions for all training samples. All sums are in float64; nothing is cut off at zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from koct.base.arrays import copy, zeros_like
from koct.contracts import Array
from koct.errors import KoctError
from koct.networks.linalg import cholesky_solve

TOLERANCE = 1e-8  # of conjugate gradients: the residual over the right side, for every λ


class Design(ABC):
    """The linear map D from parameters (p,) to flat predictions (N, pixels), all in float64."""

    prior: Array  # θ₀ (p,), what the ridge pulls to

    @abstractmethod
    def apply(self, theta: Array) -> Array:
        """Dθ."""

    @abstractmethod
    def adjoint(self, residual: Array) -> Array:
        """Dᵀ of flat images."""

    def normal(self, theta: Array) -> Array:
        """DᵀDθ."""
        return self.adjoint(self.apply(theta))


def by_cholesky(normal: Array, right: Array, prior: Array, lambdas: Sequence[float]) -> Iterator[tuple[float, Array]]:
    """Yield (λ, θ) from the matrix DᵀD, which is changed, and the right side Dᵀy."""
    right = right - normal @ prior
    places = list(range(len(normal)))
    diagonal = copy(normal[places, places])
    for lam in lambdas:
        normal[places, places] = diagonal + lam
        try:
            step = cholesky_solve(normal, right)
        except np.linalg.LinAlgError:
            raise KoctError(
                f"the ridge with lambda = {lam:g} is singular to working precision: remove it from lambdas"
            ) from None
        yield lam, prior + step


def by_conjugate_gradients(
    design: Design, y: Array, lambdas: Sequence[float], tolerance: float = TOLERANCE
) -> Iterator[tuple[float, Array]]:
    """Yield (λ, θ) without the matrix DᵀD: one Krylov space serves all λ."""
    right = design.adjoint(y - design.apply(design.prior))
    steps = shifted_solutions(design.normal, right, lambdas, tolerance)
    for lam, step in zip(lambdas, steps, strict=True):
        yield lam, design.prior + step


def shifted_solutions(
    normal: Callable[[Array], Array],
    right: Array,
    shifts: Sequence[float],
    tolerance: float = TOLERANCE,
    most: int | None = None,
) -> list[Array]:
    """u of (A + λI) u = `right` for every λ of `shifts`, with ‖residual‖ ≤ tolerance · ‖right‖.

    `normal` applies A, which is symmetric and has no negative eigenvalue. The directions of conjugate gradients for the
    smallest λ serve the others too (Frommer, BiCGStab(l) for families of shifted linear systems, 2003; Jegerlehner,
    hep-lat/9612014). Rounding can leave a true residual that is larger than the recursion says: then that system goes
    on by itself from where it is. An error after `most` products with A, by default max(1000, 20 p).
    """
    most = max(1000, 20 * len(right)) if most is None else most
    wanted = tolerance * _norm(right)
    found, done = _together(normal, right, shifts, wanted, most)
    for i, lam in enumerate(shifts):
        while (left := _norm(residual := right - normal(found[i]) - lam * found[i])) > wanted:
            if done >= most:
                raise KoctError(
                    f"conjugate gradients for lambda = {lam:g} have a relative residual of "
                    f"{left / wanted * tolerance:.1e} after {done} iterations, above {tolerance:g}; "
                    "remove it from lambdas, or take the closed form"
                )
            step, more = _together(normal, residual, [lam], wanted, most - done)
            found[i], done = found[i] + step[0], done + more
    return found


def _together(
    normal: Callable[[Array], Array], right: Array, shifts: Sequence[float], wanted: float, most: int
) -> tuple[list[Array], int]:
    """Solutions for all shifts by the recursion, and its number of iterations, at most `most`."""
    base = min(shifts)
    found = [zeros_like(right) for _ in shifts]
    directions = [copy(right) for _ in shifts]
    scale, scale_before = [1.0] * len(shifts), [1.0] * len(shifts)  # the residual of a shift is scale · residual
    residual, direction = copy(right), copy(right)
    size, step_before, turn = float(residual @ residual), 1.0, 0.0
    done = 0
    while done < most:
        active = [i for i, z in enumerate(scale) if abs(z) * size**0.5 > wanted]
        if not active:
            break
        image = normal(direction) + base * direction
        step = size / float(direction @ image)
        done += 1
        ratios = {}
        for i in active:
            z, before, shift = scale[i], scale_before[i], shifts[i] - base
            below = step_before * before * (1 + shift * step) + step * turn * (before - z)
            scale[i], scale_before[i] = z * before * step_before / below, z
            ratios[i] = scale[i] / z
            found[i] = found[i] + step * ratios[i] * directions[i]
        residual = residual - step * image
        size, size_before = float(residual @ residual), size
        step_before, turn = step, size / size_before
        direction = residual + turn * direction
        for i in active:
            directions[i] = scale[i] * residual + turn * ratios[i] ** 2 * directions[i]
    return found, done


def _norm(vector: Array) -> float:
    return float(vector @ vector) ** 0.5
