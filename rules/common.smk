# What every stage needs: the package, the checked config, and what a job depends on besides its files.

import functools
import gc
import inspect
import json
import os
import re
import sys

from snakemake.exceptions import WorkflowError

gc.set_threshold(1_000_000)  # a DAG is many objects and no garbage: looking for it takes an eighth of a large dry run

# The package beside the Snakefile is the one that runs, with the Python that runs Snakemake; a job imports nothing from
# the working folder by accident.
sys.path.insert(0, workflow.basedir)
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")])),
    PYTHONSAFEPATH="1",
    PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
)

from koct import metrics
from koct.contracts import Architecture, Problem
from koct.errors import KoctError
from koct.registry import module_of
from koct.study import encode_curve, encode_problem
from koct.workflow import paths, queue, resources
from koct.workflow.config import canonical, read
from koct.workflow.sources import digest

try:
    STUDY = read(config)
except KoctError as error:
    raise WorkflowError(str(error))
SWEEPS = {sweep.name: sweep for sweep in STUDY}
CELLS = [paths.cell(**cell) for sweep in STUDY for cell in sweep.grid()]
DEVICE = config.get("device", "auto")
EVALUATION = digest("koct.evaluation", *metrics.modules())
# No parameters of a job, since they change no result: what it computes on, which sweeps ask a cluster for a GPU, where
# torchrun is started, and whether the errors that a fit has kept are those of today's metrics.
os.environ.update(
    KOCT_DEVICE=DEVICE,
    KOCT_GPU_SWEEPS=" ".join(sweep.name for sweep in STUDY if resources.on_gpu(sweep, DEVICE)),
    KOCT_TORCHRUN=os.path.join(workflow.basedir, "rules", "torchrun.sh"),
    KOCT_EVALUATION=EVALUATION,
)


# Which rule makes a file follows from its cost: patterns of wildcards, by cost.


def names(sweeps):
    """A pattern of the names of sweeps; one that matches nothing if there are none."""
    return "|".join(re.escape(sweep.name) for sweep in sweeps) or "(?!)"


def by_cost(cost):
    """(cheap, large): patterns of sweeps."""
    cheap = {sweep.name for sweep in STUDY if resources.cheap(sweep, cost(sweep))}
    return names(s for s in STUDY if s.name in cheap), names(s for s in STUDY if s.name not in cheap)


def curves(*classes):
    """A pattern of the sweeps whose next folder is an architecture that is fitted so."""
    found = [
        f"{re.escape(sweep.name)}(?=/{re.escape(arch.name)}/)"
        for sweep in STUDY
        for arch in sweep.archs + sweep.required
        if resources.fit_class(sweep, arch) in classes
    ]
    return "|".join(found) or "(?!)"


CHEAP_POOL, LARGE_POOL = by_cost(resources.pool)
CHEAP_UNTRAINED, LARGE_UNTRAINED = by_cost(resources.untrained)


# A spec is what a job takes from its sweep's config and, as a hash, the code it runs. It is the job's parameter, so a
# change to either reruns the job, and a change to anything else does not.


def asked_often(function):
    """Snakemake looks up the signature of a cell's functions a dozen times: it need not find it out each time."""
    function.__signature__ = inspect.signature(function)
    return function


def spec(wanted, *modules):
    return json.dumps({**wanted, "code": digest(*modules)}, sort_keys=True)


def code_of(sweep):
    return module_of(sweep.problem.source, Problem)


@functools.cache
def pool_spec_of(name):
    sweep = SWEEPS[name]
    wanted = {"problem": encode_problem(sweep.problem, layers=False), "sizes": sweep.sizes.values()}
    return spec(wanted, "koct.problems.pools", code_of(sweep))


@asked_often
def pool_spec(wildcards):
    return pool_spec_of(wildcards.sweep)


def problem_spec(*modules, layers=True):
    """What a stage depends on that knows the problem alone."""

    def of(wildcards):
        sweep = SWEEPS[wildcards.sweep]
        wanted = {"sweep": sweep.name, "problem": encode_problem(sweep.problem, layers=layers)}
        return spec(wanted, *modules, code_of(sweep))

    return of


def fit_inputs(sweep, arch):
    """The files that a fit reads, by name."""
    needs = arch.needs()
    found = {"pool": paths.pool("{sweep}", "{seed}")}
    if "layers" in needs and sweep.problem.has_shared:
        found["shared"] = paths.shared("{sweep}")
    if "normal" in needs:
        found["normal"] = paths.normal("{sweep}")
    if "gram" in needs and resources.shares_gram(sweep):
        found["gram"] = paths.gram("{sweep}", "{seed}")
    if arch.requires_cell:
        found["row"] = paths.cell("{sweep}", sweep.arch(arch.requires_cell).name, "{N}", "{seed}")
    return found


