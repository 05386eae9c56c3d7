# The grid: one cell is (sweep, arch, N, seed).


# A fit that is there stays, and is evaluated alone, if what evaluates is all that has changed.
rule fit:
    input:
        pool=rules.pool.output,
        extra=jobs.extra_input,
    output:
        row=paths.cell("{sweep}", "{arch}", "{N}", "{seed}"),
        fit=update(paths.fit("{sweep}", "{arch}", "{N}", "{seed}")),
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        arch=jobs.archs(torchrun=False),
    priority: jobs.larger_first
    group:
        jobs.fit_group
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("fit"),
    params:
        spec=jobs.row_spec,
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        "python -m koct fit --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"


# Several processes, started by torchrun: one per GPU (or core), on one node or several. They would share a standard
# input, so the spec, that of one fit, is an argument.
rule fit_torchrun:
    input:
        pool=rules.pool.output,
        extra=jobs.extra_input,
    output:
        paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        arch=jobs.archs(torchrun=True),
    conda:
        "../envs/koct.yaml"
    threads: jobs.ranks_per_node
    resources:
        **jobs.torchrun(),
    params:
        spec=jobs.fit_spec,
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}, on {resources.ranks} ranks"
    shell:
        'sh "$KOCT_TORCHRUN" {resources.nodes} {resources.ranks}'
        " fit-torchrun --spec {params.spec:q} --inputs {input} --outputs {output}"
        " --checkpoint-minutes {resources.checkpoint_minutes} > {log} 2>&1"


# The row of such a fit, by one process without a GPU. Mostly there is nothing to compute: a fit keeps its errors.
rule evaluate:
    input:
        fit=paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
        pool=rules.pool.output,
        shared=jobs.shared_input,
    output:
        paths.cell("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/evaluations/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/evaluations/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        arch=jobs.archs(torchrun=True),
    group:
        "evaluations"
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("evaluate", gpu=False),
    params:
        spec=jobs.row_spec,
    message:
        "evaluate {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        "python -m koct evaluate --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"


# Networks on the test pairs of another sweep. They travel with no seed: two sweeps may be tested on each other.
rule transfer:
    input:
        fit=paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
        tests=jobs.tested_pool,
        pool=rules.pool.output,
        shared=jobs.shared_input,
    output:
        paths.transfer("{sweep}", "{other}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/transfer/{sweep}/{other}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/transfer/{sweep}/{other}/{arch}/N{N}_seed{seed}.tsv"
    group:
        "evaluations"
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("transfer", gpu=False),
    params:
        spec=jobs.transfer_spec,
    message:
        "test {wildcards.arch} of {wildcards.sweep} on {wildcards.other}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        "python -m koct transfer --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"


# The curve of a network before any of its fits, from a pool of a seed that no fit uses.
rule theory:
    input:
        jobs.theory_input,
    output:
        paths.theory("{sweep}", "{arch}"),
    log:
        "results/logs/theory/{sweep}/{arch}.log",
    benchmark:
        "results/benchmarks/theory/{sweep}/{arch}.tsv"
    priority: 1  # it takes longer than a fit
    group:
        jobs.theory_group
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("theory"),
    params:
        spec=jobs.theory_spec,
    message:
        "predicted curve of {wildcards.arch} of {wildcards.sweep}"
    shell:
        "python -m koct theory --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"
