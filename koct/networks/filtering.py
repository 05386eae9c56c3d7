"""Learned filters behind weights: ŷ = B F(s) diag(w) x, with the spectrum s of a circular, symmetric filter F.

A real Fourier basis Q of a view makes F diagonal: F(s) = Q diag(s E) Qᵀ, where E gives the cosine and the sine of a
frequency the same factor. So a filter is to the Fourier coefficients what weights are to the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from koct.arrays import blocks, copy, double, index, like, stacked, zeros_like
from koct.contracts import Array, Layer
from koct.errors import KoctError
from koct.networks.linear import Design
from koct.operators.algebra import Diagonal, Operator
from koct.operators.chain import product
from koct.operators.constant import Constant
from koct.operators.filters import RampFilter


def fourier_basis(B: int) -> np.ndarray:
    """(B, B), orthogonal: cosines of the frequencies 0, 1, ..., B // 2, then sines of 1, 2, ..., as columns."""
    angle = 2 * np.pi * np.outer(np.arange(B), np.arange(B // 2 + 1)) / B
    basis = np.concatenate([np.cos(angle), np.sin(angle[:, 1 : (B + 1) // 2])], axis=1)
    return basis / np.linalg.norm(basis, axis=0)


def tied(B: int) -> np.ndarray:
    """E (B // 2 + 1, B): which columns of the basis belong to a frequency."""
    frequencies = B // 2 + 1
    owner = np.concatenate([np.arange(frequencies), np.arange(1, (B + 1) // 2)])
    return (owner == np.arange(frequencies)[:, None]).astype(float)


def split_filter(layers: Sequence[Layer]) -> tuple[np.ndarray, np.ndarray, Sequence[Layer]]:
    """(w₀, s₀, layers behind the filter): the known weights, the spectrum of the known filter, and the rest.

    The filter is the circular ramp behind the weights. Where there is none, s₀ is one, a filter that changes nothing;
    the same holds for the weights.
    """
    shape = layers[0].operator.domain
    weights, spectrum, rest = np.ones(shape), np.ones(shape[-1] // 2 + 1), list(layers)
    if isinstance(rest[0].operator, Diagonal) and len(rest) > 1:
        weights = np.array(rest.pop(0).operator.weights, float)
        if weights.shape != shape:
            raise KoctError("the known weights are of complex measurements, and learned filters are for real ones")
    first = rest[0].operator
    if isinstance(first, RampFilter) and first.width is None and len(rest) > 1:
        spectrum = np.fft.rfftfreq(shape[-1])
        rest.pop(0)
    return weights, spectrum, rest


class Filtered:
    """The known chain as weights, a filter along the last axis of x, and an operator B behind it."""

    def __init__(self, layers: Sequence[Layer], nonnegative: bool):
        weights, self.spectrum, rest = split_filter(layers)
        self.weights = weights.ravel()
        self.operator: Operator = product([layer.operator for layer in rest])
        self.nonnegative = nonnegative
        self.bins = weights.shape[-1]
        self.views = math.prod(weights.shape[:-1])
        self._basis = Constant(fourier_basis(self.bins), type(self).__name__)
        self._tied = Constant(tied(self.bins), type(self).__name__)

    def basis(self, other: Array) -> Array:
        """Q in the kind of `other`."""
        return self._basis.like(other)

    def tied(self, other: Array) -> Array:
        """E in the kind of `other`."""
        return self._tied.like(other)

    def coefficients(self, weighted: Array) -> Array:
        """Fourier coefficients (n, V, B) of flat, weighted measurements."""
        return weighted.reshape(-1, self.views, self.bins) @ self.basis(weighted)

    def measurements(self, coefficients: Array) -> Array:
        """The reverse of `coefficients`: flat measurements (n, V·B)."""
        return (coefficients @ self.basis(coefficients).T).reshape(len(coefficients), -1)

    def factors(self, spectrum: Array) -> Array:
        """What each coefficient is multiplied by: (V or 1, B) from spectra (V or 1, B // 2 + 1)."""
        return spectrum.reshape(-1, self.bins // 2 + 1) @ self.tied(spectrum)

    def behind(self, coefficients: Array) -> Array:
        """Flat images from filtered coefficients; nothing is cut off at zero."""
        filtered = self.measurements(coefficients)
        return self.operator(filtered.reshape(-1, *self.operator.domain)).reshape(len(filtered), -1)

    def adjoint(self, images: Array) -> Array:
        """The adjoint of `behind`: coefficients (n, V, B) from flat images."""
        back = self.operator.T(images.reshape(-1, *self.operator.range))
        return self.coefficients(back.reshape(len(images), -1))

    def reconstruct(self, x: Array, w: Array, spectrum: Array) -> Array:
        """The network: flat images from flat measurements."""
        image = self.behind(self.coefficients(x * w) * self.factors(spectrum))
        return image.clip(min=0) if self.nonnegative else image

    def normal(self, normal_of_R: Array) -> Array:
        """BᵀB between Fourier coefficients, (V·B, V·B), from RᵀR of the layers behind the weights, R = B F(s₀).

        F(s₀) is diagonal there and is divided out; of a frequency that it removes the rows come from B itself.
        """
        normal = double(copy(normal_of_R))
        factors = np.tile(self.spectrum @ self.tied(self.spectrum), self.views)
        gone = np.flatnonzero(factors == 0)
        factors[gone] = 1
        inverse, Q = like(1 / factors, normal), self.basis(normal)
        for rows in self.each_view():
            normal[rows] = self.on_both_sides(normal[rows], Q.T) * inverse * inverse[rows, None]
        for first in range(0, len(gone), 64):
            some = gone[first : first + 64]
            unit = np.zeros((len(some), self.views, self.bins))
            unit.reshape(len(some), -1)[np.arange(len(some)), some] = 1
            found = self.adjoint(self.behind(like(unit, normal))).reshape(len(some), -1)
            places = index(some, normal)
            normal[places] = found
            normal[:, places] = found.T
        return normal

    def each_view(self) -> list[slice]:
        """The rows of each view in a matrix (V·B, V·B)."""
        return [slice(first, first + self.bins) for first in range(0, self.views * self.bins, self.bins)]

    def on_both_sides(self, rows: Array, matrix: Array) -> Array:
        """U M Uᵀ for the rows of a view (B, V·B) of M, with the same U for all views: Qᵀ, Q or E."""
        return matrix @ (rows.reshape(-1, self.bins) @ matrix.T).reshape(len(rows), -1)


class Moments:
    """All that least-squares fits of weights and filters need of the training pairs: their size does not grow with N.

    `second` is XᵀX (V·B, V·B), `mixed` is Σ_n x_n[v, b] û_n[v, i] (V, B, B) with the coefficients û of Bᵀy, and
    `energy` is Σ_n ‖y_n‖²; all in float64.
    """

    def __init__(self, known: Filtered, x: Array, y: Array, normal_of_R: Array):
        self.known = known
        self.normal = known.normal(normal_of_R)
        self.second = zeros_like(self.normal)
        self.mixed: Any = 0
        self.energy = 0.0
        for rows in blocks(len(x), 4 * (x.shape[1] + y.shape[1])):
            X, Y = double(x[rows]), double(y[rows])
            sinograms = X.reshape(-1, known.views, known.bins)
            self.second += X.T @ X
            self.mixed = self.mixed + _views_first(sinograms, True) @ _views_first(known.adjoint(Y), False)
            self.energy += float((Y * Y).sum())

    def of_filter(self, w: Array, per_view: bool) -> tuple[Array, Array]:
        """(DᵀD, Dᵀy) of the spectrum behind the weights w: of one for each view, or of one for all.

        Between coefficients DᵀD is (BᵀB) ∘ (ẐᵀẐ) as for weights; what is tied adds up.
        """
        known = self.known
        V, B, Q, E = known.views, known.bins, known.basis(w), known.tied(w)
        right = (self.mixed * w.reshape(V, B, 1) * Q).sum(1) @ E.T
        found = []
        for rows in known.each_view():
            second = known.on_both_sides(self.second[rows] * w * w[rows, None], Q.T)
            found.append(known.on_both_sides(second * self.normal[rows], E))
        if per_view:
            return stacked(found).reshape(V * len(E), -1), right.reshape(-1)
        total: Any = sum(found)
        return total.reshape(len(E), V, len(E)).sum(1), right.sum(0)

    def of_weights(self, spectrum: Array) -> tuple[Array, Array]:
        """(DᵀD, Dᵀy) of the weights in front of one filter for all views."""
        known = self.known
        factor, Q = known.factors(spectrum)[0], known.basis(spectrum)
        right = (self.mixed * factor * Q).sum(2).reshape(-1)
        matrix = zeros_like(self.second)
        for rows in known.each_view():
            normal = self.normal[rows].reshape(-1, known.views, known.bins) * factor * factor[:, None, None]
            matrix[rows] = known.on_both_sides(normal, Q) * self.second[rows]
        return matrix, right


def _views_first(values: Array, transposed: bool) -> Array:
    """(V, n, B), or (V, B, n), from (n, V, B)."""
    values = values.swapaxes(0, 1)
    return values.swapaxes(1, 2) if transposed else values


class FilterDesign(Design):
    """θ is the spectrum behind the known weights: of one filter for each view, or of one for all."""

    def __init__(self, known: Filtered, x: Array, per_view: bool, prior: np.ndarray):
        self.known, self.per_view = known, per_view
        self.prior = double(like(prior, x))
        X = double(x)
        self.held = known.coefficients(X * like(known.weights, X))

    def apply(self, theta: Array) -> Array:
        return self.known.behind(self.held * self.known.factors(theta))

    def adjoint(self, residual: Array) -> Array:
        per_view = (self.held * self.known.adjoint(residual)).sum(0) @ self.known.tied(self.held).T
        return per_view.reshape(-1) if self.per_view else per_view.sum(0)
