"""What a wrong operator costs without training, beside the bound for a wrong layer: a figure, and a table in Markdown.

    .venv/bin/python benchmarks/mismatch.py [FIGURE]

For every sweep of the study `mismatch`: the mean squared error of the known reconstruction on 100 pairs, and its bound
(docs/theory.md). Two layers lead to an image, the scanner and the reconstruction. The first is wrong by the distance of
its measurements from those of the known one, relative to their size, the second by the norm of the difference.
"""

import argparse
import contextlib
import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import yaml
from crossings import drawn

from koct.bound.theorem import BoundLayer, BoundNetwork
from koct.config import study_file
from koct.networks.solvers import Known
from koct.report.mismatch import KINDS
from koct.workflow import when

ROOT = Path(__file__).resolve().parents[1]
PAIRS = 100


def measured(problem):
    """Return measurements and images, both flat, and the reconstruction as a matrix."""
    with contextlib.redirect_stdout(io.StringIO()):  # what a problem says of its progress
        x, y = (part.reshape(PAIRS, -1).astype(float) for part in drawn(problem, PAIRS))
    known = Known(problem.layers({}), problem.nonnegative)
    unit = known.weighted(np.asarray(known.analytic), np.eye(x.shape[1]))
    return x, y, known.R(unit.reshape(-1, *known.R.domain)).reshape(len(unit), -1)


def norm(matrix):
    return np.linalg.norm(matrix, 2) if matrix.any() else 0.0


def squares(values):
    return (values**2).sum(1).mean()


def bound(right, wrong):
    """Return error and bound of a wrong operator, each as a mean over pixels; both are `measured`."""
    (x, y, R, size_of_R), (other, _, other_R) = right, wrong
    size = squares(x) ** 0.5
    scanner = squares(other - x) ** 0.5 / size
    layers = [BoundLayer("scanner", 1.0, known=True), BoundLayer("reconstruction", size_of_R, known=True)]
    mismatch = {"scanner": scanner, "reconstruction": norm(other_R - R)}
    total = BoundNetwork(layers).sharp_bound({}, squares(x @ R - y), mismatch, size)
    return squares(other @ other_R - y) / y.shape[1], total / y.shape[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("figure", nargs="?", default=ROOT / "docs/fig_wrong.png", metavar="FIGURE")
    path = parser.parse_args().figure
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    study = study_file.read({**config, "study": "mismatch"})
    problems, known, found = {sweep.name: sweep.problem for sweep in study}, {}, {}
    for sweep, (name, kind, strength) in when.mismatch(study).items():
        if not strength:
            right = measured(problems[sweep])
            known[name] = (*right, norm(right[-1]))
        else:
            found.setdefault(kind, {})[strength] = bound(known[name], measured(problems[sweep]))
    print("| difference | strength | error | bound | bound / error |\n|---|---|---|---|---|")
    figure, axes = plt.subplots(3, 4, figsize=(7, 5.2), layout="constrained")
    for axis, (kind, rows) in zip(axes.flat, found.items(), strict=False):
        words, unit = KINDS[kind]
        for strength, (error, limit) in rows.items():
            print(f"| {words} | {strength:g} {unit} | {error:.2e} | {limit:.2e} | {limit / error:.1f} |")
        axis.loglog(list(rows), [error for error, _ in rows.values()], "o-", ms=3, color="#0072b2", label="error")
        axis.loglog(list(rows), [limit for _, limit in rows.values()], "s--", ms=3, color="#d55e00", label="bound")
        axis.set_title(words, fontsize=8)
        axis.set_xlabel(f"difference in {unit}", fontsize=7)
        axis.set_xticks(list(rows), [f"{strength:g}" for strength in rows])
        axis.minorticks_off()
        axis.tick_params(labelsize=7)
    for axis in axes.flat[len(found) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("mean squared error", fontsize=7)
    axes.flat[-1].legend(*axes.flat[0].get_legend_handles_labels(), fontsize=8, loc="center", frameon=False)
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    main()
