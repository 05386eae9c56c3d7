# The report: tables and figures for a browser, and the RO-Crate that describes the results.


def shown_figures():
    """{figure: (its place in the report, caption, what the report calls it)}."""
    found = {"results/fig_sweeps.png": ("results/report/fig_sweeps.png", "fig_sweeps", "error against N")}
    if jobs.ladders:
        place = "results/report/fig_ladder.png"
        found["results/fig_ladder.png"] = place, "fig_ladder", "which layers should be known"
    if jobs.theories:
        place = "results/report/fig_theory.png"
        found["results/fig_theory.png"] = place, "fig_theory", "curves predicted before any fit"
    if jobs.held_out:
        place = "results/report/fig_heldout.png"
        found["results/fig_heldout.png"] = place, "fig_heldout", "predicted against measured error"
    if jobs.paired:
        place = "results/report/fig_factors.png"
        found["results/fig_factors.png"] = place, "fig_factors", "the two factors over the target error"
    for sweep in jobs.study:
        if sweep.pictured:
            place = f"results/report/fig_recons_{sweep.name}.jpg"
            found[paths.picture(sweep.name)] = place, "fig_recons", f"reconstructions, {sweep.name}"
    return found


def shown_tables():
    """{table: what the report calls it}."""
    found = {
        "table_calibration": "floor and σ of every curve",
        "table_calibration_wide": "floor and σ with intervals",
        "table_scaling": "who is below whom",
        "table_fullscale": "parameters and memory",
        "table_budget": "samples for the targets",
    }
    found |= {"table_norms": "norms and slope ratios"} if jobs.normed else {}
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
    found += [rules.table_calibration_wide.output]
    found += [rules.table_norms.output] if jobs.normed else []
    found += [rules.figure_heldout.output] if jobs.held_out else []
    found += [rules.figure_factors.output] if jobs.paired else []
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
