"""From how many pairs on FC beats KO, predicted from some pairs before any fit, beside what the reference measured.

    .venv/bin/python benchmarks/crossings.py [SWEEP ...]

A few minutes on one core; H128, H128-exact and H128-right, which are not among the sweeps by default, are for a GPU.
Errors are mean squared ones.
"""

import argparse
import contextlib
import io
from pathlib import Path

import numpy as np
import yaml

from koct.base.device import choose
from koct.config.study_file import build
from koct.contracts import Sizes
from koct.report import markup
from koct.report.overtakes import by_metric, since
from koct.study import results
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
    """The crossing of the mean squared errors of FC and KO in the reference."""
    study, name = ("modalities", sweep) if sweep in MODALITIES else ("crossing", f"{sweep}-crossing")
    folder = ROOT / "results/reference" / study
    rows, curves = (results.read(folder / f"{file}.parquet")[0] for file in ("crossings", "curves"))
    first = min(row["N"] for row in curves if row["sweep"] == name and row["arch"] == "fc")
    answers = by_metric(rows)[name, "fc"]["ko"]
    return markup.html(since(answers["mse"], first)) if "mse" in answers else "not by this error"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sweeps", nargs="*", default=list(PAIRS), metavar="SWEEP", help=f"default: {' '.join(PAIRS)}")
    sweeps = parser.parse_args().sweeps
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["sweeps"]
    print("| problem | pairs | predicted crossing (90 % interval) | measured |\n|---|---|---|---|")
    for sweep in sweeps:
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
