# The grid: one job fits and evaluates one cell (sweep, arch, N, seed).


rule fit:
    input:
        pool=rules.pool.output,
        known=lambda wildcards: rules.known_operator.output if wildcards.arch in USE_KNOWN_OPERATOR else [],
    output:
        row=paths.cell("{sweep}", "{arch}", "{N}", "{seed}"),
        fit=paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=fit_spec,
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        # few fields: Snakemake formats this line three times for every job of a dry run
        "python -m koct fit --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"


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
