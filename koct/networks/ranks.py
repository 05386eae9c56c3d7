"""The processes that torchrun starts for one cell: what they do together, checkpoints, shares of a matrix.

What goes wrong is agreed on, so that all ranks end together and the reason is printed once.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from koct.errors import KoctError

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
FLOAT = 4  # bytes of a float32
BLOCK = 2**28  # bytes of a block, at most: one is gathered at a time, and a block of this size keeps a GPU busy
LEADING = 64  # eigenvectors that precondition the descent, at most
MICRO_BATCH = 1024  # samples that pass through a block together


class Agreed(KoctError):
    """An error that every rank knows of."""


class Interrupted(BaseException):
    """A signal ended the fit after a checkpoint; run again to continue."""


class Ranks:
    """The processes of this job: torchrun's, or this one alone."""

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        env = os.environ
        self.rank, self.size = int(env.get("RANK", 0)), int(env.get("WORLD_SIZE", 1))
        self.local, self.local_size = int(env.get("LOCAL_RANK", 0)), int(env.get("LOCAL_WORLD_SIZE", 1))
        if torch.cuda.is_available() and self.local < torch.cuda.device_count():
            torch.cuda.set_device(self.local)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        store: dict[str, Any] = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        dist.init_process_group(backend, **store)
        self.dist: Any = dist
        self.signal = 0
        for number in SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number

    def end(self) -> None:
        self.dist.destroy_process_group()

    def gather(self, value: Any) -> list[Any]:
        """A small value of every rank, in a list."""
        values: list[Any] = [None] * self.size
        self.dist.all_gather_object(values, value)
        return values

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What fails on one rank in this block ends all of them at its end, with one reason."""
        reason = None
        try:
            yield
        except KoctError as error:
            reason = str(error)
        except OSError as error:
            reason = f"{error.filename or 'a file'}: {error.strerror or error}"
        reasons = [reason for reason in self.gather(reason) if reason]
        if reasons:
            raise Agreed(reasons[0])


class Checkpoints:
    """A folder with the last state of a fit: `after-120`, written beside it and renamed when it is complete.

    It holds sharded tensors, which any number of ranks can read, and `fit.json`, which says what they belong to.
    """

    def __init__(self, folder: str | Path, fitted: dict[str, Any], ranks: Ranks, seconds: float):
        self.folder, self.ranks, self.seconds = Path(folder), ranks, seconds
        self.fitted = json.loads(json.dumps(fitted))
        self.saved = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for one, by the clock of rank 0."""
        return self.ranks.rank == 0 and time.monotonic() - self.saved >= self.seconds

    def save(self, tensors: dict[str, Any], iteration: int, seconds: float) -> None:
        import torch.distributed.checkpoint as dcp

        temporary, name = self.folder / ".unfinished", f"after-{iteration}"
        with self.ranks.together():
            if self.ranks.rank == 0:
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir(parents=True)
        dcp.save(tensors, checkpoint_id=temporary)
        with self.ranks.together():
            if self.ranks.rank == 0:
                about = {"fit": self.fitted, "iteration": iteration, "seconds": seconds}
                (temporary / "fit.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
                old = [path for path in self.folder.iterdir() if path != temporary]
                temporary.rename(self.folder / name)
                for path in old:
                    shutil.rmtree(path)
        self.saved = time.monotonic()

    def resume(self, tensors: dict[str, Any]) -> tuple[int, float]:
        """(iteration, seconds of training) of the last checkpoint of this fit, read into `tensors`; (0, 0) without."""
        import torch.distributed.checkpoint as dcp

        last = None
        with self.ranks.together():
            last = self.last() if self.ranks.rank == 0 else None
        last = self.ranks.gather(last)[0]
        if last is None:
            return 0, 0.0
        path, about = last
        try:
            dcp.load(tensors, checkpoint_id=path)
        except (dcp.CheckpointException, OSError, ValueError, KeyError) as error:
            raise Agreed(
                f"the checkpoint {path} cannot be read ({type(error).__name__}): delete it and run again"
            ) from None
        print(f"resumed after iteration {about['iteration']}", flush=True)
        return about["iteration"], about["seconds"]

    def last(self) -> tuple[str, dict[str, Any]] | None:
        """(path, what it says) of the newest checkpoint of this fit, or None."""
        numbered = [path for path in self.folder.glob("after-*") if path.name.removeprefix("after-").isdigit()]
        paths = sorted(numbered, key=lambda path: int(path.name.removeprefix("after-")))
        for path in reversed(paths):
            try:
                about = json.loads((path / "fit.json").read_text(encoding="utf-8"))
                if about["fit"] == self.fitted:
                    return str(path), {"iteration": int(about["iteration"]), "seconds": float(about["seconds"])}
            except (OSError, ValueError, KeyError, TypeError):
                print(f"the checkpoint {path} is damaged and is not used", flush=True)
                continue
            print(f"the checkpoint {path} is of another fit and is not used", flush=True)
        return None


# How a dense matrix is cut into blocks of rows and shared: arithmetic that the workflow asks before any job starts


def block_rows(rows: int, columns: int) -> int:
    """Rows of a block: the largest divisor of all rows that keeps it below BLOCK and gives at least two blocks.

    It does not depend on the number of ranks, so that any number of them can continue from a checkpoint.
    """
    most = max(1, min(rows // 2, BLOCK // (FLOAT * columns)))
    divisors = (d for small in range(1, math.isqrt(rows) + 1) if rows % small == 0 for d in (small, rows // small))
    return max(d for d in divisors if d <= most)


def leading(N: int, size: int) -> int:
    """How many eigenvectors of the samples' covariance matrix precondition the descent."""
    return min(LEADING, N // 4, size // 2)


def needed(rows: int, columns: int, N: int, ranks: int) -> int:
    """Return the bytes that training takes on the rank with the largest share."""
    height = block_rows(rows, columns)
    shard = FLOAT * math.ceil(height / ranks) * columns  # of one block; the last rank's is filled up with zeros
    samples = math.ceil(N / ranks)
    return (
        2 * (rows // height) * shard  # weights and momentum
        + shard  # the gradient of one block: its step follows at once
        + 3 * FLOAT * height * columns  # a gathered block, its gradient, and a buffer for either
        + 8 * FLOAT * columns * (leading(N, columns) + 8)  # the preconditioner, most of it while it is made, in float64
        + FLOAT * samples * (columns + rows)
        + 2 * FLOAT * min(samples, MICRO_BATCH) * height
    )


def enough_ranks(rows: int, columns: int, N: int, available: int) -> int | None:
    """The smallest number of ranks with `available` bytes each that can train the matrix; None if no number can."""
    numbers = range(1, block_rows(rows, columns) + 1)  # beyond, a rank would hold nothing
    return next((ranks for ranks in numbers if needed(rows, columns, N, ranks) <= available), None)
