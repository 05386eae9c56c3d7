# From rows to Parquet.


rule collect:
    input:
        cells=jobs.cells,
        untrained=jobs.untrained(),
    output:
        cells="results/cells.parquet",
        untrained="results/untrained.parquet",
    log:
        "results/logs/collect.log",
    benchmark:
        "results/benchmarks/collect.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        study=jobs.canonical,
        code=digest("koct.results", *metrics.modules()),
    message:
        "collect {output}"
    shell:
        "python -m koct collect --study {params.study:q}"
        " --cells {output.cells} --untrained {output.untrained} > {log} 2>&1"


rule calibrate:
    input:
        rules.collect.output.cells,
    output:
        curves="results/curves.parquet",
        calibration="results/calibration.parquet",
    log:
        "results/logs/calibrate.log",
    benchmark:
        "results/benchmarks/calibrate.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        metrics=jobs.metric_of_sweeps(),
        code=digest("koct.results"),
    message:
        "calibrate {output}"
    shell:
        "python -m koct calibrate {input} --metrics {params.metrics:q}"
        " --curves {output.curves} --calibration {output.calibration} > {log} 2>&1"


rule budget:
    input:
        rules.collect.output.cells,
    output:
        "results/budget.parquet",
    log:
        "results/logs/budget.log",
    benchmark:
        "results/benchmarks/budget.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        wanted=jobs.targets_of_sweeps(),
        code=digest("koct.results"),
    message:
        "budget {output}"
    shell:
        "python -m koct budgets {input} --wanted {params.wanted:q} --out {output} > {log} 2>&1"


# On request: `snakemake results/table_structural.tex`. The norms take 15 s, most of it for H = 512.
rule norms:
    output:
        "results/norms.json",
    log:
        "results/logs/norms.log",
    benchmark:
        "results/benchmarks/norms.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        code=digest("koct.norms"),
    message:
        "operator norms {output}"
    shell:
        "python -m koct norms --out {output} > {log} 2>&1"
