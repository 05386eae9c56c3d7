"""A network that knows its operator: ŷ = R diag(w) x, cut off below zero where images cannot be negative."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koct.contracts import Array, Layer
from koct.operators.chain import split


class Known:
    """The problem's known layers as a network of weights w and a fixed operator R behind them.

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
        """Flat images from flat, weighted measurements."""
        image = self.R(x.reshape(-1, *self.R.domain)).reshape(len(x), -1)
        return image.clip(min=0) if self.nonnegative else image

    def adjoint(self, y: Array) -> Array:
        """Rᵀ of flat images, flat; nothing is cut off."""
        return self.R.T(y.reshape(-1, *self.R.range)).reshape(len(y), -1)
