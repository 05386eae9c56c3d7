"""From how many pairs on FC beats KO, predicted from some pairs before any fit, beside what the reference measured.

    .venv/bin/python benchmarks/crossings.py [SWEEP ...]

A few minutes on one core; H128, H128-exact and H128-right, which are not among the sweeps by default, are for a GPU.
Errors are mean squared ones.
"""

import contextlib
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from koct.base.device import choose
from koct.base.loglog import below_from
from koct.config.study_file import build
from koct.contracts import Sizes
from koct.study.knowing import Knowing

ROOT = Path(__file__).resolve().parents[1]
PAIRS = {"mri": (100, 200, 416), "deblur": (100, 416), "H8": (64, 128, 416), "H16": (128, 416), "H32": (128, 416)}
LARGE = {"H128": (512,), "H128-right": (512,), "H128-exact": (1024,)}
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
    if sweep in LARGE:
        return measured_by_seed(name)
    rows = pd.read_parquet(ROOT / "results/reference" / study / "crossings.parquet")
    row = rows.set_index(["sweep", "arch", "versus"]).loc[(name, "fc", "ko")]
    if pd.isna(row["N"]):
        return f"not up to {row['upto']:,}"
    return f"{row['N']:,.0f} ({row['N_low']:,.0f} to {row['N_high']:,.0f})"


def measured_by_seed(name):
    """Where the mean squared errors cross, with the smallest and the largest of the seeds: their metric is another."""
    cells = pd.read_parquet(ROOT / "results/reference/crossing/cells.parquet").query("sweep == @name")
    errors = cells.pivot_table(index="seed", columns=["arch", "N"], values="mse")
    ratios = np.log(errors["fc"] / errors["ko"])
    mean = np.log(errors["fc"].mean() / errors["ko"].mean())
    N = mean.index.to_numpy(float)
    found = [below_from(N, row) for row in (mean.to_numpy(), *ratios.to_numpy())]
    if np.isinf(found[0]):
        return f"not up to {N[-1]:,.0f} (there FC has {np.exp(mean.iloc[-1]):.3f} times the error of KO)"
    first, *seeds = (int(np.ceil(min(n, N[-1]))) for n in found)
    return f"{first:,} ({min(seeds):,} to {max(seeds):,}, three seeds)"


def main():
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["sweeps"]
    print("| problem | pairs | predicted crossing (90 % interval) | measured |\n|---|---|---|---|")
    for sweep in sys.argv[1:] or PAIRS:
        made = build(sweep, config[f"{sweep}-crossing" if sweep in LARGE else sweep])
        problem, large = made.problem, sweep in LARGE
        options = {"draws": 3, "device": choose()} if large else {}
        for count in {**PAIRS, **LARGE}[sweep]:
            with contextlib.redirect_stdout(io.StringIO()):  # what a problem says of its progress
                known = Knowing(problem, *drawn(problem, count), made.arch("ko"), made.lambdas, **options)
                found = known.crossing()
            ends = f"{found.N_low:,} to {found.N_high:,}" if found.N_low and found.N_high else f"from {found.N_low}"
            predicted = f"{found.N:,} ({ends})" if found.N else f"not up to {found.upto:,}"
            print(f"| `{sweep}` | {count} | {predicted} | {measured(sweep)} |", flush=True)


if __name__ == "__main__":
    main()
