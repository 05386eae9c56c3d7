"""What one passes around: a sweep of the study, a cell of a sweep, and how a job is told of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from koct import registry
from koct.contracts import Architecture, Cost, Problem, Sizes, Workload

GEOMETRY = ("H", "V", "B")  # columns of the results; null where a problem has no such option


@dataclass(frozen=True)
class Cell:
    """One fit: an architecture on a problem, with the first N training pairs of the pool of a seed."""

    sweep: str
    problem: Problem
    arch: Architecture
    N: int
    seed: int
    lambdas: tuple[float, ...]

    def about(self) -> dict[str, Any]:
        """The columns of its row that say what it is."""
        return {**about(self.sweep, self.problem), "arch": self.arch.name, "N": self.N, "seed": self.seed}

    def encode(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"N": self.N, "seed": self.seed, **encode_curve(self.sweep, self.problem, self.arch, self.lambdas)}

    @classmethod
    def decode(cls, spec: Mapping[str, Any]) -> Cell:
        arch = registry.architecture(spec["arch"]["source"])
        return cls(
            spec["sweep"],
            decode_problem(spec["problem"]),
            arch.build(_with_unset(arch, spec["arch"]["options"])),
            spec["N"],
            spec["seed"],
            tuple(spec["lambdas"]),
        )


def about(sweep: str, problem: Problem) -> dict[str, Any]:
    """The columns of a row that say which sweep it belongs to."""
    geometry = {key: getattr(problem, key, None) for key in GEOMETRY}
    return {"sweep": sweep, "problem": problem.name, **geometry}


def encode_curve(sweep: str, problem: Problem, arch: Architecture, lambdas: tuple[float, ...]) -> dict[str, Any]:
    """What the cells of one curve share, and nothing that cannot change their results."""
    options = {name: value for name, value in arch.values().items() if arch.options()[name].result}
    return {
        "sweep": sweep,
        "problem": encode_problem(problem, layers="layers" in arch.needs()),
        "arch": {"source": arch.source, "options": options},
        "lambdas": list(lambdas) if arch.uses_lambdas else [],
    }


def encode_problem(problem: Problem, layers: bool) -> dict[str, Any]:
    """A problem as JSON can hold it; without `layers`, only what its pairs depend on."""
    chosen = {name for name, option in problem.options().items() if layers or option.pairs}
    return {
        "source": problem.source,
        "options": {name: value for name, value in problem.values().items() if name in chosen},
    }


def decode_problem(spec: Mapping[str, Any]) -> Problem:
    found = registry.problem(spec["source"])
    return found.build(_with_unset(found, spec["options"]))


def _with_unset(cls: type[Problem] | type[Architecture], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that a job was not told of, since it has no use for them, are None."""
    return {**dict.fromkeys(cls.options()), **options}


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
        return next(arch for arch in self.archs + self.required if arch.name == name)

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
