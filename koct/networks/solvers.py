"""Known operators, and the closed forms that fit what is learned in front of or between them.

All sums are in float64, on NumPy arrays and torch tensors alike. SciPy has more linear algebra, but importing it takes
longer than a small fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from koct.base.arrays import copy, double, is_torch, like, zeros_like
from koct.contracts import Array, Layer
from koct.operators.algebra import split


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
        image = self.R.flat(x)
        return image.clip(min=0) if self.nonnegative else image

    def images(self, x: Array, w: Array) -> Array:
        """The network: flat images from flat measurements."""
        return self.reconstruct(self.weighted(w, x))

    def adjoint(self, y: Array) -> Array:
        """Rᵀ of flat images, flat; nothing is cut off."""
        return self.R.T.flat(y)

    def loss_and_gradient(self, w: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """Mean squared error of a batch, and its gradient with respect to w."""
        image = self.images(x, w)
        residual = image - y
        loss = (residual * residual).mean()
        if self.nonnegative:
            residual = residual * (image > 0)
        return loss, self.per_weight(x * self.adjoint(residual)).sum(0) * (2 / (y.shape[0] * y.shape[1]))

    def named(self, w: Array) -> dict[str, Array]:
        """What a gradient solver learned, by name."""
        return {"w": w}


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

    One Cholesky factor per λ is cheaper than one eigendecomposition up to about a dozen λ. Where λ is too small for the
    working precision, the solution is not a number.
    """
    places = list(range(len(normal)))
    diagonal = normal[places, places]
    for lam in lambdas:
        normal[places, places] = diagonal + lam

        def solve(right: Array) -> Array:
            try:
                return cholesky_solve(normal, right)
            except np.linalg.LinAlgError:
                return right * math.nan

        yield lam, solve


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
