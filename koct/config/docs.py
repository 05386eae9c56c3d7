"""docs/config.md and a JSON schema of config.yaml, made from the options of sweeps, problems and architectures."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from koct import metrics
from koct.config.study_file import LONGEST_NAME, NAME, Grid, Top, section
from koct.contracts import Architecture, Problem, options, registry

HEAD = ["| key | value | meaning |", "|---|---|---|"]


def document() -> str:
    """docs/config.md."""
    lines = ["# config.yaml", "", "Printed by `koct config`, from the options that the code declares.", "", *HEAD]
    lines += options.table(Top.options())
    lines += ["| `studies` | mapping | A study is a name for a list of sweeps. |"]
    letters = f"at most {LONGEST_NAME} letters, digits, `.`, `_`, `-`; it is a folder name"
    lines += [f"| `sweeps` | mapping | Every sweep by its name ({letters}). |"]
    lines += options.table(Grid.options(), "sweeps.NAME.")
    listed = ", ".join(f"`{name}`" for name in metrics.error_names())
    lines += ["", f"Metrics: {listed}; a 2 behind the name stands for the "]
    lines[-1] += "square of its mean over seeds, such as `rrmse_peak2`. "
    scores = " and ".join(f"`{name}`" for name in metrics.SCORES)
    lines[-1] += f"The scores {scores} are columns of the results, and of no curve."
    for name in registry.shipped(Problem):
        lines += ["", f"## The problem `{name}`", "", *_of_file(registry.problem(name), "sweeps.NAME.")]
    for name in registry.shipped(Architecture):
        arch = registry.architecture(name)
        lines += ["", f"## The architecture `{name}`", "", *_of_file(arch, f"sweeps.NAME.{section(arch)}.")]
    return "\n".join(lines) + "\n"


def document_file(source: str) -> str:
    """The options of a user's own problem or architecture."""
    found = registry.either(source)
    prefix = f"sweeps.NAME.{section(found)}." if issubclass(found, Architecture) else "sweeps.NAME."
    return "\n".join(_of_file(found, prefix)) + "\n"


def _of_file(found: type[Problem] | type[Architecture], prefix: str) -> list[str]:
    about = (sys.modules[found.__module__].__doc__ or "").strip().partition("\n")[0]
    rows = list(options.table(found.options(), prefix))
    return [about, "", *HEAD, *rows] if rows else [about, "", "It has no options."]


def schema() -> dict[str, Any]:
    """JSON schema of config.yaml, for editors; beside files of a user's own, a sweep may have any key."""
    archs = {name: registry.architecture(name) for name in registry.shipped(Architecture)}
    sections = {section(arch): options.schema(arch.options()) for arch in archs.values()}
    sweep = options.schema(Grid.options(), closed=False)
    keys = sweep["properties"]
    keys |= sections
    keys["metric"]["enum"] = metrics.curve_metrics()
    keys["problem"] |= _one_of(registry.shipped(Problem))
    keys["archs"]["items"] |= _one_of(archs)
    sweep["allOf"] = [
        _if_problem(name, list(archs), [*Grid.options(), *sections]) for name in registry.shipped(Problem)
    ]
    top = options.schema(Top.options())
    names = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
    top["properties"]["studies"] = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"maxLength": LONGEST_NAME},
        "additionalProperties": names,
    }
    top["properties"]["sweeps"] = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": f"^{NAME.pattern}$", "maxLength": LONGEST_NAME},
        "additionalProperties": sweep,
    }
    top["required"] += ["studies", "sweeps"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "config.yaml", **top}


def _one_of(names: Iterable[str]) -> dict[str, Any]:
    return {"anyOf": [{"enum": list(names)}, {"pattern": r"\.py$"}]}


def _if_problem(name: str, archs: list[str], keys: list[str]) -> dict[str, Any]:
    """What holds for a sweep of a problem of koct: its options, and no unknown key if its archs are koct's too."""
    found = registry.problem(name).options()
    shipped = {"properties": {"archs": {"items": {"enum": archs}}}}
    closed = {"if": shipped, "then": {"propertyNames": {"enum": [*keys, *found]}}}
    is_it = {"properties": {"problem": {"const": name}}, "required": ["problem"]}
    return {"if": is_it, "then": {**options.schema(found, closed=False), **closed}}
