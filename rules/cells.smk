# The grid: one job fits and evaluates one cell (sweep, arch, N, seed).


rule fit:
    input:
        pool=rules.pool.output,
        known=lambda wildcards: rules.known_operator.output if wildcards.arch in USE_KNOWN_OPERATOR else [],
    output:
        row=sweeps.cell_path("{sweep}", "{arch}", "{N}", "{seed}"),
        fit="results/fits/{sweep}/{arch}/N{N}_seed{seed}.npy",
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    params:
        spec=sweep_spec("fit_spec"),
        known=lambda wildcards, input: f"--known results/known/{wildcards.sweep}" if input.known else "",
        code=lambda wildcards: digest("koct.cells", ARCHS[wildcards.arch]),
    conda:
        "../envs/koct.yaml"
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        "python -m koct fit --spec {params.spec:q}"
        " --arch {wildcards.arch} --samples {wildcards.N} --seed {wildcards.seed}"
        " --pool results/pools/{wildcards.sweep}/seed{wildcards.seed} {params.known} --fit {output.fit} --row {output.row} > {log} 2>&1"


rule untrained:
    input:
        known=rules.known_operator.output,
        tests=lambda wildcards: expand(
            "results/pools/{{sweep}}/seed{seed}/test.npy", seed=SWEEPS[wildcards.sweep].seeds
        ),
    output:
        "results/untrained/{sweep}.json",
    log:
        "results/logs/untrained/{sweep}.log",
    benchmark:
        "results/benchmarks/untrained/{sweep}.tsv"
    params:
        spec=sweep_spec("row_spec"),
        seeds=lambda wildcards: SWEEPS[wildcards.sweep].seeds,
        code=digest("koct.cells", ARCHS["ko"]),
    conda:
        "../envs/koct.yaml"
    message:
        "untrained network of {wildcards.sweep}"
    shell:
        "python -m koct untrained --spec {params.spec:q} --seeds {params.seeds}"
        " --pools results/pools/{wildcards.sweep} --known results/known/{wildcards.sweep} --out {output} > {log} 2>&1"
