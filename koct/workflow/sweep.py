"""A sweep of the study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from koct.contracts import Architecture, Cost, Problem, Sizes, Workload


@dataclass(frozen=True)
class Sweep:
    """One sweep: a problem with its options, and the grid of cells on it.

    `archs` are those of the grid, `required` those whose cells they read.
    """

    name: str
    problem: Problem
    sizes: Sizes
    N: tuple[int, ...]
    seeds: tuple[int, ...]
    archs: tuple[Architecture, ...]
    required: tuple[Architecture, ...]
    lambdas: tuple[float, ...]
    metric: str
    targets: tuple[float, ...]

    @property
    def pictured(self) -> bool:
        """Whether a figure shows its reconstructions."""
        return self.problem.pictured and len(self.problem.y_shape) == 2

    def arch(self, name: str) -> Architecture:
        """The architecture of a name, or of what config.yaml calls it."""
        return next(arch for arch in self.archs + self.required if name in (arch.name, arch.source))

    def grid(self) -> Iterator[dict[str, Any]]:
        """sweep, arch, N and seed of every cell, as wildcard values."""
        for arch in self.archs:
            for N in self.N:
                for seed in self.seeds:
                    yield {"sweep": self.name, "arch": arch.name, "N": N, "seed": seed}

    def workload(self, arch: Architecture, N: int) -> Workload:
        layers = self.problem.cost("layers", self.sizes) or Cost(self.problem.x_size * self.problem.y_size)
        count = len(self.lambdas) if arch.uses_lambdas else 1
        return Workload(self.problem.x_size, self.problem.y_size, N, self.sizes, count, layers)
