"""Error against N on the test pairs of every sweep, of networks that learned from it and from others."""

from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from koct.base import FRESH
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing
from koct.report.product import Product
from koct.report.tables.table_transfer import tested

PRODUCT = Product(
    title="tested on other pairs",
    about="error against N on [other sweeps](your-scans.md#another-dose-other-images)",
    reads=("transfer.parquet",),
    when="transferred",
    takes=("metrics",),
    caption="""\
**Error against N on the test pairs of a sweep**, a panel for each: solid for networks that learned from pairs of the
same kind, broken for those that learned from others, and horizontal for what needs no sample.

At one height, the N of a solid and of a broken line say how many samples of one kind are worth how many of the
other.""",
)
COLUMNS = 3
BROKEN = ("--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)))


def figure(transfer_path, metrics):
    curves, names = tested(transfer_path, metrics)
    targets = list(dict.fromkeys(target for target, *_ in curves))
    lines = -(-len(targets) // COLUMNS)
    made, axes = drawing.panels(lines, min(COLUMNS, len(targets)), (2.2, 1.9), down=0.72)
    for axis in axes.flat[len(targets) :]:
        axis.set_axis_off()
    sources = dict.fromkeys(source for target, source, _ in curves if source != target)
    styles, handles = dict(zip(sources, BROKEN * len(sources), strict=False)), {}
    for axis, target in zip(axes.flat, targets, strict=False):
        sizes = set()
        end = drawing.FRESH_AWAY * max(max(curve) for (found, *_), curve in curves.items() if found == target)
        for (found, source, arch), curve in curves.items():
            if found != target:
                continue
            curve = dict(sorted((end if N == FRESH else N, error) for N, error in curve.items()))
            if set(curve) == {0}:
                axis.axhline(curve[0], **names.line(arch))
                handles[names.arch(arch)] = Line2D([], [], **names.line(arch))
                continue
            line = "-" if source == target else styles[source]
            look = {"color": names.colour(arch), "marker": names.marker(arch), "linestyle": line}
            axis.plot(list(curve), list(curve.values()), **look)
            handles[names.arch(arch)] = Line2D([], [], color=look["color"], marker=look["marker"])
            sizes |= set(curve)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        ticks = {N: "fresh" if end == N else f"{N:,}" for N in sorted(sizes)}
        axis.set_xticks(list(ticks), list(ticks.values()), fontsize=6)
        axis.xaxis.set_minor_locator(NullLocator())
        drawing.label_powers(axis.yaxis)
        label = CurveMetric(metrics[target]).label
        axis.set(title=f"tested on {target}", xlabel="training samples $N$", ylabel=f"test {label}")
    for source, style in styles.items():
        handles[f"learned from {source}"] = Line2D([], [], color="0.35", linestyle=style)
    drawing.label_once(axes)
    drawing.legend_below(made, handles, 0.08)
    return made
