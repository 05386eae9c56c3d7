"""The base class of operators whose loops are compiled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from koct.base.arrays import ArrayT
from koct.operators.algebra import Operator, run_compiled
from koct.operators.geometry import Scan

if TYPE_CHECKING:
    import torch


class Kernel(Operator):
    """An operator of a geometry whose loops are compiled: by Numba for the CPU, by Triton for CUDA.

    Subclasses define `_cpu` and `_cuda` on batches, (batch, *domain) or for the adjoint (batch, *range), and `_table`.
    """

    def __init__(self, geometry: Scan, domain: Iterable[int], range: Iterable[int]) -> None:
        super().__init__(domain, range)
        self.geometry = geometry
        self._tables: dict[tuple[object, ...], Any] = {}

    def _apply(self, x: ArrayT) -> ArrayT:
        return run_compiled(self, x, adjoint=False)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return run_compiled(self, y, adjoint=True)

    def table(self, dtype: Any, device: Any = None) -> Any:
        """`_table(dtype, device)`, computed once."""
        key = dtype, device
        if key not in self._tables:
            self._tables[key] = self._table(dtype, device)
        return self._tables[key]

    def _cpu(self, x: np.ndarray, adjoint: bool) -> np.ndarray:
        raise NotImplementedError

    def _cuda(self, x: torch.Tensor, adjoint: bool) -> torch.Tensor:
        raise NotImplementedError

    def _table(self, dtype: Any, device: Any) -> Any:
        """What the loops need to know of the geometry; without a device as NumPy arrays."""
        raise NotImplementedError
