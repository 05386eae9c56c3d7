"""What figures share: their look, their panels, and how they are written, as vector and as bitmap."""

import contextlib
import math
import os
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator

from koct.base.files import atomic_write
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.report.markup import power_of_ten

FORMATS = (".pdf", ".png", ".svg")
MOST_PANELS = 3  # side by side
REACH = 10  # how many times below the curves an axis goes for a line
LINE = 8.5  # points that words about one take
PREVIEW_WIDTH = 1400  # pixels at most
PREVIEW_COLOURS = 64  # of a drawing; its lines and letters keep their edges, as they would not in a JPEG
PREVIEW_QUALITY = 65  # of a JPEG, for what is more picture than drawing
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


@contextlib.contextmanager
def styled():
    """The look of every figure, as a context; letters that the font lacks are drawn as boxes, without a warning."""
    with plt.rc_context(STYLE), warnings.catch_warnings():
        for message in ("Glyph .* missing from", "Matplotlib currently does not support .* natively"):
            warnings.filterwarnings("ignore", message)
        try:
            yield
        except BaseException:
            plt.close("all")  # what has begun is kept by Matplotlib
            raise


def by_sweep(curves, draw, gap=0.0, lines=((), None)):
    """Return a figure with a panel for every sweep, which `draw(axis, sweep)` fills. A metric starts a line.

    `gap` is the space above a legend below the panels, in inches; `lines` are what `draw_baselines` takes besides axes.
    """
    by_metric = {}
    for row in curves:
        by_metric.setdefault(row["metric"], {}).setdefault(row["sweep"])
    places = []
    for group in map(list, by_metric.values()):
        places += [group[first : first + MOST_PANELS] for first in range(0, len(group), MOST_PANELS)]
    columns = max(map(len, places))
    hole = len(places[-1]) < columns  # a place for the legend
    figure, axes = panels(len(places), columns)
    shown = {}
    for line, row in zip(places, axes, strict=True):
        for axis in row[len(line) :]:
            axis.set_axis_off()
        shown |= zip(line, row, strict=False)
    for name, axis in shown.items():
        draw(axis, name)
    for group in by_metric.values():
        limits = np.array([shown[name].get_ylim() for name in group])
        for name in group:  # panels of one metric can be compared by eye
            shown[name].set_ylim(limits[:, 0].min(), limits[:, 1].max())
        draw_baselines({name: shown[name] for name in group}, *lines)
    handles = {}
    for axis in shown.values():
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if hole:
        axes[-1, len(places[-1])].legend(handles.values(), handles.keys(), loc="center left", frameon=False)
    else:
        legend_below(figure, handles, gap)
    return figure


def legend_below(figure, handles, gap=0.0):
    """Draw a legend with as many columns as the figure's width has room for; the figure grows by its height."""
    width, height = figure.get_size_inches()
    for rows in range(1, len(handles) + 1):
        columns = math.ceil(len(handles) / rows)
        legend = figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=columns, frameon=False)
        extent = legend.get_window_extent(figure.canvas.get_renderer()).transformed(figure.dpi_scale_trans.inverted())
        if extent.width <= width or columns == 1:
            break
        legend.remove()
    space, edges = extent.height + gap, figure.subplotpars
    grown = height + space
    figure.set_size_inches(width, grown)
    figure.subplots_adjust(bottom=(edges.bottom * height + space) / grown, top=(edges.top * height + space) / grown)


def panels(lines, columns, size=(1.8, 1.65), left=0.64, right=0.12, above=0.3, below=0.45, legend=0.0):
    """Return a figure and the axes of a grid of panels of one size (inches), with space around them and a legend."""
    width, height = columns * (size[0] + left + right), lines * (size[1] + above + below) + legend
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


def finish_panel(axis, N, row, names):
    """Set scales, ticks and labels of the panel of a sweep; `row` is any of its rows."""
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(N, _tick_labels(N, axis))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.tick_params(axis="y", which="minor", labelsize=6)  # has labels only where powers of ten are too few
    axis.set_axisbelow(True)
    axis.grid(True, which="major", axis="y", color="0.9", linewidth=0.5)
    axis.set_title(names.sweep(row))
    axis.set_xlabel(f"training {names.counted(row['sweep'])} $N$")
    axis.set_ylabel(f"test {CurveMetric(row['metric']).label}", labelpad=2)


