"""What the rules ask about their jobs: which rule makes a file, what a job reads, depends on and asks for.

A spec is what a job takes from its sweep's config and, as a hash, the code it runs. It is the job's parameter and part
of the stamp of its outputs, so a change to either reruns the job, and a change to anything else does not.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any

from koct import metrics
from koct.base import FRESH
from koct.base.stamps import checksum_of
from koct.config import study_file as config
from koct.config.sweep import Sweep
from koct.contracts import Architecture, Problem
from koct.contracts.registry import module_of
from koct.contracts.spec import encode_curve, encode_problem
from koct.errors import KoctError
from koct.report.products import product
from koct.study import brought, paths
from koct.workflow import planned, resources, sources, when

NONE = "(?!)"  # a pattern that matches nothing
FEW_CELLS = 1000  # whose collection is submitted with what follows
TESTED = ("tested_on", "tested", "tested_seed", "tested_pool")  # in the spec of a row on other pairs
Wildcards = Any  # Snakemake's: sweep, arch, N and seed as text


class Jobs:
    """The jobs of a study. Functions of wildcards are passed to the rules as they are."""

    def __init__(self, settings: Mapping[str, Any]):
        self.settings = config.settings(settings)
        self.study = config.read(settings)
        self.sources = planned.environment(self._own_sources())  # before anything is hashed
        self.sweeps = {sweep.name: sweep for sweep in self.study}
        self.names = _either(self.sweeps)
        self.theories = [paths.theory(sweep.name, arch.name) for sweep in self.study for arch in sweep.predicted]
        self.chains = [paths.chains(name) for name in when.ladder(self.study)]
        self.device = self.settings.device
        self.evaluation = sources.digest(*sources.evaluation())
        self._evaluated: dict[str, Any] = {"evaluation": self.evaluation}
        if own := metrics.own():
            self._evaluated["metrics"] = {name: sources.own_digest(path) for name, path in own.items()}
        self._files = cache(sources.checksums)
        for name in ("_curve", "_curve_inputs", "_pool", "_request", "_wanted"):
            setattr(self, name, cache(getattr(self, name)))
        self.brought: set[str] = set()  # fits that nobody needs, since there are rows that were made elsewhere
        self.refused: Counter[str] = Counter()  # such rows that cannot stand in for a fit, by what they are of
        tested = [cell for sweep in self.study for cell in sweep.transfers(self.sweeps)]
        rows = [self._transfer(**cell) for cell in tested]
        self.transfers = dict(sorted(rows))  # where they are, and hashes of what they have to be
        self._tested = {paths.fit(**cell) for cell, (at, _) in zip(tested, rows, strict=True) if not _elsewhere(at)}
        row = self._row if os.path.isdir(paths.BROUGHT) else paths.cell
        self.cells = [row(**cell) for sweep in self.study for cell in sweep.grid()]
        bare = [name for name in self.sweeps if not self.first_fits(SimpleNamespace(sweep=name))]
        undrawn = {path.format(sweep=name) for name in bare for path in product("fig_recons").outputs}
        self.products = [path for path in when.published(self.study) if path not in undrawn]
        self.pictures = [path for path in map(paths.picture, self.sweeps) if path in self.products]
        entries = {name: settings["sweeps"][name] for name in self.sweeps}
        self.about = {"study": self.settings.study, "products": self.products, "sweeps": entries}

    def _row(self, **cell: Any) -> str:
        """Return where the row of a cell is, or will be: elsewhere if one is there that was made from the same.

        Here all the same if its fit has to be made, to test it on the pairs of another sweep.
        """
        from koct.base.files import read_json  # which imports NumPy

        own, place = paths.cell(**cell), paths.brought(**cell)
        if not os.path.isfile(place) or os.path.exists(own):
            return own
        try:
            row, stamp = read_json(place)
            reason = brought.refused(row, stamp.spec, cell, self._wanted(cell["sweep"], cell["arch"]))
            reason = reason or ("networks to be tested on other pairs" if paths.fit(**cell) in self._tested else "")
        except (ValueError, OSError, KoctError):
            reason = "another format"
        if reason:
            self.refused[reason] += 1
            return own
        self.brought.add(paths.fit(**cell))
        return place

    def _transfer(self, **cell: Any) -> tuple[str, str]:
        """Return where a row on other pairs is, or will be, and the hash of its spec.

        It is elsewhere if one is there that was made from the same, and tested on the same pairs.
        """
        own, place = paths.transfer(**cell), paths.brought_transfer(**cell)
        spec = json.loads(self.transfer_spec(SimpleNamespace(**cell)))
        if not os.path.isfile(place) or os.path.exists(own):
            return own, checksum_of(spec)
        from koct.base.files import read_json  # which imports NumPy

        try:
            row, stamp = read_json(place)
            made = {key: value for key, value in cell.items() if key != "other"}
            reason = brought.refused(row, stamp.spec, made, self._wanted(cell["sweep"], cell["arch"]))
            if any(stamp.spec.get(key) != spec[key] for key in TESTED):
                reason = "other pairs to be tested on"
        except (ValueError, OSError, KoctError):
            reason = "another format"
        if not reason:
            return place, checksum_of(stamp.spec)
        self.refused[reason] += 1
        return own, checksum_of(spec)

    def _wanted(self, name: str, arch_name: str) -> dict[str, Any]:
        """Return what rows from elsewhere have to be."""
        own, metric = self._evaluated.get("metrics", {}), metrics.column(self.sweeps[name].metric)
        return brought.wanted(self._curve(name, arch_name), self._pool(name), own, metric)

    def environment(self) -> dict[str, str]:
        """Return the variables that jobs need beside their parameters, none of which changes a result.

        They say what jobs compute on, which sweeps, or networks of one, ask a cluster for a GPU, which problems and
        modules can use one, the hash of the code that evaluates, and who lists the files that problems read.
        """
        on_gpu = [sweep for sweep in self.study if resources.on_gpu(sweep, self.device)]
        fits = [(sweep, arch) for sweep in self.study for arch in sweep.archs + sweep.required]
        fits = [(sweep, arch) for sweep, arch in fits if resources.on_gpu(sweep, self.device, arch)]
        modules = {arch.source for _, arch in fits if arch.needs_torch}
        names = [sweep.name for sweep in on_gpu]
        names += [f"{sweep.name}/{arch.name}" for sweep, arch in fits if not resources.cheap_curve(sweep, arch)]
        reading = {sweep.problem: files for sweep in self.study for files in self._files(sweep.problem).values()}
        readers = {checksum_of(files): encode_problem(problem, layers=True) for problem, files in reading.items()}
        return {
            "KOCT_DEVICE": self.device,
            "KOCT_GPU_SWEEPS": " ".join(names),
            "KOCT_GPU_PROBLEMS": json.dumps(sorted(modules | {sweep.problem.source for sweep in on_gpu})),
            "KOCT_EVALUATION": self.evaluation,
            metrics.OWN: json.dumps(self.settings.metrics),
            planned.READERS: json.dumps(readers),
            **self.sources,
        }

    def _own_sources(self) -> set[str]:
        """Return the users' Python files that jobs import, what they import from their own folders included."""
        used = {module_of(sweep.problem.source, Problem) for sweep in self.study}
        used |= {module_of(arch.source, Architecture) for sweep in self.study for arch in sweep.archs + sweep.required}
        own = set(filter(sources.is_own, used)) | set(self.settings.metrics)
        return set(filter(sources.is_own, sources.reached(own)))

    def archs(self, torchrun: bool | None = None) -> str:
        """Return a pattern of all architectures, or of those that torchrun starts, or does not."""
        used = {arch for sweep in self.study for arch in sweep.archs + sweep.required}
        return _either({arch.name for arch in used if torchrun in (None, arch.launch == "torchrun")})

    # What a job depends on

    def pool_spec(self, wildcards: Wildcards) -> str:
        return _text({**self._pool(wildcards.sweep), "seed": int(wildcards.seed)})

    def _pool(self, name: str) -> dict[str, Any]:
        """Return what the pools of a sweep share."""
        sweep = self.sweeps[name]
        spec = {"problem": encode_problem(sweep.problem, layers=False), "sizes": asdict(sweep.pool)}
        return _with_code("pool", {**spec, **self._files(sweep.problem)})

    def _pairs(self, name: str) -> dict[str, Any]:
        """Return a hash of the pools of a sweep: a result is outdated with its pool, also where that was removed."""
        pool, problem = checksum_of(self._pool(name)), self.sweeps[name].problem
        return {"pool": pool, **(self._files(problem) if sources.is_own(problem.source) else {})}  # its layers read too

    def problem_spec(self, stage: str) -> Callable[[Wildcards], str]:
        """Return the spec of a stage that knows the problem alone, and the seed if it has one."""

        def spec(wildcards: Wildcards) -> str:
            problem = self.sweeps[wildcards.sweep].problem
            known = {"sweep": wildcards.sweep, "problem": encode_problem(problem, layers=stage != "gram")}
            seed = {"seed": int(wildcards.seed)} if hasattr(wildcards, "seed") else {}
            return _spec(stage, {**known, **seed, **self._files(problem)})

        return spec

    def fit_spec(self, wildcards: Wildcards) -> str:
        cell = {"N": paths.size(wildcards.N), "seed": int(wildcards.seed)}
        return _text({**self._curve(wildcards.sweep, wildcards.arch), **cell})

    def row_spec(self, wildcards: Wildcards) -> str:
        """Return the spec of a row: that of its fit, and what evaluates it."""
        cell = {"N": paths.size(wildcards.N), "seed": int(wildcards.seed), **self._evaluated}
        return _text({**self._curve(wildcards.sweep, wildcards.arch), **cell})

    def transfer_spec(self, wildcards: Wildcards) -> str:
        """Return the spec of a row on the test pairs of another sweep: that of its own row, and which pairs."""
        sweep, other = self.sweeps[wildcards.sweep], self.sweeps[wildcards.other]
        with_layers = sweep.arch(wildcards.arch).moved(sweep.problem, other.problem)
        tested = {
            "tested_on": other.name,
            "tested": encode_problem(other.problem, layers=with_layers),
            "tested_seed": other.test_seed(int(wildcards.seed)),
            "tested_pool": self._pairs(other.name)["pool"],
        }
        return _text({**json.loads(self.row_spec(wildcards)), **tested})

    def collect_transfer_spec(self) -> str:
        """Return the spec of the rows on test pairs of other sweeps: what each has to be, as a hash."""
        tested_on = when.answer("tested_on", self.study)
        return _spec("collect-transfer", {"rows": self.transfers, "tested_on": tested_on})

    def _curve(self, name: str, arch_name: str) -> dict[str, Any]:
        """Return what the fits of one curve share."""
        sweep = self.sweeps[name]
        arch = sweep.arch(arch_name)
        inputs = list(self._fit_inputs(sweep, arch))
        archs = [arch, *([sweep.arch(arch.requires_cell)] if arch.requires_cell else [])]
        own = filter(sources.is_own, [sweep.problem.source, *(one.source for one in archs)])
        origin = brought.origin(sweep.problem, archs, self._pool(name), map(sources.own_digest, own))
        if arch.requires_cell:
            origin["read"].append(list(sweep.lambdas))
        if arch.starts_from:
            start = self._curve(arch.starts_from, arch_name)
            shared = {key: start[key] for key in ("problem", "arch", "lambdas", "keys", "origin") if key in start}
            origin["read"].append([self._most(arch), shared])
        curve = encode_curve(name, sweep.problem, arch, sweep.lambdas, sweep.fit_keys)
        return _with_code("fit", {**curve, **self._pairs(name), "inputs": inputs, "origin": origin})

    def theory_spec(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        arch = sweep.arch(wildcards.arch)
        spec = {
            **encode_curve(sweep.name, sweep.problem, arch, sweep.lambdas, sweep.fit_keys),
            **self._pairs(sweep.name),
            "N": sweep.theory_pairs,
            "seed": sweep.theory_seed,
            "inputs": list(self._theory_inputs(sweep, arch)),
            "at": sweep.predicted_at(arch),
            "tests": sweep.pool.test,
            "metric": sweep.metric,
        }
        return _spec("theory", spec)

    def recons_spec(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        spec = {
            "problem": encode_problem(sweep.problem, layers=True),
            "archs": [arch.source for arch in sweep.archs],
            "inputs": ["pool", *(["shared"] if sweep.problem.has_shared else [])],  # behind the fits
            **self._files(sweep.problem),
        }
        return _spec("figure-recons", spec)

    def chains_spec(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        spec = {
            "sweep": sweep.name,
            "problem": encode_problem(sweep.problem, layers=True),
            "archs": [arch.source for arch in sweep.networks],
            "chained": [encode_curve(sweep.name, sweep.problem, arch, (), {})["arch"] for arch in sweep.networks],
            **self._files(sweep.problem),
        }
        return _spec("chains", spec)

    def study_spec(self, stage: str = "collect") -> str:
        """Return the spec of the collected rows or predictions: of each, a hash of what its curve shares."""
        sweeps, of_cells = [], stage == "collect"
        for sweep in self.study:
            about = {"name": sweep.name, "label": self._label(sweep), "metric": sweep.metric}
            about |= {"counts": "groups"} if sweep.groups else {}
            about |= self._files(sweep.problem)  # whose contents are compared again
            describe, archs = (self._cells, sweep.archs) if of_cells else (self._prediction, sweep.predicted)
            sweeps.append({**about, "archs": [{**config.style(arch), **describe(sweep, arch)} for arch in archs]})
        hashed = hashlib.sha256(config.canonical(self.study).encode()).hexdigest()
        return _spec(stage, {"sweeps": sweeps, "config": hashed})

    @cached_property
    def _conditions(self) -> dict[str, tuple[Any, Any, Any]]:
        """Return label, H and views of every sweep: some labels take a look at files."""
        each = {sweep.name: sweep.problem for sweep in self.study}
        views = {name: getattr(own, "V", None) if own.interpolates else None for name, own in each.items()}
        return {name: (own.label, getattr(own, "H", None), views[name]) for name, own in each.items()}

    def _label(self, sweep: Sweep) -> str:
        """Return the label of a problem, with the number of views where another of this label and H has other ones."""
        label, H, V = self._conditions[sweep.name]
        views = {other for *alike, other in self._conditions.values() if alike == [label, H]}
        return f"{label}, {V} views" if len(views) > 1 else label

    def _cells(self, sweep: Sweep, arch: Architecture) -> dict[str, Any]:
        curve = self._curve(sweep.name, arch.name)
        about = {"spec": checksum_of({**curve, **self._evaluated}), "brought": self._wanted(sweep.name, arch.name)}
        return {"N": sweep.sizes_of(arch), "seeds": sweep.seeds_of(arch), **about}

    def _prediction(self, sweep: Sweep, arch: Architecture) -> dict[str, Any]:
        return {"spec": checksum_of(json.loads(self.theory_spec(SimpleNamespace(sweep=sweep.name, arch=arch.name))))}

    def report_spec(self, stage: str, *takes: str) -> str:
        """Return the spec of a stage that depends on its inputs, answers of `koct.workflow.when` and keys of sweeps.

        Beside these, `study` is its name, `products` the files of these, and `sweeps` what the config says of them.
        """
        own = self.about
        return _spec(stage, {name: own[name] if name in own else when.answer(name, self.study) for name in takes})

    def crate_spec(self, study: str) -> str:
        """Return the spec of the description of the results: all parameters, and the checksums of the users' files."""
        files: dict[str, str] = {}
        for sweep in self.study:
            files |= self._files(sweep.problem).get("files", {})
        return _spec("crate", {"study": study, "parameters": config.parameters(self.study), "files": files})

    # What a job reads

    def _fit_inputs(self, sweep: Sweep, arch: Architecture) -> dict[str, str]:
        """Return the files of a fit by name, with wildcards in them."""
        needs = arch.needs()
        inputs = {"pool": paths.pool("{sweep}", "{seed}")}
        if needs & {"layers", "normal"} and sweep.problem.has_shared:
            inputs["shared"] = paths.shared("{sweep}")
        if "normal" in needs and resources.normal(sweep).operations > resources.INSTANT:
            inputs["normal"] = paths.normal("{sweep}")
        if "gram" in needs and resources.shares_gram(sweep):
            inputs["gram"] = paths.gram("{sweep}", "{seed}")
        if arch.requires_cell:
            inputs["required"] = paths.fit("{sweep}", sweep.arch(arch.requires_cell).name, "{N}", "{seed}")
        if arch.starts_from:
            inputs["start"] = paths.fit(arch.starts_from, arch.name, self._most(arch), "{seed}")
        return inputs

    def _most(self, arch: Architecture) -> int:
        """Return the N of the fit that an architecture starts from."""
        other = self.sweeps[arch.starts_from or ""]
        return other.most_of(other.arch(arch.name))

    def extra_input(self, wildcards: Wildcards) -> list[str]:
        """Return what a fit reads besides its pool."""
        return self._curve_inputs(wildcards.sweep, wildcards.arch)

    def _curve_inputs(self, name: str, arch_name: str) -> list[str]:
        return list(self._fit_inputs(self.sweeps[name], self.sweeps[name].arch(arch_name)).values())[1:]

    def _theory_inputs(self, sweep: Sweep, arch: Architecture) -> dict[str, str]:
        """Return the files of a prediction by name: those of a fit to all pairs of a seed without fits."""
        inputs = self._fit_inputs(sweep, arch)
        return {
            name: inputs[name].format(sweep=sweep.name, seed=sweep.theory_seed)
            for name in ("pool", "shared", "normal")
            if name in inputs
        }

    def theory_input(self, wildcards: Wildcards) -> list[str]:
        sweep = self.sweeps[wildcards.sweep]
        return list(self._theory_inputs(sweep, sweep.arch(wildcards.arch)).values())

    def tested_pool(self, wildcards: Wildcards) -> str:
        """Return the pool whose test pairs another sweep's networks are tested on."""
        return paths.pool(wildcards.other, self.sweeps[wildcards.other].test_seed(int(wildcards.seed)))

    def shared_input(self, wildcards: Wildcards) -> str | list[str]:
        """Return what a problem computes once per sweep, if it does."""
        return paths.shared(wildcards.sweep) if self.sweeps[wildcards.sweep].problem.has_shared else []

    def own_files(self, wildcards: Wildcards) -> list[str]:
        """Return what a problem reads from disk."""
        return list(self.sweeps[wildcards.sweep].problem.files())

    def rows(self, wildcards: Wildcards) -> list[str]:
        """Return the rows of all cells; a function, so that a run for one of them does not wait for the others."""
        return self.cells

    def first_fits(self, wildcards: Wildcards) -> list[str]:
        """Return the fits of a sweep's first seed, as far as they are made here; none if no network is among them."""
        sweep = self.sweeps[wildcards.sweep]
        sizes = {paths.fit(**cell): cell["N"] for cell in sweep.grid() if cell["seed"] == sweep.seeds[0]}
        fits = [fit for fit in sizes if fit not in self.brought]
        return fits if any(sizes[fit] for fit in fits) else []

    # What a job asks for, and what it travels with

    def larger_first(self, wildcards: Wildcards) -> float:
        """Return the priority of a fit: those with more samples take longer, and the last ones would run alone."""
        N = paths.size(wildcards.N)
        return 0.0 if N == FRESH else -1 / max(N, 1)

    def asks(self, stage: str, gpu: bool = True) -> dict[str, Callable[[Wildcards], int]]:
        """Return the resources of a job by the cost of its stage; without `gpu` it asks a cluster for none."""
        if stage == "fit" and all(
            resources.cheap_curve(sweep, arch) for sweep in self.study for arch in sweep.archs + sweep.required
        ):
            return {}  # as profiles/slurm has by default; resources of thousands of cells take a tenth of a dry run

        def request(wildcards: Wildcards) -> resources.Request:
            arch, N = getattr(wildcards, "arch", None), getattr(wildcards, "N", None)
            return self._request(stage, gpu, wildcards.sweep, arch, N)

        names = [name for name in resources.Request._fields if gpu or name != "gpu"]
        return {name: lambda wildcards, name=name: getattr(request(wildcards), name) for name in names}  # type: ignore

    def _request(self, stage: str, gpu: bool, name: str, arch_name: str | None, N: str | None) -> resources.Request:
        sweep = self.sweeps[name]
        arch = None if arch_name is None else sweep.arch(arch_name)
        cost = resources.of_job(stage, sweep, arch, N)
        return resources.request(sweep, cost, self.device, arch, gpu)

    def torchrun(self) -> dict[str, Any]:
        """Return the resources of a fit that torchrun starts: a GPU for every rank, and the memory of a node.

        On several nodes rules/torchrun.sh itself starts a task on each: the SLURM plugin then leaves its own srun out.
        """

        def memory(wildcards: Wildcards) -> int:
            sweep = self.sweeps[wildcards.sweep]
            cost = resources.fit(sweep, sweep.arch(wildcards.arch), paths.size(wildcards.N))
            return resources.mem_mb(cost, self.ranks_per_node(wildcards))

        def several(value: Any) -> Callable[[Wildcards], Any]:
            return lambda wildcards: value if self._arch(wildcards).nodes > 1 else None

        launch = ("nodes", "ranks", "checkpoint_minutes")  # none of which changes a number
        return {
            **self.asks("fit", gpu=False),
            **{name: lambda wildcards, name=name: getattr(self._arch(wildcards), name) for name in launch},  # type: ignore
            "gpu": lambda wildcards: self._arch(wildcards).ranks * self.on_gpu(wildcards),
            "mem_mb": memory,
            "mpi": several("srun"),
            "tasks": lambda wildcards: several(self._arch(wildcards).nodes)(wildcards),
            "tasks_per_gpu": several(0),
        }

    def _arch(self, wildcards: Wildcards) -> Any:
        return self.sweeps[wildcards.sweep].arch(wildcards.arch)

    def on_gpu(self, wildcards: Wildcards) -> bool:
        return resources.on_gpu(self.sweeps[wildcards.sweep], self.device, self._arch(wildcards))

    def ranks_per_node(self, wildcards: Wildcards) -> int:
        arch = self._arch(wildcards)
        return arch.ranks // arch.nodes

    # Large jobs travel to a cluster with others of their sweep and seed, predictions and their pool with the first seed

    def seed_group(self, wildcards: Wildcards) -> str:
        sweep, seed = self.sweeps[wildcards.sweep], int(getattr(wildcards, "seed", 0))
        return f"{sweep.name}_seed{seed if seed in sweep.seeds else sweep.seeds[0]}"

    def pool_group(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        return "pools" if resources.cheap(sweep, resources.pool(sweep)) else self.seed_group(wildcards)

    def theory_group(self, wildcards: Wildcards) -> str:
        sweep = self.sweeps[wildcards.sweep]
        cheap = resources.cheap(sweep, resources.theory(sweep, self._arch(wildcards)))
        return "cells" if cheap else self.seed_group(wildcards)

    def fit_group(self, wildcards: Wildcards) -> str:
        sweep, arch, N = self.sweeps[wildcards.sweep], self._arch(wildcards), paths.size(wildcards.N)
        if resources.cheap_curve(sweep, arch):
            return "cells"
        among_fits = resources.groups(sweep, self.on_gpu(wildcards)).get((arch.name, N), f"_{arch.name}_N{N}")
        return f"{sweep.name}_seed{wildcards.seed}{among_fits}"

    def large_groups(self) -> set[str]:
        """Return the names that groups of large jobs may have."""
        names = {f"{sweep.name}_seeds" for sweep in self.study}  # of the pictures
        for sweep, on_gpu in itertools.product(self.study, (False, True)):
            ends = {"", *resources.groups(sweep, on_gpu).values()}
            names |= {f"{sweep.name}_seed{seed}{end}" for seed in sweep.seeds for end in ends}
        return names

    def summary_group(self, wildcards: Wildcards) -> str | None:
        """Collecting travels with the tables and figures, unless it has many rows.

        Whenever a row is finished, Snakemake 9.27 goes through all inputs of a job that waits for it in a group: the
        time of a run grew with the square of its cells.
        """
        return "summary" if len(self.cells) <= FEW_CELLS else None


def _elsewhere(path: str) -> bool:
    return path.startswith(f"{paths.BROUGHT}/")


def _either(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(names))) or NONE


def _spec(stage: str, spec: Mapping[str, Any]) -> str:
    return _text(_with_code(stage, spec))


def _with_code(stage: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with the hash of its code, as it will be read from JSON."""
    return json.loads(json.dumps({**spec, "code": sources.code(stage, spec)}))


def _text(spec: Mapping[str, Any]) -> str:
    """Return a spec as JSON. A brace of a label such as $L_{1}$ is escaped: Snakemake would take it for a wildcard."""
    return re.sub(r"\{(?=\s*\w)", r"\\u007b", json.dumps(spec, sort_keys=True))
