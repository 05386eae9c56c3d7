"""The paper's Table 2: floor and sigma of every network, a row per sweep; first what needs no sample.

More than three networks, or many sweeps, would leave the page: each network has a row then."""

import re

from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.markup import INDENT, latex, power_of_ten
from koct.report.product import Product
from koct.report.table import BREAK, FLOOR, LINES, RULE, Span, Table, Underline, chosen, dagger, defined
from koct.study.results import grouped

PRODUCT = Product(
    title="floor and σ of every curve",
    about="the paper's Table 2: floor and σ of each curve",
    reads=("curves.parquet", "calibration.parquet"),
    caption="""\
**Floor and σ of every curve**, as in Table 2 of the paper: floor is the smallest mean error of the sweep, σ the
slope of (error − floor) on log N / N without an intercept.

The first rows are the errors of what needs no sample.

σ of FC over σ of KO is the paper's structural factor. A floor is that of the sweep, not of the network: where a
curve still falls at the largest N, it is too high.""",
)
CAPTION = (
    r"Calibration factors $\mathrm{floor}$ and $\sigma$ of the bound $\mathrm{floor} + \sigma \log N / N$, fitted on "
    r"each sweep."
)


def table(curves_path, calibration_path):
    rows, names = inputs.rows(calibration_path, ("sweep", "arch", "metric", "floor", "sigma", "H"))
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    points = grouped([*baselines, *curves], "sweep", "arch")
    marks, words = {key: dagger(of) for key, of in points.items()}, chosen(names, [*baselines, *curves])
    archs, free = (list(dict.fromkeys(row["arch"] for row in part)) for part in (rows, baselines))
    if len(archs) > 3 or 2 * len(grouped(rows, "sweep")) > LINES:
        return _of_many(names, rows, grouped(baselines, "sweep"), marks, words)
    head, body = _head(names, archs), []
    for group in grouped(rows, "sweep").values():
        fitted, cells = {row["arch"]: row for row in group}, _start(names, group[0])
        for arch in archs:
            both = [power_of_ten(fitted[arch][key]) for key in ("floor", "sigma")] if arch in fitted else ["--"] * 2
            cells += [both[0] + marks.get((group[0]["sweep"], arch), ""), both[1]]
        body.append(cells)
    if baselines:
        above = []
        for group in grouped(baselines, "sweep").values():
            errors = {row["arch"]: power_of_ten(row["error_mean"]) + dagger([row]) for row in group}
            above.append([*_start(names, group[0]), *(errors.get(arch, "--") for arch in free)])
        head, body = [["Sweep", "Error", *map(names.arch, free)]], [*above, RULE, *head, RULE, *body]
    return Table(
        caption=CAPTION + defined(names, baselines, "the first rows have their mean test errors") + words,
        columns="ll" + "c" * max(2 * len(archs), len(free)),
        head=head,
        body=body,
    )


def _of_many(names, rows, baselines, marks, words):
    """Return the table with a row per network."""
    body = []
    for key, group in grouped(rows, "sweep").items():
        body += [BREAK, [Span(3, "@{}l", ", ".join(_start(names, group[0])))]]
        for row in baselines.get(key, []):
            body.append([INDENT + names.arch(row["arch"]) + dagger([row]), power_of_ten(row["error_mean"])])
        for row in group:
            label = names.arch(row["arch"]) + marks.get((*key, row["arch"]), "")
            body.append([INDENT + label, power_of_ten(row["floor"]), power_of_ten(row["sigma"])])
    return Table(
        caption=CAPTION + defined(names, [row for group in baselines.values() for row in group], FLOOR) + words,
        columns="lcc",
        head=[["Network", r"$\mathrm{floor}$", r"$\sigma$"]],
        body=body,
    )


def _head(names, archs):
    """Return the paper's head, floor and σ with the network as an index; above them where its name is longer."""
    labels, symbols = [names.arch(arch) for arch in archs], (r"\mathrm{floor}", r"\sigma")
    if all(re.fullmatch(r"[\w.+–-]+", label) for label in labels):
        indexed = [rf"${symbol}_{{\mathrm{{{latex(label)}}}}}$" for label in labels for symbol in symbols]
        return [["Sweep", "Error", *indexed]]
    lines = Underline(tuple(("lr", 3 + 2 * i, 4 + 2 * i) for i in range(len(archs))))
    below = [f"${symbol}$" for symbol in symbols] * len(archs)
    return [["", "", *(Span(2, "c", label) for label in labels)], lines, ["Sweep", "Error", *below]]


def _start(names, row):
    """Return the sweep and its metric."""
    return [names.sweep(row), CurveMetric(row["metric"]).label]
