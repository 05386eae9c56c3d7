"""From the cost of a job to what it asks a scheduler for, its group, and whether any machine could finish it.

A job is cheap if it takes a core a few seconds and no GPU: cheap jobs travel together and ask for nothing special. All
others ask for memory, time and a GPU by their size. The memory is enough with a GPU and without one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

from koct.base.device import total_memory
from koct.base.messages import counted
from koct.config.study_file import Settings, refuse, section
from koct.config.sweep import Sweep
from koct.contracts import FOLDS, MOST_FOLDED, Architecture, Cost, TorchrunArchitecture
from koct.contracts.blame import blamed
from koct.contracts.options import options
from koct.study import paths

SPEED = 1e10  # operations of a CPU core in a second, as `Cost` counts them
CHEAP = Cost(operations=10 * SPEED, host_bytes=1e9)
GPU_SPEED = 10 * SPEED  # of a modest GPU; an H200 is five times as fast
UNKNOWN = Cost(operations=1180 * SPEED, host_bytes=5e9, gpu_bytes=5e9)  # an hour and 8 GB for what does not say
INSTANT = 0.01 * SPEED  # what is not worth a job of its own
BASE_MB = 3000  # Python, torch and CUDA
BASE_GPU_MB = 1500
LONGEST = 120  # minutes of a group of several fits; one that asks for more than half of it travels alone
FASTEST_GPU = 100  # how much faster than a core a GPU may be
USUAL_GPU = 2e11  # operations in a second, between a modest GPU and an H200; several jobs share it
RANK = 2.5e9  # bytes that the cost of a process of torchrun may count for torch, CUDA and NCCL: they are no arrays
DAY = 86400
START = 0.2  # seconds to start a job that computes
DRAWN = 1.5  # of a job that collects rows, or draws a table or a figure
EARLY = 0.4  # share of their most iterations that baselines take: 0.07 to 0.95 in results/reference
LITTLE = 1e5  # bytes of what that writes
ERRORS = 2e4  # bytes of the errors of test images, in a fit and its row
VERB = re.compile(r"(?:-m koct|KOCT_TORCHRUN\S* \S+ \S+) ([\w-]+)")  # in the command of a rule of koct
DRAWS = 12  # fits of a prediction by subsets at every N, at most: koct/study/predictions.py


def pool(sweep: Sweep) -> Cost:
    return sweep.problem.cost("pool", sweep.pool) or UNKNOWN


def shared(sweep: Sweep) -> Cost:
    return sweep.problem.cost("shared", sweep.pool) or UNKNOWN


def normal(sweep: Sweep) -> Cost:
    cost = sweep.problem.cost("normal", sweep.pool)
    if cost is None:  # every column of the matrix goes through the layers and back
        size = sweep.problem.x_size
        layers = sweep.workload(sweep.archs[0], 0).layers
        cost = Cost(2 * size * layers.operations, 16 * size**2)
    return cost


def gram(sweep: Sweep) -> Cost:
    """Return the cost of the matrix and two copies of the measurements, one in blocks of float64."""
    size = sweep.problem.x_size
    train = min(sweep.sizes_in_pairs.train, size)
    return Cost(0.625 * train**2 * size, 8 * train * size + 24 * train**2, 4 * train * (size + sweep.problem.y_size))


def fit(sweep: Sweep, arch: Architecture, N: int) -> Cost:
    cost = arch.cost(sweep.workload(arch, N)) or UNKNOWN
    cross_validated = arch.trained and arch.uses_lambdas and arch.validation == "none"
    fits = 1 + (FOLDS if sweep.pairs_of(N) <= MOST_FOLDED else 1) * cross_validated
    return cost._replace(operations=fits * cost.operations) if cost is not UNKNOWN else UNKNOWN


def evaluate(sweep: Sweep, arch: Architecture, N: int) -> Cost:
    """Return the cost to restore a network, from its training pairs if need be, and to predict with it.

    A dense matrix is read from disk.
    """
    work = sweep.workload(arch, N)
    N, held_out = work.N, work.sizes.held_out
    pairs = (N + held_out) * (work.x_size + work.y_size)
    dense = work.x_size * work.y_size if isinstance(arch, TorchrunArchitecture) else 0  # one that may fit no memory
    operations = 1e11 + (40 + held_out) * dense
    operations += held_out * (work.layers.operations + 4 * N * (work.x_size + work.y_size))
    matrix = 32 * min(N, work.x_size) ** 2
    return Cost(operations, 12 * pairs + matrix, 8 * pairs + matrix)


def theory(sweep: Sweep, arch: Architecture) -> Cost:
    """Return the cost of a predicted curve: 4.4 s for FC at H = 256, 2,048 pairs, 30 points, on two cores (2.5 GHz)."""
    M, size = sweep.theory_pairs, sweep.problem.x_size
    pairs = M * (size + sweep.problem.y_size)
    points = len(sweep.predicted_at(arch)) * sweep.workload(arch, 0).lambdas
    if arch.predicted == "spectral":
        operations = 0.3 * M**2 * size + 8 * M**3 + points * 800 * M**2
        return Cost(operations, 6 * pairs + 80 * M**2, 5 * pairs + 80 * M**2)
    if arch.predicted == "fixed point":
        drawn = 18 * sweep.workload(arch, 0).lambdas * size**3  # three sizes, six draws
        operations = 10.0 * size**3 + drawn + points * 3 * M * size**2
        arrays = 40 * size**2 + 24 * M * size
        return Cost(operations, 6 * pairs + arrays, 5 * pairs + arrays)
    fits = [fit(sweep, arch, N) for N in sweep.predicted_at(arch)]
    if UNKNOWN in fits:
        return UNKNOWN
    operations, host_bytes, gpu_bytes = _in_turn(fits)
    return Cost(DRAWS * operations, 6 * pairs + host_bytes, 5 * pairs + gpu_bytes)


def recons(sweep: Sweep) -> Cost:
    """Return the cost to evaluate all fits of a seed, one after the other."""
    return _in_turn([evaluate(sweep, arch, N) for arch in sweep.archs for N in sweep.sizes_of(arch)])


def _in_turn(costs: Sequence[Cost]) -> Cost:
    return Cost(sum(cost.operations for cost in costs), *(max(cost[i] for cost in costs) for i in (1, 2)))


# The costs of stages, by their verbs.
COSTS: dict[str, Callable[..., Cost]] = {"pool": pool, "known": shared, "normal": normal, "gram": gram, "fit": fit}
COSTS |= {"fit-torchrun": fit, "evaluate": evaluate, "transfer": evaluate, "theory": theory, "figure-recons": recons}


FITS = ("fit", "fit-torchrun")
LITTLE_LEFT = ("evaluate", "transfer", "figure-recons")  # to compute: a fit keeps its errors


def of_job(stage: str, sweep: Sweep, arch: Architecture | None, N: str | None) -> Cost:
    """Return the cost of a job; `arch` and `N` if it is one of a curve and of a cell."""
    return COSTS[stage](sweep, *([] if arch is None else [arch]), *([] if N is None else [paths.size(N)]))


# What runs where


def on_gpu(sweep: Sweep, device: str, arch: Architecture | None = None) -> bool:
    """Return whether jobs of this sweep ask a cluster for a GPU; modules of torch use one for any problem."""
    return device != "cpu" and (sweep.problem.device == "auto" or (arch is not None and arch.needs_torch))


def cheap(sweep: Sweep, cost: Cost) -> bool:
    small = cost.operations <= CHEAP.operations and cost.host_bytes <= CHEAP.host_bytes
    return small and sweep.problem.device == "cpu"


@cache
def cheap_curve(sweep: Sweep, arch: Architecture) -> bool:
    """Return whether all fits of an architecture are cheap."""
    return arch.launch == "process" and cheap(sweep, fit(sweep, arch, max(sweep.sizes_of(arch), key=sweep.pairs_of)))


@cache
def shares_gram(sweep: Sweep) -> bool:
    """Return whether the Gram matrix of a pool is worth a job of its own."""
    return not cheap(sweep, gram(sweep))


def mem_mb(cost: Cost, processes: int = 1) -> int:
    """Return the host memory in MB."""
    return BASE_MB + int(processes * cost.host_bytes // 10**6)


def gpu_mb(cost: Cost) -> int:
    """Return the memory of each GPU in MB, a generous estimate."""
    return BASE_GPU_MB + int(cost.gpu_bytes // 10**6)


def minutes(cost: Cost, on_gpu: bool = False) -> int:
    """Return the time limit: a minute to start and three times what one CPU core takes, or a GPU."""
    speed = GPU_SPEED if on_gpu and cost is not UNKNOWN else SPEED
    return 1 + math.ceil(3 * cost.operations / speed / 60)


class Request(NamedTuple):
    """What a job asks for. With `--resources gpu_mb=...` as many jobs share a GPU as there is room for."""

    mem_mb: int
    runtime: int
    gpu_mb: int
    gpu: int


def request(sweep: Sweep, cost: Cost, device: str, arch: Architecture | None, gpu: bool) -> Request:
    """Return what a job of one process asks for; without `gpu` it computes without one on a cluster."""
    if cheap(sweep, cost):
        return Request(mem_mb=2000, runtime=1, gpu_mb=0, gpu=0)  # as profiles/slurm has by default
    uses_gpu = on_gpu(sweep, device, arch)
    return Request(mem_mb(cost), minutes(cost, gpu and uses_gpu), gpu_mb(cost) if uses_gpu else 0, int(uses_gpu))


# Which large jobs travel to a cluster together: those of one sweep and seed, as long as they are short. They take a GPU
# some seconds each and need one another's files: submitted one by one, each would wait in the queue.


@cache
def groups(sweep: Sweep, on_gpu: bool) -> dict[tuple[str, int], str]:
    """Return the group of every large fit of a seed, by architecture and N: its name without sweep and seed.

    A fit that is long travels alone. The others travel with the pool if they are short together, else with those of
    their architecture. Where a fit reads one that is elsewhere, none travels with the pool: groups could come to wait
    for each other. Nor does one where only some of them can use a GPU.
    """
    alone = {arch.name: arch for arch in sweep.required + sweep.archs if arch.launch == "process"}
    large = {name: arch for name, arch in alone.items() if not cheap_curve(sweep, arch)}
    takes = {
        (name, N): minutes(fit(sweep, arch, N), on_gpu) for name, arch in large.items() for N in sweep.sizes_of(arch)
    }
    short = {cell: time for cell, time in takes.items() if time <= LONGEST / 2}

    others = [pool(sweep), gram(sweep), *(theory(sweep, arch) for arch in sweep.predicted)]
    others += [pool(sweep)] if sweep.predicted else []  # from a pool of their own
    total = sum(minutes(cost, on_gpu) for cost in others) + sum(short.values())
    read = {sweep.arch(arch.requires_cell).name for arch in sweep.archs if arch.requires_cell}
    elsewhere = read - large.keys() | read & {name for name, _ in takes.keys() - short.keys()}
    on_two = sweep.problem.device == "cpu" and any(arch.needs_torch for arch in large.values())  # kinds of machine
    with_pool = total <= LONGEST and not elsewhere and not on_two

    names = {}
    for name, N in takes:
        of_arch = sum(time for cell, time in short.items() if cell[0] == name)
        if (name, N) not in short or (of_arch > LONGEST and not with_pool):
            names[name, N] = f"_{name}_N{N}"
        else:
            names[name, N] = "" if with_pool else f"_{name}"
    return names


# What stops a run before its first job: jobs that no machine could finish


class Largest(NamedTuple):
    """The largest job of a stage."""

    what: str
    cost: Callable[[], Cost]
    keys: str  # what makes it smaller, beside the sizes of the problem
    takes_gpu: bool = True
    processes: int = 1  # on one machine
    base: float = 0  # bytes of its cost, per process, that are no arrays
    arch: Architecture | None = None  # that it fits


def check(study: Sequence[Sweep], settings: Settings, local: bool, deployed: bool = False) -> None:
    """Raise a KoctError for a study with a job that is too large, or without the torch that it needs.

    `local`: its jobs run on this machine; `deployed`: in environments of their own, whose packages are not seen here.
    """
    if not deployed and find_spec("torch") is None:
        archs = [(sweep, arch) for sweep in study for arch in sweep.archs + sweep.required if arch.needs_torch]
        refuse([_without_torch(sweep, arch) for sweep, arch in archs])
    of_machine = total_memory() if local else None
    memory = of_machine if settings.memory_gb is None else 1e9 * settings.memory_gb
    refuse(too_large(study, settings.device, memory, settings.longest_days, gpu=not local or has_gpu()))


def _without_torch(sweep: Sweep, arch: Architecture) -> str:
    where = f"sweeps.{sweep.name}.{section(type(arch))}: the architecture {arch.name} needs torch"
    return f"{where}, which is not installed; install it (pip install torch), or remove {arch.source} from archs"


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
                uses_gpu = gpu and job.takes_gpu and on_gpu(sweep, device, job.arch)
                if sentence := _excess(job, uses_gpu, memory_bytes, longest_days):
                    sizes = [key for key in options(type(sweep.problem)) if type(getattr(sweep.problem, key)) is int]
                    keys = ", ".join(filter(None, [job.keys, *sizes]))
                    wrong.append(f"sweeps.{sweep.name}: {job.what} {sentence.format(keys=keys)}")
    return wrong


def _largest(sweep: Sweep) -> Iterator[Largest]:
    """Yield the largest job of every stage; fits by several processes come last."""
    archs = sweep.archs + sweep.required
    needs = {need for arch in archs for need in arch.needs()}
    yield Largest("the pool", partial(pool, sweep), "pool")
    if sweep.problem.has_shared:
        yield Largest("the known operator", partial(shared, sweep), "", takes_gpu=False)
    if "normal" in needs:
        yield Largest("the normal matrix", partial(normal, sweep), "", takes_gpu=False)
    if "gram" in needs:
        yield Largest("the Gram matrix", partial(gram, sweep), "pool")
    for arch in sweep.predicted:
        what = f"the predicted curve of {arch.name}, which theory: false omits,"
        yield Largest(what, partial(theory, sweep, arch), "pool")
    for arch in sorted(archs, key=lambda arch: arch.launch):
        N = max(sweep.sizes_of(arch), key=sweep.pairs_of)
        what, processes, base = f"the fit of {arch.name} with N = {sweep.pairs_of(N)}", 1, 0.0
        if isinstance(arch, TorchrunArchitecture):
            what, processes, base = f"{what} on {arch.ranks} ranks", arch.ranks // arch.nodes, RANK
        yield Largest(what, partial(fit, sweep, arch, N), f"N, {arch.name}", True, processes, base, arch)


def _excess(job: Largest, gpu: bool, memory: float | None, longest_days: float) -> str:
    """Return how a job is too large, with {keys} for what to lower; empty if it is not."""
    try:
        cost = job.cost()
        if cost is UNKNOWN:
            return ""
        # what a GPU holds is counted for the host as well, in case there is none
        needs = job.processes * max(0.0, cost.host_bytes - (cost.gpu_bytes if gpu else job.base))
        days = cost.operations / SPEED / DAY / (FASTEST_GPU if gpu else 1)
    except OverflowError:
        needs = days = math.inf
    if memory is not None and needs > memory:
        what = f"needs {_amount(needs / 1e9)} GB of memory, and a job may take {_amount(memory / 1e9)} GB"
        return f"{what}; lower {{keys}}, or set memory_gb if there is more"
    if days > longest_days:
        what = f"takes about {_amount(days)} days on {'a GPU' if gpu else 'a core'}"
        return f"{what}, and longest_days is {_amount(longest_days)}; lower {{keys}}, or raise longest_days"
    return ""


def _amount(value: float) -> str:
    return f"{value:,.0f}" if 10 <= value < 1e6 else f"{value:.2g}"


def has_gpu() -> bool:
    """Return whether this machine seems to have an NVIDIA GPU, without importing torch."""
    return any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg")))


# The last line of a dry run


class Estimate(NamedTuple):
    """What a job takes and writes."""

    written: float = LITTLE  # bytes
    seconds: float | None = DRAWN  # of a core or a GPU; None if its cost is unknown
    gpu: bool = False


def in_words(planned: Sequence[Any], sweeps: dict[str, Sweep], device: str, cores: int) -> str:
    """Return a line about jobs of Snakemake; those whose cost is unknown are counted apart."""
    stages = [_stage(job, sweeps) for job in planned]
    jobs = [_estimate(job, stage, sweeps, device) for job, stage in zip(planned, stages, strict=True)]
    cells, unknown = sum(stage in FITS for stage in stages), sum(job.seconds is None for job in jobs)
    seconds, written = sum(job.seconds or 0 for job in jobs), sum(job.written for job in jobs)
    disk = f"{written / 1e9:.1f} GB" if written > 9.5e8 else f"{max(1, written / 1e6):.0f} MB"
    what = (f"{counted(cells, 'cell')} in " if cells else "") + counted(len(jobs), "job")
    where = counted(cores, "core") + " and a GPU" * any(job.gpu for job in jobs)
    rest = f"; {unknown} of them do not say how long they take, and are not in this time" if unknown else ""
    return f"{what}, about {_time(seconds / cores)} on {where}, about {disk} in results/{rest}"


def _stage(job: Any, sweeps: dict[str, Sweep]) -> str:
    """Return the stage of a job whose cost is known here by its command: rules may have any name. Else nothing."""
    verb = VERB.search(job.rule.shellcmd or "")
    return verb[1] if verb and verb[1] in COSTS and getattr(job.wildcards, "sweep", "") in sweeps else ""


def _estimate(job: Any, stage: str, sweeps: dict[str, Sweep], device: str) -> Estimate:
    if not stage:
        return Estimate()
    sweep, N, name = sweeps[job.wildcards.sweep], *(getattr(job.wildcards, key, None) for key in ("N", "arch"))
    arch = None if name is None else sweep.arch(name)
    cost = of_job(stage, sweep, arch, N)
    written = _written(stage, cost, sweep, arch, N)
    if stage in LITTLE_LEFT or cost is UNKNOWN:
        return Estimate(written, DRAWN if stage in LITTLE_LEFT else None)
    gpu = on_gpu(sweep, device, arch) and has_gpu()
    share = EARLY if N == "0" else 1
    return Estimate(written, START + share * cost.operations / (USUAL_GPU if gpu else SPEED), gpu)


def _written(stage: str, cost: Cost, sweep: Sweep, arch: Architecture | None, N: str | None) -> float:
    """Return the bytes that a job writes."""
    x_size, y_size, sizes = sweep.problem.x_size, sweep.problem.y_size, sweep.sizes_in_pairs
    if stage in FITS and isinstance(arch, TorchrunArchitecture):
        return ERRORS + 4.0 * x_size * y_size
    if stage in FITS and arch is not None:
        pairs = min(sweep.pairs_of(paths.size(N or 0)), x_size)
        return ERRORS + 8.0 * (pairs**2 if "gram" in arch.needs() else x_size)
    written = {"pool": 8.0 * sizes.total * (x_size + y_size), "known": 0.4 * cost.host_bytes, "normal": 8.0 * x_size**2}
    written |= {"gram": 8.0 * min(sizes.train, x_size) ** 2, "figure-recons": 10 * LITTLE}
    return written.get(stage, ERRORS)


def _time(seconds: float) -> str:
    if seconds > 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
