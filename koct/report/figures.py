"""Figures, as vector and as bitmap."""

import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from koct.files import whole  # noqa: E402
from koct.report.labels import LABELS, arch_label  # noqa: E402
from koct.results import mean_over_seeds, read  # noqa: E402
from koct.risk.calibration import Calibration  # noqa: E402

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
    "lines.markersize": 3.8,
    "xtick.direction": "out",
    "pdf.fonttype": 42,
    "svg.hashsalt": "koct",
}


def sweeps(curves_path, calibration_path, untrained_path, out):
    """Error against N, a panel per sweep: mean and spread of the seeds, calibrated bound, untrained network."""
    curves, _ = read(curves_path)
    calibrations, _ = read(calibration_path)
    untrained, _ = read(untrained_path)
    names = list(dict.fromkeys(row["sweep"] for row in curves))
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            rows, columns, figsize=(2.35 * columns + 0.3, 2.15 * rows + 0.45), squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(names) :]:
            axis.set_visible(False)
        for name, axis in zip(names, axes.flat, strict=False):
            _sweep_panel(
                axis,
                [row for row in curves if row["sweep"] == name],
                [row for row in calibrations if row["sweep"] == name],
                [row for row in untrained if row["sweep"] == name],
            )
        handles = {}
        for axis in axes.flat:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False)
        save(figure, out)


def _sweep_panel(axis, curves, calibrations, untrained):
    metric = curves[0]["metric"]
    for fitted in calibrations:
        arch = fitted["arch"]
        points = [row for row in curves if row["arch"] == arch]
        N = np.array([row["N"] for row in points])
        mean = np.array([row["error_mean"] for row in points])
        spread = np.array([row["error_std"] or 0.0 for row in points])
        colour = COLOURS.get(arch)
        (line,) = axis.plot(N, mean, marker=MARKERS.get(arch, "D"), color=colour, label=arch_label(arch), zorder=3)
        colour = line.get_color()
        axis.fill_between(N, np.maximum(mean - spread, mean / 10), mean + spread, color=colour, alpha=0.18, linewidth=0)
        fine = np.geomspace(N[0], N[-1], 200)
        bound = Calibration(fitted["floor"], fitted["sigma"]).predict(fine)
        axis.plot(fine, bound, "--", color=colour, linewidth=0.9, label=f"{arch_label(arch)} calibrated bound")
    reference = mean_over_seeds(metric, untrained)
    axis.axhline(reference, color="0.35", linestyle=":", linewidth=1, label="untrained ($w = 1$)", zorder=1)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(N, [f"{n:,}" for n in N])
    axis.minorticks_off()
    axis.grid(True, which="major", axis="y", color="0.9", linewidth=0.5)
    axis.set_title(f"$H = {curves[0]['H']}$ ({curves[0]['problem']})")
    axis.set_xlabel("training samples $N$")
    axis.set_ylabel(f"test {LABELS[metric]}")


def save(figure, paths):
    """Write the figure to every path, the same bytes each time."""
    for path in paths:
        with whole(path) as aside:
            metadata = {"CreationDate": None} if str(path).endswith(".pdf") else {}
            figure.savefig(aside, format=str(path).rsplit(".", 1)[1], dpi=300, metadata=metadata)
    plt.close(figure)
