# The dense network trained by gradient, one process per GPU (or core), on one node or several.


rule fit_fsdp:
    input:
        pool=rules.pool.output,
        ridge=paths.cell("{sweep}", "fc", "{N}", "{seed}"),  # its λ
        extra=extra_input,
    output:
        row=paths.cell("{sweep}", "{arch}", "{N}", "{seed}"),
        fit=paths.fit("{sweep}", "{arch}", "{N}", "{seed}"),
    log:
        "results/logs/fits/{sweep}/{arch}/N{N}_seed{seed}.log",
    benchmark:
        "results/benchmarks/fits/{sweep}/{arch}/N{N}_seed{seed}.tsv"
    wildcard_constraints:
        sweep=ONE_NODE,
        arch="fc-fsdp",
    conda:
        "../envs/koct.yaml"
    threads: fsdp("ranks")
    resources:
        nodes=1,
        ranks=fsdp("ranks"),
        checkpoint_minutes=fsdp("checkpoint_minutes"),
        gpu_mb=gpu_mb,
        gpu=fsdp_gpus,
        mem_mb=mem_mb(),
        runtime=minutes(),
    params:
        spec=fsdp_spec,
        # no output: Snakemake deletes outputs before a job starts, and a job goes on from its checkpoint
        checkpoints=lambda wildcards: paths.checkpoints(**wildcards),
    message:
        "fit {wildcards.arch} of {wildcards.sweep}, N = {wildcards.N}, seed {wildcards.seed}, on {resources.ranks} ranks"
    shell:
        "sh $KOCT_TORCHRUN {resources.nodes} {resources.ranks}"
        " fit-fsdp --spec {params.spec:q} --inputs {input} --outputs {output}"
        " --checkpoints {params.checkpoints} --checkpoint-minutes {resources.checkpoint_minutes} > {log} 2>&1"


use rule fit_fsdp as fit_fsdp_nodes with:
    wildcard_constraints:
        sweep=NODES,
        arch="fc-fsdp",
    threads: lambda wildcards: fsdp("ranks")(wildcards) // fsdp("nodes")(wildcards)
    resources:
        nodes=fsdp("nodes"),
        ranks=fsdp("ranks"),
        checkpoint_minutes=fsdp("checkpoint_minutes"),
        gpu_mb=gpu_mb,
        gpu=fsdp_gpus,
        mem_mb=mem_mb(),
        runtime=minutes(),
        # one task per node, started by rules/fsdp.sh itself: the SLURM plugin then leaves its own srun out
        mpi="srun",
        tasks=fsdp("nodes"),
        tasks_per_gpu=0,
