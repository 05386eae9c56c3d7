"""What stops a run before its first job: jobs that no machine could finish."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from koct.base.memory import total_memory
from koct.config.study_file import Settings
from koct.config.sweep import Sweep
from koct.contracts import Architecture, Cost, TorchrunArchitecture
from koct.contracts.blame import blamed
from koct.contracts.options import options
from koct.errors import KoctError
from koct.workflow import resources

GPU_SPEED = 100  # how much faster than a core a GPU may be
RANK = 2.5e9  # bytes that the cost of a process of torchrun may count for torch, CUDA and NCCL: they are no arrays
DAY = 86400


class Largest(NamedTuple):
    """The largest job of a stage."""

    what: str
    cost: Callable[[], Cost]
    keys: str  # what makes it smaller, beside the sizes of the problem
    takes_gpu: bool = True
    processes: int = 1  # on one machine
    base: float = 0  # bytes of its cost, per process, that are no arrays


def check(study: Sequence[Sweep], settings: Settings, local: bool) -> None:
    """Raise a KoctError for a study with a job that is too large; `local`: its jobs run on this machine."""
    memory: float | None = total_memory() if local else None
    if settings.memory_gb is not None:
        memory = 1e9 * settings.memory_gb
    wrong = too_large(study, settings.device, memory, settings.longest_days, gpu=not local or has_gpu())
    if wrong:
        raise KoctError("config: " + "\nconfig: ".join(wrong))


def too_large(
    sweeps: Sequence[Sweep], device: str, memory_bytes: float | None, longest_days: float, gpu: bool = True
) -> list[str]:
    """Return a sentence for every stage of a sweep with a job that takes more memory or time than that.

    No memory is checked if `memory_bytes` is None. `gpu`: problems that can use a GPU find one.
    """
    wrong: list[str] = []
    for sweep in sweeps:
        with blamed(sweep.problem.source, *(arch.source for arch in sweep.archs + sweep.required)):
            before = len(wrong)
            for job in _largest(sweep):
                if job.processes > 1 and len(wrong) > before:
                    continue  # to cost one of an absurd size takes long
                on_gpu = gpu and job.takes_gpu and resources.on_gpu(sweep, device)
                if sentence := _excess(job, on_gpu, memory_bytes, longest_days):
                    sizes = [key for key in options(type(sweep.problem)) if type(getattr(sweep.problem, key)) is int]
                    keys = ", ".join(filter(None, [job.keys, *sizes]))
                    wrong.append(f"sweeps.{sweep.name}: {job.what} {sentence.format(keys=keys)}")
    return wrong


def _largest(sweep: Sweep) -> Iterator[Largest]:
    """Yield the largest job of every stage; fits by several processes come last."""
    archs = sweep.archs + sweep.required
    needs = {need for arch in archs for need in arch.needs()}
    yield Largest("the pool", lambda: resources.pool(sweep), "pool")
    if sweep.problem.has_shared:
        yield Largest("the known operator", lambda: resources.shared(sweep), "", takes_gpu=False)
    if "normal" in needs:
        yield Largest("the normal matrix", lambda: resources.normal(sweep), "", takes_gpu=False)
    if "gram" in needs:
        yield Largest("the Gram matrix", lambda: resources.gram(sweep), "pool")
    for arch in sweep.predicted:
        what = f"the predicted curve of {arch.name}, which theory: false omits,"
        yield Largest(what, partial(resources.theory, sweep, arch), "pool")
    for arch in sorted(archs, key=lambda arch: arch.launch):
        yield _fit(sweep, arch)


def _fit(sweep: Sweep, arch: Architecture) -> Largest:
    N = max(sweep.sizes_of(arch))
    job = Largest(f"the fit of {arch.name} with N = {N}", lambda: resources.fit(sweep, arch, N), f"N, {arch.name}")
    if isinstance(arch, TorchrunArchitecture):
        what = f"{job.what} on {arch.ranks} ranks"
        job = job._replace(what=what, processes=arch.ranks // arch.nodes, base=RANK)
    return job


def _excess(job: Largest, on_gpu: bool, memory: float | None, longest_days: float) -> str:
    """Return how a job is too large, with {keys} for what to lower; empty if it is not."""
    try:
        cost = job.cost()
        if cost is resources.UNKNOWN:
            return ""
        # what a GPU holds is counted for the host as well, in case there is none
        needs = job.processes * max(0.0, cost.host_bytes - (cost.gpu_bytes if on_gpu else job.base))
        days = cost.operations / resources.SPEED / DAY / (GPU_SPEED if on_gpu else 1)
    except OverflowError:
        needs = days = math.inf
    if memory is not None and needs > memory:
        has = f"needs {_amount(needs / 1e9)} GB of memory, and a job may take {_amount(memory / 1e9)} GB"
        return f"{has}; lower {{keys}}, or set memory_gb if there is more"
    if days > longest_days:
        takes = f"takes about {_amount(days)} days on {'a GPU' if on_gpu else 'a core'}"
        return f"{takes}, and longest_days is {_amount(longest_days)}; lower {{keys}}, or raise longest_days"
    return ""


def _amount(value: float) -> str:
    return f"{value:,.0f}" if 10 <= value < 1e6 else f"{value:.2g}"


def has_gpu() -> bool:
    """Whether this machine seems to have an NVIDIA GPU; found out in no time."""
    return any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg")))
