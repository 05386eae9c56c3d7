# Pages: claims, the planner, tables and figures for a browser, and the RO-Crate that describes the results.


rule claims:
    input:
        cells=rules.collect.output.cells,
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
        budget=rules.budget.output,
    output:
        update(multiext("results/claims", ".parquet", ".md", ".tex")),
        page=reported("results/claims.html", "1 Claims", claims="what the paper states, and what holds"),
    log:
        "results/logs/claims.log",
    benchmark:
        "results/benchmarks/claims.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("claims"),
    message:
        "claims {output}"
    shell:
        "python -m koct claims --cells {input.cells} --curves {input.curves} --calibration {input.calibration}"
        " --budgets {input.budget} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule planner:
    input:
        rules.collect.output.cells,
    output:
        update("results/planner.html"),
    log:
        "results/logs/planner.log",
    benchmark:
        "results/benchmarks/planner.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.planner_spec(),
    message:
        "planner page {output}"
    shell:
        "python -m koct planner {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule previews:
    input:
        list(shown_figures()),
    output:
        [reported(place, "2 Figures", caption, figure=title) for place, caption, title in shown_figures().values()],
    log:
        "results/logs/previews.log",
    benchmark:
        "results/benchmarks/previews.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("previews"),
    message:
        "figures for the report"
    shell:
        "python -m koct previews {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule html_tables:
    input:
        [f"results/{name}.tex" for name in shown_tables()],
    output:
        [reported(f"results/report/{name}.html", "3 Tables", table=title) for name, title in shown_tables().items()],
    log:
        "results/logs/html_tables.log",
    benchmark:
        "results/benchmarks/html_tables.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("html-tables"),
    message:
        "tables for the report"
    shell:
        "python -m koct html-tables {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule crate:
    input:
        published(),
    output:
        update("results/ro-crate-metadata.json"),
    log:
        "results/logs/crate.log",
    benchmark:
        "results/benchmarks/crate.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.crate_spec(config["study"]),
    message:
        "RO-Crate {output}"
    shell:
        "python -m koct crate {input} --spec {params.spec:q} --out {output} > {log} 2>&1"
