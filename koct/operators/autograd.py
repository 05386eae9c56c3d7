"""Compiled operators for torch: a function that torch can differentiate as often as it likes."""

import torch


class Linear(torch.autograd.Function):
    """`operator` or its adjoint on a batch; the gradient of a linear map is its adjoint, applied to what comes in."""

    @staticmethod
    def forward(ctx, x, operator, adjoint):
        ctx.operator, ctx.adjoint = operator, adjoint
        x = x.contiguous()
        if x.is_cuda:
            return operator._cuda(x, adjoint)
        return torch.from_numpy(operator._cpu(x.detach().numpy(), adjoint))

    @staticmethod
    def backward(ctx, gradient):
        return Linear.apply(gradient, ctx.operator, not ctx.adjoint), None, None
