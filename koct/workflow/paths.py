"""Where the files of a study lie; with wildcards in braces for values, the patterns that Snakemake needs."""


def pool(sweep, seed):
    return f"results/pools/{sweep}/seed{seed}.npy"


def known(sweep):
    return f"results/known/{sweep}.npy"


def gram(sweep, seed):
    return f"results/grams/{sweep}/seed{seed}.npy"


def cell(sweep, arch, N, seed):
    return f"results/cells/{sweep}/{arch}/N{N}_seed{seed}.json"


def fit(sweep, arch, N, seed):
    return f"results/fits/{sweep}/{arch}/N{N}_seed{seed}.npy"


def checkpoints(sweep, arch, N, seed):
    return f"results/checkpoints/{sweep}/{arch}/N{N}_seed{seed}"


def untrained(sweep):
    return f"results/untrained/{sweep}.json"
