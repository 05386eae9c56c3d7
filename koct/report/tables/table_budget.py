"""How many samples reach each target, with the 90 % interval; first the targets that need none."""

from koct.report import inputs
from koct.report.labels import Names, sweep_label
from koct.report.markup import count, power_of_ten
from koct.report.product import Product
from koct.report.table import RULE, Span, Table, Underline, defined

PRODUCT = Product(
    title="samples for the targets",
    about="how many samples reach the configured target errors",
    reads=("curves.parquet", "budget.parquet"),
    caption="""\
**How many samples reach a target error**, with a 90 % interval, by the planner from all points of a curve;
right, by the curve that pairs predict. The first rows need no sample: their error, and the targets that it
reaches.

An interval without an upper end means that the target may be below what the network ever reaches.""",
)


def table(curves_path, budget_path):
    theory = ("theory_n", "theory_low", "theory_high", "theory_upto")
    columns, nullable = ("sweep", "arch", "target", "law"), ("H", "n", "n_low", "n_high", *theory)
    rows, origin = inputs.rows(budget_path, columns, nullable, empty=True)
    _, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "error_mean"), ("H",))
    names, targets = Names(origin), {}
    for row in rows:
        targets.setdefault(row["sweep"], set()).add(row["target"])
    body = []
    for row in (row for row in baselines if row["sweep"] in targets):
        met = [target for target in targets[row["sweep"]] if target >= row["error_mean"]]
        start = [sweep_label(row), rf"$\geq$ {power_of_ten(min(met))}" if met else "none", names.arch(row["arch"])]
        body.append([*start, Span(5, "l@{}", f"needs no sample, error {power_of_ten(row['error_mean'])}")])
    body += [RULE] if body else []
    for row in rows:
        n = "out of reach" if row["n"] is None else count(row["n"])
        high = r"$\infty$" if row["n_high"] is None else count(row["n_high"])
        interval = "--" if row["n_low"] is None else f"{count(row['n_low'])} to {high}"
        start = [sweep_label(row), power_of_ten(row["target"]), names.arch(row["arch"]), row["law"]]
        body.append([*start, n, interval, *_by_theory(row)])
    return Table(
        caption=r"Samples that reach a target mean error: the most probable law, the median of the forecast, and its "
        r"$90\,\%$ interval. Right, the same from the curve that pairs predict before any fit."
        + defined(names, baselines, "the first rows say which targets they reach"),
        label="tab:budget",
        columns="llllrrrr",
        head=[
            ["", "", "", Span(3, "c", "from the fits"), Span(2, "c", "from pairs")],
            Underline((("lr", 4, 6), ("l", 7, 8))),
            ["Sweep", "Target", "Network", "Law", "$N$", "Interval", "$N$", "Interval"],
        ],
        body=body,
    )


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
