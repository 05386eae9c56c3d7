# The grid: one cell is (sweep, arch, N, seed). A cheap one is fitted and evaluated by one job, a large one by two.


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
        sweep=curves("cheap"),
    conda:
        "../envs/koct.yaml"
    params:
        spec=fit_spec,
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        # few fields: Snakemake formats this line three times for every job of a dry run
        "python -m koct fit --spec {params.spec:q} --inputs {input} --row {output.row} --out {output.fit} > {log} 2>&1"


rule fit_large:
    input:
        pool=rules.pool.output,
        extra=extra_input,
    output:
        paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        sweep=curves("large"),
    conda:
        "../envs/koct.yaml"
    resources:
        gpu_mb=gpu_mb(fit_cost),
        gpu=gpus,
        mem_mb=mem_mb(fit_cost),
        runtime=minutes(fit_cost),
    params:
        spec=fit_spec,
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        "python -m koct fit --spec {params.spec:q} --inputs {input} --out {output} > {log} 2>&1"


# Several processes, started by torchrun: one per GPU (or core), on one node or several.
rule fit_torchrun:
    input:
        pool=rules.pool.output,
        extra=extra_input,
    output:
        paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        sweep=curves("torchrun"),
    conda:
        "../envs/koct.yaml"
    threads: launch("ranks")
    resources:
        nodes=1,
        ranks=launch("ranks"),
        checkpoint_minutes=launch("checkpoint_minutes"),
        gpu_mb=gpu_mb(fit_cost),
        gpu=rank_gpus,
        mem_mb=rank_mem_mb,
        runtime=minutes(fit_cost),
    params:
        spec=fit_spec,
        # no output: Snakemake deletes outputs before a job starts, and a job continues from its checkpoint
        checkpoints=lambda wildcards: paths.checkpoints(**wildcards),
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}, on {resources.ranks} ranks"
    shell:
        "sh $KOCT_TORCHRUN {resources.nodes} {resources.ranks}"
        " fit-torchrun --spec {params.spec:q} --inputs {input} --out {output}"
        " --checkpoints {params.checkpoints} --checkpoint-minutes {resources.checkpoint_minutes} > {log} 2>&1"


use rule fit_torchrun as fit_torchrun_nodes with:
    wildcard_constraints:
        sweep=curves("torchrun_nodes"),
    threads: ranks_per_node
    resources:
        nodes=launch("nodes"),
        ranks=launch("ranks"),
        checkpoint_minutes=launch("checkpoint_minutes"),
        gpu_mb=gpu_mb(fit_cost),
        gpu=rank_gpus,
        mem_mb=rank_mem_mb,
        runtime=minutes(fit_cost),
        # one task per node, started by rules/torchrun.sh itself: the SLURM plugin then leaves its own srun out
        mpi="srun",
        tasks=launch("nodes"),
        tasks_per_gpu=0,


rule evaluate:
    input:
        fit=paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
        pool=rules.pool.output,
        shared=shared_input,
    output:
        paths.cell("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/evaluations/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/evaluations/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        sweep=curves("large", "torchrun", "torchrun_nodes"),
    conda:
        "../envs/koct.yaml"
    resources:
        gpu_mb=gpu_mb(evaluate_cost),
        gpu=gpus,
        mem_mb=mem_mb(evaluate_cost),
        runtime=minutes(evaluate_cost),
    params:
        code=EVALUATION,
        shared=lambda wildcards, input: f"--shared {input.shared}" if input.shared else "",
    message:
        "evaluate {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}"
    shell:
        "python -m koct evaluate {input.fit} --pool {input.pool} {params.shared} --out {output} > {log} 2>&1"


rule untrained:
    input:
        pools=seed_pools,
        shared=shared_input,
    output:
        paths.untrained("{sweep}"),
    log:
        "results/logs/untrained/{sweep}.log",
    benchmark:
        "results/benchmarks/untrained/{sweep}.tsv"
    wildcard_constraints:
        sweep=CHEAP_UNTRAINED,
    conda:
        "../envs/koct.yaml"
    params:
        spec=problem_spec("koct.evaluation", *metrics.modules()),
        seeds=lambda wildcards: SWEEPS[wildcards.sweep].seeds,
        shared=lambda wildcards, input: f"--shared {input.shared}" if input.shared else "",
    message:
        "untrained network of {wildcards.sweep}"
    shell:
        "python -m koct untrained --spec {params.spec:q} --seeds {params.seeds} --pools {input.pools} {params.shared}"
        " --out {output} > {log} 2>&1"


use rule untrained as untrained_large with:
    wildcard_constraints:
        sweep=LARGE_UNTRAINED,
    resources:
        gpu_mb=gpu_mb(sweep_cost(resources.untrained)),
        gpu=gpus,
        mem_mb=mem_mb(sweep_cost(resources.untrained)),
        runtime=minutes(sweep_cost(resources.untrained)),
