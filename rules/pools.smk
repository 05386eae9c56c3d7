# What every cell reads: phantom pools and known operators.


def sweep_spec(kind):
    """A params function: the JSON of what this kind of job takes from its sweep's config."""
    return lambda wildcards: json.dumps(getattr(SWEEPS[wildcards.sweep], kind)())


def problem_code(module):
    """A params function: the hash of a ct module and of the sweep's problem, so that a change to them reruns."""
    return lambda wildcards: digest(module, PROBLEMS[SWEEPS[wildcards.sweep].problem])


rule pool:
    output:
        expand("results/pools/{{sweep}}/seed{{seed}}/{part}.npy", part=["train", "val", "test"]),
    log:
        "results/logs/pools/{sweep}/seed{seed}.log",
    benchmark:
        "results/benchmarks/pools/{sweep}/seed{seed}.tsv"
    params:
        spec=sweep_spec("pool_spec"),
        code=problem_code("koct.ct.pools"),
    conda:
        "../envs/koct.yaml"
    message:
        "pool of {wildcards.sweep}, seed {wildcards.seed}"
    shell:
        "python -m koct pool --spec {params.spec:q} --seed {wildcards.seed} --out results/pools/{wildcards.sweep}/seed{wildcards.seed} > {log} 2>&1"


rule known_operator:
    output:
        expand("results/known/{{sweep}}/{name}.npy", name=["operator", "gram"]),
    log:
        "results/logs/known/{sweep}.log",
    benchmark:
        "results/benchmarks/known/{sweep}.tsv"
    params:
        spec=sweep_spec("known_spec"),
        code=problem_code("koct.ct.known"),
    conda:
        "../envs/koct.yaml"
    message:
        "known operator of {wildcards.sweep}"
    shell:
        "python -m koct known --spec {params.spec:q} --out results/known/{wildcards.sweep} > {log} 2>&1"
