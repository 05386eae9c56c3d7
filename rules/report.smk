# The report: tables and figures for a browser, and the RO-Crate that describes the results.


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
