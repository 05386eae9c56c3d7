"""Which large jobs travel to a cluster together: those of one sweep and seed, as long as they are short.

The pool of a seed, its Gram matrix, its fits and their evaluations take a GPU some seconds each and need one another's
files. Submitted one by one, each would wait in the queue.
"""

from __future__ import annotations

from functools import cache

from koct.config.sweep import Sweep
from koct.contracts import Architecture
from koct.workflow import resources

LONGEST = 120  # minutes of a group of several fits; one that asks for more than half of it travels alone


@cache
def of_seed(sweep: Sweep, on_gpu: bool) -> dict[tuple[str, int], str]:
    """The group of every large fit of a seed, by architecture and N: its name without sweep and seed.

    The empty name is that of the pool's group. If all fits fit in there, that is where they are.
    """
    asked = {}
    for arch in sweep.required + sweep.archs:  # so that a numbered group reads from earlier ones alone
        for N in sweep.sizes_of(arch) if resources.fit_class(sweep, arch) == "large" else ():
            costs = resources.fit(sweep, arch, N), resources.evaluate(sweep, arch, N)
            asked[arch.name, N] = sum(resources.minutes(cost, on_gpu) for cost in costs)
    alone = {cell for cell, minutes in asked.items() if minutes > LONGEST / 2}
    while more := {cell for cell in asked if cell not in alone and _reads_elsewhere(sweep, cell, alone)}:
        alone |= more
    found = {(arch, N): f"_{arch}_N{N}" for arch, N in alone}
    first = sum(resources.minutes(stage(sweep), on_gpu) for stage in (resources.pool, resources.gram))
    predictions = [resources.theory(sweep, arch) for arch in sweep.predicted]
    if predictions:  # from a pool of their own
        predictions.append(resources.pool(sweep))
    first += sum(resources.minutes(cost, on_gpu) for cost in predictions)
    together = [cell for cell in asked if cell not in alone]
    if first + sum(asked[cell] for cell in together) <= LONGEST:
        return found | dict.fromkeys(together, "")
    number, minutes = 1, 0
    for cell in together:
        minutes += asked[cell]
        if minutes > LONGEST:
            number, minutes = number + 1, asked[cell]
        found[cell] = f"_{number}"
    return found


def _reads_elsewhere(sweep: Sweep, cell: tuple[str, int], alone: set[tuple[str, int]]) -> bool:
    """Whether a fit needs one that is not in such a group: the two groups could come to wait for each other."""
    name, N = cell
    if not (needed := sweep.arch(name).requires_cell):
        return False
    required: Architecture = sweep.arch(needed)
    return resources.fit_class(sweep, required) != "large" or (required.name, N) in alone
