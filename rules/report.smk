# What a reader sees: tables, figures, and both for `snakemake --report`.


def reported(path, category, caption=None, **labels):
    """A file for the report; its caption has the same name."""
    caption = caption or os.path.splitext(os.path.basename(path))[0]
    return report(update(path), caption=f"captions/{caption}.rst", category=category, labels=labels)


rule table_calibration:
    input:
        rules.calibrate.output.calibration,
    output:
        update("results/table_calibration.tex"),
    log:
        "results/logs/table_calibration.log",
    benchmark:
        "results/benchmarks/table_calibration.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-calibration"),
    message:
        "table {output}"
    shell:
        "python -m koct table-calibration {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule figure_sweeps:
    input:
        cells=rules.collect.output.cells,
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
        untrained=rules.collect.output.untrained,
        theory=rules.collect_theory.output,
    output:
        update(multiext("results/fig_sweeps", ".pdf", ".png")),
    log:
        "results/logs/figure_sweeps.log",
    benchmark:
        "results/benchmarks/figure_sweeps.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("figure-sweeps"),
    message:
        "figure {output}"
    shell:
        "python -m koct figure-sweeps --cells {input.cells} --curves {input.curves}"
        " --calibration {input.calibration} --untrained {input.untrained} --theory {input.theory} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule figure_theory:
    input:
        rules.collect_theory.output,
    output:
        update(multiext("results/fig_theory", ".pdf", ".png")),
    log:
        "results/logs/figure_theory.log",
    benchmark:
        "results/benchmarks/figure_theory.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("figure-theory"),
    message:
        "figure {output}"
    shell:
        "python -m koct figure-theory {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_theory:
    input:
        theory=rules.collect_theory.output,
        cells=rules.collect.output.cells,
    output:
        update("results/table_theory.tex"),
    log:
        "results/logs/table_theory.log",
    benchmark:
        "results/benchmarks/table_theory.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-theory"),
    message:
        "table {output}"
    shell:
        "python -m koct table-theory --theory {input.theory} --cells {input.cells} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule figure_ladder:
    input:
        rules.ladder.output.ladder,
    output:
        update(multiext("results/fig_ladder", ".pdf", ".png")),
    log:
        "results/logs/figure_ladder.log",
    benchmark:
        "results/benchmarks/figure_ladder.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("figure-ladder"),
    message:
        "figure {output}"
    shell:
        "python -m koct figure-ladder {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_ladder:
    input:
        ladder=rules.ladder.output.ladder,
        calibration=rules.calibrate.output.calibration,
        budget=rules.budget.output,
    output:
        update("results/table_ladder.tex"),
    log:
        "results/logs/table_ladder.log",
    benchmark:
        "results/benchmarks/table_ladder.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-ladder"),
    message:
        "table {output}"
    shell:
        "python -m koct table-ladder --ladder {input.ladder} --calibration {input.calibration}"
        " --budgets {input.budget} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_conditions:
    input:
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
        budget=rules.budget.output,
    output:
        update("results/table_conditions.tex"),
    log:
        "results/logs/table_conditions.log",
    benchmark:
        "results/benchmarks/table_conditions.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-conditions"),
    message:
        "table {output}"
    shell:
        "python -m koct table-conditions --curves {input.curves} --calibration {input.calibration}"
        " --budgets {input.budget} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule claims:
    input:
        cells=rules.collect.output.cells,
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
        untrained=rules.collect.output.untrained,
        budget=rules.budget.output,
    output:
        update(multiext("results/claims", ".parquet", ".md", ".tex")),
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
        " --untrained {input.untrained} --budgets {input.budget} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule figure_recons:
    input:
        fits=jobs.first_fits,
        pool=jobs.first_pool,
        shared=jobs.shared_input,
    output:
        update(paths.picture("{sweep}")),
    log:
        "results/logs/figure_recons_{sweep}.log",
    benchmark:
        "results/benchmarks/figure_recons_{sweep}.tsv"
    group:
        of_large(jobs.sweep_group)
    conda:
        "../envs/koct.yaml"
    resources:
        gpu_mb=jobs.gpu_mb(jobs.cost(resources.recons)),
        gpu=jobs.gpus,
        mem_mb=jobs.mem_mb(jobs.cost(resources.recons)),
        runtime=jobs.gpu_minutes(jobs.cost(resources.recons)),
    params:
        spec=jobs.recons_spec,
        shared=shared_option,
    message:
        "figure {output}"
    shell:
        "python -m koct figure-recons --fits {input.fits} --pool {input.pool} {params.shared}"
        " --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_scaling:
    input:
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
    output:
        update("results/table_scaling.tex"),
    log:
        "results/logs/table_scaling.log",
    benchmark:
        "results/benchmarks/table_scaling.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-scaling"),
    message:
        "table {output}"
    shell:
        "python -m koct table-scaling --curves {input.curves} --calibration {input.calibration}"
        " --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_fullscale:
    output:
        update("results/table_fullscale.tex"),
    log:
        "results/logs/table_fullscale.log",
    benchmark:
        "results/benchmarks/table_fullscale.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-fullscale"),
    message:
        "table {output}"
    shell:
        "python -m koct table-fullscale --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_budget:
    input:
        rules.budget.output,
    output:
        update("results/table_budget.tex"),
    log:
        "results/logs/table_budget.log",
    benchmark:
        "results/benchmarks/table_budget.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-budget"),
    message:
        "table {output}"
    shell:
        "python -m koct table-budget {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


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


