"""Error against N by what N counts: pairs, scans or images; a line of panels per sweep."""

from koct.contracts import LEARNS_FROM
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.figures.fig_benchmark import LABELS, SIZE, label_ends, panel
from koct.report.product import Product
from koct.study.results import fresh

PRODUCT = Product(
    title="pairs, scans, images",
    about="error against N by [scans, images and pairs](labels.md)",
    reads=("cells.parquet", "curves.parquet"),
    when="kinds",
    takes=("kinds",),
    caption="""\
**Test error against the number of training samples, by what is counted**: pairs, scans without an image, images without
a scan. The mean over seeds, with one dash per seed. Horizontal lines need no sample.

Panels of one line have the same axes: at one height, their N say how many samples of one kind are worth how many of
another. At the right end, behind dots, are fresh samples, which never repeat.""",
)


def figure(cells_path, curves_path, kinds):
    told, names = inputs.rows(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    kinds = inputs.of_study(kinds)
    points = {(row["sweep"], row["arch"], row["N"]): row for row in told}
    cells, free, _ = inputs.split(cells_path, ("sweep", "arch", "N", "H"))
    cells += fresh(inputs.rows(cells_path, ())[0])
    columns = [kind for kind in LEARNS_FROM if any(kind in of.values() for of in kinds.values())]
    made, axes = drawing.panels(
        len(kinds), len(columns), SIZE, left=0.75, right=LABELS, above=0.3, below=0.42, across=LABELS + 0.5, down=0.75
    )
    for line, (sweep, of) in zip(axes, kinds.items(), strict=True):
        metric = CurveMetric(next(row["metric"] for row in told if row["sweep"] == sweep))
        lines, drawn = [row for row in free if row["sweep"] == sweep], []
        for axis, kind in zip(line, columns, strict=True):
            rows = [row for row in cells if row["sweep"] == sweep and of.get(row["arch"], "").startswith(kind)]
            if not rows:
                axis.set_axis_off()
                continue
            panel(axis, rows, lines, metric, names, points)
            axis.set(yscale="log", xlabel=f"training {kind} $N$")
            drawn.append(axis)
        line[0].set(title=names.problem(sweep, sweep), ylabel=f"test {metric.label}")
        drawing.share_limits(dict(enumerate(drawn)))
        for axis in drawn:
            label_ends(axis)
    drawing.note_below(made, drawing.told_fresh(cells, names))
    return made
