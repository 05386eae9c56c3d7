"""Learned filters behind weights: ŷ = B F(s) diag(w) x, with the spectrum s of a circular, symmetric filter F.

A real Fourier basis Q of a view makes F diagonal: F(s) = Q diag(s E) Qᵀ, where E gives the cosine and the sine of a
frequency the same factor. So a filter is to the Fourier coefficients what weights are to the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from koct.arrays import blocks, double, index, like
from koct.contracts import Array, Layer
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
        normal = self.between_coefficients(double(normal_of_R))
        factors = np.tile(self.spectrum @ self.tied(self.spectrum), self.views)
        gone = np.flatnonzero(factors == 0)
        factors[gone] = 1
        factor = like(factors, normal)
        normal /= factor[:, None]
        normal /= factor
        step = 64
        for first in range(0, len(gone), step):
            rows = gone[first : first + step]
            unit = np.zeros((len(rows), self.views * self.bins))
            unit[np.arange(len(rows)), rows] = 1
            basis = like(unit, normal).reshape(-1, self.views, self.bins)
            found = self.adjoint(self.behind(basis)).reshape(len(rows), -1)
            places = index(rows, normal)
            normal[places] = found
            normal[:, places] = found.T
        return normal

    def between_coefficients(self, matrix: Array) -> Array:
        """Q̃ᵀ M Q̃ of a symmetric matrix M (V·B, V·B) between measurements."""
        for _ in range(2):
            matrix = (matrix.reshape(-1, self.bins) @ self.basis(matrix)).reshape(matrix.shape).T
        return matrix

    def between_measurements(self, matrix: Array) -> Array:
        """The reverse of `between_coefficients`."""
        for _ in range(2):
            matrix = (matrix.reshape(-1, self.bins) @ self.basis(matrix).T).reshape(matrix.shape).T
        return matrix


class Moments:
    """All that least-squares fits of weights and filters need of the training pairs: their size does not grow with N.

    `second` is XᵀX (V·B, V·B), `mixed` is Σ_n x_n[v, b] û_n[v, i] (V, B, B) with the coefficients û of Bᵀy, and
    `energy` is Σ_n ‖y_n‖²; all in float64.
    """

    def __init__(self, known: Filtered, x: Array, y: Array, normal_of_R: Array):
        self.known = known
        self.normal = known.normal(normal_of_R)
        self.second: Any = 0
        self.mixed: Any = 0
        self.energy = 0.0
        for rows in blocks(len(x), 4 * (x.shape[1] + y.shape[1])):
            X, Y = double(x[rows]), double(y[rows])
            sinograms = X.reshape(-1, known.views, known.bins)
            self.second = self.second + X.T @ X
            self.mixed = self.mixed + _views_first(sinograms, True) @ _views_first(known.adjoint(Y), False)
            self.energy += float((Y * Y).sum())

    def of_filter(self, w: Array, per_view: bool) -> tuple[Array, Array]:
        """(DᵀD, Dᵀy) of the spectrum behind the weights w: of one for each view, or of one for all.

        Between coefficients DᵀD is (BᵀB) ∘ (ẐᵀẐ) as for weights; what is tied adds up.
        """
        known = self.known
        second = known.between_coefficients(self.second * w * w[:, None])
        second *= self.normal
        V, B, E = known.views, known.bins, known.tied(second)
        mixed = (self.mixed * w.reshape(V, B, 1) * known.basis(second)).sum(1) @ E.T
        matrix = (second.reshape(-1, B) @ E.T).reshape(V, B, -1)  # (V, B, V·frequencies)
        matrix = E @ matrix
        if per_view:
            return matrix.reshape(V * len(E), -1), mixed.reshape(-1)
        return matrix.reshape(V, len(E), V, len(E)).sum((0, 2)), mixed.sum(0)

    def of_weights(self, spectrum: Array) -> tuple[Array, Array]:
        """(DᵀD, Dᵀy) of the weights in front of one filter for all views."""
        known = self.known
        factor = known.factors(spectrum)[0]
        all_factors = like(np.ones((known.views, 1)), factor) * factor
        matrix = known.between_measurements(self.normal * all_factors.reshape(-1) * all_factors.reshape(-1, 1))
        matrix *= self.second
        return matrix, (self.mixed * factor * known.basis(factor)).sum(2).reshape(-1)


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
