# From rows to Parquet.


rule collect:
    input:
        cells=CELLS,
        untrained=expand(rules.untrained.output, sweep=SWEEPS),
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
        study=sweeps.canonical(STUDY),
        code=digest("koct.results"),
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
        metrics=json.dumps({sweep.name: sweep.metric for sweep in STUDY}),
        code=digest("koct.results"),
    message:
        "calibrate {output}"
    shell:
        "python -m koct calibrate {input} --metrics {params.metrics:q}"
        " --curves {output.curves} --calibration {output.calibration} > {log} 2>&1"
