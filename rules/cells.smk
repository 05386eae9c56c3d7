# The grid: one job fits and evaluates one cell (sweep, arch, N, seed).


rule fit:
    input:
        pool=rules.pool.output,
        extra=extra_input,
    output:
        row=paths.cell("{sweep}", "{arch}", "{N}", "{seed}"),
        fit=paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        sweep=SMALL,
        arch="ko|fc",
    conda:
        "../envs/koct.yaml"
    params:
        spec=fit_spec,
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        # few fields: Snakemake formats this line three times for every job of a dry run
        "python -m koct fit --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"


use rule fit as fit_fanbeam with:
    wildcard_constraints:
        sweep=LARGE,
        arch="ko|fc",
    resources:
        gpu_mb=gpu_mb,
        gpu=gpus,
        mem_mb=mem_mb(),
        runtime=minutes(),


rule untrained:
    input:
        known=rules.known_operator.output,
        pools=lambda wildcards: expand(rules.pool.output, sweep=wildcards.sweep, seed=SWEEPS[wildcards.sweep].seeds),
    output:
        paths.untrained("{sweep}"),
    log:
        "results/logs/untrained/{sweep}.log",
    benchmark:
        "results/benchmarks/untrained/{sweep}.tsv"
    wildcard_constraints:
        sweep=SMALL,
    conda:
        "../envs/koct.yaml"
    params:
        spec=untrained_spec,
        seeds=lambda wildcards: SWEEPS[wildcards.sweep].seeds,
    message:
        "untrained network of {wildcards.sweep}"
    shell:
        "python -m koct untrained --spec {params.spec:q} --seeds {params.seeds}"
        " --known {input.known} --out {output} > {log} 2>&1"


use rule untrained as untrained_fanbeam with:
    input:
        known=[],
        pools=lambda wildcards: expand(rules.pool.output, sweep=wildcards.sweep, seed=SWEEPS[wildcards.sweep].seeds),
    wildcard_constraints:
        sweep=LARGE,
    resources:
        gpu_mb=gpu_mb,
        gpu=gpus,
        mem_mb=mem_mb("untrained"),
        runtime=minutes("untrained"),
