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

# The package beside the Snakefile is the one that runs, with the Python that runs Snakemake.
sys.path.insert(0, workflow.basedir)
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")])),
    PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
)

from koct.workflow import paths, queue, sweeps
from koct.problems import PROBLEMS
from koct.errors import KoctError
from koct.networks import ARCHS
from koct.workflow.sources import digest

try:
    STUDY = sweeps.study(config)
except KoctError as error:
    raise WorkflowError(str(error))
os.environ.update(KOCT_DEVICE=config.get("device", "auto"))  # no parameter of a job: another device runs nothing again
SWEEPS = {sweep.name: sweep for sweep in STUDY}
# Surrogate jobs take less than a second, fan-beam jobs want a GPU or minutes: rules of their own, by name of the sweep.
SMALL, LARGE = (
    "|".join(re.escape(sweep.name) for sweep in STUDY if (sweep.problem == "surrogate") is small) or "(?!)"
    for small in (True, False)
)
# Training on several nodes asks a cluster for other things than training on one.
ONE_NODE, NODES = (
    "|".join(re.escape(sweep.name) for sweep in STUDY if sweep.fsdp and (sweep.fsdp["nodes"] == 1) is one) or "(?!)"
    for one in (True, False)
)
os.environ.update(KOCT_TORCHRUN=os.path.join(workflow.basedir, "rules", "fsdp.sh"))  # where it lies changes nothing
CELLS = [paths.cell(**cell) for cell in sweeps.grid(STUDY)]


# A spec is what a job takes from its sweep's config and, as a hash, the code it runs. It is the job's parameter, so a
# change to either reruns the job, and a change to anything else does not.


def asked_often(function):
    """Snakemake looks up the signature of a cell's functions a dozen times: it need not find it out each time."""
    function.__signature__ = inspect.signature(function)
    return function


def spec(wanted, *modules):
    return json.dumps({**wanted, "code": digest(*modules)}, sort_keys=True)


@asked_often
def pool_spec(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return spec(sweep.pool_spec(), "koct.problems.pools", PROBLEMS[sweep.problem])


def known_spec(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return spec(sweep.known_spec(), "koct.problems.known", PROBLEMS[sweep.problem])


def gram_spec(wildcards):
    return spec(SWEEPS[wildcards.sweep].gram_spec(), "koct.cells", "koct.networks.linalg")


@functools.cache
def curve_spec(name, arch):
    """What the fits of one curve share."""
    sweep = SWEEPS[name]
    return spec(sweep.fit_spec(arch), "koct.cells", ARCHS[arch], PROBLEMS[sweep.problem])


@asked_often
def fit_spec(wildcards):
    return f'{{"N": {wildcards.N}, "seed": {wildcards.seed}, {curve_spec(wildcards.sweep, wildcards.arch)[1:]}'


def fsdp_spec(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    wanted = {**sweep.fit_spec("fc-fsdp"), "N": int(wildcards.N), "seed": int(wildcards.seed)}
    return spec(wanted, "koct.sharded", ARCHS["fc-fsdp"], PROBLEMS[sweep.problem])


def untrained_spec(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return spec(sweep.row_spec(), "koct.cells", ARCHS["ko"], PROBLEMS[sweep.problem])


@asked_often
def extra_input(wildcards):
    """What a fit reads besides its pool."""
    match SWEEPS[wildcards.sweep].extra_input(wildcards.arch):
        case "known":
            return rules.known_operator.output
        case "gram":
            return rules.gram.output
    return []


def gpu_mb(wildcards):
    """GPU memory of a cell, so that `--resources gpu_mb=...` runs as many at once as there is room for."""
    return SWEEPS[wildcards.sweep].gpu_mb(getattr(wildcards, "arch", "ko"), int(getattr(wildcards, "N", 0)))


def gpus(wildcards):
    """What a fan-beam job asks a cluster for."""
    return 0 if config.get("device") == "cpu" else 1


def fsdp(key):
    """How a sweep's fc-fsdp is run; none of this changes its numbers."""
    return lambda wildcards: SWEEPS[wildcards.sweep].fsdp[key]


def fsdp_gpus(wildcards):
    """A GPU for every rank; the surrogate stays on the CPU."""
    sweep = SWEEPS[wildcards.sweep]
    return 0 if sweep.problem == "surrogate" else gpus(wildcards) * sweep.fsdp["ranks"]


def mem_mb(stage=None):
    """Host memory of a stage or, without a name, of a fit; more after every failure."""
    return lambda wildcards, attempt: (
        SWEEPS[wildcards.sweep].mem_mb(stage or wildcards.arch, int(getattr(wildcards, "N", 0))) * attempt
    )


def minutes(stage=None):
    """Time limit of a stage or, without a name, of a fit; more after every failure."""
    return lambda wildcards, attempt: (
        SWEEPS[wildcards.sweep].minutes(stage or wildcards.arch, int(getattr(wildcards, "N", 0))) * attempt
    )


def greet():
    """Say what is about to run, and see to it that nothing else runs here."""
    logger.info(
        f"Study {config['study']}: {len(STUDY)} sweeps, {len(CELLS)} cells, device {config.get('device', 'auto')}."
    )
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
    return [paths.fit(sweep.name, arch, N, sweep.seeds[0]) for arch in sweep.archs for N in sweep.N]


def recons_code(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return digest("koct.report.recons", PROBLEMS[sweep.problem], *(ARCHS[arch] for arch in sweep.archs))
