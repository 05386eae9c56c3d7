"""The processes that torchrun starts for one cell, and what they do together.

What goes wrong is agreed on, so that all ranks end together and the reason is printed once.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from koct.errors import KoctError

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


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
        self.signal = 0
        for number in SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number

    def end(self) -> None:
        import torch.distributed as dist

        dist.destroy_process_group()

    def mesh(self, device: str) -> Any:
        from torch.distributed.device_mesh import init_device_mesh

        return init_device_mesh(device, (self.size,))

    def gather(self, value: Any) -> list[Any]:
        """A small value of every rank, in a list."""
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def share(self, N: int) -> tuple[int, int]:
        """(first, count) of this rank's samples."""
        first, end = N * self.rank // self.size, N * (self.rank + 1) // self.size
        return first, end - first

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
