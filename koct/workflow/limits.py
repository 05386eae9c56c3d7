"""What stops a run before its first job: jobs that no machine could finish. And about how long they all will take."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from koct.base.memory import total_memory
from koct.base.messages import counted
from koct.config.study_file import Settings, refuse
from koct.config.sweep import Sweep
from koct.contracts import Cost, TorchrunArchitecture
from koct.contracts.blame import blamed
from koct.contracts.options import options
from koct.workflow import resources

GPU_SPEED = 100  # how much faster than a core a GPU may be
USUAL_GPU = 2e11  # operations in a second, between a modest GPU and an H200; several jobs share it
RANK = 2.5e9  # bytes that the cost of a process of torchrun may count for torch, CUDA and NCCL: they are no arrays
DAY = 86400
START = 0.2  # seconds to start a job that computes
DRAWN = 1.5  # of a job that collects rows, or draws a table or a figure
LITTLE = 1e5  # bytes of what that writes
ERRORS = 2e4  # bytes of the errors of test images, in a fit and its row


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
    own = total_memory() if local else None
    memory = own if settings.memory_gb is None else 1e9 * settings.memory_gb
    refuse(too_large(study, settings.device, memory, settings.longest_days, gpu=not local or has_gpu()))


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
    yield Largest("the pool", partial(resources.pool, sweep), "pool")
    if sweep.problem.has_shared:
        yield Largest("the known operator", partial(resources.shared, sweep), "", takes_gpu=False)
    if "normal" in needs:
        yield Largest("the normal matrix", partial(resources.normal, sweep), "", takes_gpu=False)
    if "gram" in needs:
        yield Largest("the Gram matrix", partial(resources.gram, sweep), "pool")
    for arch in sweep.predicted:
        what = f"the predicted curve of {arch.name}, which theory: false omits,"
        yield Largest(what, partial(resources.theory, sweep, arch), "pool")
    for arch in sorted(archs, key=lambda arch: arch.launch):
        N = max(sweep.sizes_of(arch))
        what, processes, base = f"the fit of {arch.name} with N = {N}", 1, 0.0
        if isinstance(arch, TorchrunArchitecture):
            what, processes, base = f"{what} on {arch.ranks} ranks", arch.ranks // arch.nodes, RANK
        yield Largest(what, partial(resources.fit, sweep, arch, N), f"N, {arch.name}", True, processes, base)


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


# The last line of a dry run


def in_words(planned: Iterable[Any], sweeps: dict[str, Sweep], device: str, cores: int) -> str:
    """Return a line about jobs of Snakemake; those whose cost is unknown are counted apart."""
    jobs, unknown, seconds, written, gpu = 0, 0, 0.0, 0.0, False
    for job in planned:
        jobs += 1
        sweep = sweeps.get(getattr(job.wildcards, "sweep", ""))
        cost, size = _of_sweep(job, sweep) if sweep else (None, LITTLE)
        written += size
        if cost is None or sweep is None:
            seconds += DRAWN
        elif cost is resources.UNKNOWN:
            unknown += 1
        else:
            on_gpu = resources.on_gpu(sweep, device) and has_gpu()
            gpu |= on_gpu
            seconds += START + cost.operations / (USUAL_GPU if on_gpu else resources.SPEED)
    where = counted(cores, "core") + " and a GPU" * gpu
    told = f"{counted(jobs, 'job')}, about {_time(seconds / cores)} on {where}, about {_disk(written)} "
    rest = f"; {unknown} of them do not say how long they take, and are not in this time" if unknown else ""
    return f"{told}in results/{rest}"


def _of_sweep(job: Any, sweep: Sweep) -> tuple[Cost | None, float]:
    """The cost of a job, None if it computes little, and the bytes that it writes."""
    stage = job.rule.name.partition("_")[0]
    stage = {"known": "shared", "figure": "recons"}.get(stage, stage)
    if stage == "chains":
        return None, LITTLE
    cost, x_size, y_size = resources.of_job(stage, sweep, job.wildcards), sweep.problem.x_size, sweep.problem.y_size
    match stage:
        case "fit":
            arch, N = sweep.arch(job.wildcards.arch), int(job.wildcards.N)
            written = 8.0 * (min(sweep.pairs_of(N), x_size) ** 2 if "gram" in arch.needs() else x_size)
            return cost, ERRORS + (4.0 * x_size * y_size if isinstance(arch, TorchrunArchitecture) else written)
        case "pool":
            return cost, 8.0 * sweep.sizes_in_pairs.total * (x_size + y_size)
        case "shared":
            return cost, 0.4 * cost.host_bytes
        case "normal":
            return cost, 8.0 * x_size**2
        case "gram":
            return cost, 8.0 * min(sweep.sizes_in_pairs.train, x_size) ** 2
    return cost, 10 * LITTLE if stage == "recons" else ERRORS


def _time(seconds: float) -> str:
    if seconds > 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


def _disk(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size > 9.5e8 else f"{max(1, size / 1e6):.0f} MB"
