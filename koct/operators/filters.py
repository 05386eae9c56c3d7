"""Filters of sinograms."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from koct.arrays import ArrayT
from koct.errors import KoctError
from koct.operators.algebra import Operator
from koct.operators.constant import Constant


class RampFilter(Operator):
    """K, the ramp filter of every view of a (V, B) sinogram; self-adjoint.

    Without a `width` it is the filter of the network: the unpadded spectrum of a view times |frequency| in cycles per
    bin, which is a circular convolution and removes the mean of the view. With the `width` of a bin at the isocentre
    in mm it is the filter of FBP: a linear convolution, with the frequency in cycles per mm.
    """

    def __init__(self, V: int, B: int, width: float | None = None) -> None:
        super().__init__((V, B), (V, B))
        if width is not None and not 0 < width < np.inf:
            raise KoctError(f"width = {width!r} must be a length above 0; give it in mm")
        self.width = width

    def _options(self) -> dict[str, object]:
        return {} if self.width is None else {"width": self.width}

    def _apply(self, x: ArrayT) -> ArrayT:
        return x @ self._constant.like(x)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self._apply(y)

    @property
    def view_matrix(self) -> np.ndarray:
        """(B, B): the symmetric matrix that filters one view, in float64."""
        return self._constant.values

    @cached_property
    def _constant(self) -> Constant:
        """The matrix of a view: for a few hundred bins the product with it is as fast as FFTs."""
        distance = np.abs(np.subtract.outer(np.arange(self.domain[1]), np.arange(self.domain[1])))
        return Constant(self._impulse_response()[distance], type(self).__name__)

    def _impulse_response(self) -> np.ndarray:
        """(B,): the filtered unit impulse, 0, 1, 2, ... bins away from the impulse."""
        B = self.domain[1]
        if self.width is None:
            return np.fft.irfft(np.fft.rfftfreq(B), B) if B > 1 else np.zeros(1)
        distance = np.arange(1, B)
        return np.concatenate([[1 / 4], np.where(distance % 2, -1 / (np.pi * distance) ** 2, 0)]) / self.width

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        """The largest singular value: exact for the circular filter, by power iteration for the linear one."""
        if self.width is not None:
            return super().norm(tol, max_iterations)
        return float(np.abs(np.fft.fftfreq(self.domain[1])).max())
