"""What the rules ask about their jobs: which rule makes a file, what a job reads, depends on and asks for.

A spec is what a job takes from its sweep's config and, as a hash, the code it runs. It is the job's parameter and part
of the stamp of its outputs, so a change to either reruns the job, and a change to anything else does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from koct import metrics
from koct.base.stamps import checksum_of
from koct.config import study_file as config
from koct.config.sweep import Sweep
from koct.contracts import Architecture, Cost, Problem
from koct.contracts.registry import module_of
from koct.contracts.spec import encode_curve, encode_problem
from koct.errors import KoctError
from koct.report.products import product
from koct.study import brought, paths
from koct.workflow import planned, resources, sources, when

NONE = "(?!)"  # a pattern that matches nothing
FEW_CELLS = 1000  # whose collection is submitted with what follows
Wildcards = Any  # Snakemake's: sweep, arch, N and seed as text


class Jobs:
    """The jobs of a study. Functions of wildcards are passed to the rules as they are."""

    def __init__(self, settings: Mapping[str, Any]):
        self.settings = config.settings(settings)
        self.study = config.read(settings)
        self.sources = planned.environment(self._own_sources())  # before anything is hashed
        self.sweeps = {sweep.name: sweep for sweep in self.study}
        self.names = _either(self.sweeps)
        self.archs = _either({arch.name for sweep in self.study for arch in sweep.archs + sweep.required})
        self.theories = [paths.theory(sweep.name, arch.name) for sweep in self.study for arch in sweep.predicted]
        self.chains = [paths.chains(name) for name in when.ladder(self.study)]
        self.device = self.settings.device
        self.evaluation = sources.digest(*sources.evaluation())
        self._evaluated: dict[str, Any] = {"evaluation": self.evaluation}
        if own := metrics.own():
            self._evaluated["metrics"] = {name: sources.own_digest(path) for name, path in own.items()}
        self._files = cache(sources.checksums)
        self._curve_spec = cache(self._curve_spec)  # type: ignore[method-assign]
        self._curve_inputs = cache(self._curve_inputs)  # type: ignore[method-assign]
        self._pool_spec = cache(self._pool_spec)  # type: ignore[method-assign]
        self._wanted = cache(self._wanted)  # type: ignore[method-assign]
        self.brought: set[str] = set()  # fits that nobody needs, since there are rows that were made elsewhere
        self.refused: Counter[str] = Counter()  # such rows that cannot stand in for a fit, by what they are of
        row = self._row if os.path.isdir(paths.BROUGHT) else paths.cell
        self.cells = [row(**cell) for sweep in self.study for cell in sweep.grid()]
        bare = [name for name in self.sweeps if not self.first_fits(SimpleNamespace(sweep=name))]
        undrawn = {path.format(sweep=name) for name in bare for path in product("fig_recons").outputs}
        self.products = [path for path in when.published(self.study) if path not in undrawn]
        self.pictures = [path for path in map(paths.picture, self.sweeps) if path in self.products]
        asked = {name: settings["sweeps"][name] for name in self.sweeps}
        self.about = {"study": self.settings.study, "products": self.products, "sweeps": asked}

    def _row(self, **cell: Any) -> str:
        """Where the row of a cell is, or will be: elsewhere if one is there that was made from the same."""
        from koct.base.files import read_json  # which imports NumPy

        own, place = paths.cell(**cell), paths.brought(**cell)
        if not os.path.isfile(place) or os.path.exists(own):
            return own
        try:
            row, stamp = read_json(place)
            reason = brought.refused(row, stamp.spec, cell, self._wanted(cell["sweep"], cell["arch"]))
        except (ValueError, KoctError):
            reason = "another format"
        if reason:
            self.refused[reason] += 1
            return own
        self.brought.add(paths.fit(**cell))
        return place

    def _wanted(self, name: str, arch_name: str) -> dict[str, Any]:
        """What rows from elsewhere have to be."""
        curve, pool = (json.loads("{" + spec) for spec in (self._curve_spec(name, arch_name), self._pool_spec(name)))
        return brought.wanted(curve, pool, self._evaluated.get("metrics", {}))

    def environment(self) -> dict[str, str]:
        """What jobs are told beside their parameters, since it changes no result.

        What they compute on, which sweeps ask a cluster for a GPU, which problems and modules can use one, and the
        hash of the code that evaluates.
        """
        on_gpu = [sweep for sweep in self.study if resources.on_gpu(sweep, self.device)]
        archs = {arch for sweep in self.study for arch in sweep.archs if resources.on_gpu(sweep, self.device, arch)}
        modules = {arch.source for arch in archs if arch.needs_torch}
        return {
            "KOCT_DEVICE": self.device,
            "KOCT_GPU_SWEEPS": " ".join(sweep.name for sweep in on_gpu),
            "KOCT_GPU_PROBLEMS": json.dumps(sorted(modules | {sweep.problem.source for sweep in on_gpu})),
            "KOCT_EVALUATION": self.evaluation,
            metrics.OWN: json.dumps(self.settings.metrics),
            **self.sources,
        }

    def _own_sources(self) -> set[str]:
        """The users' Python files that jobs import, what they import from their own folders included."""
        used = {module_of(sweep.problem.source, Problem) for sweep in self.study}
        used |= {module_of(arch.source, Architecture) for sweep in self.study for arch in sweep.archs + sweep.required}
        own = set(filter(sources.is_own, used)) | set(self.settings.metrics)
        return set(filter(sources.is_own, sources.reached(own)))

    # Which rule makes a file follows from its cost: patterns of wildcards

    def pools(self, cheap: bool) -> str:
        """The sweeps whose pools are cheap, or are not."""
        return _either(sweep.name for sweep in self.study if resources.cheap(sweep, resources.pool(sweep)) == cheap)

    def curves(self, *classes: str) -> str:
        """The sweeps whose next folder is an architecture that is fitted so."""
        return _before(
            (sweep.name, f"{arch.name}/")
            for sweep in self.study
            for arch in sweep.archs + sweep.required
            if resources.fit_class(sweep, arch) in classes
        )

    def predictions(self, cheap: bool) -> str:
        """The sweeps whose next file is an architecture whose curve is predicted so."""
        return _before(
            (sweep.name, f"{arch.name}.json")
            for sweep in self.study
            for arch in sweep.predicted
            if resources.cheap(sweep, resources.theory(sweep, arch)) == cheap
        )

    # What a job depends on

    def pool_spec(self, wildcards: Wildcards) -> str:
        return f'{{"seed": {wildcards.seed}, {self._pool_spec(wildcards.sweep)}'

    def _pool_spec(self, name: str) -> str:
        """What the pools of a sweep share: JSON without its opening brace."""
        sweep = self.sweeps[name]
        wanted = {"problem": encode_problem(sweep.problem, layers=False), "sizes": asdict(sweep.pool)}
        return _spec("pool", {**wanted, **self._files(sweep.problem)})[1:]

    def _pairs(self, name: str) -> dict[str, Any]:
        """A hash of what the pools of a sweep are: a result is outdated with its pool, also where that was removed."""
        pool, problem = checksum_of(json.loads("{" + self._pool_spec(name))), self.sweeps[name].problem
        return {"pool": pool, **(self._files(problem) if sources.is_own(problem.source) else {})}  # its layers read too

    def problem_spec(self, stage: str) -> Callable[[Wildcards], str]:
        """Of a stage that knows the problem alone, and the seed if it has one."""

        def spec(wildcards: Wildcards) -> str:
            problem = self.sweeps[wildcards.sweep].problem
            wanted = {"sweep": wildcards.sweep, "problem": encode_problem(problem, layers=stage != "gram")}
            seed = {"seed": int(wildcards.seed)} if hasattr(wildcards, "seed") else {}
            return _spec(stage, {**wanted, **seed, **self._files(problem)})

        return spec

    def fit_spec(self, wildcards: Wildcards) -> str:
        return f'{{"N": {wildcards.N}, "seed": {wildcards.seed}, {self._curve_spec(wildcards.sweep, wildcards.arch)}'

    def row_spec(self, wildcards: Wildcards) -> str:
        """Of a row: that of its fit, and what evaluates it."""
        return json.dumps({**json.loads(self.fit_spec(wildcards)), **self._evaluated}, sort_keys=True)

    def _curve_spec(self, name: str, arch_name: str) -> str:
        """What the fits of one curve share: JSON without its opening brace."""
        sweep = self.sweeps[name]
        arch = sweep.arch(arch_name)
        inputs = list(self._fit_inputs(sweep, arch))
        archs = [arch, *([sweep.arch(arch.requires_cell)] if arch.requires_cell else [])]
        own = filter(sources.is_own, [sweep.problem.source, *(one.source for one in archs)])
        wanted = {**encode_curve(name, sweep.problem, arch, sweep.lambdas), **self._pairs(name), "inputs": inputs}
        wanted["origin"] = brought.origin(
            sweep.problem, archs, json.loads("{" + self._pool_spec(name)), map(sources.own_digest, own)
        )
        if resources.fit_class(sweep, arch) == "cheap":
            wanted |= self._evaluated  # the same job evaluates
        return _spec("fit", wanted)[1:]

    def theory_spec(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        arch = sweep.arch(wildcards.arch)
        wanted = {
            **encode_curve(sweep.name, sweep.problem, arch, sweep.lambdas),
            **self._pairs(sweep.name),
            "N": sweep.theory_pairs,
            "seed": sweep.theory_seed,
            "inputs": list(self._theory_inputs(sweep, arch)),
            "at": sweep.predicted_at(arch),
            "tests": sweep.pool.test,
            "metric": sweep.metric,
        }
        return _spec("theory", wanted)

    def recons_spec(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        wanted = {
            "problem": encode_problem(sweep.problem, layers=True),
            "archs": [arch.source for arch in sweep.archs],
            "inputs": ["pool", *(["shared"] if sweep.problem.has_shared else [])],  # behind the fits
            **self._files(sweep.problem),
        }
        return _spec("figure-recons", wanted)

    def chains_spec(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        wanted = {
            "sweep": sweep.name,
            "problem": encode_problem(sweep.problem, layers=True),
            "archs": [arch.source for arch in sweep.networks],
            "chained": [encode_curve(sweep.name, sweep.problem, arch, ())["arch"] for arch in sweep.networks],
            **self._files(sweep.problem),
        }
        return _spec("chains", wanted)

    def study_spec(self, stage: str = "collect") -> str:
        """Of the collected rows, or of the predictions: what each has to be, as a hash of what its curve shares."""
        sweeps, of_cells = [], stage == "collect"
        for sweep in self.study:
            about = {"name": sweep.name, "label": sweep.problem.label, "metric": sweep.metric}
            about |= {"counts": "groups"} if sweep.groups else {}
            about |= self._files(sweep.problem)  # whose contents are compared again
            made, archs = (self._cells, sweep.archs) if of_cells else (self._prediction, sweep.predicted)
            sweeps.append({**about, "archs": [{**config.style(arch), **made(sweep, arch)} for arch in archs]})
        hashed = hashlib.sha256(config.canonical(self.study).encode()).hexdigest()
        return _spec(stage, {"sweeps": sweeps, "config": hashed})

    def _cells(self, sweep: Sweep, arch: Architecture) -> dict[str, Any]:
        curve = json.loads("{" + self._curve_spec(sweep.name, arch.name))
        made = {"spec": checksum_of({**curve, **self._evaluated}), "brought": self._wanted(sweep.name, arch.name)}
        return {"N": sweep.sizes_of(arch), "seeds": sweep.seeds_of(arch), **made}

    def _prediction(self, sweep: Sweep, arch: Architecture) -> dict[str, Any]:
        return {"spec": checksum_of(json.loads(self.theory_spec(SimpleNamespace(sweep=sweep.name, arch=arch.name))))}

    def report_spec(self, stage: str, *takes: str) -> str:
        """Of a stage that depends on its inputs and, if any, on answers of `koct.workflow.when` or keys of sweeps.

        Beside these, `study` is its name, `products` the files of these, and `sweeps` what the config says of them.
        """
        own = self.about
        return _spec(stage, {name: own[name] if name in own else when.answer(name, self.study) for name in takes})

    def crate_spec(self, study: str) -> str:
        """Of the description of the results: all parameters, and the checksums of the users' files."""
        each = (self._files(sweep.problem).get("files", {}) for sweep in self.study)
        files = {path: digest for found in each for path, digest in found.items()}
        return _spec("crate", {"study": study, "parameters": config.parameters(self.study), "files": files})

    # What a job reads

    def _fit_inputs(self, sweep: Sweep, arch: Architecture) -> dict[str, str]:
        """The files of a fit by name, with wildcards in them."""
        needs = arch.needs()
        found = {"pool": paths.pool("{sweep}", "{seed}")}
        if needs & {"layers", "normal"} and sweep.problem.has_shared:
            found["shared"] = paths.shared("{sweep}")
        if "normal" in needs and resources.normal(sweep).operations > resources.INSTANT:
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

    def _theory_inputs(self, sweep: Sweep, arch: Architecture) -> dict[str, str]:
        """The files of a prediction by name: those of a fit that all pairs are given to, of a seed without fits."""
        found = self._fit_inputs(sweep, arch)
        return {
            name: found[name].format(sweep=sweep.name, seed=sweep.theory_seed)
            for name in ("pool", "shared", "normal")
            if name in found
        }

    def theory_input(self, wildcards: Wildcards) -> list[str]:
        sweep = self.sweeps[wildcards.sweep]
        return list(self._theory_inputs(sweep, sweep.arch(wildcards.arch)).values())

    def shared_input(self, wildcards: Wildcards) -> str | list[str]:
        """What a problem computes once per sweep, if it does."""
        return paths.shared(wildcards.sweep) if self.sweeps[wildcards.sweep].problem.has_shared else []

    def own_files(self, wildcards: Wildcards) -> list[str]:
        """What a problem reads from disk."""
        return list(self.sweeps[wildcards.sweep].problem.files())

    def rows(self, wildcards: Wildcards) -> list[str]:
        """Of all cells; a function, so that who wants one of a hundred thousand does not wait for the others."""
        return self.cells

    def first_fits(self, wildcards: Wildcards) -> list[str]:
        """The fits of a sweep's first seed, as far as they are made here; none if no network is among them."""
        sweep = self.sweeps[wildcards.sweep]
        sizes = {paths.fit(**cell): cell["N"] for cell in sweep.grid() if cell["seed"] == sweep.seeds[0]}
        fits = [fit for fit in sizes if fit not in self.brought]
        return fits if any(sizes[fit] for fit in fits) else []

    # What a large job asks for

    def asks(self, stage: str, gpu: bool = True) -> dict[str, Callable[[Wildcards], int]]:
        """The resources of a large job by the cost of its stage; without `gpu` it asks a cluster for none.

        `gpu_mb` is memory of a GPU: with `--resources gpu_mb=...` as many jobs run at once as there is room for.
        """
        cost = partial(self._cost, stage)
        asked = {
            "mem_mb": lambda wildcards: resources.mem_mb(cost(wildcards)),
            "gpu_mb": lambda wildcards: resources.gpu_mb(cost(wildcards)) if self.gpus(wildcards) else 0,
            "runtime": lambda wildcards: resources.minutes(cost(wildcards), gpu and bool(self.gpus(wildcards))),
        }
        return {**asked, "gpu": self.gpus} if gpu else asked

    def _cost(self, stage: str, wildcards: Wildcards) -> Cost:
        return resources.of_job(stage, self.sweeps[wildcards.sweep], wildcards)

    def gpus(self, wildcards: Wildcards) -> int:
        """GPUs that a job of one process asks a cluster for."""
        sweep = self.sweeps[wildcards.sweep]
        arch = sweep.arch(wildcards.arch) if hasattr(wildcards, "arch") else None
        return int(resources.on_gpu(sweep, self.device, arch))

    def torchrun(self) -> dict[str, Callable[[Wildcards], int]]:
        """The resources of a fit that torchrun starts: a GPU for every rank, and the memory of a node."""
        asked = {name: self.launch(name) for name in ("nodes", "ranks", "checkpoint_minutes")}
        return {
            **self.asks("fit", gpu=False),
            **asked,
            "gpu": lambda wildcards: self.gpus(wildcards) * asked["ranks"](wildcards),
            "mem_mb": lambda wildcards: resources.mem_mb(self._cost("fit", wildcards), self.ranks_per_node(wildcards)),
        }

    def launch(self, key: str) -> Callable[[Wildcards], int]:
        """How an architecture is started by torchrun; none of this changes its numbers."""
        return lambda wildcards: getattr(self.sweeps[wildcards.sweep].arch(wildcards.arch), key)

    def ranks_per_node(self, wildcards: Wildcards) -> int:
        return self.launch("ranks")(wildcards) // self.launch("nodes")(wildcards)

    def seed_group(self, wildcards: Wildcards) -> str:
        """What a large job of a seed travels with."""
        sweep = self.sweeps[wildcards.sweep]
        if int(wildcards.seed) == sweep.theory_seed:
            return self.theory_group(wildcards)
        name = f"{sweep.name}_seed{wildcards.seed}"
        if not hasattr(wildcards, "arch"):
            return name
        arch, N = wildcards.arch, int(wildcards.N)
        return name + resources.groups(sweep, bool(self.gpus(wildcards))).get((arch, N), f"_{arch}_N{N}")

    def theory_group(self, wildcards: Wildcards) -> str:
        """A prediction and its pool travel with the pool of the first seed."""
        return f"{wildcards.sweep}_seed{self.sweeps[wildcards.sweep].seeds[0]}"

    def summary_group(self, wildcards: Wildcards) -> str | None:
        """Collecting travels with the tables and figures, unless it has many rows.

        Whenever a row is finished, Snakemake 9.27 goes through all inputs of a job that waits for it in a group: the
        time of a run grew with the square of its cells.
        """
        return "summary" if len(self.cells) <= FEW_CELLS else None


def _either(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(names))) or NONE


def _before(names: Iterable[tuple[str, str]]) -> str:
    """The first of two names, where the second follows."""
    return "|".join(f"{re.escape(first)}(?=/{re.escape(second)})" for first, second in names) or NONE


def _spec(stage: str, wanted: Mapping[str, Any]) -> str:
    text = json.dumps({**wanted, "code": sources.code(stage, wanted)}, sort_keys=True)
    return re.sub(r"\{(?=\s*\w)", r"\\u007b", text)  # of a label such as $L_{1}$: Snakemake takes it for a wildcard
