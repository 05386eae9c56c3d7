"""The descent that fits a dense matrix with all ranks: its data, its steps, its checkpoints."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from koct.base.arrays import to_numpy
from koct.base.stamps import again
from koct.contracts import Training
from koct.errors import KoctError
from koct.networks import shards
from koct.networks.checkpoints import Checkpoints
from koct.networks.fsdp import Preconditioner, ShardedMatrix, momentum
from koct.networks.ranks import SIGNALS, Agreed, Interrupted, Ranks

REPORTS = 50  # lines of progress
CHUNK = 64  # samples read at a time
GPU_RESERVE = 2**30  # bytes that NCCL and the allocator take on top


class Descent:
    """What training needs, made in the order in which it can fail: cheap checks first, memory before data."""

    def __init__(self, data: Any, lam: float, iterations: int):
        ranks: Ranks = data.ranks
        self.ranks, self.lam, self.iterations, self.N = ranks, lam, iterations, data.N
        rows, columns = int(np.prod(data.y_shape)), int(np.prod(data.x_shape))
        self.outputs = rows
        device = data.device.name
        with ranks.together():
            if device == "cuda":
                check_gpus(ranks.local_size)
        available = min(ranks.gather(available_bytes(device, ranks)))
        with ranks.together():
            check_memory(rows, columns, self.N, ranks.size, available)
        with ranks.together():
            self.x, self.y = (read_share(data, name, ranks, device) for name in ("x", "y"))
        self.started = time.perf_counter()
        self.mu = 2 * (smallest_eigenvalue(data, ranks) + lam)
        self.preconditioner = Preconditioner(self.x, lam, self.N)
        self.step = 1 / (2 * self.preconditioner.largest)
        self.matrix = ShardedMatrix(rows, columns, ranks.mesh(device))
        fitted = {**data.cell.encode(), "lam": lam, "data": fingerprint(data)}
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
        self.seconds = time.perf_counter() - self.started

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
    first, count = ranks.share(data.N)
    width = int(np.prod(getattr(data, f"{name}_shape")))
    held = torch.empty(count, width, device=device)
    for start in range(0, count, CHUNK):
        chunk = data.read(name, "train", min(CHUNK, count - start), first + start)
        if chunk.shape[1] != width:
            raise KoctError(f"{data.pool.path} has {chunk.shape[1]} numbers per {name}, not {width}: delete it")
        if not np.isfinite(chunk).all():
            raise KoctError(f"{data.pool.path} has training samples that are not finite; {again(data.pool.path)}")
        held[start : start + len(chunk)] = torch.as_tensor(chunk)
    return held


def smallest_eigenvalue(data: Training, ranks: Ranks) -> float:
    """Of the Gram matrix, below which no step goes: all stay in the span of the samples.

    Without that matrix, 0 is a safe bound.
    """
    found = 0.0
    with ranks.together():
        if ranks.rank == 0 and data.gram is not None:
            gram = to_numpy(data.gram)
            if len(gram) < data.N or not np.isfinite(gram).all():
                raise KoctError("the Gram matrix is not that of the pool; give that of the pool")
            found = max(0.0, float(np.linalg.eigvalsh(gram)[0]))
    return ranks.gather(found)[0]


def check_gpus(local_size: int) -> None:
    there = torch.cuda.device_count()
    if local_size > there:
        raise KoctError(f"{local_size} ranks on a node with {there} GPUs: lower fsdp.ranks, or set device to cpu")


def available_bytes(device: str, ranks: Ranks) -> int:
    if device == "cuda":
        return torch.cuda.mem_get_info()[0] - GPU_RESERVE
    return machine_memory() // ranks.local_size


def check_memory(rows: int, columns: int, N: int, ranks: int, available: int) -> None:
    """Print what every rank needs, and end at once where that is more than there is."""
    needs, there = shards.needed(rows, columns, N, ranks) / 2**30, available / 2**30
    text = f"needs {needs:.1f} GiB per rank, {there:.1f} GiB there"
    if needs > there:
        enough = shards.enough_ranks(rows, columns, N, available)
        fix = (
            f"{enough} ranks with as much would do: raise fsdp.ranks to it" if enough else "no number of ranks would do"
        )
        raise KoctError(f"M does not fit: {ranks} rank{'s' if ranks > 1 else ''}, {text}; {fix}")
    print(text, flush=True)


def machine_memory() -> int:
    """Bytes that are free on this machine, or in the control group that a cluster has put the job in."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    with contextlib.suppress(OSError, ValueError, StopIteration):  # no such group, or one without a limit
        with open("/proc/self/cgroup", encoding="ascii") as file:
            group = next(line.strip().split(":", 2)[2] for line in file if line.startswith("0::"))
        free = min(free, int(Path(f"/sys/fs/cgroup{group}/memory.max").read_text()))
    return free


def fingerprint(data: Any) -> str:
    """A hash of some of the training samples: another pool has none of them."""
    some = hashlib.sha256()
    for n in np.unique(np.linspace(0, data.N - 1, 16).astype(int)):
        for name in ("x", "y"):
            some.update(data.read(name, "train", 1, int(n)).tobytes())
    return some.hexdigest()[:16]
