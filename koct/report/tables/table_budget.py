"""How many samples reach each target, with the 90 % interval, and the errors of what needs none."""

from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.markup import INDENT, count, power_of_ten
from koct.report.product import Product
from koct.report.table import BREAK, Span, Table, Underline, chosen, dagger, defined, needed
from koct.study.results import grouped

PRODUCT = Product(
    title="samples for the targets",
    about="how many samples reach the configured target errors",
    reads=("curves.parquet", "budget.parquet"),
    caption="""\
**How many samples reach a target error**, with a 90 % interval, by the planner from all points of a curve;
right, by the curve that pairs predict. Below the name of a sweep, the errors of what needs no sample: such a
target needs none.

An interval without an upper end means that the target may be below what the network ever reaches.""",
)


def table(curves_path, budget_path):
    rows, names = inputs.rows(budget_path, ("sweep", "arch", "target", "law", "n", "theory_n"), empty=True)
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    points, body = grouped(curves, "sweep", "arch"), []
    baselines = [row for row in baselines if any(row["sweep"] == other["sweep"] for other in rows)]
    predicted = any(row["theory_upto"] is not None for row in rows)
    for (sweep,), group in grouped(rows, "sweep").items():
        free = [row for row in baselines if row["sweep"] == sweep]
        body += [BREAK, [Span(7, "@{}l", f"{names.sweep(group[0])}, {CurveMetric(group[0]['metric']).label}")]]
        if free:
            errors = ", ".join(
                f"{names.arch(row['arch'])}{dagger([row])} {power_of_ten(row['error_mean'])}" for row in free
            )
            body.append([Span(7, "@{}l", f"{INDENT}without samples: {errors}")])
        shown = None
        for row in group:
            curve = points.get((sweep, row["arch"]), [])
            largest = max((point["N"] for point in curve), default=0)
            start = ["", ""] if row["arch"] == shown else [INDENT + names.arch(row["arch"]) + dagger(curve), row["law"]]
            body.append([*start, power_of_ten(row["target"]), *_by_forecast(row, largest), *_by_theory(row)])
            shown = row["arch"]
    return Table(
        caption=r"Samples that reach a target mean error: the most probable law, the median of the forecast, and its "
        r"$90\,\%$ interval, no further than $100$ times the largest $N$."
        + (" Right, the same from the curve that pairs predict before any fit." if predicted else "")
        + defined(names, baselines, "a target at or above their error needs none either")
        + chosen(names, [*baselines, *curves]),
        columns="lllrrrr",
        head=[
            ["", "", "", Span(2, "c", "from the fits"), Span(2, "c", "from pairs")],
            Underline((("lr", 4, 5), ("l", 6, 7))),
            ["Network", "Law", "Target", "$N$", "Interval", "$N$", "Interval"],
        ],
        body=body,
    )


def _by_forecast(row, largest):
    """Return N and its interval from the fits."""
    n = "out of reach" if row["n"] is None else needed(row["n"], largest)
    high = r"$\infty$" if row["n_high"] is None else needed(row["n_high"], largest)
    return [n, "--" if row["n_low"] is None else f"{needed(row['n_low'], largest)} to {high}"]


def _by_theory(row):
    """Return N and its interval from the predicted curve, which ends at some N."""
    if row["theory_upto"] is None:
        return ["--", "--"]
    if not row["theory_upto"]:
        return ["not trusted", "--"]
    beyond = f"$>$ {count(row['theory_upto'])}"
    keys = ("theory_n", "theory_low", "theory_high")
    n, low, high = (beyond if row[key] is None else count(row[key]) for key in keys)
    return [n, "--" if row["theory_low"] is None else f"{low} to {high}"]
