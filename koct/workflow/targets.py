"""What is asked for on the command line, if the chosen study does not have it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from koct.errors import KoctError

# pools/H8/seed1.npy, cells/H8/ko/N4_seed1.json, known/H8.npy, fig_recons_H8.png and the like
OF_SWEEP = re.compile(
    r"results/(?:fig_recons_|(?:\w+)/)(?P<sweep>[A-Za-z0-9][A-Za-z0-9._-]*?)(?:/.*|\.(?:npy|json|png))"
)


def check(words: Iterable[str], sweeps: Iterable[str], config: Mapping[str, Any]) -> None:
    """A KoctError if a word is a file of a sweep that only other studies have."""
    for word in words:
        found = OF_SWEEP.fullmatch(os.path.normpath(word))
        sweep = found and found["sweep"]
        if sweep and sweep not in set(sweeps) and sweep in config["sweeps"]:
            having = [study for study, chosen in config["studies"].items() if sweep in chosen]
            advice = f"`snakemake --config study={having[0]} {word}`" if having else "add it to a study in config.yaml"
            where = f"the studies {', '.join(having)}" if having else "no study"
            raise KoctError(f"{word}: {sweep} is not in the study {config['study']}, but in {where}; {advice}")
