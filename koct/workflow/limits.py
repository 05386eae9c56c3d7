"""What stops a run before its first job: jobs that no machine could finish, and files that the study does not have."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from koct.config.study_file import Settings, section
from koct.config.sweep import Sweep
from koct.contracts import Architecture, Cost, TorchrunArchitecture
from koct.contracts.blame import blamed
from koct.contracts.options import Configured, options
from koct.errors import KoctError
from koct.workflow import resources

# pools/H8/seed1.npy, cells/H8/ko/N4_seed1.json, known/H8.npy, fig_recons_H8.png and the like
OF_SWEEP = re.compile(
    r"results/(?:fig_recons_|(?:\w+)/)(?P<sweep>[A-Za-z0-9][A-Za-z0-9._-]*?)(?:/.*|\.(?:npy|json|png))"
)
GPU_SPEED = 100  # how much faster than a core a GPU may be
RANK = 2.5e9  # bytes that the cost of a process of torchrun may count for torch, CUDA and NCCL: they are no arrays
DAY = 86400


class Limits(NamedTuple):
    """What a job may take."""

    memory: float | None  # bytes for its arrays; None: any number
    days: float
    device: str  # as the config says
    gpu: bool  # whether problems that can use a GPU find one


class Largest(NamedTuple):
    """The largest job of a stage."""

    what: str
    cost: Callable[[], Cost]
    keys: Sequence[str]  # options that make it smaller, below the sweep in the config
    faster: Sequence[str] = ()  # options that make it shorter alone
    takes_gpu: bool = True
    processes: int = 1  # on one machine
    base: float = 0  # bytes of its cost, per process, that are no arrays
    instead: str = ""  # another way out


def check(study: Sequence[Sweep], settings: Settings, local: bool) -> None:
    """Raise a KoctError for a study with a job that is too large; `local`: its jobs run on this machine."""
    memory: float | None = machine_memory() if local else None
    if settings.memory_gb is not None:
        memory = 1e9 * settings.memory_gb
    wrong = too_large(study, settings.device, memory, settings.longest_days, gpu=not local or has_gpu())
    if wrong:
        raise KoctError("config: " + "\nconfig: ".join(wrong))


def check_targets(words: Iterable[str], sweeps: Iterable[str], config: Mapping[str, Any]) -> None:
    """Raise a KoctError if a word is a file of a sweep that only other studies have."""
    for word in words:
        path = OF_SWEEP.fullmatch(os.path.normpath(word))
        sweep = path and path["sweep"]
        if sweep and sweep not in set(sweeps) and sweep in config["sweeps"]:
            having = [study for study, chosen in config["studies"].items() if sweep in chosen]
            advice = f"`snakemake --config study={having[0]} {word}`" if having else "add it to a study in config.yaml"
            where = f"the studies {', '.join(having)}" if having else "no study"
            raise KoctError(f"{word}: {sweep} is not in the study {config['study']}, but in {where}; {advice}")


def too_large(
    sweeps: Sequence[Sweep], device: str, memory_bytes: float | None, longest_days: float, gpu: bool = True
) -> list[str]:
    """A sentence for every sweep and stage with a job that takes more memory or time than that.

    No memory is checked if `memory_bytes` is None. `gpu`: problems that can use a GPU find one.
    """
    limits = Limits(memory_bytes, longest_days, device, gpu)
    found: list[str] = []
    for sweep in sweeps:
        with blamed(sweep.problem.source, *(arch.source for arch in sweep.archs + sweep.required)):
            found += _of_sweep(sweep, limits)
    return found


def _of_sweep(sweep: Sweep, limits: Limits) -> list[str]:
    """Fits by several processes come last: to cost one of an absurd size takes long."""
    found = [_worst(sweep, [job], limits) for job in _stages(sweep)]
    archs = sweep.archs + sweep.required
    found += [_worst(sweep, [_fit(sweep, arch) for arch in archs if arch.launch == "process"], limits)]
    if not any(found):
        found += [_worst(sweep, [_fit(sweep, arch) for arch in archs if arch.launch != "process"], limits)]
    return [sentence for sentence in found if sentence]


def _stages(sweep: Sweep) -> Iterator[Largest]:
    sizes = _whole(sweep.problem)
    needs = {need for arch in sweep.archs + sweep.required for need in arch.needs()}
    pool = [f"pool.{key}" for key in options(type(sweep.pool))]
    yield Largest("the pool", lambda: resources.pool(sweep), [*pool, *sizes])
    if sweep.problem.has_shared:
        yield Largest("the known operator", lambda: resources.shared(sweep), sizes, takes_gpu=False)
    if "normal" in needs:
        yield Largest("the normal matrix", lambda: resources.normal(sweep), sizes, takes_gpu=False)
    if "gram" in needs:
        yield Largest("the Gram matrix", lambda: resources.gram(sweep), ["pool.train", *sizes])
    for arch in sweep.predicted:
        cost = partial(resources.theory, sweep, arch)
        yield Largest(f"the predicted curve of {arch.name}", cost, [*pool, *sizes], instead=", set theory to false")


def _fit(sweep: Sweep, arch: Architecture) -> Largest:
    N = max(sweep.sizes_of(arch))
    faster = [f"{section(type(arch))}.{key}" for key in _whole(arch)] + ["lambdas"] * arch.uses_lambdas
    job = Largest(
        f"the fit of {arch.name} with N = {N}",
        lambda: resources.fit(sweep, arch, N),
        [*(["N"] if N else []), *_whole(sweep.problem)],
        faster,
    )
    if isinstance(arch, TorchrunArchitecture):
        what = f"{job.what} on {arch.ranks} rank{'s' if arch.ranks > 1 else ''}"
        job = job._replace(what=what, processes=arch.ranks // arch.nodes, base=RANK)
    return job


def _worst(sweep: Sweep, jobs: Sequence[Largest], limits: Limits) -> str | None:
    """A sentence about the job that is most too large, if one is."""
    found = [_excess(sweep, job, limits) for job in jobs]
    return max(found, key=lambda pair: pair[0], default=(0, None))[1]


def _excess(sweep: Sweep, job: Largest, limits: Limits) -> tuple[float, str | None]:
    """How many times what there is a job takes, and in words; (0, None) if there is enough."""
    what = f"sweeps.{sweep.name}: {job.what}"
    on_gpu = job.takes_gpu and limits.gpu and resources.on_gpu(sweep, limits.device)
    try:
        cost = job.cost()
        if cost is resources.UNKNOWN:
            return 0, None
        memory, days = _memory(cost, job, on_gpu), cost.operations / resources.SPEED / DAY
    except OverflowError:
        memory = days = math.inf
    days /= GPU_SPEED if on_gpu else 1
    if not (math.isfinite(memory) and math.isfinite(days)):
        return math.inf, f"{what} would cost more than a number can say; {_lower(job, faster=True)}"
    if limits.memory is not None and memory > limits.memory:
        has = f"needs {_amount(memory / 1e9)} GB of memory, and a job may take {_amount(limits.memory / 1e9)} GB"
        return memory / limits.memory, f"{what} {has}; {_lower(job)}, or set memory_gb if there is more"
    if days > limits.days:
        place = "a GPU" if on_gpu else "a core"
        takes = f"takes about {_amount(days)} days on {place}, and longest_days is {_amount(limits.days)}"
        return days / limits.days, f"{what} {takes}; {_lower(job, faster=True)}, or raise longest_days"
    return 0, None


def _memory(cost: Cost, job: Largest, on_gpu: bool) -> float:
    """Bytes of the machine's memory; what a GPU holds is counted for the host as well, in case there is none."""
    return job.processes * max(0.0, cost.host_bytes - (cost.gpu_bytes if on_gpu else job.base))


