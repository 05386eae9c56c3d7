# What a reader sees: tables, figures and pages, one file of koct/report each, and the RO-Crate that describes the results.

for product in products.products().values():
    if product.per_sweep:
        continue  # has a rule of its own

    rule:
        name:
            product.name
        input:
            product.inputs,
            jobs.pictures if product.pictures else [],
        output:
            reported(product),
        log:
            f"results/logs/{product.name}.log",
        benchmark:
            f"results/benchmarks/{product.name}.tsv"
        group:
            "summary"
        conda:
            "../envs/koct.yaml"
        params:
            name=product.name,
            spec=jobs.report_spec(product.name, *product.takes),
            caption=product.caption,
        message:
            f"{product.kind} {product.outputs[0]}"
        shell:
            "python -m koct product {params.name} {input} --spec - --out {output} <<< {params.spec:q} > {log} 2>&1"


rule figure_recons:
    input:
        fits=jobs.first_fits,
        pool=lambda wildcards: paths.pool(wildcards.sweep, jobs.sweeps[wildcards.sweep].seeds[0]),
        shared=jobs.shared_input,
    output:
        reported(products.product("fig_recons")),
    log:
        "results/logs/figure_recons_{sweep}.log",
    benchmark:
        "results/benchmarks/figure_recons_{sweep}.tsv"
    group:
        lambda wildcards: f"{wildcards.sweep}_seeds"
    conda:
        "../envs/koct.yaml"
    resources:
        **jobs.asks("figure-recons"),
    params:
        spec=jobs.recons_spec,
        caption=products.product("fig_recons").caption,
    message:
        "figure {output[0]}"
    shell:
        "python -m koct figure-recons --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"


rule crate:
    input:
        published(),
    output:
        update("results/ro-crate-metadata.json"),
    log:
        "results/logs/crate.log",
    benchmark:
        "results/benchmarks/crate.tsv"
    group:
        "summary"
    conda:
        "../envs/koct.yaml"
    params:
        spec=jobs.crate_spec(config["study"]),
    message:
        "RO-Crate {output}"
    shell:
        "python -m koct crate --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"
