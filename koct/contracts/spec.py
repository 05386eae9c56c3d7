"""A cell of the study, and how a job is told of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from koct.contracts import Architecture, Problem, registry
from koct.contracts.options import check_value, unknown
from koct.contracts.spec_keys import told
from koct.errors import KoctError

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
        spec = told(spec, "the cell")
        arch, problem = decode_arch(spec["arch"]), decode_problem(spec["problem"])
        if arch.trained and spec["N"] < 1:
            raise KoctError(f"the cell: N = {spec['N']} must be a whole number of at least 1 to train {arch.source}")
        if not arch.trained and spec["N"]:
            raise KoctError(f"the cell: N = {spec['N']} must be 0: {arch.source} needs no sample")
        return cls(spec["sweep"], problem, arch, spec["N"], spec["seed"], tuple(spec["lambdas"]))


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


def decode_arch(spec: Mapping[str, Any]) -> Architecture:
    """Options that change no result, and that a job was not told of, are None."""
    arch: Architecture = _decode(registry.architecture, "arch", spec)
    return arch


def decode_problem(spec: Mapping[str, Any]) -> Problem:
    """Options that a job was not told of, since it has no use for them, are None."""
    problem: Problem = _decode(registry.problem, "problem", spec)
    return problem


def _decode(load: Callable[[str], Any], key: str, spec: Mapping[str, Any]) -> Any:
    """An instance of what a spec names, if it has the options that are given, and is given those that it needs."""
    source, given = spec["source"], spec["options"]
    try:
        found = load(source)
    except KoctError as error:
        raise KoctError(f"{key}.source = {source!r} {error}" if str(error).startswith("must") else str(error)) from None
    options = found.options()
    wrong = [unknown([key, name], list(options)) for name in given if name not in options]
    for name, wanted in options.items():
        if name in given:
            wrong += check_value(wanted, wanted.kind, given[name], [key, name])
        elif wanted.pairs and wanted.result:
            wrong.append(f"{key}.{name} is missing; add it: {wanted.description}")
    if wrong:
        raise KoctError("; ".join(wrong))
    return found.from_values(given)


def same_values(found: Any, wanted: Any) -> bool:
    """Whether two values are the same in JSON, where a tuple is a list."""
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)
