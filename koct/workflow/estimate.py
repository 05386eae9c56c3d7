"""About how long planned jobs will take and what they will write: the last line of a dry run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koct.base.messages import counted
from koct.config.sweep import Sweep
from koct.contracts import Cost, TorchrunArchitecture
from koct.workflow import resources
from koct.workflow.limits import has_gpu

GPU_SPEED = 2e11  # operations in a second, between a modest GPU and an H200; several jobs share it
START = 0.2  # seconds to start a job that computes
DRAWN = 1.5  # of a job that collects rows, or draws a table or a figure
LITTLE = 1e5  # bytes of what that writes
ERRORS = 2e4  # bytes of the errors of test images, in a fit and its row


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
            seconds += START + cost.operations / (GPU_SPEED if on_gpu else resources.SPEED)
    where = counted(cores, "core") + " and a GPU" * gpu
    told = f"{counted(jobs, 'job')}, about {_time(seconds / cores)} on {where}, about {_disk(written)} "
    rest = f"; {unknown} of them do not say how long they take, and are not in this time" if unknown else ""
    return f"{told}in results/{rest}"


def _of_sweep(job: Any, sweep: Sweep) -> tuple[Cost | None, float]:
    """The cost of a job, None if it computes little, and the bytes that it writes."""
    about, size = job.wildcards, sweep.problem.x_size
    stage = job.rule.name.partition("_")[0]
    if stage in ("fit", "evaluate", "theory"):
        arch = sweep.arch(about.arch)
        if stage == "theory":
            return resources.theory(sweep, arch), ERRORS
        N = int(about.N)
        if stage == "evaluate":
            return resources.evaluate(sweep, arch, N), ERRORS
        written = 8.0 * (min(sweep.pairs_of(N), size) ** 2 if "gram" in arch.needs() else size)
        if isinstance(arch, TorchrunArchitecture):
            written = 4.0 * size * sweep.problem.y_size
        return resources.fit(sweep, arch, N), ERRORS + written
    match stage:
        case "pool":
            return resources.pool(sweep), 8.0 * sweep.sizes_in_pairs.total * (size + sweep.problem.y_size)
        case "known":
            cost = resources.shared(sweep)
            return cost, 0.4 * cost.host_bytes
        case "normal":
            return resources.normal(sweep), 8.0 * size**2
        case "gram":
            return resources.gram(sweep), 8.0 * min(sweep.sizes_in_pairs.train, size) ** 2
        case "figure":
            return resources.recons(sweep), 10 * LITTLE
    return None, LITTLE


def _time(seconds: float) -> str:
    if seconds > 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


def _disk(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size > 9.5e8 else f"{max(1, size / 1e6):.0f} MB"
