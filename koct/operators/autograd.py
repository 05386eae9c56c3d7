"""Operators for torch: a function that can be differentiated any number of times, and sparse matrices on a GPU."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from koct.base.arrays import belongs_to_transform

if TYPE_CHECKING:
    from koct.operators.algebra import Compiled, Operator


class Linear(torch.autograd.Function):
    """`operator` or its adjoint on a batch, for autograd and for the transforms of `torch.func`.

    Its gradient is its own adjoint, applied to the incoming gradient; its derivative along a tangent is itself.
    """

    @staticmethod
    def forward(x: torch.Tensor, operator: Compiled, adjoint: bool) -> torch.Tensor:
        x = x.contiguous()
        if x.is_cuda:
            return operator._cuda(x, adjoint)
        return torch.from_numpy(operator._cpu(x.detach().numpy(), adjoint))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, Compiled, bool], output: torch.Tensor) -> None:
        _, ctx.operator, ctx.adjoint = inputs

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return Linear.apply(gradient, ctx.operator, not ctx.adjoint), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, operator: None, adjoint: None) -> torch.Tensor:
        return Linear.apply(tangent, ctx.operator, ctx.adjoint)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None, None], x: torch.Tensor, operator: Compiled, adjoint: bool
    ) -> tuple[torch.Tensor, int]:
        """The mapped axis joins the batch, so that the loops run once."""
        x = x.movedim(in_dims[0], 0)
        out = Linear.apply(x.flatten(0, 1), operator, adjoint)
        return out.unflatten(0, x.shape[:2]), 0


class OperatorModule(torch.nn.Module):
    """An operator as a layer."""

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator(x)

    def extra_repr(self) -> str:
        return repr(self.operator)


def apply(x: torch.Tensor, operator: Compiled, adjoint: bool) -> torch.Tensor:
    """`operator` or its adjoint on a batch; without autograd where nobody asks for it, which saves 60 µs."""
    tangents = getattr(torch.autograd.forward_ad, "_current_level", 0) >= 0
    if (x.requires_grad and torch.is_grad_enabled()) or tangents or belongs_to_transform(x):
        return Linear.apply(x, operator, adjoint)
    return Linear.forward(x, operator, adjoint)


def compressed_rows(matrix: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A SciPy sparse matrix as a torch tensor in compressed rows."""
    matrix = matrix.tocsr()
    rows, columns = (torch.as_tensor(part, device=device) for part in (matrix.indptr, matrix.indices))
    values = torch.as_tensor(matrix.data, dtype=dtype, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls compressed rows a beta feature
        return torch.sparse_csr_tensor(rows, columns, values, size=matrix.shape, check_invariants=True)
