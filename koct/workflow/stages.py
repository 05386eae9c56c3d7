"""Which code a stage of the workflow runs, as a hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koct import metrics, registry
from koct.contracts import Architecture, Problem
from koct.workflow.sources import digest

# Of stages that know neither problem nor architecture; a verb of the command line is a stage.
MODULES = {
    "collect": ("koct.results",),
    "calibrate": ("koct.results",),
    "budgets": ("koct.results",),
    "norms": ("koct.norms", "koct.report.tables"),
    "table-calibration": ("koct.report.tables",),
    "table-scaling": ("koct.report.tables",),
    "table-fullscale": ("koct.report.tables",),
    "table-budget": ("koct.report.tables",),
    "table-structural": ("koct.report.tables",),
    "figure-sweeps": ("koct.report.figures",),
}
# And of those that know the problem.
PROBLEM_MODULES = {
    "pool": ("koct.problems.pools",),
    "known": ("koct.cells",),
    "normal": ("koct.cells",),
    "gram": ("koct.cells", "koct.networks.linalg"),
    "untrained": ("koct.evaluation",),
}


def evaluation() -> str:
    """The hash of what turns a network into errors."""
    return digest("koct.evaluation", *metrics.modules())


def code(stage: str, problem: str = "", *archs: str) -> str:
    """The hash of a stage's code; `problem` and `archs` are what config.yaml calls them."""
    if stage in MODULES:
        chosen = (*MODULES[stage], *(metrics.modules() if stage == "collect" else ()))
        return digest(*chosen)
    found = registry.module_of(problem, Problem)
    if stage in PROBLEM_MODULES:
        chosen = (*PROBLEM_MODULES[stage], *(metrics.modules() if stage == "untrained" else ()))
        return digest(*chosen, found)
    metric = f"koct.metrics.{registry.problem(problem).validation_metric}"
    networks = [registry.module_of(arch, Architecture) for arch in archs]
    if stage == "figure-recons":
        return digest("koct.report.recons", metric, found, *networks)
    launched = ["koct.distributed"] if any(registry.architecture(arch).launch == "torchrun" for arch in archs) else []
    return digest("koct.cells", metric, found, *networks, *launched)


def code_of(stage: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """The hashes that a spec has, of the code as it is now."""
    problem = spec["problem"]["source"] if "problem" in spec else ""
    archs = [spec["arch"]["source"]] if "arch" in spec else spec.get("archs", [])
    found = {"code": code(stage, problem, *archs), "evaluation": evaluation()}
    return {key: value for key, value in found.items() if key in spec}