def _tick_labels(N, axis):
    """Return every N as text, empty where it would run into that of its larger neighbour."""
    width = axis.get_window_extent().width / axis.figure.dpi * 72  # points
    size = plt.rcParams["font.size"] * 0.64  # of a digit
    low, high = np.log(axis.get_xlim())
    labels, left = [], np.inf
    for n in N[::-1]:
        text = f"{n:,}"
        middle, half = (np.log(n) - low) / (high - low) * width, len(text) * size / 2
        fits = middle + half + size / 2 < left
        labels.append(text if fits else "")
        left = middle - half if fits else left
    return labels[::-1]


def draw_baselines(axes, rows, names):
    """Draw the errors of what needs no sample as horizontal lines behind the curves of {sweep: axis}.

    The axes have the same limits. A line far below all of their curves is put in words at the lower edge.
    """
    low, high = next(iter(axes.values())).get_ylim()
    by_sweep = {name: [row for row in rows if row["sweep"] == name] for name in axes}
    near = [row["error_mean"] for group in by_sweep.values() for row in group if row["error_mean"] > low / REACH]
    low, high = min([low, *(error / 1.3 for error in near)]), max([high, *(error * 1.3 for error in near)])
    most = max(sum(row["error_mean"] <= low for row in group) for group in by_sweep.values())
    for name, axis in axes.items():
        room = LINE * most / (axis.get_window_extent().height / axis.figure.dpi * 72)  # share of the panel for words
        end = low * (low / high) ** (room / (1 - room))
        axis.set_ylim(end, high)
        for row in by_sweep[name]:
            style = {"label": names.arch(row["arch"]), **names.line(row["arch"])}
            axis.axhline(row["error_mean"], **style) if row["error_mean"] > end else axis.plot([], [], **style)
        for i, row in enumerate(row for row in by_sweep[name] if row["error_mean"] <= end):
            words = f"$\\downarrow$ {names.arch(row['arch'])} {power_of_ten(row['error_mean'], 1)}"
            place = {"xy": (0, 0), "xytext": (3, 3 + LINE * i), "xycoords": "axes fraction"}
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.3}
            axis.annotate(words, textcoords="offset points", fontsize=6.5, bbox=box, **place)


def save(figure, paths, stamp=None, dpi=300):
    """Write the figure to every path, the same bytes each time.

    What is in a folder `report` is a copy of a .png elsewhere in the size of a screen, if there is such a .png.
    """
    copies = [path for path in paths if os.path.basename(os.path.dirname(path)) == "report"]
    pictures = [path for path in paths if path not in copies and str(path).endswith(".png")]
    originals = [path for path in paths if path not in copies] if pictures else paths
    for path in originals:
        if not str(path).endswith(FORMATS):
            raise KoctError(f"{path}: the name of a figure must end in .pdf, .png or .svg")
    for path in originals:
        kind = str(path).rsplit(".", 1)[1]
        metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
        with atomic_write(path, stamp) as temporary, plt.rc_context({"svg.hashsalt": "koct"}):
            try:
                figure.savefig(temporary, format=kind, dpi=dpi, metadata=metadata)
            except ValueError as error:  # a formula between dollars that is none, or a figure that is too large
                reason = str(error).strip().splitlines()[-1]
                raise KoctError(f"{path} cannot be drawn: {reason}; look at the names of sweeps and networks") from None
    for path in copies if pictures else []:
        _write_preview(pictures[0], path, stamp)
    plt.close(figure)


def _write_preview(picture, path, stamp):
    """Write a picture with fewer pixels, for a report that has to stay small: a .png, or a .jpg for photographs."""
    from PIL import Image

    kind = "JPEG" if str(path).endswith(".jpg") else "PNG"
    with Image.open(picture) as opened:
        small = opened.convert("RGB")
    if small.width > PREVIEW_WIDTH:
        height = round(small.height * PREVIEW_WIDTH / small.width)
        small = small.resize((PREVIEW_WIDTH, height), Image.Resampling.LANCZOS)
    if kind == "PNG":
        small = small.quantize(PREVIEW_COLOURS, dither=Image.Dither.NONE)
    with atomic_write(path, stamp) as temporary:
        small.save(temporary, kind, optimize=True, **({"quality": PREVIEW_QUALITY} if kind == "JPEG" else {}))
