"""Training pairs that never repeat, drawn ahead by other processes.

Threads would share one interpreter with the training, which needs it for every step: with them a U-Net on an H200 took
150 steps a second, where it takes 250 on pairs that are there.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import numpy as np

from koct.base.arrays import to_numpy
from koct.contracts import Problem, Sizes
from koct.contracts.spec import decode_problem, encode_problem

MOST = 8  # processes: enough for 2,000 images of 128 × 128 pixels a second
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux

Pairs = tuple[np.ndarray, np.ndarray]


def draw(problem: Problem, seed: int, number: int, count: int) -> Pairs:
    """Return flat pairs (count, size): the first training pairs of a seed that is beyond those of pools."""
    xs, ys, left = [], [], count
    for _, x, y in problem.pairs(2**31 + (seed % 2**13 << 18) + number, Sizes(train=count, val=1, test=1)):
        xs.append(to_numpy(x).reshape(len(x), -1))
        ys.append(to_numpy(problem.decode(y)).reshape(len(y), -1))
        left -= len(x)
        if left <= 0:
            break
    return np.concatenate(xs), np.concatenate(ys)


class Fresh:
    """Parts of `count` pairs each; `part(number)` is the same on every machine with as many processes as you like.

    What is not `served`, x or y, is None.
    """

    def __init__(self, problem: Problem, seed: int, count: int, served: Sequence[str] = ("x", "y")) -> None:
        self.seed, self.count, self.served = seed, count, served
        self.ahead = min(MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        self.processes = ProcessPoolExecutor(
            self.ahead,
            multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(encode_problem(problem, layers=True), os.getpid()),
        )
        self.drawn: dict[int, Future[Pairs]] = {}

    def part(self, number: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        wanted = range(number, number + 1 + self.ahead)
        self.drawn = {k: self.drawn.get(k) or self._submit(k) for k in wanted}
        x, y = self.drawn.pop(number).result()
        return x if "x" in self.served else None, y if "y" in self.served else None

    def _submit(self, number: int) -> Future[Pairs]:
        return self.processes.submit(_draw, self.seed, number, self.count)

    def close(self) -> None:
        self.processes.shutdown(wait=False, cancel_futures=True)


_problem: Problem  # of a process that draws


def _start(spec: Mapping[str, Any], parent: int) -> None:
    global _problem
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    os.environ["KOCT_DEVICE"] = "cpu"  # the GPU is for the training
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what problems say of their progress
    _problem = decode_problem(spec)


def _draw(seed: int, number: int, count: int) -> Pairs:
    return draw(_problem, seed, number, count)
