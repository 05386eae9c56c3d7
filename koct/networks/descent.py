"""The descent that fits a dense matrix M with all ranks: FSDP2 around blocks of its rows, and Nesterov's method.

The objective is the ridge's, Σ_n ‖M x_n − y_n‖² + λ‖M‖². Its rows do not know of each other, so an iteration takes one
block after the other: gather it, pass all samples of this rank through it, sum the ranks' gradients, step. One block is
gathered at a time and one has a gradient.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

from koct.base.arrays import to_numpy
from koct.base.device import free_memory
from koct.base.files import Blocks
from koct.base.messages import counted
from koct.base.stamps import again
from koct.contracts import Array, Network
from koct.errors import KoctError
from koct.networks.ranks import (
    MICRO_BATCH,
    SIGNALS,
    Agreed,
    Checkpoints,
    Interrupted,
    Ranks,
    block_rows,
    enough_ranks,
    leading,
    needed,
)

REPORTS = 50  # lines of progress
CHUNK = 64  # samples read at a time
GPU_RESERVE = 2**30  # bytes that NCCL and the allocator take on top
SUBSPACE_ITERATIONS = 8
POWER_ITERATIONS = 30
DOUBLE_ROWS = 256  # samples that are turned into float64 at a time


class Descent(Network):
    """What training needs, made in the order in which it can fail: cheap checks first, memory before data.

    Its result is sharded, and gathered block by block when it is written.
    """

    def __init__(self, data: Any, lam: float, iterations: int):
        ranks: Ranks = data.ranks
        self.ranks, self.lam, self.iterations, self.N = ranks, lam, iterations, data.N
        rows, columns = int(np.prod(data.y_shape)), int(np.prod(data.x_shape))
        self.outputs = rows
        device = data.device.name
        with ranks.together():
            if device == "cuda" and ranks.local_size > (there := torch.cuda.device_count()):
                raise KoctError(f"{ranks.local_size} ranks on a node with {there} GPUs: lower fsdp.ranks or use cpu")
        free = torch.cuda.mem_get_info()[0] - GPU_RESERVE if device == "cuda" else free_memory() // ranks.local_size
        available = min(ranks.gather(free))
        with ranks.together():
            check_memory(rows, columns, self.N, ranks.size, available)
        with ranks.together():
            self.x, self.y = (read_share(data, name, ranks, device) for name in ("x", "y"))
        self.started = time.perf_counter()
        smallest = 0.0  # a safe bound of the eigenvalues of the Gram matrix: all steps stay in the span of the samples
        with ranks.together():
            if ranks.rank == 0 and data.gram is not None:
                smallest = max(0.0, float(np.linalg.eigvalsh(to_numpy(data.gram))[0]))
        self.mu = 2 * (ranks.gather(smallest)[0] + lam)
        self.preconditioner = Preconditioner(self.x, lam, self.N)
        self.step = 1 / (2 * self.preconditioner.largest)
        self.matrix = ShardedMatrix(rows, columns, init_device_mesh(device, (ranks.size,)))
        fitted = {**data.cell.encode(), "lam": lam, "pool": data.pool.stamp.content}
        self.checkpoints = Checkpoints(data.checkpoints, fitted, ranks, 60 * data.checkpoint_minutes)

    def train(self) -> None:
        """Go through the iterations that are left; `Interrupted` if a signal ends them."""
        done, before = self.checkpoints.resume(self.matrix.tensors())
        self.started -= before
        report = max(1, self.iterations // REPORTS)
        counted, since = done, time.perf_counter()
        while done < self.iterations:
            beta = momentum(done, self.step, self.mu)
            loss, stopped, save = self._agree(self.matrix.iterate(self.x, self.y, self.preconditioner, self.step, beta))
            done += 1
            if not np.isfinite(loss):
                raise Agreed(
                    f"the fit diverged: the loss of iteration {done} is not finite with lambda = {self.lam:g} and "
                    f"step {self.step:g}; make the pool again, or remove small values from lambdas"
                )
            if done % report == 0 or done == self.iterations:
                now = time.perf_counter()
                pace = (now - since) / (done - counted)
                speed = f"{self.N / pace:.0f} samples/s, {pace * (self.iterations - done):.1f} s left"
                print(f"iteration {done} of {self.iterations}: loss {loss:.8g}, {speed}", flush=True)
                counted, since = done, now
            if stopped or save:
                self.checkpoints.save(self.matrix.tensors(), done, time.perf_counter() - self.started)
            if stopped and done < self.iterations:
                print(f"stopped by {stopped} after iteration {done}; run again to continue", flush=True)
                raise Interrupted
        self.fit_seconds = time.perf_counter() - self.started

    @property
    def parameters(self) -> int:
        return sum(iterate.numel() for iterate in self.matrix.iterates)

    def predict(self, x: Array) -> Array:
        raise NotImplementedError("a sharded matrix predicts once it is written and restored")

    def state(self) -> Mapping[str, Any]:
        unsharded = (iterate.full_tensor() for iterate in self.matrix.iterates)  # on every rank, one after the other
        return {"M": Blocks(len(self.matrix.iterates), tuple(self.matrix.iterates[0].shape), unsharded)}

    def _agree(self, total: torch.Tensor) -> tuple[float, str | None, bool]:
        """(loss, name of a signal, whether a checkpoint is due): the same on all ranks."""
        flags = [self.ranks.signal == number for number in SIGNALS] + [self.checkpoints.due()]
        total = torch.cat([total, torch.tensor(flags, dtype=total.dtype, device=total.device)])
        dist.all_reduce(total)
        squares, norm, *raised, save = total.tolist()
        stopped = [number.name for number, flag in zip(SIGNALS, raised, strict=True) if flag]
        return (squares + self.lam * norm) / (self.N * self.outputs), stopped[0] if stopped else None, bool(save)


def read_share(data: Any, name: Literal["x", "y"], ranks: Ranks, device: str) -> torch.Tensor:
    """This rank's samples in float32, a few at a time."""
    first, end = (data.N * rank // ranks.size for rank in (ranks.rank, ranks.rank + 1))
    count = end - first
    width = int(np.prod(getattr(data, f"{name}_shape")))
    held = torch.empty(count, width, device=device)
    for start in range(0, count, CHUNK):
        chunk = data.read(name, "train", min(CHUNK, count - start), first + start)
        if not np.isfinite(chunk).all():
            raise KoctError(f"{data.pool.path} has training samples that are not finite; {again(data.pool.path)}")
        held[start : start + len(chunk)] = torch.as_tensor(chunk)
    return held


def check_memory(rows: int, columns: int, N: int, ranks: int, available: int) -> None:
    """Print what every rank needs, and end at once where that is more than there is."""
    needs, there = needed(rows, columns, N, ranks) / 2**30, available / 2**30
    text = f"needs {needs:.1f} GiB per rank, {there:.1f} GiB there"
    if needs > there:
        enough = enough_ranks(rows, columns, N, available)
        fix = f"{enough} ranks with as much would do: raise fsdp.ranks to it"
        fix = fix if enough else "no number of ranks would do"
        raise KoctError(f"M does not fit: {counted(ranks, 'rank')}, {text}; {fix}")
    print(text, flush=True)


# The matrix and its steps


class ShardedMatrix:
    """M in blocks of rows, and the state of its descent.

    A block's weight is the point at which the gradient is taken, `iterates` holds the iterate behind it; the last
    iterate is the result.
    """

    def __init__(self, rows: int, columns: int, mesh: Any):
        self.rows = block_rows(rows, columns)
        cuda = mesh.device_type == "cuda"
        device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        self.blocks: list[Any] = []
        self.iterates: list[Any] = []
        for _ in range(rows // self.rows):  # one after the other: each is unsharded for a moment
            rows_of_M = torch.nn.Linear(columns, self.rows, bias=False, device=device)
            torch.nn.init.zeros_(rows_of_M.weight)
            block: Any = fully_shard(rows_of_M, mesh=mesh, reshard_after_forward=False)
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

    def tensors(self) -> dict[str, Any]:
        """Everything that a checkpoint holds, by name: sharded tensors."""
        weights = {f"weight.{i}": block.weight.detach() for i, block in enumerate(self.blocks)}
        return weights | {f"iterate.{i}": iterate for i, iterate in enumerate(self.iterates)}


class Preconditioner:
    """P = I − V diag(1 − τ/(s + λ)) Vᵀ for the leading eigenpairs (s, V) of C = Σ_n x_n x_nᵀ, samples of all ranks.

    A sinogram is mostly mean and little detail: s falls by orders of magnitude. P brings the leading curvatures down to
    that of the first one left alone, τ, which makes the others' steps as much longer; the minimum stays where it is.
    (Ma & Belkin, EigenPro, 2017.) Everything here is float64, so that it is the same on any number of ranks.
    """

    def __init__(self, x: torch.Tensor, lam: float, N: int):
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


def momentum(iteration: int, step: float, mu: float) -> float:
    """Nesterov's growing extrapolation, bounded by the best constant one for a strongly convex problem.

    `mu` is the smallest and 1/`step` the largest curvature; `iteration` counts from zero.
    """
    root = math.sqrt(min(1.0, mu * step))
    return min(iteration / (iteration + 3), (1 - root) / (1 + root))
