"""A cell of the study, and the specs in which planning describes it to jobs.

A spec was written by koct itself: what does not fit it is an internal error, and not validated here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from koct.contracts import Architecture, Problem, registry
from koct.contracts.options import options
from koct.errors import KoctError

Decoded = TypeVar("Decoded", Problem, Architecture)
GEOMETRY = ("H", "V", "B")  # columns of the results; null where a problem has no such option


class Cell(NamedTuple):
    """One fit: an architecture on a problem, with the first N training pairs of the pool of a seed."""

    sweep: str
    problem: Problem
    arch: Architecture
    N: int
    seed: int
    lambdas: tuple[float, ...]
    keys: Mapping[str, Any] = MappingProxyType({})  # others of its sweep that fits are given

    def about(self) -> dict[str, Any]:
        """Return the columns of its row that say what it is."""
        return {**about(self.sweep, self.problem), "arch": self.arch.name, "N": self.N, "seed": self.seed}

    def encode(self) -> dict[str, Any]:
        """Return the cell as JSON can hold it."""
        curve = encode_curve(self.sweep, self.problem, self.arch, self.lambdas, self.keys)
        return {"N": self.N, "seed": self.seed, **curve}

    @classmethod
    def decode(cls, spec: Mapping[str, Any]) -> Cell:
        problem, arch = decode_problem(spec["problem"]), decode_arch(spec["arch"])
        keys = spec.get("keys", {})
        return cls(spec["sweep"], problem, arch, spec["N"], spec["seed"], tuple(spec["lambdas"]), keys)


def about(sweep: str, problem: Problem) -> dict[str, Any]:
    """Return the columns of a row that say which sweep it belongs to."""
    geometry = {key: getattr(problem, key, None) for key in GEOMETRY}
    return {"sweep": sweep, "problem": problem.name, **geometry}


def encode_curve(
    sweep: str, problem: Problem, arch: Architecture, lambdas: tuple[float, ...], keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the cells of one curve share, and nothing that cannot change their results."""
    return {
        "sweep": sweep,
        "problem": encode_problem(problem, layers=bool(arch.needs() & {"layers", "normal"})),
        "arch": {"source": arch.source, "options": result_options(arch)},
        "lambdas": list(lambdas) if arch.uses_lambdas else [],
        **({"keys": dict(keys)} if keys else {}),
    }


def result_options(arch: Architecture) -> dict[str, Any]:
    """Return the options that results depend on, by name."""
    declared = options(type(arch))
    return {name: value for name, value in asdict(arch).items() if declared[name].result and declared[name].told(value)}


def encode_problem(problem: Problem, layers: bool) -> dict[str, Any]:
    """Return a problem as JSON can hold it; without `layers`, only what its pairs depend on."""
    declared = options(type(problem))
    chosen = {name: value for name, value in asdict(problem).items() if layers or declared[name].pairs}
    return {
        "source": problem.source,
        "options": {name: chosen[name] for name in chosen if declared[name].told(chosen[name])},
    }


def decode_arch(spec: Mapping[str, Any]) -> Architecture:
    """Return the architecture of a spec; options that change no result, and are not in it, are None."""
    return _decode(registry.architecture(spec["source"]), spec)


def decode_problem(spec: Mapping[str, Any]) -> Problem:
    """Return the problem of a spec; options that the job has no use for, and that are not in it, are None."""
    return _decode(registry.problem(spec["source"]), spec)


def _decode(cls: type[Decoded], spec: Mapping[str, Any]) -> Decoded:
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in spec["options"].items()}
    left_out = [name for name, option in options(cls).items() if not (option.pairs and option.result)]
    try:
        return cls(**{**dict.fromkeys(left_out), **values})  # type: ignore[arg-type]
    except TypeError as error:
        raise KoctError(f"the spec of this job does not fit {spec['source']}: {error}; run snakemake again") from None


def same_values(one: Any, other: Any) -> bool:
    """Return whether two values are the same in JSON, where a tuple is a list."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def of_fit(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a fit from that of its row: without what evaluates."""
    return {key: value for key, value in spec.items() if key not in ("evaluation", "metrics")}
