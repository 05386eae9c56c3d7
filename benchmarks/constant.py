"""How much of what KO learns is one number: the known chain, the chain times the best factor, and KO with most samples.

    .venv/bin/python benchmarks/constant.py

Mean rRMSE²_peak; chain and factor on 200 pairs that no fit has seen, KO from results/reference. The factor is a mean
over halves: each is fitted to one half of the pairs and tested on the other.
"""

import argparse
import contextlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from crossings import drawn

from koct import metrics
from koct.config.study_file import build
from koct.networks.solvers import Known

ROOT = Path(__file__).resolve().parents[1]
SWEEPS = ("H128", "H256", "H128-exact", "H256-exact")
PAIRS = 200


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["sweeps"]
    curves = pd.read_parquet(ROOT / "results/reference/curves.parquet").groupby(["sweep", "arch"])["error_mean"].last()
    print("| sweep | known chain | best factor | chain times factor | KO | of KO's gain |\n|---|---|---|---|---|---|")
    for sweep in SWEEPS:
        problem = build(sweep, config[sweep]).problem
        with contextlib.redirect_stdout(io.StringIO()):  # what a problem says of its progress
            x, y = (part.reshape(PAIRS, -1) for part in drawn(problem, PAIRS))
        known = Known(problem.layers(problem.shared()), problem.nonnegative)
        image = np.asarray(known.reconstruct(known.weighted(np.asarray(known.analytic), x)), float)
        halves = np.arange(PAIRS) % 2
        factors = [(image * y)[halves == half].sum() / (image**2)[halves == half].sum() for half in (1, 0)]
        before, after = (
            (metrics.load("rrmse_peak").each(made, y, problem.y_shape) ** 2).mean()
            for made in (image, np.take(factors, halves)[:, None] * image)
        )
        ko = curves[sweep, "ko"]
        share = (before - after) / (before - ko)
        print(f"| `{sweep}` | {before:.2e} | {np.mean(factors):.2f} | {after:.2e} | {ko:.2e} | {100 * share:.0f} % |")


if __name__ == "__main__":
    main()
