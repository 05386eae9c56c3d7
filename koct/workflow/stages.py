"""Which code a stage of the workflow runs, as a hash."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from koct import metrics
from koct.contracts import Architecture, Problem, registry
from koct.report.registry import module_of as product_module
from koct.report.registry import products
from koct.workflow import sources
from koct.workflow.sources import digest, reached

COMMANDS = ("koct.commands.stages", "koct.commands.report")  # a verb of a job is a stage: its code is what it imports
# Of stages that know the problem, beside its own module.
PROBLEM_MODULES = {
    "pool": ("koct.problems.pools",),
    "known": ("koct.study.cells",),
    "normal": ("koct.study.cells",),
    "gram": ("koct.study.cells",),
}


def evaluation() -> str:
    """The hash of what turns a network into errors."""
    return digest(*_evaluation())


def code(stage: str, problem: str = "", *archs: str) -> str:
    """The hash of a stage's code; `problem` and `archs` are what config.yaml calls them."""
    return digest(*modules(stage, problem, *archs))


def modules(stage: str, problem: str = "", *archs: str) -> tuple[str, ...]:
    """What a stage starts from; it is made of these modules and of all that they import."""
    if not problem:
        if stage in products():
            return (product_module(stage),)
        return (
            *sources.imported(COMMANDS, stage.replace("-", "_")),
            *(metrics.modules() if stage == "collect" else ()),
        )
    found = registry.module_of(problem, Problem)
    if stage in PROBLEM_MODULES:
        return (*PROBLEM_MODULES[stage], found)
    metric = f"koct.metrics.{registry.problem(problem).validation_metric}"
    networks = [registry.module_of(arch, Architecture) for arch in archs]
    if stage == "figure-recons":
        return ("koct.report.figures.fig_recons", metric, found, *networks)
    if stage == "chains":
        return ("koct.study.chains", found, *networks)
    if stage == "theory":
        return ("koct.study.predictions", *metrics.modules(), found, *networks)
    launched = (
        ["koct.study.distributed"] if any(registry.architecture(arch).launch == "torchrun" for arch in archs) else []
    )
    return ("koct.study.cells", metric, found, *networks, *launched)


def _evaluation() -> tuple[str, ...]:
    return ("koct.study.evaluation", *metrics.modules())


# From a spec


def code_of(stage: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """The hashes that a spec has, of the code as it is now."""
    found = {"code": code(stage, *_named(spec)), "evaluation": evaluation()}
    return {key: value for key, value in found.items() if key in spec}


def files_of(stage: str, spec: Mapping[str, Any]) -> set[str]:
    """The source files that a job runs, and the data files that these name."""
    started = {*modules(stage, *_named(spec)), *(_evaluation() if "evaluation" in spec else ())}
    return {os.path.abspath(path) for module in reached(started) for path in sources.files_of(module)}


def _named(spec: Mapping[str, Any]) -> list[str]:
    problem = spec["problem"]["source"] if "problem" in spec else ""
    return [problem, *([spec["arch"]["source"]] if "arch" in spec else spec.get("archs", []))]