def _whole(configured: Configured) -> list[str]:
    """The options that are whole numbers, change a result and can be lowered: mostly sizes."""
    declared = {name: option for name, option in options(type(configured)).items() if option.result}
    values = {name: getattr(configured, name) for name in declared}
    return [name for name, value in values.items() if type(value) is int and value > (declared[name].minimum or 0)]


def _lower(job: Largest, faster: bool = False) -> str:
    keys = [*job.keys, *(job.faster if faster else [])]
    smaller = f"lower {' or '.join(filter(None, [', '.join(keys[:-1]), *keys[-1:]]))}" if keys else "make it smaller"
    return smaller + job.instead


def _amount(value: float) -> str:
    return f"{value:,.0f}" if 10 <= value < 1e6 else f"{value:.2g}"


# The machine


def machine_memory(root: str = "/") -> int | None:
    """Bytes of memory of this machine, or of the control group that this process is in; None if nobody says."""
    found = list(_group_limits(root))
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((size for size in found if size > 0), default=None)


def _group_limits(root: str) -> Iterator[int]:
    """Of the groups, one in the other, of this process: version 2 and version 1."""
    for line in _text(root, "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        for place in (PurePosixPath(group), *PurePosixPath(group).parents):
            text = _text(root, "sys/fs/cgroup", folder, str(place).lstrip("/"), name).strip()
            if text.isdigit():
                yield int(text)


def _text(*parts: str) -> str:
    try:
        with open(os.path.join(*parts), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def has_gpu() -> bool:
    """Whether this machine seems to have an NVIDIA GPU; found out in no time."""
    return any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg")))
