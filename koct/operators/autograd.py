"""Operators for torch: a function that can be differentiated any number of times, and sparse matrices on a GPU."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
import torch


class Compiled(Protocol):
    """An operator with code of its own for NumPy batches and for CUDA batches, each for the adjoint as well."""

    def _cpu(self, x: np.ndarray, adjoint: bool) -> np.ndarray: ...

    def _cuda(self, x: torch.Tensor, adjoint: bool) -> torch.Tensor: ...


class Linear(torch.autograd.Function):
    """`operator` or its adjoint on a batch; its gradient is its own adjoint, applied to the incoming gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, operator: Compiled, adjoint: bool) -> torch.Tensor:
        ctx.operator, ctx.adjoint = operator, adjoint
        x = x.contiguous()
        if x.is_cuda:
            return operator._cuda(x, adjoint)
        return torch.from_numpy(operator._cpu(x.detach().numpy(), adjoint))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return Linear.apply(gradient, ctx.operator, not ctx.adjoint), None, None


def compressed_rows(matrix: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A SciPy sparse matrix as a torch tensor in compressed rows."""
    matrix = matrix.tocsr()
    rows, columns = (torch.as_tensor(part, device=device) for part in (matrix.indptr, matrix.indices))
    values = torch.as_tensor(matrix.data, dtype=dtype, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls compressed rows a beta feature
        return torch.sparse_csr_tensor(rows, columns, values, size=matrix.shape, check_invariants=True)
