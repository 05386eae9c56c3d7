"""How much of what KO learns is one number: the known chain, the chain times the best factor, and KO at its best.

    .venv/bin/python benchmarks/constant.py

All three on the test images of a sweep, rRMSE_peak averaged over them and then squared, as in the curves; chain and KO
are those of results/reference, and the factor is the best one for the validation images. A few minutes on one core.
"""

import argparse
import contextlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from koct import metrics
from koct.config.study_file import build
from koct.contracts import Sizes
from koct.networks.solvers import Known

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "results/reference"
SWEEPS = ("H128-crossing", "H128-exact-crossing", "H256", "H256-exact")


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["sweeps"]
    curves = pd.concat(pd.read_parquet(folder / "curves.parquet") for folder in (REFERENCE, REFERENCE / "crossing"))
    least = curves.groupby(["sweep", "arch"])["error_mean"].min()
    print(
        "| sweep | test images | known chain | best factor | chain times factor | KO | of KO's gain |\n"
        + "|---" * 7
        + "|"
    )
    for sweep in SWEEPS:
        problem, pool = build(sweep, config[sweep]).problem, config[sweep]["pool"]
        known = Known(problem.layers(problem.shared()), problem.nonnegative)
        parts = drawn(problem, config[sweep]["seeds"][0], pool["val"], pool["test"])
        images = {
            part: (np.asarray(known.reconstruct(known.weighted(np.asarray(known.analytic), x)), float), y)
            for part, (x, y) in parts.items()
        }
        image, y = images["val"]
        factor = (image * y).sum() / (image**2).sum()
        image, y = images["test"]
        chain, scaled = (
            metrics.load("rrmse_peak").each(c * image, y, problem.y_shape).mean() ** 2 for c in (1, factor)
        )
        assert np.isclose(chain, least[sweep, "untrained"], rtol=1e-4), (chain, least[sweep, "untrained"])
        share = (chain - scaled) / (chain - least[sweep, "ko"])
        numbers = f"{chain:.2e} | {factor:.2f} | {scaled:.2e} | {least[sweep, 'ko']:.2e} | {100 * share:.1f} %"
        print(f"| `{sweep}` | {len(y)} | {numbers} |", flush=True)


def drawn(problem, seed, val, test):
    """Return {part: (x, y)} of the validation and the test images of a pool, which no training image changes."""
    chunks = {"val": [], "test": []}
    with contextlib.redirect_stdout(io.StringIO()):  # what a problem says of its progress
        for part, x, y in problem.pairs(seed, Sizes(train=1, val=val, test=test)):
            if part in chunks:
                chunks[part].append((x.reshape(len(x), -1), problem.decode(y).reshape(len(x), -1)))
    return {part: tuple(map(np.concatenate, zip(*of, strict=True))) for part, of in chunks.items()}


if __name__ == "__main__":
    main()
