"""koct: how many training samples a network needs, and how many a known operator saves.

Says which cell needs which file. All computing happens in the package `koct`.
"""


report: "rules/report.rst"


include: "rules/config.smk"


configfile: "config.yaml"


include: "rules/common.smk"
include: "rules/pools.smk"
include: "rules/cells.smk"
include: "rules/results.smk"
include: "rules/products.smk"


onstart:
    greet()
    compile_package()
    # To keep its default limit of 100 jobs per second, Snakemake 9 starts a one-second timer at every scheduling step,
    # and each timer makes one more step: hundreds of small jobs then wait for the scheduler. No limit, no timers.
    limit = workflow.scheduler.job_rate_limiter
    if limit is not None and (limit.max_jobs, limit.timespan) == (100, 1):
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    tell_leftovers()


wildcard_constraints:
    sweep=jobs.names,
    arch=jobs.archs,
    N="[0-9]+",
    seed="[0-9]+",


rule all:
    default_target: True
    input:
        jobs.cells,  # by name, so that a deleted one is made again
        jobs.theories,
        published(),
        rules.crate.output,
    localrule: True
    message:
        "the study is complete: see results/"
