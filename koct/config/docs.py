"""docs/config.md, made from the options of sweeps, problems and architectures."""

from __future__ import annotations

import sys

from koct import metrics
from koct.config.study_file import Entry, Settings, section
from koct.config.validation import table
from koct.contracts import Architecture, Problem, registry

HEAD = ["| key | value | meaning |", "|---|---|---|"]


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
