"""Fixed arrays that take part in products with arrays of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from koct.base.arrays import Array, ArrayT, belongs_to_transform, is_torch


class Constant:
    """Real values of any shape that an operator multiplies by, in the kind of its input: NumPy or torch, dtype, device.

    NumPy values are converted once for every kind and must not change afterwards; `values` is a read-only view of
    them. A torch tensor may be trained: it is converted at every use, and gradients flow back to it.
    """

    def __init__(self, values: Array, user: str) -> None:
        self.values: Any = values
        self._trainable = is_torch(values)
        if is_torch(values) and "sparse" in str(values.layout):
            raise TypeError(f"{user} needs a dense tensor, got {values.layout}; use values.to_dense()")
        if not self._trainable:
            self.values = np.asarray(values).view()
            self.values.flags.writeable = False
        if self.values.dtype.is_complex if self._trainable else self.values.dtype.kind not in "biuf":
            raise TypeError(f"{user} needs real values, got {self.values.dtype}")
        self._converted: dict[object, Any] = {}

    def like(self, x: ArrayT) -> ArrayT:
        """The values, such that a product with x is of the kind of x."""
        array: Any = x  # which type checkers do not narrow
        if self._trainable:
            if is_torch(x):
                return self.values.to(array.device, array.dtype)
            return self.values.detach().cpu().numpy().astype(array.dtype, copy=False)
        if not is_torch(x) and np.can_cast(self.values.dtype, array.dtype):
            return self.values  # NumPy converts them by itself where that loses nothing
        key = (array.dtype, array.device) if is_torch(x) else array.dtype
        if key in self._converted:
            return self._converted[key]
        if is_torch(x):
            import torch

            with torch.inference_mode(False):  # a tensor made in inference mode could not be used in training later
                converted: Any = torch.tensor(self.values, dtype=array.dtype, device=array.device)
        else:
            converted = self.values.astype(array.dtype)
        if not belongs_to_transform(converted):
            self._converted[key] = converted
        return converted
