# From rows to Parquet.


rule collect:
    input:
        jobs.rows,
    output:
        # kept until there are new ones
        cells=update("results/cells.parquet"),
        images=update("results/images.parquet"),
    log:
        "results/logs/collect.log",
    benchmark:
        "results/benchmarks/collect.tsv"
    group:
        jobs.summary_group
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.study_spec(),
    message:
        "collect {output}"
    shell:
        "python -m koct collect --spec - --outputs {output} <<< {params.spec:q} > {log} 2>&1"


rule collect_theory:
    input:
        jobs.theories,
    output:
        update("results/theory.parquet"),
    log:
        "results/logs/collect_theory.log",
    benchmark:
        "results/benchmarks/collect_theory.tsv"
    group:
        "summary"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.study_spec("collect-theory"),
    message:
        "collect {output}"
    shell:
        "python -m koct collect-theory --spec - --outputs {output} <<< {params.spec:q} > {log} 2>&1"


rule collect_transfer:
    input:
        cells=rules.collect.output.cells,
        rows=list(jobs.transfers),
    output:
        update("results/transfer.parquet"),
    log:
        "results/logs/collect_transfer.log",
    benchmark:
        "results/benchmarks/collect_transfer.tsv"
    group:
        "summary"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.collect_transfer_spec(),
    message:
        "collect {output}"
    shell:
        "python -m koct collect-transfer --spec - --inputs {input.cells} --outputs {output} <<< {params.spec:q} > {log} 2>&1"


rule chains:
    input:
        jobs.shared_input,
    output:
        paths.chains("{sweep}"),
    log:
        "results/logs/chains/{sweep}.log",
    benchmark:
        "results/benchmarks/chains/{sweep}.tsv"
    group:
        "pools"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.chains_spec,
    message:
        "known and learned layers of {wildcards.sweep}"
    shell:
        "python -m koct chains --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"


# What follows from Parquet files: its verb, what it reads and makes, and what it has to know of the study. The ladder is
# that of sweeps with three or more networks.
for name, verb, reads, makes, takes in (
    ("calibrate", "calibrate", ["cells"], ["curves.parquet", "calibration.parquet"], ["metrics"]),
    ("budget", "budgets", ["cells", "theory"], ["budget.parquet"], ["metrics", "targets"]),
    ("crossings", "crossings", ["cells", "images"], ["crossings.parquet"], ["metrics"]),
    ("ladder", "ladder", ["cells", "images"], ["ladder.parquet", "ladder.json"], ["metrics", "contained"]),
):

    rule:
        name:
            name
        input:
            [f"results/{file}.parquet" for file in reads],
            jobs.chains if name == "ladder" else [],
        output:
            [update(f"results/{file}") for file in makes],
        log:
            f"results/logs/{name}.log",
        benchmark:
            f"results/benchmarks/{name}.tsv"
        group:
            "summary"
        conda:
            "../envs/koct.yaml"
        params:
            verb=verb,
            spec=jobs.report_spec(verb, *takes),
        message:
            f"{name} {{output}}"
        shell:
            "python -m koct {params.verb} --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"
