"""Training of a dense matrix M that is sharded over ranks: FSDP2 around blocks of its rows, and Nesterov's method.

The objective is the ridge's, Σ_n ‖M x_n − y_n‖² + λ‖M‖². Its rows do not know of each other, so an iteration takes one
block after the other: gather it, pass all samples of this rank through it, sum the ranks' gradients, step. One block is
gathered at a time and one has a gradient.
"""

import math

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

from koct.networks.shards import MICRO_BATCH, block_rows, leading

SUBSPACE_ITERATIONS = 8
POWER_ITERATIONS = 30
DOUBLE_ROWS = 256  # samples that are turned into float64 at a time


class Rows(torch.nn.Module):
    """Some rows of M."""

    def __init__(self, rows, columns, device):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(rows, columns, device=device))

    def forward(self, x):
        return functional.linear(x, self.weight)


class ShardedMatrix:
    """M in blocks of rows, and the state of its descent.

    A block's weight is the point at which the gradient is taken, `iterates` holds the iterate behind it; the last
    iterate is the result.
    """

    def __init__(self, rows, columns, mesh):
        self.rows = block_rows(rows, columns)
        self.mesh = mesh
        device = torch.device(mesh.device_type, torch.cuda.current_device() if mesh.device_type == "cuda" else None)
        self.blocks, self.iterates = [], []
        for _ in range(rows // self.rows):  # one after the other: each is unsharded for a moment
            block = fully_shard(Rows(self.rows, columns, device), mesh=mesh, reshard_after_forward=False)
            block.set_force_sum_reduction_for_comms(True)  # gloo has no other kind
            block.set_gradient_divide_factor(1.0)  # the objective is a sum over samples, so its gradient is one too
            self.blocks.append(block)
            self.iterates.append(torch.zeros_like(block.weight.detach()))

    def iterate(self, x, y, preconditioner, step, momentum):
        """One step from this rank's samples; gives (Σ‖M x − y‖², ‖M‖²) of this rank before it, as two doubles."""
        total = torch.zeros(2, dtype=torch.float64, device=x.device)
        for number, (block, iterate) in enumerate(zip(self.blocks, self.iterates, strict=True)):
            pixels = slice(number * self.rows, (number + 1) * self.rows)
            total[0] += self._accumulate(block, x, y[:, pixels])
            with torch.no_grad():
                weight, old, g = block.weight.to_local(), iterate.to_local(), block.weight.grad.to_local()
                total[1] += torch.linalg.vector_norm(weight, dtype=torch.float64) ** 2
                preconditioner.apply(g.add_(weight, alpha=2 * preconditioner.lam))
                g.mul_(-step).add_(weight)  # the new iterate
                torch.add(g, g - old, alpha=momentum, out=weight)
                old.copy_(g)
            block.weight.grad = None
        return total

    def _accumulate(self, block, x, y):
        """Add up the gradient over micro-batches; ranks talk before the first and after the last alone.

        A rank without samples takes part with an empty batch.
        """
        starts = range(0, max(1, len(x)), MICRO_BATCH)
        total = 0
        for start in starts:
            last = start == starts[-1]
            block.set_requires_gradient_sync(last)
            block.set_reshard_after_backward(last)
            batch = slice(start, start + MICRO_BATCH)
            loss = functional.mse_loss(block(x[batch]), y[batch], reduction="sum")
            loss.backward()
            total = total + loss.detach().double()
        return total

    def tensors(self):
        """Everything that a checkpoint holds, by name: sharded tensors."""
        weights = {f"weight.{i}": block.weight.detach() for i, block in enumerate(self.blocks)}
        return weights | {f"iterate.{i}": iterate for i, iterate in enumerate(self.iterates)}

    def gathered(self):
        """The blocks of the result, one after the other, unsharded on every rank."""
        for iterate in self.iterates:
            yield iterate.full_tensor()


class Preconditioner:
    """P = I − V diag(1 − τ/(s + λ)) Vᵀ for the leading eigenpairs (s, V) of C = Σ_n x_n x_nᵀ, samples of all ranks.

    A sinogram is mostly mean and little detail: s falls by orders of magnitude. P brings the leading curvatures down to
    that of the first one left alone, τ, which makes the others' steps as much longer; the minimum stays where it is.
    (Ma & Belkin, EigenPro, 2017.) Everything here is float64, so that it is the same on any number of ranks.
    """

    def __init__(self, x, lam, N):
        self.lam = lam
        count = leading(N, x.shape[1])
        values, vectors = self._subspace(x, min(count + 8, x.shape[1]))
        tau = values[count] + lam
        self.vectors = vectors[:, :count]
        self.back = (1 - tau / (values[:count] + lam)).clamp(min=0)[:, None] * self.vectors.T
        self.largest = self._largest(x)
        self.vectors, self.back = self.vectors.float().contiguous(), self.back.float().contiguous()

    def apply(self, g):
        """g P for the rows of a gradient, in place."""
        return g.addmm_(g @ self.vectors, self.back, alpha=-1)

    def _subspace(self, x, width):
        """Leading eigenvalues and eigenvectors of C by subspace iteration; good enough is enough."""
        start = torch.randn(x.shape[1], width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        basis = torch.linalg.qr(start.to(x.device)).Q
        for _ in range(SUBSPACE_ITERATIONS):
            basis = torch.linalg.qr(_covariance(x, basis)).Q
        values, turn = torch.linalg.eigh(basis.T @ _covariance(x, basis))
        return values.flip(0).clamp(min=0), basis @ turn.flip(1)

    def _largest(self, x):
        """The largest eigenvalue of (C + λI) P by power iteration; it comes from below, and 5 % keep the step safe."""
        v = torch.randn(x.shape[1], 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).to(x.device)
        for _ in range(POWER_ITERATIONS):
            v = v / torch.linalg.vector_norm(v)
            v = _covariance(x, v) + self.lam * v
            v = v - self.vectors @ (self.back @ v)
        return 1.05 * float(torch.linalg.vector_norm(v))


def _covariance(x, v):
    """C v."""
    total = torch.zeros_like(v)
    for part in x.split(DOUBLE_ROWS):
        part = part.double()
        total += part.T @ (part @ v)
    total = total.contiguous()  # NCCL takes no other kind
    dist.all_reduce(total)
    return total


def momentum(iteration, step, mu):
    """Nesterov's growing extrapolation, bounded by the best constant one for a strongly convex problem.

    `mu` is the smallest and 1/`step` the largest curvature; `iteration` counts from zero.
    """
    root = math.sqrt(min(1.0, mu * step))
    return min(iteration / (iteration + 3), (1 - root) / (1 + root))
