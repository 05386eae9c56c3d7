"""docs/config.md and a JSON schema of config.yaml, made from the options of sweeps, problems and architectures."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from koct import metrics
from koct.config.study_file import Entry, Settings, section
from koct.config.validation import adapter, table
from koct.contracts import Architecture, Problem, registry
from koct.contracts.options import options

HEAD = ["| key | value | meaning |", "|---|---|---|"]
Schema = dict[str, Any]


def document() -> str:
    """Return docs/config.md."""
    lines = ["# config.yaml", "", "Printed by `koct config`, from the options that the code declares.", "", *HEAD]
    lines += [*table(Settings), *table(Entry, "sweeps.NAME."), "", _about_metrics()]
    for name in registry.shipped(Problem):
        lines += ["", f"## The problem `{name}`", "", *_of_file(registry.problem(name))]
    for name in registry.shipped(Architecture):
        lines += ["", f"## The architecture `{name}`", "", *_of_file(registry.architecture(name))]
    return "\n".join(lines) + "\n"


def _about_metrics() -> str:
    listed, scores = (", ".join(f"`{name}`" for name in names) for names in (metrics.error_names(), metrics.SCORES))
    return (
        f"Metrics: {listed}; a 2 behind the name stands for the square of its mean over seeds, such as `rrmse_peak2`. "
        f"The scores {scores} are columns of the results, and of no curve."
    )


def document_file(source: str) -> str:
    """Return the options of a user's own problem or architecture."""
    return "\n".join(_of_file(registry.either(source))) + "\n"


def _of_file(cls: type[Problem] | type[Architecture]) -> list[str]:
    about = (sys.modules[cls.__module__].__doc__ or "").strip().partition("\n")[0]
    rows = table(cls, f"sweeps.NAME.{section(cls)}." if issubclass(cls, Architecture) else "sweeps.NAME.")
    return [about, "", *HEAD, *rows] if rows else [about, "", "It has no options."]


def schema() -> Schema:
    """Return the JSON schema of config.yaml, for editors; beside files of a user's own, a sweep may have any key."""
    defs: Schema = {}
    archs = {name: registry.architecture(name) for name in registry.shipped(Architecture)}
    sweep, sections = _schema(Entry, defs), {section(arch): _schema(arch, defs) for arch in archs.values()}
    del sweep["additionalProperties"]
    keys = sweep["properties"]
    keys |= sections
    keys["metric"]["enum"] = metrics.curve_metrics()
    keys["problem"] |= _one_of(registry.shipped(Problem))
    keys["archs"]["items"] |= _one_of(archs)
    sweep["allOf"] = [
        _if_problem(registry.problem(name), list(archs), list(keys), defs) for name in registry.shipped(Problem)
    ]
    top = _schema(Settings, defs)
    sweeps = top["properties"]["sweeps"]
    sweeps |= {"patternProperties": dict.fromkeys(sweeps["patternProperties"], sweep), "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "title": "config.yaml", "$defs": defs}


def _schema(cls: Any, defs: Schema) -> Schema:
    """Return the schema of a mapping of options; what it refers to is added to `defs`."""
    made = adapter(cls).json_schema()
    defs |= made.pop("$defs", {})
    return made


def _one_of(names: Iterable[str]) -> Schema:
    return {"anyOf": [{"enum": list(names)}, {"pattern": r"\.py$"}]}


def _if_problem(problem: type[Problem], archs: list[str], keys: list[str], defs: Schema) -> Schema:
    """Return what holds for a sweep of a problem of koct: no unknown key, if its archs are koct's too."""
    its = _schema(problem, defs)
    del its["additionalProperties"]
    shipped = {"properties": {"archs": {"items": {"enum": archs}}}}
    closed = {"if": shipped, "then": {"propertyNames": {"enum": [*keys, *options(problem)]}}}
    is_it = {"properties": {"problem": {"const": problem.name}}, "required": ["problem"]}
    return {"if": is_it, "then": {**its, **closed}}
