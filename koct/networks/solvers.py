"""Known operators, and the closed forms and conjugate gradients that fit what is learned in front of or between them.

All sums are in float64, on NumPy arrays and torch tensors alike. SciPy has more linear algebra, but importing it takes
longer than a small fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from koct.base.arrays import copy, double, is_torch, like, zeros_like
from koct.contracts import Array, Layer
from koct.errors import KoctError
from koct.operators.chain import split

TOLERANCE = 1e-8  # of conjugate gradients: the residual over the right side, for every λ


class Known:
    """ŷ = R diag(w) x: the problem's known layers as weights w and a fixed operator R behind them.

    `analytic` are the weights that theory gives, flat: those of the first layer if that is diagonal, else one. A weight
    is that of `each` measurements that follow one another: of 2 where they are real and imaginary part of a sample.
    """

    def __init__(self, layers: Sequence[Layer], nonnegative: bool):
        weights, self.R = split([layer.operator for layer in layers])
        self.analytic = np.ones(self.R.shape[1]) if weights is None else np.ravel(weights.weights).copy()
        self.each = self.R.shape[1] // len(self.analytic)
        self.nonnegative = nonnegative

    def weighted(self, w: Array, x: Array) -> Array:
        """diag(w) x of flat measurements."""
        return w * x if self.each == 1 else (w[:, None] * x.reshape(len(x), -1, self.each)).reshape(x.shape)

    def per_weight(self, values: Array) -> Array:
        """The sums of what belongs to one weight, of flat values for every measurement, (n, measurements)."""
        return values if self.each == 1 else values.reshape(len(values), -1, self.each).sum(2)

    def reconstruct(self, x: Array) -> Array:
        """Flat images from flat, weighted measurements, cut off below zero where they cannot be negative."""
        image = self.R(x.reshape(-1, *self.R.domain)).reshape(len(x), -1)
        return image.clip(min=0) if self.nonnegative else image

    def adjoint(self, y: Array) -> Array:
        """Rᵀ of flat images, flat; nothing is cut off."""
        return self.R.T(y.reshape(-1, *self.R.range)).reshape(len(y), -1)


# Closed forms


def cholesky_solve(matrix: Array, right: Array, block: int = 64) -> Array:
    """Solve `matrix` u = `right` for a symmetric positive definite matrix and one right side."""
    if is_torch(matrix):
        import torch

        L, failed = torch.linalg.cholesky_ex(matrix)
        if failed:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        return torch.cholesky_solve(right[:, None], L)[:, 0]
    L = np.linalg.cholesky(matrix)
    u = right.copy()
    starts = range(0, len(u), block)
    for a in starts:  # L v = right
        b = a + block
        u[a:b] = np.linalg.solve(L[a:b, a:b], u[a:b] - L[a:b, :a] @ u[:a])
    for a in reversed(starts):  # Lᵀ u = v
        b = a + block
        u[a:b] = np.linalg.solve(L[a:b, a:b].T, u[a:b] - L[b:, a:b].T @ u[b:])
    return u


def ridges(normal: Array, lambdas: Sequence[float]) -> Iterator[tuple[float, Callable[[Array], Array]]]:
    """Yield (λ, a function that solves (normal + λI) u = right); `normal` is changed.

    One Cholesky factor per λ is cheaper than one eigendecomposition up to about a dozen λ.
    """
    places = list(range(len(normal)))
    diagonal = normal[places, places]
    for lam in lambdas:
        normal[places, places] = diagonal + lam

        def solve(right: Array, lam: float = lam) -> Array:
            try:
                return cholesky_solve(normal, right)
            except np.linalg.LinAlgError:
                raise singular(lam) from None

        yield lam, solve


def singular(lam: float) -> KoctError:
    return KoctError(f"the ridge with lambda = {lam:g} is singular to working precision: remove it from lambdas")


def by_cholesky(normal: Array, right: Array, prior: Array, lambdas: Sequence[float]) -> Iterator[tuple[float, Array]]:
    """Yield (λ, argmin_θ ‖Dθ − y‖² + λ‖θ − prior‖²) from the matrix DᵀD, which is changed, and Dᵀy."""
    right = right - normal @ prior
    for lam, solve in ridges(normal, lambdas):
        yield lam, prior + solve(right)


def weights_by_ridge(
    known: Known, x: Array, y: Array, normal_of_R: Array, lambdas: Sequence[float], toward: Any
) -> Iterator[tuple[float, Array]]:
    """Yield (λ, argmin_w Σ_n ‖R diag(w) x_n − y_n‖² + λ‖w − toward‖²); nothing is cut off at zero here.

    Since R diag(w) x = R diag(x) w, the normal matrix is Σ_n diag(x_n) RᵀR diag(x_n) = RᵀR ∘ XᵀX.
    Where measurements share a weight, the rows and columns of each weight are added up.
    A measurement that is zero in every sample has a zero row there and keeps w = toward: it is left out.
    """
    right = double(known.per_weight(x * known.adjoint(y)).sum(0))
    X = double(x)
    normal = X.T @ X
    normal *= normal_of_R
    normal = known.per_weight(known.per_weight(normal).T).T
    live = known.per_weight(X != 0).sum(0) > 0
    prior = zeros_like(right) if toward is None else double(like(toward, x))  # as the network would hold it
    if not live.all():
        normal, right = normal[live][:, live], right[live]
    for lam, solve in ridges(normal, lambdas):
        w = copy(prior)
        w[live] = solve(right + lam * prior[live])
        yield lam, like(w, x)


# Conjugate gradients


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
    solutions, done = _together(normal, right, shifts, wanted, most)
    for i, lam in enumerate(shifts):
        while (left := _norm(residual := right - normal(solutions[i]) - lam * solutions[i])) > wanted:
            if done >= most:
                raise KoctError(
                    f"conjugate gradients for lambda = {lam:g} have a relative residual of "
                    f"{left / wanted * tolerance:.1e} after {done} iterations, above {tolerance:g}; "
                    "remove it from lambdas, or take the closed form"
                )
            (step,), more = _together(normal, residual, [lam], wanted, most - done)
            solutions[i], done = solutions[i] + step, done + more
    return solutions


def _together(
    normal: Callable[[Array], Array], right: Array, shifts: Sequence[float], wanted: float, most: int
) -> tuple[list[Array], int]:
    """Solutions for all shifts by the recursion, and its number of iterations, at most `most`."""
    base = min(shifts)
    solutions = [zeros_like(right) for _ in shifts]
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
            solutions[i] = solutions[i] + step * ratios[i] * directions[i]
        residual = residual - step * image
        size, size_before = float(residual @ residual), size
        step_before, turn = step, size / size_before
        direction = residual + turn * direction
        for i in active:
            directions[i] = scale[i] * residual + turn * ratios[i] ** 2 * directions[i]
    return solutions, done


def _norm(vector: Array) -> float:
    return float(vector @ vector) ** 0.5
