"""A block per sweep, a row per network: its error at the largest N, and the N from which on it is the better."""

from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.markup import INDENT, count, power_of_ten
from koct.report.printed import PAIR
from koct.report.product import Product
from koct.report.table import BREAK, Span, Table, defined
from koct.study.results import grouped

PRODUCT = Product(
    title="samples to beat what needs none",
    about="from which N on a network is better than what needs no sample, and than KO",
    reads=("crossings.parquet", "curves.parquet"),
    caption="""\
**How many samples a network needs to be better than what needs none**, and than KO: the N from which on its
mean error is smaller up to the largest N of the sweep, with the 90 % interval by the bootstrap.

*Never* says that the largest N is not enough. Where every network has *never*, learning has not paid in this
sweep.""",
)


def table(crossings_path, curves_path):
    curves, baselines, names = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    crossings, _ = inputs.rows(crossings_path, ("sweep", "arch", "versus", "N", "N_low", "N_high"), empty=True)
    known, body = PAIR[0], []
    answers = {(row["sweep"], row["arch"], row["versus"]): row for row in crossings}
    others = list(dict.fromkeys(row["arch"] for row in baselines))
    others += [known] if any(row["versus"] == known for row in crossings) else []
    for (sweep,), rows in grouped(curves, "sweep").items():
        free = {row["arch"]: power_of_ten(row["error_mean"]) for row in baselines if row["sweep"] == sweep}
        about = f"{names.sweep(rows[0])}, {CurveMetric(rows[0]['metric']).label}"
        body += [BREAK, [Span(2 + len(others), "@{}l", about)]]
        body += [[INDENT + "error of the other", "", *(free.get(arch, "") for arch in others)]] if free else []
        for (arch,), points in grouped(rows, "arch").items():
            last, first = max(points, key=lambda row: row["N"]), min(row["N"] for row in points)
            needed = [_needed(answers.get((sweep, arch, versus)), first) for versus in others]
            body.append([INDENT + names.arch(arch), power_of_ten(last["error_mean"]), *needed])
    return Table(
        caption="The mean test error at the largest $N$ of the sweep, and the $N$ from which on a network's is smaller "
        "than another's, up to that $N$; between the $N$ of the sweep, errors are interpolated. "
        r"In brackets, the $90\,\%$ interval by the bootstrap. Never: not up to the largest $N$."
        + defined(names, baselines, "the first row of a sweep has their mean test errors"),
        columns="lr" + "r" * len(others),
        head=[["", "error", *(f"better than\n{names.arch(arch)}" for arch in others)]],
        body=body,
    )


def _needed(row, first):
    """Return the N of a crossing with its interval; `first` is the smallest N of the sweep."""
    if row is None:
        return "--"
    if row["N"] is None:
        return "never"
    if row["N"] <= first:
        return rf"$\leq$ {count(first)}"
    low, high = ("never" if row[key] is None else count(row[key]) for key in ("N_low", "N_high"))
    return count(row["N"]) + ("" if row["N_low"] is None else f" [{low}, {high}]")
