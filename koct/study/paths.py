"""Where the files of a study lie; with wildcards in braces for values, the patterns that Snakemake needs."""

from collections.abc import Callable
from string import Formatter
from typing import Any

from koct.base import FRESH

BROUGHT = "results/brought"


def _at(pattern: str) -> Callable[..., str]:
    """A function that fills in a pattern, by name or in the order of its names."""
    names = [name for _, name, _, _ in Formatter().parse(pattern) if name]

    def path(*values: Any, **named: Any) -> str:
        filled = {**dict(zip(names, values, strict=False)), **named}
        return pattern.format(**{**filled, **({"N": "fresh"} if filled.get("N") == FRESH else {})})

    return path


pool = _at("results/pools/{sweep}/seed{seed}.npy")
shared = _at("results/known/{sweep}.npy")
normal = _at("results/normal/{sweep}.npy")
gram = _at("results/grams/{sweep}/seed{seed}.npy")
cell = _at("results/cells/{sweep}/{arch}/N{N}_seed{seed}.json")
brought = _at(BROUGHT + "/{sweep}/{arch}/N{N}_seed{seed}.json")  # a row that was made elsewhere
fit = _at("results/fits/{sweep}/{arch}/N{N}_seed{seed}.npy")
transfer = _at("results/transfer/{sweep}/{other}/{arch}/N{N}_seed{seed}.json")  # on the test pairs of another sweep
brought_transfer = _at(BROUGHT + "/transfer/{sweep}/{other}/{arch}/N{N}_seed{seed}.json")
theory = _at("results/theory/{sweep}/{arch}.json")
chains = _at("results/chains/{sweep}.json")
picture = _at("results/fig_recons_{sweep}.npy")  # the arrays beside it


def size(N: str | int) -> int:
    """Return the N of a path, or of the wildcards of one."""
    return FRESH if N == "fresh" else int(N)
