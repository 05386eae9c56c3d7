# What every cell reads: pools, and what is computed once per sweep or seed.


rule pool:
    input:
        jobs.own_files,
    output:
        paths.pool("{sweep}", "{seed}"),
    log:
        "results/logs/pools/{sweep}/seed{seed}.log",
    benchmark:
        "results/benchmarks/pools/{sweep}/seed{seed}.tsv"
    priority: 1  # many jobs wait for it
    group:
        jobs.pool_group
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("pool"),
    params:
        spec=jobs.pool_spec,
    message:
        "pool of {wildcards.sweep}, seed {wildcards.seed}"
    shell:
        "python -m koct pool --spec - --outputs {output} <<< {params.spec:q} > {log} 2>&1"


rule known:
    input:
        jobs.own_files,
    output:
        paths.shared("{sweep}"),
    log:
        "results/logs/known/{sweep}.log",
    benchmark:
        "results/benchmarks/known/{sweep}.tsv"
    priority: 1  # many jobs wait for it
    group:
        "pools"
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("known", gpu=False),
    params:
        spec=jobs.problem_spec("known"),
    message:
        "known operator of {wildcards.sweep}"
    shell:
        "python -m koct known --spec - --outputs {output} <<< {params.spec:q} > {log} 2>&1"


rule normal:
    input:
        jobs.shared_input,
    output:
        paths.normal("{sweep}"),
    log:
        "results/logs/normal/{sweep}.log",
    benchmark:
        "results/benchmarks/normal/{sweep}.tsv"
    priority: 1  # many jobs wait for it
    group:
        "pools"
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("normal", gpu=False),
    params:
        spec=jobs.problem_spec("normal"),
    message:
        "normal matrix of {wildcards.sweep}"
    shell:
        "python -m koct normal --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"


rule gram:
    input:
        rules.pool.output,
    output:
        paths.gram("{sweep}", "{seed}"),
    log:
        "results/logs/grams/{sweep}/seed{seed}.log",
    benchmark:
        "results/benchmarks/grams/{sweep}/seed{seed}.tsv"
    priority: 1  # many jobs wait for it
    group:
        jobs.seed_group
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("gram"),
    params:
        spec=jobs.problem_spec("gram"),
    message:
        "Gram matrix of {wildcards.sweep}, seed {wildcards.seed}"
    shell:
        "python -m koct gram --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"
