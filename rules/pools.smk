# What every cell reads: phantom pools and known operators.


rule pool:
    output:
        paths.pool("{sweep}", "{seed}"),
    log:
        "results/logs/pools/{sweep}/seed{seed}.log",
    benchmark:
        "results/benchmarks/pools/{sweep}/seed{seed}.tsv"
    wildcard_constraints:
        sweep=SMALL,
    conda:
        "../envs/koct.yaml"
    params:
        spec=pool_spec,
    message:
        "pool of {wildcards.sweep}, seed {wildcards.seed}"
    shell:
        "python -m koct pool --spec {params.spec:q} --seed {wildcards.seed} --out {output} > {log} 2>&1"


use rule pool as pool_fanbeam with:
    wildcard_constraints:
        sweep=LARGE,
    resources:
        gpu_mb=gpu_mb,
        gpu=gpus,
        mem_mb=mem_mb("pool"),
        runtime=minutes("pool"),


rule known_operator:
    output:
        paths.known("{sweep}"),
    log:
        "results/logs/known/{sweep}.log",
    benchmark:
        "results/benchmarks/known/{sweep}.tsv"
    conda:
        "../envs/koct.yaml"
    resources:
        mem_mb=mem_mb("known"),
        runtime=minutes("known"),
    params:
        spec=known_spec,
    message:
        "known operator of {wildcards.sweep}"
    shell:
        "python -m koct known --spec {params.spec:q} --out {output} > {log} 2>&1"


rule gram:
    input:
        rules.pool.output,
    output:
        paths.gram("{sweep}", "{seed}"),
    log:
        "results/logs/grams/{sweep}/seed{seed}.log",
    benchmark:
        "results/benchmarks/grams/{sweep}/seed{seed}.tsv"
    conda:
        "../envs/koct.yaml"
    resources:
        gpu_mb=gpu_mb,
        gpu=gpus,
        mem_mb=mem_mb("gram"),
        runtime=minutes("gram"),
    params:
        spec=gram_spec,
    message:
        "Gram matrix of {wildcards.sweep}, seed {wildcards.seed}"
    shell:
        "python -m koct gram --spec {params.spec:q} --pool {input} --out {output} > {log} 2>&1"
