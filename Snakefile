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
    planned.compile_checked(jobs.sources)


onsuccess:
    queue.remove_temporaries()  # of jobs that an earlier run left dying when this one began


wildcard_constraints:
    sweep=jobs.names,
    other=jobs.names,
    arch=jobs.archs(),
    N="[0-9]+|fresh",
    seed="[0-9]+",


rule all:
    default_target: True
    input:
        jobs.rows,  # by name, so that a deleted one is made again
        list(jobs.transfers),
        jobs.theories,
        published(),
        rules.crate.output,
    localrule: True
    message:
        "the study is complete: see results/"
