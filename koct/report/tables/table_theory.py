"""Predicted over measured mean squared error, and λ predicted and chosen: two lines per curve."""

import math

import numpy as np

from koct.errors import KoctError
from koct.report import inputs
from koct.report.markup import count
from koct.report.product import Product
from koct.report.table import BREAK, RULE, Span, Table
from koct.study.results import best_lambda, grouped

PRODUCT = Product(
    title="predicted and measured",
    about="[predicted](curve.md) and measured curves",
    reads=("theory.parquet", "cells.parquet"),
    when="predicted",
    caption="""\
**Predicted over measured mean squared error.** 1 is a perfect prediction; a star marks those that were called
untrustworthy.""",
)


def table(theory_path, cells_path):
    theory, names = inputs.predictions(theory_path)
    cells, *_ = inputs.split(cells_path, ("sweep", "arch", "N", "mse", "H", "lam"))
    measured, blocks = grouped(cells, "sweep", "arch", "N"), {}
    for (sweep, arch), rows in grouped(theory, "sweep", "arch").items():
        sizes = tuple(sorted({row["N"] for row in rows} & {N for s, a, N in measured if (s, a) == (sweep, arch)}))
        if sizes:
            blocks.setdefault(sizes, []).append((arch, rows, [measured[sweep, arch, N] for N in sizes]))
    if not blocks:
        raise KoctError("no curve of this study is predicted at an N that it fits; take another study")
    columns, body = max(map(len, blocks)), []
    for sizes, curves in blocks.items():
        spare = [""] * (columns - len(sizes))
        body += [BREAK, ["", "", "$N =$", *map(count, sizes)], RULE]
        for arch, rows, fits in curves:
            ratios, lambdas, inside = _lines(rows, sizes, fits)
            body.append([names.sweep(rows[0]), names.arch(arch), "ratio", *ratios, *spare, inside])
            if rows[0]["lam"] is not None:
                body.append(["", "", r"$\log_{10} \lambda$", *lambdas])
    return Table(
        caption=r"Mean squared errors predicted from pairs, before any fit, over those measured (mean over seeds), at "
        r"the $\lambda$ that validation chose; a star marks predictions that were called untrustworthy. Below, "
        r"$\log_{10} \lambda$ as predicted, and the median of those chosen. Last, how many of the fits lie in "
        r"their $90\,\%$ interval.",
        columns="lll" + "c" * columns + "r",
        head=[["Sweep", "Network", "", Span(columns, "c", "predicted / measured"), "inside"]],
        body=body,
    )


def _lines(rows, sizes, fits):
    """Return the ratios, the λ, and how many fits are inside their interval, of one curve."""
    points = {(row["N"], row["lam"]): row for row in rows}
    best = {row["N"]: row for row in best_lambda(rows)}
    ratios, lambdas, inside = [], [], 0
    for N, cells in zip(sizes, fits, strict=True):
        used = [points.get((N, cell["lam"]), best[N]) for cell in cells]
        ratio = sum(row["predicted"] for row in used) / sum(cell["mse"] for cell in cells)
        ratios.append(f"${ratio:.2f}{'' if all(row['trusted'] for row in used) else '^*'}$")
        inside += sum(row["low"] <= cell["mse"] <= row["high"] for row, cell in zip(used, cells, strict=True))
        if best[N]["lam"] is not None:
            chosen = np.median([math.log10(cell["lam"]) for cell in cells])
            lambdas.append(f"${math.log10(best[N]['lam']):g}$, ${chosen:g}$")
    return ratios, lambdas, f"${inside}$ of ${sum(map(len, fits))}$"
