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
        "python -m koct collect --spec {params.spec:q} --outputs {output} > {log} 2>&1"


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
        "python -m koct collect-theory --spec {params.spec:q} --outputs {output} > {log} 2>&1"


rule calibrate:
    input:
        rules.collect.output.cells,
    output:
        curves=update("results/curves.parquet"),
        calibration=update("results/calibration.parquet"),
    log:
        "results/logs/calibrate.log",
    benchmark:
        "results/benchmarks/calibrate.tsv"
    group:
        "summary"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("calibrate", "metrics"),
    message:
        "calibrate {output}"
    shell:
        "python -m koct calibrate --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"


rule budget:
    input:
        cells=rules.collect.output.cells,
        theory=rules.collect_theory.output,
    output:
        update("results/budget.parquet"),
    log:
        "results/logs/budget.log",
    benchmark:
        "results/benchmarks/budget.tsv"
    group:
        "summary"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("budgets", "metrics", "targets"),
    message:
        "budget {output}"
    shell:
        "python -m koct budgets --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"


rule crossings:
    input:
        cells=rules.collect.output.cells,
        images=rules.collect.output.images,
    output:
        update("results/crossings.parquet"),
    log:
        "results/logs/crossings.log",
    benchmark:
        "results/benchmarks/crossings.tsv"
    group:
        "summary"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("crossings", "metrics"),
    message:
        "crossings {output}"
    shell:
        "python -m koct crossings --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"


rule chains:
    input:
        jobs.shared_input,
    output:
        paths.chains("{sweep}"),
    log:
        "results/logs/chains/{sweep}.log",
    benchmark:
        "results/benchmarks/chains/{sweep}.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.chains_spec,
    message:
        "known and learned layers of {wildcards.sweep}"
    shell:
        "python -m koct chains --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"


# Of sweeps with three or more networks.
rule ladder:
    input:
        cells=rules.collect.output.cells,
        images=rules.collect.output.images,
        chains=jobs.chains,
    output:
        ladder=update("results/ladder.parquet"),
        verdicts=update("results/ladder.json"),
    log:
        "results/logs/ladder.log",
    benchmark:
        "results/benchmarks/ladder.tsv"
    group:
        "summary"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("ladder", "metrics", "contained"),
    message:
        "ladder {output}"
    shell:
        "python -m koct ladder --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"
