"""From how many pairs on FC beats KO, predicted from some pairs before any fit, beside what the reference measured.

    .venv/bin/python benchmarks/crossings.py [SWEEP ...]

A few minutes on one core.
"""

import contextlib
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from koct.config.study_file import build
from koct.contracts import Sizes
from koct.study.knowing import Knowing

ROOT = Path(__file__).resolve().parents[1]
PAIRS = {"mri": (100, 200, 416), "deblur": (100, 416), "H8": (64, 128, 416), "H16": (128, 416), "H32": (128, 416)}
MODALITIES = ("mri", "deblur")
SEED = 101


def drawn(problem, count):
    """The first pairs of a pool."""
    chunks = []
    for part, x, y in problem.pairs(SEED, Sizes(train=count, val=1, test=1)):
        if part == "train":
            chunks.append((x, problem.decode(y)))
    return (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))


def measured(sweep):
    study, name = ("modalities", sweep) if sweep in MODALITIES else ("crossing", f"{sweep}-crossing")
    rows = pd.read_parquet(ROOT / "results/reference" / study / "crossings.parquet")
    row = rows.set_index(["sweep", "arch", "versus"]).loc[(name, "fc", "ko")]
    if pd.isna(row["N"]):
        return f"not up to {row['upto']:,}"
    return f"{row['N']:,.0f} ({row['N_low']:,.0f} to {row['N_high']:,.0f})"


def main():
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["sweeps"]
    print("| problem | pairs | predicted crossing (90 % interval) | measured |\n|---|---|---|---|")
    for sweep in sys.argv[1:] or PAIRS:
        made = build(sweep, config[sweep])
        problem = made.problem
        for count in PAIRS[sweep]:
            with contextlib.redirect_stdout(io.StringIO()):  # what a problem says of its progress
                found = Knowing(problem, *drawn(problem, count), made.arch("ko"), made.lambdas).crossing()
            ends = f"{found.N_low:,} to {found.N_high:,}" if found.N_low and found.N_high else f"from {found.N_low}"
            predicted = f"{found.N:,} ({ends})" if found.N else f"not up to {found.upto:,}"
            print(f"| `{sweep}` | {count} | {predicted} | {measured(sweep)} |", flush=True)


if __name__ == "__main__":
    main()