rule table_structural:
    input:
        rules.norms.output,
    output:
        update("results/table_structural.tex"),
    log:
        "results/logs/table_structural.log",
    benchmark:
        "results/benchmarks/table_structural.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-structural"),
    message:
        "table {output}"
    shell:
        "python -m koct table-structural {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


# The report: tables and figures for a browser.


def shown_figures():
    """{figure: (its place in the report, caption, what the report calls it)}."""
    found = {"results/fig_sweeps.png": ("results/report/fig_sweeps.png", "fig_sweeps", "error against N")}
    if jobs.ladders:
        place = "results/report/fig_ladder.png"
        found["results/fig_ladder.png"] = place, "fig_ladder", "which layers should be known"
    if jobs.theories:
        place = "results/report/fig_theory.png"
        found["results/fig_theory.png"] = place, "fig_theory", "curves predicted before any fit"
    for sweep in jobs.study:
        if sweep.pictured:
            place = f"results/report/fig_recons_{sweep.name}.jpg"
            found[paths.picture(sweep.name)] = place, "fig_recons", f"reconstructions, {sweep.name}"
    return found


def shown_tables():
    """{table: what the report calls it}."""
    found = {
        "table_calibration": "floor and σ of every curve",
        "table_scaling": "who is below whom",
        "table_fullscale": "parameters and memory",
        "table_budget": "samples for the targets",
    }
    found |= {"table_theory": "predicted and measured"} if jobs.theories else {}
    found |= {"table_ladder": "networks between known and learned"} if jobs.ladders else {}
    found |= {"table_conditions": "dose, arc and rays"} if jobs.compared else {}
    return found


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


def published():
    """What a study makes beside its cells."""
    found = [rules.collect.output, rules.collect_theory.output, rules.calibrate.output, rules.budget.output]
    found += [rules.table_calibration.output, rules.table_scaling.output, rules.table_fullscale.output]
    found += [rules.table_budget.output, rules.figure_sweeps.output, rules.planner.output]
    found += [rules.figure_theory.output, rules.table_theory.output] if jobs.theories else []
    found += [rules.ladder.output, rules.figure_ladder.output, rules.table_ladder.output] if jobs.ladders else []
    found += [rules.table_conditions.output] if jobs.compared else []
    found += [rules.claims.output] if jobs.claimed else []
    return [*found, rules.previews.output, rules.html_tables.output, jobs.pictures]


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
