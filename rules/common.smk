# What every stage needs: the package, the checked config, and what a job depends on besides its files.

import gc
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

from koct import paths, sweeps
from koct.ct import PROBLEMS
from koct.errors import KoctError
from koct.learn import ARCHS, USE_KNOWN_OPERATOR
from koct.sources import digest

try:
    STUDY = sweeps.study(config)
except KoctError as error:
    raise WorkflowError(str(error))
SWEEPS = {sweep.name: sweep for sweep in STUDY}
CELLS = [paths.cell(**cell) for cell in sweeps.grid(STUDY)]


# A spec is what a job takes from its sweep's config and, as a hash, the code it runs. It is the job's parameter, so a
# change to either reruns the job, and a change to anything else does not.


def spec(wanted, *modules):
    return json.dumps({**wanted, "code": digest(*modules)}, sort_keys=True)


def pool_spec(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return spec(sweep.pool_spec(), "koct.ct.pools", PROBLEMS[sweep.problem])


def known_spec(wildcards):
    sweep = SWEEPS[wildcards.sweep]
    return spec(sweep.known_spec(), "koct.ct.known", PROBLEMS[sweep.problem])


def fit_spec(wildcards):
    cell = {"arch": wildcards.arch, "N": int(wildcards.N), "seed": int(wildcards.seed)}
    return spec(SWEEPS[wildcards.sweep].fit_spec() | cell, "koct.cells", ARCHS[wildcards.arch])


def untrained_spec(wildcards):
    return spec(SWEEPS[wildcards.sweep].row_spec(), "koct.cells", ARCHS["ko"])
