"""A block per sweep, a row per network: its error at the largest N, and the N from which on it is the better."""

from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs, overtakes
from koct.report.markup import INDENT, power_of_ten
from koct.report.printed import PAIR
from koct.report.product import Product
from koct.report.table import BREAK, Span, Table, chosen, dagger, defined
from koct.study.results import grouped

PRODUCT = Product(
    title="samples to beat what needs none",
    about="from which N on a network beats the baselines and KO, by three metrics",
    reads=("crossings.parquet", "curves.parquet"),
    caption="""\
**How many samples a network needs to be better than what needs none**, and than KO: the N from which on its
mean error is smaller up to the largest N of the sweep, with the 90 % interval by the bootstrap.

*Never* says that the largest N is not enough. Where every network has *never*, learning has not paid in this
sweep. A line *by SSIM*, or by another metric, has the N that this metric gives where it contradicts.""",
)


def table(crossings_path, curves_path):
    curves, baselines, names = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    crossings, _ = inputs.rows(
        crossings_path, ("sweep", "arch", "versus", "metric", "N", "N_low", "N_high"), empty=True
    )
    known, body = PAIR[0], []
    answers, metrics = overtakes.by_metric(crossings), {row["sweep"]: row["metric"] for row in curves}
    beside = dict.fromkeys(row["metric"] for row in crossings if row["metric"] != metrics.get(row["sweep"]))
    others = list(dict.fromkeys(row["arch"] for row in baselines))
    others += [known] if any(row["versus"] == known for row in crossings) else []
    for (sweep,), rows in grouped(curves, "sweep").items():
        own = metrics[sweep]
        free = {
            row["arch"]: power_of_ten(row["error_mean"]) + dagger([row]) for row in baselines if row["sweep"] == sweep
        }
        body += [BREAK, [Span(2 + len(others), "@{}l", f"{names.sweep(rows[0])}, {CurveMetric(own).label}")]]
        body += [[INDENT + "error of the other", "", *(free.get(arch, "") for arch in others)]] if free else []
        for (arch,), points in grouped(rows, "arch").items():
            last, first = max(points, key=lambda row: row["N"]), min(row["N"] for row in points)
            for metric, asked in overtakes.lines(answers.get((sweep, arch), {}), own, others):
                start, lacking = [INDENT + names.arch(arch) + dagger(points), power_of_ten(last["error_mean"])], "--"
                interval = " [{}, {}]"
                if metric != own:  # a short line, or the table is too wide
                    start, lacking, interval = [2 * INDENT + f"by {CurveMetric(metric).label}", ""], "", ""
                body.append(
                    [*start, *(overtakes.since(row, first, interval=interval) if row else lacking for row in asked)]
                )
    return Table(
        caption="The mean test error at the largest $N$ of the sweep, and the $N$ from which on a network's is smaller "
        "than another's, up to that $N$; between the $N$ of the sweep, errors are interpolated. "
        r"In brackets, the $90\,\%$ interval by the bootstrap. Never: not up to the largest $N$."
        + _compared(beside)
        + defined(names, baselines, "the first row of a sweep has their mean test errors")
        + chosen(names, [*baselines, *curves]),
        columns="lr" + "r" * len(others),
        head=[["", "error", *(f"better than\n{names.arch(arch)}" for arch in others)]],
        body=body,
    )


def _compared(metrics):
    """Return what a caption says of other metrics than that of the sweep; nothing without any."""
    labels = ", ".join(CurveMetric(metric).label for metric in metrics)
    return labels and (
        f" Curves are compared by {labels} as well: a line has the $N$ of a metric that says never where that of the "
        "sweep does not, or the reverse, or whose interval has no $N$ in common with that of the sweep."
    )
