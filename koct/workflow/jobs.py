"""What the rules ask about their jobs: which rule makes a file, what a job reads, depends on and asks for.

A spec is what a job takes from its sweep's config and, as a hash, the code it runs. It is the job's parameter, so a
change to either reruns the job, and a change to anything else does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from koct import metrics
from koct.contracts import Architecture, Cost, Problem
from koct.registry import module_of
from koct.spec import encode_curve, encode_problem
from koct.workflow import config, paths, resources
from koct.workflow.sources import digest
from koct.workflow.sweep import Sweep

NONE = "(?!)"  # a pattern that matches nothing
Wildcards = Any  # Snakemake's: sweep, arch, N and seed as text


class Jobs:
    """The jobs of a study. Functions of wildcards are passed to the rules as they are."""

    def __init__(self, settings: Mapping[str, Any]):
        self.study = config.read(settings)
        self.sweeps = {sweep.name: sweep for sweep in self.study}
        self.cells = [paths.cell(**cell) for sweep in self.study for cell in sweep.grid()]
        self.device = settings.get("device", "auto")
        self.canonical = config.canonical(self.study)
        self.evaluation = digest("koct.evaluation", *metrics.modules())
        self._curve_spec = cache(self._curve_spec)  # type: ignore[method-assign]
        self._curve_inputs = cache(self._curve_inputs)  # type: ignore[method-assign]
        self._pool_spec = cache(self._pool_spec)  # type: ignore[method-assign]

    def environment(self) -> dict[str, str]:
        """What jobs are told beside their parameters, since it changes no result.

        What they compute on, which sweeps ask a cluster for a GPU, and the hash of the code that evaluates.
        """
        on_gpu = (sweep.name for sweep in self.study if resources.on_gpu(sweep, self.device))
        return {
            "KOCT_DEVICE": self.device,
            "KOCT_GPU_SWEEPS": " ".join(on_gpu),
            "KOCT_EVALUATION": self.evaluation,
        }

    # Which rule makes a file follows from its cost: patterns of wildcards

    @property
    def names(self) -> str:
        return _either(self.sweeps)

    @property
    def archs(self) -> str:
        return _either({arch.name for sweep in self.study for arch in sweep.archs + sweep.required})

    def cheap(self, cost: Callable[[Sweep], Cost]) -> str:
        """The sweeps for which a stage is cheap."""
        return _either(sweep.name for sweep in self.study if resources.cheap(sweep, cost(sweep)))

    def large(self, cost: Callable[[Sweep], Cost]) -> str:
        return _either(sweep.name for sweep in self.study if not resources.cheap(sweep, cost(sweep)))

    def curves(self, *classes: str) -> str:
        """The sweeps whose next folder is an architecture that is fitted so."""
        found = [
            f"{re.escape(sweep.name)}(?=/{re.escape(arch.name)}/)"
            for sweep in self.study
            for arch in sweep.archs + sweep.required
            if resources.fit_class(sweep, arch) in classes
        ]
        return "|".join(found) or NONE

    # What a job depends on

    def pool_spec(self, wildcards: Wildcards) -> str:
        return self._pool_spec(wildcards.sweep)

    def _pool_spec(self, name: str) -> str:
        sweep = self.sweeps[name]
        wanted = {"problem": encode_problem(sweep.problem, layers=False), "sizes": sweep.sizes.values()}
        return _spec(wanted, "koct.problems.pools", _problem_code(sweep))

    def problem_spec(self, *modules: str, layers: bool = True) -> Callable[[Wildcards], str]:
        """Of a stage that knows the problem alone."""

        def spec(wildcards: Wildcards) -> str:
            sweep = self.sweeps[wildcards.sweep]
            wanted = {"sweep": sweep.name, "problem": encode_problem(sweep.problem, layers=layers)}
            return _spec(wanted, *modules, _problem_code(sweep))

        return spec

    def fit_spec(self, wildcards: Wildcards) -> str:
        return f'{{"N": {wildcards.N}, "seed": {wildcards.seed}, {self._curve_spec(wildcards.sweep, wildcards.arch)}'

    def _curve_spec(self, name: str, arch_name: str) -> str:
        """What the fits of one curve share: JSON without its opening brace."""
        sweep = self.sweeps[name]
        arch = sweep.arch(arch_name)
        inputs = list(self._fit_inputs(sweep, arch))
        wanted = {**encode_curve(name, sweep.problem, arch, sweep.lambdas), "inputs": inputs}
        code = ["koct.cells", _arch_code(arch), f"koct.metrics.{sweep.problem.validation_metric}"]
        if resources.fit_class(sweep, arch) == "cheap":
            wanted["evaluation"] = self.evaluation  # the same job evaluates
        if arch.launch == "torchrun":
            code.append("koct.distributed")
        return _spec(wanted, *code, _problem_code(sweep))[1:]

    def recons_code(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        metric = f"koct.metrics.{sweep.problem.validation_metric}"
        return digest("koct.report.recons", metric, _problem_code(sweep), *map(_arch_code, sweep.archs))

    def metric_of_sweeps(self) -> str:
        return json.dumps({sweep.name: sweep.metric for sweep in self.study})

    def targets_of_sweeps(self) -> str:
        return json.dumps({sweep.name: {"metric": sweep.metric, "targets": sweep.targets} for sweep in self.study})

    # What a job reads

    def _fit_inputs(self, sweep: Sweep, arch: Architecture) -> dict[str, str]:
        """The files of a fit by name, with wildcards in them."""
        needs = arch.needs()
        found = {"pool": paths.pool("{sweep}", "{seed}")}
        if needs & {"layers", "normal"} and sweep.problem.has_shared:
            found["shared"] = paths.shared("{sweep}")
        if "normal" in needs and resources.shares_normal(sweep):
            found["normal"] = paths.normal("{sweep}")
        if "gram" in needs and resources.shares_gram(sweep):
            found["gram"] = paths.gram("{sweep}", "{seed}")
        if arch.requires_cell:
            found["required"] = paths.fit("{sweep}", sweep.arch(arch.requires_cell).name, "{N}", "{seed}")
        return found

    def extra_input(self, wildcards: Wildcards) -> list[str]:
        """Of a fit, besides its pool."""
        return self._curve_inputs(wildcards.sweep, wildcards.arch)

    def _curve_inputs(self, name: str, arch_name: str) -> list[str]:
        return list(self._fit_inputs(self.sweeps[name], self.sweeps[name].arch(arch_name)).values())[1:]

    def shared_input(self, wildcards: Wildcards) -> str | list[str]:
        """What a problem computes once per sweep, if it does."""
        return paths.shared(wildcards.sweep) if self.sweeps[wildcards.sweep].problem.has_shared else []

    def own_files(self, wildcards: Wildcards) -> list[str]:
        """What a problem reads from disk."""
        return list(self.sweeps[wildcards.sweep].problem.files())

    def seeds(self, wildcards: Wildcards) -> tuple[int, ...]:
        return self.sweeps[wildcards.sweep].seeds

    def pools(self, wildcards: Wildcards) -> list[str]:
        """Of all seeds of a sweep."""
        return [paths.pool(wildcards.sweep, seed) for seed in self.seeds(wildcards)]

    def first_pool(self, wildcards: Wildcards) -> str:
        return self.pools(wildcards)[0]

    def first_fits(self, wildcards: Wildcards) -> list[str]:
        """The fits of a sweep's first seed."""
        sweep = self.sweeps[wildcards.sweep]
        return [paths.fit(sweep.name, arch.name, N, sweep.seeds[0]) for arch in sweep.archs for N in sweep.N]

    def untrained(self) -> list[str]:
        """Of all sweeps that know something."""
        return [paths.untrained(sweep.name) for sweep in self.study if sweep.problem.has_layers]

    # What a large job asks for

    def fit_cost(self, wildcards: Wildcards) -> Cost:
        sweep = self.sweeps[wildcards.sweep]
        return resources.fit(sweep, sweep.arch(wildcards.arch), int(wildcards.N))

    def evaluate_cost(self, wildcards: Wildcards) -> Cost:
        sweep = self.sweeps[wildcards.sweep]
        return resources.evaluate(sweep, sweep.arch(wildcards.arch), int(wildcards.N))

    def cost(self, stage: Callable[[Sweep], Cost]) -> Callable[[Wildcards], Cost]:
        """Of a stage of a sweep."""
        return lambda wildcards: stage(self.sweeps[wildcards.sweep])

    def gpus(self, wildcards: Wildcards) -> int:
        """GPUs that a job of one process asks a cluster for."""
        return int(resources.on_gpu(self.sweeps[wildcards.sweep], self.device))

    def gpu_mb(self, cost: Callable[[Wildcards], Cost]) -> Callable[[Wildcards], int]:
        """GPU memory of a job, so that `--resources gpu_mb=...` runs as many at once as there is room for."""
        return lambda wildcards: resources.gpu_mb(cost(wildcards)) if self.gpus(wildcards) else 0

    def mem_mb(self, cost: Callable[[Wildcards], Cost]) -> Callable[[Wildcards, int], int]:
        """Host memory of a job, more after every failure."""
        return lambda wildcards, attempt: resources.mem_mb(cost(wildcards)) * attempt

    def minutes(self, cost: Callable[[Wildcards], Cost]) -> Callable[[Wildcards, int], int]:
        """Time limit of a job, more after every failure."""
        return lambda wildcards, attempt: resources.minutes(cost(wildcards)) * attempt

    def launch(self, key: str) -> Callable[[Wildcards], int]:
        """How an architecture is started by torchrun; none of this changes its numbers."""
        return lambda wildcards: getattr(self.sweeps[wildcards.sweep].arch(wildcards.arch), key)

    def ranks_per_node(self, wildcards: Wildcards) -> int:
        return self.launch("ranks")(wildcards) // self.launch("nodes")(wildcards)

    def rank_gpus(self, wildcards: Wildcards) -> int:
        """A GPU for every rank."""
        return self.gpus(wildcards) * self.launch("ranks")(wildcards)

    def rank_mem_mb(self, wildcards: Wildcards, attempt: int) -> int:
        """Host memory of a node."""
        return resources.mem_mb(self.fit_cost(wildcards), self.ranks_per_node(wildcards)) * attempt


def _either(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(names))) or NONE


def _spec(wanted: Mapping[str, Any], *modules: str) -> str:
    return json.dumps({**wanted, "code": digest(*modules)}, sort_keys=True)


def _problem_code(sweep: Sweep) -> str:
    return module_of(sweep.problem.source, Problem)


def _arch_code(arch: Architecture) -> str:
    return module_of(arch.source, Architecture)
