"""Figures, as vector and as bitmap."""

import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator

from koct.files import whole
from koct.report.labels import METRICS, arch_label, sweep_label
from koct.results import mean_over_seeds, per_seed, read
from koct.risk.calibration import Calibration

COLOURS = {"ko": "#0b6e4f", "fc": "#c8553d"}
MARKERS = {"ko": "o", "fc": "s"}
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "legend.fontsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.4,
    "xtick.direction": "out",
    "pdf.fonttype": 42,
}


def styled():
    """The look of every figure, as a context."""
    return plt.rc_context(STYLE)


def sweeps(cells_path, curves_path, calibration_path, untrained_path, out):
    """Error against N, a panel per sweep: every seed, their mean, the calibrated bound, the untrained network."""
    cells, _ = read(cells_path)
    curves, _ = read(curves_path)
    calibrations, _ = read(calibration_path)
    untrained, _ = read(untrained_path)
    names = list(dict.fromkeys(row["sweep"] for row in curves))
    columns = min(3, len(names))
    lines = math.ceil(len(names) / columns)
    with styled():
        figure, axes = panels(lines, columns)
        axes = list(axes.flat)
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        for name, axis in zip(names, axes, strict=False):
            tables = (cells, curves, calibrations, untrained)
            _sweep_panel(axis, *([row for row in table if row["sweep"] == name] for table in tables))
        _share_limits(curves, names, axes)
        handles = {}
        for axis in axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), frameon=False)
        save(figure, out)


def panels(lines, columns, size=(1.8, 1.65), left=0.58, right=0.08, above=0.3, below=0.45, legend=0.3):
    """A figure with a grid of panels of one size (inches), the space around them, and a line for the legend."""
    cell = size[0] + left + right, size[1] + above + below
    width, height = columns * cell[0], lines * cell[1] + legend
    figure, axes = plt.subplots(lines, columns, figsize=(width, height), squeeze=False)
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        bottom=(below + legend) / height,
        top=1 - above / height,
        wspace=(left + right) / size[0],
        hspace=(above + below) / size[1],
    )
    return figure, axes


def _sweep_panel(axis, cells, curves, calibrations, untrained):
    metric = curves[0]["metric"]
    for fitted in calibrations:
        arch = fitted["arch"]
        points = [row for row in curves if row["arch"] == arch]
        N = np.array([row["N"] for row in points])
        mean = np.array([row["error_mean"] for row in points])
        (line,) = axis.plot(N, mean, color=COLOURS.get(arch), marker=MARKERS.get(arch, "D"), label=arch_label(arch))
        colour = line.get_color()
        seeds = [(row["N"], per_seed(metric, row)) for row in cells if row["arch"] == arch]
        axis.plot(
            *zip(*seeds, strict=True), "_", color=colour, alpha=0.6, markersize=5, markeredgewidth=0.7, zorder=1.9
        )
        fine = np.geomspace(N[0], N[-1], 200)
        bound = Calibration(fitted["floor"], fitted["sigma"]).predict(fine)
        axis.plot(fine, bound, "--", color=colour, linewidth=0.9, label=f"{arch_label(arch)} calibrated bound")
    reference = mean_over_seeds(metric, untrained)
    axis.axhline(reference, color="0.35", linestyle=":", linewidth=1, label="untrained ($w = 1$)", zorder=1)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(N, [f"{n:,}" for n in N])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(True, which="major", axis="y", color="0.9", linewidth=0.5)
    axis.set_title(sweep_label(curves[0]))
    axis.set_xlabel("training samples $N$")
    axis.set_ylabel(f"test {METRICS[metric]}")


def _share_limits(curves, names, axes):
    """Give panels of one metric the same limits, so that they can be compared by eye."""
    metric = {row["sweep"]: row["metric"] for row in curves}
    for shared in set(metric.values()):
        panels = [axis for name, axis in zip(names, axes, strict=False) if metric[name] == shared]
        low, high = zip(*(axis.get_ylim() for axis in panels), strict=True)
        for axis in panels:
            axis.set_ylim(min(low), max(high))


def save(figure, paths):
    """Write the figure to every path, the same bytes each time."""
    for path in paths:
        with whole(path) as aside:
            metadata = {"CreationDate": None} if str(path).endswith(".pdf") else {}
            figure.savefig(aside, format=str(path).rsplit(".", 1)[1], dpi=300, metadata=metadata)
    plt.close(figure)
