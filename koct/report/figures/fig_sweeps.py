"""Error against N, a panel per sweep: every seed, their mean, the bound, the prediction, what needs no sample."""

import numpy as np
from matplotlib.colors import to_rgb

from koct.bound.calibration import Calibration
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import best_lambda, fresh

PRODUCT = Product(
    title="error against N",
    about="error against N of every sweep, [as below](#the-reference)",
    reads=("cells.parquet", "curves.parquet", "calibration.parquet", "theory.parquet"),
    caption="""\
**Test error against the number of training samples**, a panel per sweep. A dash is one seed and the line their
mean; dashed is the bound floor + σ log N / N, calibrated on the same points; crosses were predicted from pairs
of another seed, before any fit. Horizontal lines need no sample: the known chain before any learning,
filtered backprojection, non-negative least squares and total variation, those that the sweep has. One that is
far below the axis is told at its lower edge; seeds ten times below all means are beyond it.

Where the lines of two networks cross, one overtakes the other; *samples to beat what needs none* has the N. The
bound is fitted to these points, so it cannot show how well it predicts others.""",
)

CROSS = {"markersize": 4.5, "markeredgewidth": 0.9}


def figure(cells_path, curves_path, calibration_path, theory_path):
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    errors = {CurveMetric(row["metric"]).column for row in curves}
    cells, _, names = inputs.split(cells_path, ("sweep", "arch", "N", *errors))
    calibrations, _ = inputs.rows(calibration_path, ("sweep", "arch", "floor", "sigma"))
    theory, _ = inputs.predictions(theory_path)
    inputs.check_alike({cells_path: cells, curves_path: curves, calibration_path: calibrations}, "sweep", "arch")
    notes = (drawing.ends(curves, names), drawing.unpredicted(curves, theory, names))
    endless, told = fresh(inputs.rows(curves_path, ())[0]), drawing.told_fresh(inputs.rows(cells_path, ())[0], names)
    note = " ".join(filter(None, (*notes, names.uncounted([*baselines, *curves]), told)))
    return drawing.by_sweep(_panel, names, curves, cells, calibrations, theory, endless, baselines=baselines, note=note)


def _panel(axis, names, curves, cells, calibrations, theory, endless):
    metric, crossed = CurveMetric(curves[0]["metric"]), False
    for fitted in calibrations:
        arch = fitted["arch"]
        points = [row for row in curves if row["arch"] == arch]
        N = np.array([row["N"] for row in points])
        mean = np.array([row["error_mean"] for row in points])
        colour = names.colour(arch)
        axis.plot(N, mean, color=colour, marker=names.marker(arch), label=names.arch(arch))
        drawing.mark_edges(axis, names, points)
        for row in (row for row in endless if row["arch"] == arch):
            end = drawing.FRESH_AWAY * max(row["N"] for row in curves)
            axis.plot([N[-1], end], [mean[-1], row["error_mean"]], ":", color=colour, marker=names.marker(arch))
            drawing.mark_edges(axis, names, [{**row, "N": end}])
        seeds = [(row["N"], metric.of(row)) for row in cells if row["arch"] == arch]
        axis.plot(*zip(*seeds, strict=True), "_", color=colour, zorder=1.9, **drawing.DASH)
        fine = np.geomspace(N[0], N[-1], 200)
        bound = Calibration(fitted["floor"], fitted["sigma"]).predict(fine)
        axis.plot(fine, bound, "--", color=colour, linewidth=0.9)
        predicted = best_lambda([row for row in theory if row["arch"] == arch and row["N"] <= N[-1]])
        predicted = [row for row in predicted if row["trusted"] and row["error"] is not None]
        points = ([row[key] for row in predicted] for key in ("N", "error"))
        darker = 0.45 * np.array(to_rgb(colour))  # than the markers, which it may lie on
        axis.plot(*points, "x", color=darker, zorder=3, **CROSS)
        crossed = crossed or bool(predicted)
    if crossed:
        axis.plot([], [], "x", color="0.25", label="predicted from pairs", **CROSS)
    axis.plot([], [], "--", color="0.35", linewidth=0.9, label="calibrated bound")  # of the network of its colour
    drawing.finish_panel(axis, sorted({row["N"] for row in curves}), curves[0], names, bool(endless))
    least = min((row["error_mean"] for row in curves if row["error_mean"] > 0), default=0) / drawing.REACH
    axis.set_ylim(bottom=max(axis.get_ylim()[0], least))
