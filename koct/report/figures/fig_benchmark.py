"""Error and structural similarity against N where a network is a torch module; a column per sweep."""

import math

import numpy as np

from koct.base import FRESH
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import fresh, grouped

PRODUCT = Product(
    title="networks that people use",
    about="error and SSIM against N, [the benchmark](benchmark.md)",
    reads=("cells.parquet", "curves.parquet"),
    when="benchmark",
    caption="""\
**Test error, and below it structural similarity (SSIM), against the number of training samples**, a column per
condition: the mean over seeds, with one dash per seed. Horizontal lines need no sample.

Read it from left to right: what is best with N samples, and what more samples buy. At the right end, behind dots, are
fresh samples, which never repeat: once training is finished, what no more samples can give. SSIM is better the higher
it is.""",
)
COLUMNS = 3
SIZE = (3.0, 2.3)  # inches of a panel
LABELS = 1.2  # inches right of it
APART = 7.5  # points between labels
WIDTH = 48  # characters of a line of a title


def figure(cells_path, curves_path):
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    errors = {CurveMetric(row["metric"]).column for row in curves}
    cells, free, names = inputs.split(cells_path, ("sweep", "arch", "N", *errors, "H", "ssim"))
    endless = fresh(inputs.rows(curves_path, ())[0])
    cells += fresh(inputs.rows(cells_path, ())[0])
    points = {(row["sweep"], row["arch"], row["N"]): row for row in [*baselines, *curves, *endless]}
    metrics = {row["sweep"]: CurveMetric(row["metric"]) for row in curves}
    blocks = math.ceil(len(metrics) / COLUMNS)
    columns = math.ceil(len(metrics) / blocks)
    titles, height = drawing.titles(names, metrics, WIDTH)
    down = 0.26 if blocks == 1 else 0.58 + height
    made, axes = drawing.panels(2 * blocks, columns, SIZE, 0.75, LABELS, 0.12 + height, 0.42, down=down)
    pairs = [pair for line in range(0, 2 * blocks, 2) for pair in zip(axes[line], axes[line + 1], strict=True)]
    for above, below in pairs[len(metrics) :]:
        above.set_axis_off()
        below.set_axis_off()
    pairs = dict(zip(metrics, pairs, strict=False))
    for sweep, (above, below) in pairs.items():
        rows = [row for row in cells if row["sweep"] == sweep]
        lines = [row for row in free if row["sweep"] == sweep]
        for axis, metric in ((above, metrics[sweep]), (below, CurveMetric("ssim"))):
            panel(axis, rows, lines, metric, names, points)
            axis.set_ylabel(f"test {metric.label}", labelpad=2)
        above.set(yscale="log", title=titles[sweep])
        above.tick_params(labelbottom=False)
        below.set_xlabel(f"training {names.counted(sweep)} $N$")
    for same in zip(*pairs.values(), strict=True):
        drawing.share_limits(dict(enumerate(same)))
        for axis in same:
            label_ends(axis)
    drawing.label_once(axes)
    made.align_ylabels()
    hollow = [words for words in dict.fromkeys(map(drawing.edge, points.values())) if words]
    note = f"Hollow: {', or '.join(hollow)}." if hollow else ""
    notes = (
        drawing.ends(curves, names),
        note,
        names.uncounted([*baselines, *curves]),
        drawing.told_fresh(cells, names),
    )
    drawing.note_below(made, " ".join(filter(None, notes)))
    return made


def panel(axis, rows, lines, metric, names, told, styles=None):
    """Draw the curves of a sweep, and remember where each ends: (N, value, label, colour).

    `told` has the rows of curves.parquet, which say what was at an edge: {(sweep, arch, N): row}. `styles` are the
    lines of curves, {arch: style}, beside which what needs no sample is dotted; by default all are solid.
    """
    axis.ends = []
    sizes = sorted({row["N"] for row in rows if row["N"] != FRESH})
    ticks, end = {N: f"{N:,}" for N in sizes}, drawing.FRESH_AWAY * sizes[-1]
    if fresh(rows):
        ticks[end] = "fresh"
    axis.set_xscale("log", base=2)
    axis.set_xlim(sizes[0] / 1.5, max(ticks) * 1.5)
    rows, lines = ([row for row in part if row[metric.column] is not None] for part in (rows, lines))
    for (arch,), group in grouped(lines, "arch").items():
        look, height = names.line(arch) | ({"linestyle": ":"} if styles else {}), metric.mean(group)
        axis.axhline(height, **look)
        drawing.mark_line(axis, height, told.get((group[0]["sweep"], arch, 0), {}).get("edges"), look["color"])
        axis.ends.append((axis.get_xlim()[1], height, names.arch(arch), look["color"]))
    for (arch,), group in grouped(rows, "arch").items():
        at = {end if N == FRESH else N: same for (N,), same in grouped(group, "N").items()}
        points = {N: metric.mean(at[N]) for N in sorted(at)}
        colour, last = names.colour(arch), list(points)[-2:]
        style = (styles or {}).get(arch, "-")
        axis.plot(*zip(*((N, points[N]) for N in points if end != N), strict=True), linestyle=style, color=colour)
        if end in points:
            axis.plot(last, [points[N] for N in last], ":", color=colour)
        axis.plot(points.keys(), points.values(), names.marker(arch), color=colour)
        own = [{**told.get((group[0]["sweep"], arch, at[N][0]["N"]), {}), "arch": arch, "N": N} for N in points]
        drawing.mark_edges(axis, names, own, lambda row, points=points: points[row["N"]])
        seeds = [(N, metric.of(row)) for N, same in at.items() for row in same]
        axis.plot(*zip(*seeds, strict=True), "_", color=colour, **drawing.DASH)
        axis.ends.append((*list(points.items())[-1], names.arch(arch), colour))
    axis.set_xticks(list(ticks), list(ticks.values()))
    axis.minorticks_off()
    axis.set_axisbelow(True)
    axis.grid(True, axis="y", color="0.9", linewidth=0.5)


def label_ends(axis):
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
