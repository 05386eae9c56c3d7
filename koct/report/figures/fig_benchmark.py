"""Error and structural similarity against N where a network is a torch module; a column per sweep."""

import numpy as np

from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import grouped

PRODUCT = Product(
    title="networks that people use",
    about="with a torch module among the networks: error and SSIM against N, [the benchmark](benchmark.md)",
    reads=("cells.parquet", "curves.parquet"),
    when="benchmark",
    caption="""\
**Test error, and below it structural similarity (SSIM), against the number of training samples**, a column per
condition: the mean over seeds, with one dash per seed. Grey horizontal lines need no sample.

Read it from left to right: what is best with N samples, and what more samples buy. SSIM is better the higher it
is.""",
)
SIZE = (3.0, 2.3)  # inches of a panel
LABELS = 1.2  # inches right of it
APART = 7.5  # points between labels


def figure(cells_path, curves_path):
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    errors = {CurveMetric(row["metric"]).column for row in curves}
    cells, free, names = inputs.split(cells_path, ("sweep", "arch", "N", *errors, "H", "ssim"))
    edges = {(row["sweep"], row["arch"], row["N"]): row.get("edges") for row in [*baselines, *curves]}
    metrics = {row["sweep"]: CurveMetric(row["metric"]) for row in curves}
    sweeps = list(metrics)
    made, axes = drawing.panels(2, len(sweeps), SIZE, left=0.75, right=LABELS, above=0.24, below=0.42, down=0.26)
    for column, sweep in enumerate(sweeps):
        rows = [row for row in cells if row["sweep"] == sweep]
        lines = [row for row in free if row["sweep"] == sweep]
        for axis, metric in zip(axes[:, column], (metrics[sweep], CurveMetric("ssim")), strict=True):
            _panel(axis, rows, lines, metric, names, edges)
            axis.set_ylabel(f"test {metric.label}", labelpad=2)
        axes[0, column].set(yscale="log", title=names.problem(sweep, sweep))
        axes[0, column].tick_params(labelbottom=False)
        axes[1, column].set_xlabel(f"training {names.counted(sweep)} $N$")
    for row in axes:
        drawing.share_limits(dict(enumerate(row)))
        for axis in row:
            _label(axis)
    drawing.label_once(axes)
    made.align_ylabels()
    note = f"Hollow: {drawing.AT_EDGE}." if any(edges.values()) else ""
    notes = (drawing.ends(curves, names), note, names.uncounted([*baselines, *curves]))
    drawing.note_below(made, " ".join(filter(None, notes)))
    return made


def _panel(axis, rows, lines, metric, names, edges):
    """Draw the curves of a sweep, and remember where each ends: (N, value, label, colour).

    `edges` has how many choices were at an edge: {(sweep, arch, N): count}.
    """
    axis.ends = []
    sizes = sorted({row["N"] for row in rows})
    axis.set_xscale("log", base=2)
    axis.set_xlim(sizes[0] / 1.5, sizes[-1] * 1.5)
    rows, lines = ([row for row in part if row[metric.column] is not None] for part in (rows, lines))
    for (arch,), group in grouped(lines, "arch").items():
        look, height = names.line(arch), metric.mean(group)
        axis.axhline(height, **look)
        drawing.mark_line(axis, height, edges.get((group[0]["sweep"], arch, 0)), look["color"])
        axis.ends.append((axis.get_xlim()[1], height, names.arch(arch), look["color"]))
    for (arch,), group in grouped(rows, "arch").items():
        points = {N: metric.mean(same) for (N,), same in sorted(grouped(group, "N").items())}
        colour = names.colour(arch)
        axis.plot(points.keys(), points.values(), color=colour, marker=names.marker(arch))
        told = [{"arch": arch, "N": N, "edges": edges.get((group[0]["sweep"], arch, N))} for N in points]
        drawing.mark_edges(axis, names, told, lambda row, points=points: points[row["N"]])
        seeds = [(row["N"], metric.of(row)) for row in group]
        axis.plot(*zip(*seeds, strict=True), "_", color=colour, **drawing.DASH)
        axis.ends.append((*list(points.items())[-1], names.arch(arch), colour))
    axis.set_xticks(sizes, [f"{N:,}" for N in sizes])
    axis.minorticks_off()
    axis.set_axisbelow(True)
    axis.grid(True, axis="y", color="0.9", linewidth=0.5)


def _label(axis):
    """Write the labels right of the panel, each as near to the height where its curve ends as the others allow."""
    from scipy.optimize import isotonic_regression

    box = axis.get_window_extent()
    points = 72 / axis.figure.dpi
    ends = sorted(axis.ends, key=lambda end: end[1])
    wanted = [(axis.transData.transform(end[:2])[1] - box.y0) * points for end in ends]
    steps = APART * np.arange(len(ends))
    places = isotonic_regression(wanted - steps).x.clip(0, box.height * points - steps[-1]) + steps
    for place, (N, value, label, colour) in zip(places, ends, strict=True):
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 2}
        look = {"fontsize": 7, "color": colour, "va": "center", "arrowprops": line, "annotation_clip": False}
        at = (1 + 9 / (box.width * points), place / (box.height * points))
        axis.annotate(label, (N, value), at, textcoords="axes fraction", **look)
