"""Learned filters behind weights: ŷ = B F(s) diag(w) x, with the spectrum s of a symmetric filter F of every view.

A view of `bins` numbers is padded by zeros to the period P of the filter: P = bins for a circular convolution, and
2·bins − 1 for a linear one. A real Fourier basis of that length makes F diagonal: F(s) = Q diag(s E) Qᵀ with the first
`bins` rows Q of the basis, (bins, P), where E gives the cosine and the sine of a frequency the same factor. So a filter
is to the Fourier coefficients what weights are to the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.base.arrays import blocks, copy, double, joined, like, zeros_like
from koct.contracts import Array, Layer
from koct.errors import KoctError
from koct.networks.solvers import by_cholesky
from koct.operators.algebra import Constant, Diagonal, Operator, product
from koct.operators.filters import RampFilter

REMOVED = 1e-5  # a filter removes what it multiplies by less than this share of its largest factor


def fourier_basis(P: int) -> np.ndarray:
    """(P, P), orthogonal: cosines of the frequencies 0, 1, ..., P // 2, then sines of 1, 2, ..., as columns."""
    angle = 2 * np.pi * np.outer(np.arange(P), np.arange(P // 2 + 1)) / P
    basis = np.concatenate([np.cos(angle), np.sin(angle[:, 1 : (P + 1) // 2])], axis=1)
    return basis / np.linalg.norm(basis, axis=0)


def tied(P: int) -> np.ndarray:
    """E (P // 2 + 1, P): which columns of the basis belong to a frequency."""
    frequencies = P // 2 + 1
    owner = np.concatenate([np.arange(frequencies), np.arange(1, (P + 1) // 2)])
    return (owner == np.arange(frequencies)[:, None]).astype(float)


def split_filter(layers: Sequence[Layer]) -> tuple[np.ndarray, RampFilter | None, Sequence[Layer]]:
    """Return the known weights, the known filter behind them, and the layers behind that.

    Where there are no weights, they are one; where there is no filter, it is None.
    """
    shape = layers[0].operator.domain
    weights, rest = np.ones(shape), list(layers)
    if isinstance(rest[0].operator, Diagonal) and len(rest) > 1:
        weights = np.array(rest.pop(0).operator.weights, float)
        if weights.shape != shape:
            raise KoctError("the known weights are of complex measurements, and learned filters are for real ones")
    first = rest[0].operator
    if isinstance(first, RampFilter) and len(rest) > 1:
        rest.pop(0)
        return weights, first, rest
    return weights, None, rest


class Filtered:
    """The known chain as weights, a filter along the last axis of x, and an operator B behind it.

    `spectrum` is that of the known filter; where there is none, it is one, a circular filter that changes nothing.
    """

    def __init__(self, layers: Sequence[Layer], nonnegative: bool):
        weights, ramp, rest = split_filter(layers)
        self.weights = weights.ravel()
        self.B: Operator = product([layer.operator for layer in rest])
        self.nonnegative = nonnegative
        self.bins = weights.shape[-1]
        self.views = math.prod(weights.shape[:-1])
        self.period = self.bins if ramp is None else ramp.period
        self.spectrum = np.ones(self.period // 2 + 1) if ramp is None else ramp.spectrum
        self.basis = Constant(fourier_basis(self.period)[: self.bins], self)
        self.tied = Constant(tied(self.period), self)

    def coefficients(self, weighted: Array) -> Array:
        """Fourier coefficients (n, V, P) of flat, weighted measurements."""
        return weighted.reshape(-1, self.views, self.bins) @ self.basis.like(weighted)

    def measurements(self, coefficients: Array) -> Array:
        """Flat measurements (n, V·bins) from coefficients, without what lies beyond the view; adjoint of those."""
        return (coefficients @ self.basis.like(coefficients).T).reshape(len(coefficients), -1)

    def factors(self, spectrum: Array) -> Array:
        """What each coefficient is multiplied by: (V or 1, P) from spectra (V or 1, P // 2 + 1)."""
        return spectrum.reshape(-1, len(self.spectrum)) @ self.tied.like(spectrum)

    def view_matrix(self, spectrum: Array) -> Array:
        """F (bins, bins), the filter of one view, from its spectrum (P // 2 + 1,)."""
        Q = self.basis.like(spectrum)
        return (Q * self.factors(spectrum)) @ Q.T

    def behind(self, coefficients: Array) -> Array:
        """Flat images from filtered coefficients; nothing is cut off at zero."""
        return self.B.flat(self.measurements(coefficients))

    def images(self, x: Array, spectrum: Array, w: Array = None) -> Array:
        """The network: flat images from flat measurements, behind the known weights if there are no others."""
        w = like(self.weights, spectrum) if w is None else w
        image = self.behind(self.coefficients(x * w) * self.factors(spectrum))
        return image.clip(min=0) if self.nonnegative else image

    # For `koct.networks.gradient`: the parameters are one vector, the weights and then the filter

    @property
    def analytic(self) -> np.ndarray:
        return np.concatenate([self.weights, self.spectrum])

    def named(self, parameters: Array) -> dict[str, Array]:
        size = len(self.weights)
        return {"w": parameters[:size], "spectrum": parameters[size:]}

    def loss_and_gradient(self, parameters: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """Mean squared error of a batch, and its gradient."""
        w, spectrum = self.named(parameters).values()
        coefficients, factors = self.coefficients(x * w), self.factors(spectrum)
        image = self.behind(coefficients * factors)
        image = image.clip(min=0) if self.nonnegative else image
        residual = image - y
        loss = (residual * residual).mean()
        if self.nonnegative:
            residual = residual * (image > 0)
        back = self.coefficients(self.B.T.flat(residual))
        of_weights = (x * self.measurements(back * factors)).sum(0)
        of_filter = (back * coefficients).sum((0, 1)) @ self.tied.like(x).T
        return loss, joined(of_weights[None], of_filter[None])[0] * (2 / (y.shape[0] * y.shape[1]))

    def normal(self, normal_of_R: Array) -> Array:
        """BᵀB (V·bins, V·bins) from RᵀR of the layers behind the weights, R = B F(s₀).

        The known filter is divided out. Of the directions u of a view that it removes, such as the mean that a circular
        ramp removes, nothing is left in RᵀR: their products BᵀBu come from B itself.
        """
        normal = double(copy(normal_of_R))
        values, vectors = np.linalg.eigh(self.view_matrix(self.spectrum))
        kept = abs(values) > REMOVED * abs(values).max()
        inverse = like((vectors[:, kept] / values[kept]) @ vectors[:, kept].T, normal)
        for rows in self.each_view():
            normal[rows] = self.on_both_sides(normal[rows], inverse)
        if kept.all():
            return normal
        u = like(np.kron(np.eye(self.views), vectors[:, ~kept].T), normal)
        products = zeros_like(u)
        for rows in blocks(len(u), self.B.shape[0]):
            products[rows] = self.B.T.flat(self.B.flat(u[rows]))
        half = u.T @ (products - (products @ u.T) @ u / 2)
        normal += half
        normal += half.T
        return normal

    def each_view(self) -> list[slice]:
        """The rows of each view in a matrix (V·bins, V·bins)."""
        return [slice(first, first + self.bins) for first in range(0, self.views * self.bins, self.bins)]

    def on_both_sides(self, rows: Array, matrix: Array) -> Array:
        """U M Uᵀ (c, V·c) for the rows of a view (b, V·b) of M, with the same U (c, b) for all views."""
        return matrix @ (rows.reshape(-1, matrix.shape[1]) @ matrix.T).reshape(len(rows), -1)


class Moments:
    """All that least-squares fits of weights and filters need of the training pairs: their size does not grow with N.

    `normal` is BᵀB and `second` is XᵀX, both (V·bins, V·bins), `mixed` is Σ_n x_n[v, b] (Bᵀy_n)[v, c] (V, bins, bins),
    and `energy` is Σ_n ‖y_n‖²; all in float64. Fourier coefficients of the matrices are computed for one view after the
    other, because those of all would take four times the memory.
    """

    def __init__(self, known: Filtered, x: Array, y: Array, normal_of_R: Array):
        self.known = known
        self.normal = known.normal(normal_of_R)
        self.second = zeros_like(self.normal)
        self.mixed: Any = 0
        self.energy = 0.0
        for rows in blocks(len(x), 4 * (x.shape[1] + y.shape[1])):
            X, Y = double(x[rows]), double(y[rows])
            sinograms, targets = (part.reshape(-1, known.views, known.bins) for part in (X, known.B.T.flat(Y)))
            self.second += X.T @ X
            self.mixed = self.mixed + sinograms.swapaxes(0, 1).swapaxes(1, 2) @ targets.swapaxes(0, 1)
            self.energy += float((Y * Y).sum())

    def of_filter(self, w: Array, per_view: bool) -> tuple[Array, Array]:
        """(DᵀD, Dᵀy) of the spectrum behind the weights w: of one for each view, or of one for all.

        Between coefficients DᵀD is (BᵀB) ∘ (ẐᵀẐ) as for weights; what is tied adds up.
        """
        known, Q, E = self.known, self.known.basis.like(w), self.known.tied.like(w)
        V, F = known.views, len(E)
        right = (((self.mixed * w.reshape(V, -1, 1)) @ Q) * Q).sum(1) @ E.T
        matrix = zeros_like(right, (V if per_view else 1, F, V * F))
        for view, rows in enumerate(known.each_view()):
            second = known.on_both_sides(self.second[rows] * w * w[rows, None], Q.T)
            second *= known.on_both_sides(self.normal[rows], Q.T)
            matrix[view if per_view else 0] += known.on_both_sides(second, E)
        if per_view:
            return matrix.reshape(V * F, -1), right.reshape(-1)
        return matrix.reshape(F, V, F).sum(1), right.sum(0)

    def of_weights(self, spectrum: Array) -> tuple[Array, Array]:
        """(DᵀD, Dᵀy) of the weights in front of one filter for all views."""
        known, F = self.known, self.known.view_matrix(spectrum)
        right = (self.mixed * F).sum(2).reshape(-1)
        matrix = zeros_like(self.second)
        for rows in known.each_view():
            matrix[rows] = known.on_both_sides(self.normal[rows], F) * self.second[rows]
        return matrix, right


# Weights and one filter learned together: ŷ is linear in each of them, but not in both


class Parameters(NamedTuple):
    """Weights (V·bins,), the spectrum (P // 2 + 1,) and what both cost: the value of the objective."""

    w: Array
    spectrum: Array
    objective: float


class Alternation:
    """Minimises Σ_n ‖B F(s) diag(w) x_n − y_n‖² + λ(‖w − w₀‖² + ‖s − s₀‖²) by ridge steps in w and s by turns.

    No step raises the objective. The start is the best of: w alone learned, s alone learned, the solution of the last
    λ. So the result is never worse than that of a network that learns one of the two.
    """

    def __init__(self, known: Filtered, x: Array, y: Array, normal_of_R: Array):
        self.moments = Moments(known, x, y, normal_of_R)
        self.w, self.spectrum = (like(part, self.moments.mixed) for part in (known.weights, known.spectrum))

    def fit(self, lambdas: Sequence[float], tolerance: float, rounds: int) -> Iterator[tuple[float, Parameters]]:
        """Yield (λ, parameters), the largest λ first.

        A round is a step in each; the last one lowers the objective by less than `tolerance` of it, or is the last
        of `rounds`.
        """
        last: Parameters | None = None
        for lam in sorted(lambdas, reverse=True):
            starts = [self.w, self._step_in_weights(self.spectrum, lam).w, *([] if last is None else [last.w])]
            here = min((self._step_in_filter(w, lam) for w in starts), key=lambda start: start.objective)
            done, settled = 0, False
            while done < rounds and not settled and math.isfinite(here.objective):
                before = here.objective
                here = self._step_in_filter(self._step_in_weights(here.spectrum, lam).w, lam)
                done, settled = done + 1, before - here.objective <= tolerance * before
            end = "" if settled else ", not yet settled"
            print(f"lambda {lam:g}: {done} rounds, objective {here.objective:.6g}{end}", flush=True)
            yield lam, here
            last = here

    def _step_in_weights(self, spectrum: Array, lam: float) -> Parameters:
        matrix, right = self.moments.of_weights(spectrum)
        w, fit = self._solve(matrix, right, self.w, lam)
        return Parameters(w, spectrum, fit + lam * _squares(spectrum - self.spectrum))

    def _step_in_filter(self, w: Array, lam: float) -> Parameters:
        matrix, right = self.moments.of_filter(w, per_view=False)
        spectrum, fit = self._solve(matrix, right, self.spectrum, lam)
        return Parameters(w, spectrum, fit + lam * _squares(w - self.w))

    def _solve(self, matrix: Array, right: Array, prior: Array, lam: float) -> tuple[Array, float]:
        """(θ, ‖Dθ − y‖² + λ‖θ − θ₀‖²): with g = Dᵀ(y − Dθ₀) the second is ‖y − Dθ₀‖² − gᵀ(θ − θ₀)."""
        product = matrix @ prior
        before = self.moments.energy - 2 * float(right @ prior) + float(prior @ product)
        ((_, theta),) = by_cholesky(matrix, right, prior, [lam])
        return theta, before - float((right - product) @ (theta - prior))


def _squares(values: Array) -> float:
    return float((values * values).sum())
