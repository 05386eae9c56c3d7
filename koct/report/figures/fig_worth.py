"""Error against N of networks that learn from pairs, scans or images, on one axis; below, on scans of another kind."""

from matplotlib.lines import Line2D

from koct.contracts import LEARNS_FROM
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.figures.fig_benchmark import label_ends, panel
from koct.report.product import Product
from koct.study.results import baselines, fresh, grouped, trained

PRODUCT = Product(
    title="pairs, scans, images",
    about="error against N by [scans, images and pairs](labels.md)",
    reads=("cells.parquet", "transfer.parquet"),
    when="kinds",
    takes=("kinds", "metrics"),
    caption="""\
**Test error against the number of training samples**, solid where they are pairs, broken where they are scans without
an image, broken with dots where they are images without a scan: the mean over seeds, with one dash per seed. Dotted
horizontal lines need no sample.

At one height, the N of two curves say how many samples of one kind are worth how many of the other. At the right end,
behind dots, are fresh samples, which never repeat. Lower panels have the same networks on scans of another kind; thin
lines learned from that kind.""",
)
SIZE = (1.8, 2.1)  # inches of a panel: two with their labels are as wide as a page
LABELS = 1.12  # inches right of it
WIDTH = 30  # characters of a line of its title
STYLES = dict(zip(LEARNS_FROM, ("-", (0, (4, 1.5)), (0, (6, 1.5, 1, 1.5, 1, 1.5))), strict=True))
THIN = {"linewidth": 0.6, "markersize": 2.2}


def figure(cells_path, transfer_path, kinds, metrics):
    kinds = inputs.of_study(kinds)
    cells, names = inputs.rows(cells_path, ("sweep", "arch", "N", "H"))
    moved = [row for row in inputs.rows(transfer_path, ("tested_on",), empty=True)[0] if row["tested_on"]]
    places = {
        sweep: [None, *dict.fromkeys(row["tested_on"] for row in moved if row["sweep"] == sweep)] for sweep in kinds
    }
    lines = max(map(len, places.values()))
    titles, height = drawing.titles(names, kinds, WIDTH)
    above, across = 0.18 + height, LABELS + 0.5
    made, axes = drawing.panels(lines, len(kinds), SIZE, 0.75, LABELS, above, 0.42, across, down=0.45)
    for axis in axes.flat:
        axis.set_axis_off()
    for column, (sweep, of) in zip(axes.T, kinds.items(), strict=True):
        drawn, styles = [], {arch: STYLES[kind.split()[0]] for arch, kind in of.items()}
        for axis, other in zip(column, places[sweep], strict=False):
            metric, home = (
                CurveMetric(metrics[other or sweep]),
                [row for row in cells if row["sweep"] == (other or sweep)],
            )
            rows = [row for row in moved if (row["sweep"], row["tested_on"]) == (sweep, other)] if other else home
            axis.set_axis_on()
            panel(axis, trained(rows) + fresh(rows), baselines(home), metric, names, _edges(rows + home), styles)
            if other:
                _draw_thin(axis, trained(home), metric, names)
            axis.set(yscale="log", xlabel="training samples $N$", ylabel=f"test {metric.label}")
            axis.yaxis.labelpad = 2
            axis.set_title(f"tested on {other}" if other else titles[sweep], fontsize=7.5)
            axis.tick_params(axis="x", labelsize=6.5)
            drawn.append(axis)
        drawing.share_limits(dict(enumerate(drawn)))
        for axis in drawn:
            drawing.label_powers(axis.yaxis)
            label_ends(axis)
    drawing.label_once(axes)
    shown = {kind for of in kinds.values() for each in of.values() for kind in each.split(" and ")[:1]}
    keys = {
        f"{kind} to learn from": Line2D([], [], color=drawing.MARK, ls=STYLES[kind]) for kind in STYLES if kind in shown
    }
    if baselines(cells):
        keys["no sample"] = Line2D([], [], color=drawing.MARK, ls=":")
    if len(axes) > 1:
        keys["learned from such scans"] = Line2D([], [], color=drawing.MARK, marker=".", **THIN)
    drawing.legend_below(made, keys | drawing.handles(*axes.flat), 0.08)
    drawing.note_below(made, drawing.told_fresh(cells, names))
    return made


def _edges(rows):
    """Return {(sweep, arch, N): row} of what was at an edge: as curves.parquet says it, of rows on other scans, too."""
    groups = grouped(rows, "sweep", "arch", "N")
    return {key: {**same[0], "edges": sum(bool(row["edge"]) for row in same)} for key, same in groups.items()}


def _draw_thin(axis, rows, metric, names):
    """Draw curves of networks that learned from what a panel tests on."""
    for (arch,), group in grouped(rows, "arch").items():
        points = [(N, metric.mean(same)) for (N,), same in sorted(grouped(group, "N").items())]
        axis.plot(*zip(*points, strict=True), color=names.colour(arch), marker=names.marker(arch), **THIN)
