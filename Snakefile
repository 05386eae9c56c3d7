"""koct: how many training samples a network needs, and how many a known operator saves.

The conductor: says which cell needs which file. All computing happens in the package `koct`.
"""

import json
import os
import sys

from snakemake.exceptions import WorkflowError

# The package beside this file is the one that runs, with the Python that runs Snakemake.
sys.path.insert(0, workflow.basedir)
os.environ["PYTHONPATH"] = workflow.basedir
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

from koct import sweeps
from koct.ct import PROBLEMS
from koct.errors import KoctError
from koct.learn import ARCHS, USE_KNOWN_OPERATOR
from koct.sources import digest



configfile: "config.yaml"


try:
    STUDY = sweeps.study(config)
except KoctError as error:
    raise WorkflowError(str(error))
SWEEPS = {sweep.name: sweep for sweep in STUDY}


# To keep its limit of jobs per second, Snakemake 9 starts a one-second timer at every scheduling step, and each timer
# makes one more step: hundreds of small jobs then wait for the scheduler. Without the limit there are no timers.
onstart:
    workflow.scheduler.job_rate_limiter = None


wildcard_constraints:
    sweep="[A-Za-z0-9][A-Za-z0-9._-]*",
    arch="|".join(ARCHS),
    N="[0-9]+",
    seed="[0-9]+",


include: "rules/pools.smk"
include: "rules/cells.smk"
include: "rules/results.smk"
include: "rules/report.smk"


rule all:
    default_target: True
    input:
        rules.collect.output,
        rules.calibrate.output,
        rules.table_calibration.output,
        rules.figure_sweeps.output,
    localrule: True
