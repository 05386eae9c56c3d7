"""Networks on test pairs of another sweep than the one they learned from: errors with the most samples."""

from koct.base import FRESH
from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.markup import count, power_of_ten
from koct.report.product import Product
from koct.report.table import BREAK, Span, Table, chosen, dagger
from koct.study.results import grouped

PRODUCT = Product(
    title="tested on other pairs",
    about="errors on [other sweeps](your-scans.md#another-dose-other-images)",
    reads=("transfer.parquet",),
    when="transferred",
    takes=("metrics",),
    caption="""\
**What networks are worth on pairs of another kind**: a block for the test pairs of every sweep, with the mean error of
each network by the sweep that it learned from, at the largest N there. Nothing is fitted again.

Compare a row with the first column of its block, which learned from pairs like those it is tested on.""",
)


def table(transfer_path, metrics):
    rows, names = inputs.rows(transfer_path, ("sweep", "tested_on", "arch", "N"))
    targets, curves = {row["tested_on"] for row in rows}, {}  # {(tested on, learned from, arch): {N: rows}}
    for (source, other, arch, N), cells in grouped(rows, "sweep", "tested_on", "arch", "N").items():
        if (other or source) in targets:
            curves.setdefault((other or source, source, arch), {})[N] = cells
    sources, shown, body = list(dict.fromkeys(source for _, source, _ in curves)), [], []

    def last(target, source, arch):
        """Return the cell of a network: its error with the most samples, and their number."""
        if not (curve := curves.get((target, source, arch))):
            return "--"
        N = max(curve, key=lambda N: (N == FRESH, N))
        shown.extend(curve[N])
        error = power_of_ten(CurveMetric(metrics[target]).mean(curve[N])) + dagger(curve[N])
        return f"{error} ({'fresh' if N == FRESH else count(N)})" if N else error

    for target in dict.fromkeys(target for target, *_ in curves):
        learned = [target, *(source for source in sources if source != target)]
        body += [BREAK, [Span(1 + len(sources), "@{}l", f"tested on {target}, {names.problem(target, '')}")]]
        body.append(["learned from", *learned])
        for arch in dict.fromkeys(arch for found, _, arch in curves if found == target):
            body.append([names.arch(arch), *(last(target, source, arch) for source in learned)])
    return Table(
        caption="Mean test errors on the test pairs of a sweep, of networks that learned from it and from others, at "
        "the largest $N$ of each, which stands in parentheses; what needs no sample has none." + chosen(names, shown),
        columns="l" + "r" * len(sources),
        head=[["", Span(len(sources), "c", "error")]],
        body=body[1:],
    )
