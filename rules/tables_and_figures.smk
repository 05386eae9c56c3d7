# What a reader sees: tables and figures.


rule table_calibration:
    input:
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
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
        "python -m koct table-calibration --curves {input.curves} --calibration {input.calibration}"
        " --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_calibration_wide:
    input:
        cells=rules.collect.output.cells,
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
    output:
        update("results/table_calibration_wide.tex"),
    log:
        "results/logs/table_calibration_wide.log",
    benchmark:
        "results/benchmarks/table_calibration_wide.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-calibration-wide"),
    message:
        "table {output}"
    shell:
        "python -m koct table-calibration-wide --cells {input.cells} --curves {input.curves}"
        " --calibration {input.calibration} --spec {params.spec:q} --out {output} > {log} 2>&1"


# Of sweeps at operating points of the paper. The norms take 3 s on a core, most of it for H = 512.
rule table_norms:
    input:
        cells=rules.collect.output.cells,
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
    output:
        update("results/table_norms.tex"),
    log:
        "results/logs/table_norms.log",
    benchmark:
        "results/benchmarks/table_norms.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-norms"),
        sweeps=jobs.normed,
    message:
        "table {output}"
    shell:
        "python -m koct table-norms --cells {input.cells} --curves {input.curves} --calibration {input.calibration}"
        " --sweeps {params.sweeps:q} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule figure_heldout:
    input:
        cells=rules.collect.output.cells,
        curves=rules.calibrate.output.curves,
    output:
        update(multiext("results/fig_heldout", ".pdf", ".png")),
    log:
        "results/logs/figure_heldout.log",
    benchmark:
        "results/benchmarks/figure_heldout.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("figure-heldout"),
    message:
        "figure {output}"
    shell:
        "python -m koct figure-heldout --cells {input.cells} --curves {input.curves}"
        " --spec {params.spec:q} --out {output} > {log} 2>&1"


# Of sweeps with both networks of the paper.
rule figure_factors:
    input:
        rules.calibrate.output.calibration,
    output:
        update(multiext("results/fig_factors", ".pdf", ".png")),
    log:
        "results/logs/figure_factors.log",
    benchmark:
        "results/benchmarks/figure_factors.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("figure-factors"),
    message:
        "figure {output}"
    shell:
        "python -m koct figure-factors {input} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule figure_sweeps:
    input:
        cells=rules.collect.output.cells,
        curves=rules.calibrate.output.curves,
        calibration=rules.calibrate.output.calibration,
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
        " --calibration {input.calibration} --theory {input.theory} --spec {params.spec:q} --out {output} > {log} 2>&1"


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


rule table_crossings:
    input:
        crossings=rules.crossings.output,
        curves=rules.calibrate.output.curves,
    output:
        update("results/table_crossings.tex"),
    log:
        "results/logs/table_crossings.log",
    benchmark:
        "results/benchmarks/table_crossings.tsv"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.report_spec("table-crossings"),
    message:
        "table {output}"
    shell:
        "python -m koct table-crossings --crossings {input.crossings} --curves {input.curves}"
        " --spec {params.spec:q} --out {output} > {log} 2>&1"


rule figure_ladder:
    input:
        ladder=rules.ladder.output.ladder,
        curves=rules.calibrate.output.curves,
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
        "python -m koct figure-ladder --ladder {input.ladder} --curves {input.curves} --spec {params.spec:q} --out {output} > {log} 2>&1"


rule table_ladder:
    input:
        ladder=rules.ladder.output.ladder,
        curves=rules.calibrate.output.curves,
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
        "python -m koct table-ladder --ladder {input.ladder} --curves {input.curves}"
        " --calibration {input.calibration} --budgets {input.budget} --spec {params.spec:q} --out {output} > {log} 2>&1"


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
        curves=rules.calibrate.output.curves,
        budget=rules.budget.output,
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
        "python -m koct table-budget --curves {input.curves} --budgets {input.budget}"
        " --spec {params.spec:q} --out {output} > {log} 2>&1"


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
