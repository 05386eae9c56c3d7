"""A cell of the study, and how a job is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from koct import registry
from koct.contracts import Architecture, Problem

GEOMETRY = ("H", "V", "B")  # columns of the results; null where a problem has no such option


class Cell(NamedTuple):
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
            arch.from_values(spec["arch"]["options"]),
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
        "problem": encode_problem(problem, layers=bool(arch.needs() & {"layers", "normal"})),
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
    """Options that a job was not told of, since it has no use for them, are None."""
    return registry.problem(spec["source"]).from_values(spec["options"])
