"""FC, the fully connected network: ŷ = M x with one dense learned matrix, which is never built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from koct.contracts import Array, ChainLayer, Cost, Layer, Network, Problem, Training, Workload
from koct.networks.architectures import KnownArchitecture, KnownNetwork


class FC(KnownArchitecture):
    label = "FC"
    colour = "#c8553d"
    marker = "s"
    leaves_one_out = True

    @property
    def predicted(self) -> Literal["spectral"] | None:
        return "spectral" if type(self).fit is FC.fit else None

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"gram"})

    def check(self, problem: Problem) -> Iterable[str]:
        return ()

    def known(self, data: Training) -> Any:
        return DenseMatrix(data)

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """The ridge solution for each λ: argmin_M Σ_n ‖M x_n − y_n‖² + λ‖M‖².

        One eigendecomposition in float64 serves every λ: of the N×N Gram matrix XXᵀ (dual form) or, where there are
        more samples than measurements, of XᵀX (primal form).
        """
        known = DenseMatrix(data)
        values, vectors = data.spectrum()
        values = values.clip(min=0)  # rounding leaves tiny negative ones
        for lam in data.lambdas:
            yield lam, DenseNetwork(known, vectors=vectors, scale=1 / (values + lam))

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        return chain_layers.dense(problem)

    def cost(self, work: Workload) -> Cost:
        """Measured on one core of a Neoverse N1: N = 2,048 at H = 512 takes 48 s and 4.3 GB."""
        n, pairs = min(work.N, work.x_size), work.N * (work.x_size + work.y_size)
        operations = 7.7 * n**3 + 1.54 * work.N * work.y_size * work.sizes.held_out * work.lambdas
        operations += (work.N - n) * n**2  # the matrix XᵀX, beside what a Gram matrix of n samples takes
        return Cost(operations, 6 * pairs + 32 * n**2, 4 * pairs + 32 * n**2)


class DenseMatrix:
    """M = Yᵀ D X, or in primal form Yᵀ X D, for the training pairs X (N, x size), Y (N, y size).

    D = vectors · diag(scale) · vectorsᵀ; where images cannot be negative, predictions are cut off at zero.
    """

    def __init__(self, data: Training):
        self.x, self.y, self.nonnegative = data.x, data.y, data.nonnegative
        self.primal = data.x.shape[0] > data.x.shape[1]  # the matrix between measurements is the smaller one
        self.parameters = data.y.shape[1] * data.x.shape[1]

    def images(self, x: Array, vectors: Array, scale: Array) -> Array:
        from koct.base.arrays import product

        image = product(self._dual(x, vectors, scale), self.y)
        return image.clip(min=0) if self.nonnegative else image

    def _dual(self, x: Array, vectors: Array, scale: Array) -> Array:
        """The weight (n, N) of every training image in an image."""
        from koct.base.arrays import double, product

        shares = double(x) if self.primal else product(x, self.x.T)
        shares = ((shares @ vectors) * scale) @ vectors.T
        return product(shares, self.x.T) if self.primal else shares

    def left_out(self, rows: slice, vectors: Array, scale: Array) -> Array:
        """Flat images of some training pairs, each by the matrix of all others.

        Without pair n the error is (y_n − ŷ_n)/(1 − h_n) with the leverage h_n. In dual form that is (D Y)_n / D_nn,
        where nothing cancels.
        """
        from koct.base.arrays import double, product

        y = double(self.y[rows])
        if self.primal:
            part = double(self.x[rows]) @ vectors
            leverage = (part * part * scale).sum(1)
            error = (y - product(self._dual(self.x[rows], vectors, scale), self.y)) / (1 - leverage)[:, None]
        else:
            part = vectors[rows] * scale
            error = product(part @ vectors.T, self.y) / (part * vectors[rows]).sum(1)[:, None]
        image = y - error
        return image.clip(min=0) if self.nonnegative else image


class DenseNetwork(KnownNetwork):
    """FC's matrix, which also knows what it would give for a training pair without that pair."""

    def left_out(self, rows: slice) -> Array:
        return self.known.left_out(rows, **self.learned)
