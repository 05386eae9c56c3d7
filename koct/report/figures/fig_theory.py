"""Predicted error against N at the best λ, with the 90 % interval of one fit; a panel per sweep."""

import numpy as np

from koct.errors import KoctError
from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import best_lambda, grouped

PRODUCT = Product(
    title="curves predicted before any fit",
    about="curves [predicted](curve.md) before any fit",
    reads=("theory.parquet",),
    when="predicted",
    caption="""\
**Learning curves predicted before any fit**, from the pairs of a pool alone, with 90 % intervals. *Error against N*
has them as crosses beside what was then measured.

Where the two agree, the sweep could have been planned without it. Open markers were not trusted: the prediction
says itself that its assumptions fail there.""",
)


def figure(theory_path):
    rows, names = inputs.predictions(theory_path)
    for row in (row for row in rows if row["error"] is None):  # whose metric cannot be told from squared errors
        row |= {"metric": "mse", "error": row["predicted"], "error_low": row["low"], "error_high": row["high"]}
    if not rows:
        raise KoctError("no curve of this study is predicted: its networks allow none, or theory is false")
    return drawing.by_sweep(_panel, names, rows, note=drawing.unpredicted(rows, rows, names))


def _panel(axis, names, rows):
    for (arch,), group in grouped(rows, "arch").items():
        points = best_lambda(group)
        keys = ("N", "error", "error_low", "error_high")
        N, error, low, high = (np.array([row[key] for row in points]) for key in keys)
        colour, pairs = names.colour(arch), points[0]["pairs"]
        trusted = np.array([row["trusted"] for row in points])
        axis.fill_between(N, low, high, where=trusted | (pairs < N), color=colour, alpha=0.18, linewidth=0)
        known = int(np.sum(pairs >= N))
        axis.plot(N, np.where(trusted, error, np.nan), color=colour, label=names.arch(arch))
        axis.plot(N[max(known - 1, 0) :], error[max(known - 1, 0) :], ":", color=colour)
        axis.plot(N[trusted], error[trusted], names.marker(arch), color=colour)
        axis.plot(N[~trusted], error[~trusted], names.marker(arch), color=colour, markerfacecolor="white")
        if not trusted.all():
            axis.plot([], [], "o", color="0.4", markerfacecolor="white", label="not to be trusted")
    axis.fill_between([], [], [], color="0.5", alpha=0.18, linewidth=0, label="90 % interval")
    if any(row["N"] > row["pairs"] for row in rows):
        axis.plot([], [], ":", color="0.4", label="beyond the pairs")
    drawing.finish_panel(axis, sorted({row["N"] for row in rows}), rows[0], names)