@functools.cache
def curve_spec(name, arch_name):
    """What the fits of one curve share: as JSON without its opening brace."""
    sweep = SWEEPS[name]
    arch = sweep.arch(arch_name)
    wanted = {
        **encode_curve(name, sweep.problem, arch, sweep.lambdas),
        "inputs": list(fit_inputs(sweep, arch)),
    }
    code = ["koct.cells", module_of(arch.source, Architecture), f"koct.metrics.{sweep.problem.validation_metric}"]
    if resources.fit_class(sweep, arch) == "cheap":
        wanted["evaluation"] = EVALUATION  # the same job evaluates
    if arch.launch == "torchrun":
        code.append("koct.distributed")
    return spec(wanted, *code, code_of(sweep))[1:]


@asked_often
def fit_spec(wildcards):
    return f'{{"N": {wildcards.N}, "seed": {wildcards.seed}, {curve_spec(wildcards.sweep, wildcards.arch)}'


@functools.cache
def curve_inputs(name, arch_name):
    """Besides the pool."""
    return list(fit_inputs(SWEEPS[name], SWEEPS[name].arch(arch_name)).values())[1:]


@asked_often
def extra_input(wildcards):
    """What a fit reads besides its pool."""
    return curve_inputs(wildcards.sweep, wildcards.arch)


def shared_input(wildcards):
    """What a problem computes once per sweep, if it does."""
    return paths.shared(wildcards.sweep) if SWEEPS[wildcards.sweep].problem.has_shared else []


def own_files(wildcards):
    """What a problem reads from disk."""
    return list(SWEEPS[wildcards.sweep].problem.files())


def seed_pools(wildcards):
    return [paths.pool(wildcards.sweep, seed) for seed in SWEEPS[wildcards.sweep].seeds]


# What a large job asks for


def fit_cost(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return resources.fit(sweep, sweep.arch(wildcards.arch), int(wildcards.N))


def evaluate_cost(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return resources.evaluate(sweep, sweep.arch(wildcards.arch), int(wildcards.N))


def sweep_cost(cost):
    return lambda wildcards: cost(SWEEPS[wildcards.sweep])


def gpu_mb(cost):
    """GPU memory of a job, so that `--resources gpu_mb=...` runs as many at once as there is room for."""
    return lambda wildcards: resources.gpu_mb(cost(wildcards)) if gpus(wildcards) else 0


def gpus(wildcards):
    """GPUs that a job of one process asks a cluster for."""
    return int(resources.on_gpu(SWEEPS[wildcards.sweep], DEVICE))


def mem_mb(cost):
    """Host memory of a job, more after every failure."""
    return lambda wildcards, attempt: resources.mem_mb(cost(wildcards)) * attempt


def minutes(cost):
    """Time limit of a job, more after every failure."""
    return lambda wildcards, attempt: resources.minutes(cost(wildcards)) * attempt


def launch(key):
    """How an architecture is started by torchrun; none of this changes its numbers."""
    return lambda wildcards: getattr(SWEEPS[wildcards.sweep].arch(wildcards.arch), key)


def ranks_per_node(wildcards):
    return launch("ranks")(wildcards) // launch("nodes")(wildcards)


def rank_gpus(wildcards):
    """A GPU for every rank."""
    return gpus(wildcards) * launch("ranks")(wildcards)


def rank_mem_mb(wildcards, attempt):
    """Host memory of a node."""
    return resources.mem_mb(fit_cost(wildcards), ranks_per_node(wildcards)) * attempt


def greet():
    """Say what is about to run, and see to it that nothing else runs here."""
    logger.info(f"Study {config['study']}: {len(STUDY)} sweeps, {len(CELLS)} cells, device {DEVICE}.")
    if workflow.local_exec and not workflow.execution_settings.lock:
        return
    try:
        workflow.koct_lock = queue.take_lock()
    except KoctError as error:
        raise WorkflowError(str(error))
    if workflow.koct_lock and not workflow.local_exec:
        left = queue.cancel_leftovers()
        if left:
            logger.info(f"Cancelled {len(left)} jobs that an earlier run left in the queue.")


def recons_fits(wildcards):
    """The fits of a sweep's first seed."""
    sweep = SWEEPS[wildcards.sweep]
    return [paths.fit(sweep.name, arch.name, N, sweep.seeds[0]) for arch in sweep.archs for N in sweep.N]


def recons_code(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    archs = (module_of(arch.source, Architecture) for arch in sweep.archs)
    return digest("koct.report.recons", f"koct.metrics.{sweep.problem.validation_metric}", code_of(sweep), *archs)
