"""Predicted against measured error at the largest N, which neither the bound nor the forecast has seen."""

import itertools

import numpy as np

from koct.errors import KoctError
from koct.forecast.budget import held_out
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import grouped

PRODUCT = Product(
    title="predicted against measured error",
    about="errors at the largest N, predicted from smaller N by bound and forecast, and measured",
    reads=("cells.parquet", "curves.parquet"),
    when="held_out",
    caption="""\
**Predicted against measured error at the largest N**, which the predictions have not seen: two N of every curve
are held out if it has five or more, else one. Above, the calibrated bound of the other N; below, the forecast
of the planner with its 90 % interval. Each point is a curve at one N, in the metric of its sweep.

A bound cannot fall below the smallest error that it was calibrated on, so points of a curve that still falls
lie above the diagonal. Where intervals meet the diagonal, the forecast would have been right about more
samples.""",
)
WIDTH = 3.4  # inches: a column
FACTOR = 2.0  # of the band around the diagonal
GAP = 0.08  # inches above the legend
ROOM = 1.25  # beyond the outermost point
SHOWN = ("measured", "bound", "forecast", "low", "high")


def figure(cells_path, curves_path):
    """Return a figure with a point per held-out N of a curve: above by the bound, below by the forecast."""
    curves, _, names = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"))
    columns = {CurveMetric(row["metric"]).column for row in curves}
    cells, *_ = inputs.split(cells_path, ("sweep", "arch", "N", "seed", *columns))
    inputs.check_alike({cells_path: cells, curves_path: curves}, "sweep", "arch", "N")
    runs, held = grouped(cells, "sweep", "arch"), {}
    for (sweep, arch), points in grouped(curves, "sweep", "arch").items():
        metric, means = CurveMetric(points[0]["metric"]), {row["N"]: row["error_mean"] for row in points}
        columns = zip(*((row["N"], metric.of(row), row["seed"]) for row in runs[sweep, arch]), strict=True)
        held.setdefault(arch, []).extend(held_out(*columns, means))
    shown = {arch: [point for point in points if point.measured > 0] for arch, points in held.items()}
    if not any(shown.values()):
        raise KoctError("no curve of this study has three N and errors above zero, so none can be held out")
    for arch, points in {**held, "all networks": list(itertools.chain(*held.values()))}.items():
        inside = sum(point.inside for point in points)
        off = [np.exp(np.abs(np.log(point.bound / point.measured))) for point in points if point.measured > 0]
        near = sum(value <= FACTOR for value in off)
        print(f"{arch}: {inside} of {len(points)} intervals contain the measured error; ", end="")
        print(f"the bound is within a factor of two for {near}", flush=True)
    return draw(shown, names)


def draw(held, names):
    """Return the figure of {arch: points that were held out}."""
    left, right = 0.74, 0.12
    figure, axes = drawing.panels(2, 1, (WIDTH - left - right, 1.9), left, right, above=0.3, below=0.42, down=0.5)
    above, below = axes[:, 0]
    for arch, points in held.items():
        measured, bound, forecast, low, high = (np.array([getattr(point, key) for point in points]) for key in SHOWN)
        style = {"color": names.colour(arch), "markeredgecolor": "white", "markeredgewidth": 0.3, "markersize": 5}
        above.plot(measured, bound, names.marker(arch), label=names.arch(arch), **style)
        interval = np.maximum([forecast - low, high - forecast], 0)
        below.errorbar(measured, forecast, interval, fmt=names.marker(arch), elinewidth=0.7, **style)
    values = [value for points in held.values() for point in points for value in point[1:] if value > 0]
    ends = np.array([min(values) / ROOM, max(values) * ROOM])  # of both axes
    for axis, title in ((above, "calibrated bound"), (below, "forecast, with its 90 % interval")):
        band = {"color": "0.92", "linewidth": 0, "label": "factor of two"}
        axis.fill_between(ends, ends / FACTOR, ends * FACTOR, zorder=0, **band)
        axis.plot(ends, ends, color="0.4", linewidth=0.8, zorder=1, label="predicted = measured")
        axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=title)
        drawing.label_powers(axis.xaxis)
        drawing.label_powers(axis.yaxis)
        axis.set(xlabel="measured error", ylabel="predicted error")
    drawing.label_once(axes)
    drawing.legend_below(figure, drawing.handles(above), GAP)
    return figure
