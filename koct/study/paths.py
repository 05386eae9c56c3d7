"""Where the files of a study lie; with wildcards in braces for values, the patterns that Snakemake needs."""

BROUGHT = "results/brought"


def pool(sweep: str, seed: int | str) -> str:
    return f"results/pools/{sweep}/seed{seed}.npy"


def shared(sweep: str) -> str:
    return f"results/known/{sweep}.npy"


def normal(sweep: str) -> str:
    return f"results/normal/{sweep}.npy"


def gram(sweep: str, seed: int | str) -> str:
    return f"results/grams/{sweep}/seed{seed}.npy"


def cell(sweep: str, arch: str, N: int | str, seed: int | str) -> str:
    return f"results/cells/{sweep}/{arch}/N{N}_seed{seed}.json"


def brought(sweep: str, arch: str, N: int | str, seed: int | str) -> str:
    """A row that was made elsewhere."""
    return f"{BROUGHT}/{sweep}/{arch}/N{N}_seed{seed}.json"


def fit(sweep: str, arch: str, N: int | str, seed: int | str) -> str:
    return f"results/fits/{sweep}/{arch}/N{N}_seed{seed}.npy"


def theory(sweep: str, arch: str) -> str:
    return f"results/theory/{sweep}/{arch}.json"


def chains(sweep: str) -> str:
    return f"results/chains/{sweep}.json"


def picture(sweep: str) -> str:
    return f"results/fig_recons_{sweep}.png"
