"""What figures share: their look, their panels, and how they are written, as vector and as bitmap."""

import contextlib
import itertools
import math
import os
import re
import string
import textwrap
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from koct.base import FRESH
from koct.base.files import atomic_write
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.report.markup import power_of_ten
from koct.study.results import grouped

LETTERS = string.ascii_lowercase
FORMATS = (".pdf", ".png", ".svg")
MOST_PANELS = 3  # side by side
REACH = 10  # how many times below the curves an axis goes for a line
LINE = 8.5  # points that words about one take
PREVIEW_WIDTH = 1400  # pixels at most
PREVIEW_COLOURS = 64  # of a drawing; its lines and letters keep their edges, as they would not in a JPEG
PREVIEW_QUALITY = 65  # of a JPEG, for what is more picture than drawing
DASH = {"alpha": 0.6, "markersize": 5, "markeredgewidth": 0.7}  # of a single run
HOLLOW = {"linestyle": "none", "markerfacecolor": "white", "markeredgewidth": 0.9}  # of a choice at an edge
AT_EDGE = "strength at an end of what was tried"
UNFINISHED = "training not finished"
FRESH_AWAY = 4  # times the largest N, where fresh samples are drawn
MARK = "0.35"  # the colour of marks in a key
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


def by_sweep(panel, names, *tables, down=0.52, baselines=(), note=""):
    """Return a figure with a panel for every sweep, which `panel(axis, names, *rows)` fills with rows of the tables.

    A metric of the first table starts a line; `down` are the inches between them, and a `note` is written below all.
    """
    by_metric = {metric: list(grouped(rows, "sweep")) for metric, rows in grouped(tables[0], "metric").items()}
    places = [group[i : i + MOST_PANELS] for group in by_metric.values() for i in range(0, len(group), MOST_PANELS)]
    figure, axes = panels(len(places), max(map(len, places)), across=0.22, down=down)
    shown = {}
    for line, row in zip(places, axes, strict=True):
        for axis in row[len(line) :]:
            axis.set_axis_off()
        shown |= {sweep: axis for (sweep,), axis in zip(line, row, strict=False)}
    for sweep, axis in shown.items():
        panel(axis, names, *([row for row in table if row["sweep"] == sweep] for table in tables))
    for group in by_metric.values():
        share_limits({sweep: shown[sweep] for (sweep,) in group}, baselines, names)
    label_once(axes)
    legend_below(figure, handles(*shown.values()), 0.08)
    note_below(figure, note)
    return figure


def handles(*axes):
    """Return {label: line} of what axes show, as `legend_below` takes them; what hollow markers mean comes last."""
    found = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    return dict(sorted(found.items(), key=lambda item: item[0] in (AT_EDGE, UNFINISHED)))


def label_once(axes, pad=None):
    """Give the panels of a grid letters, and leave out the labels that the next panel to the left or below has.

    `pad` is that of titles; a place without a panel is None, or an axis that is off.
    """
    places = {place: axis for place, axis in np.ndenumerate(axes) if axis is not None and axis.axison}
    labels = {place: (axis.get_xlabel(), axis.get_ylabel()) for place, axis in places.items()}
    letters = itertools.chain(LETTERS, map("".join, itertools.product(LETTERS, repeat=2)))
    for (i, j), letter in zip(labels, letters, strict=False):
        axis, left = axes[i, j], (i, j - 1)
        if labels.get(left, ("", None))[1] == labels[i, j][1]:
            axis.set_ylabel("")
            axis.tick_params(axis="y", which="both", labelleft=axes[left].get_ylim() != axis.get_ylim())
        if labels.get((i + 1, j), (None,))[0] == labels[i, j][0]:
            axis.set_xlabel("")
        if len(labels) > 1:
            mark = axis.set_title(letter, loc="left", fontweight="bold", pad=pad).get_window_extent().width
            title = axis.title
            room = axis.get_window_extent().width - 3.6 * mark
            title.set_fontsize(title.get_fontsize() * min(1, room / max(title.get_window_extent().width, 1)))


def _grow(figure, space):
    """Make a figure higher by some inches at its lower edge; panels keep their size."""
    (width, height), edges = figure.get_size_inches(), figure.subplotpars
    bottom, top = ((edge * height + space) / (height + space) for edge in (edges.bottom, edges.top))
    figure.set_size_inches(width, height + space)
    figure.subplots_adjust(bottom=bottom, top=top)


def note_below(figure, text):
    """Write a note below all that a figure has, which grows by its lines."""
    if not text:
        return
    width, height = figure.get_size_inches()
    text = re.sub(r"\$[^$]*\$", lambda formula: formula[0].replace(" ", ""), text)  # no line ends inside
    lines = textwrap.wrap(text, int(width * 72 / 3.5))
    space = 0.06 + 0.125 * len(lines)
    _grow(figure, space)
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, space / (height + space), 1, 1))
    figure.text(0.5, 0.04 / (height + space), "\n".join(lines), ha="center", va="bottom", fontsize=7, color="0.3")


def unpredicted(rows, theory, names):
    """Return a note on panels without a prediction of a network that others have: there it is trained by steps."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    sweeps = dict.fromkeys(row["sweep"] for row in sorted(rows, key=lambda row: metrics.index(row["metric"])))
    notes, have = [], {(row["sweep"], row["arch"]) for row in theory}
    for arch in dict.fromkeys(row["arch"] for row in theory):
        missing = [letter for letter, sweep in zip(LETTERS, sweeps, strict=False) if (sweep, arch) not in have]
        together = len(missing) > 2 and ord(missing[-1]) - ord(missing[0]) == len(missing) - 1
        where = f"{missing[0]}–{missing[-1]}" if together else ", ".join(missing)
        notes += [f"{names.arch(arch)} ({where})"] if missing else []
    return f"Not predicted, by design: {', '.join(notes)}." if notes else ""


def ends(curves, names):
    """Return a note on the networks that end before the largest N of their sweep, as the study says."""
    notes = {}
    for sweep in dict.fromkeys(row["sweep"] for row in curves):
        last = {row["arch"]: row["N"] for row in sorted(curves, key=lambda row: row["N"]) if row["sweep"] == sweep}
        for arch, N in last.items():
            if max(last.values()) > N:
                notes.setdefault(N, {}).setdefault(names.arch(arch))
    return " ".join(f"Fitted up to N = {N:,} only, by design: {', '.join(archs)}." for N, archs in notes.items())


def told_fresh(cells, names):
    """Return a note on what fresh samples are, of networks that are not trained by steps; nothing without them."""
    pools = {row["drawn"]: None for row in cells if row["N"] == FRESH and row.get("steps") is None}
    archs = dict.fromkeys(names.arch(row["arch"]) for row in cells if row["N"] == FRESH and row.get("steps") is None)
    sizes = " or ".join(f"{size:,}" for size in sorted(pools))
    return f"Fresh is the whole pool of {sizes} samples for {', '.join(archs)}." if pools else ""


def edge(row):
    """Return what a hollow marker at a point of a curve means; nothing if it has none."""
    return "" if not row.get("edges") else AT_EDGE if row.get("gain") is None else UNFINISHED


def mark_edges(axis, names, points, value=lambda row: row["error_mean"], **look):
    """Draw hollow markers over the `points` of one curve whose choice was at an edge; `value` gives the height."""
    if edged := [row for row in points if edge(row)]:
        arch = edged[0]["arch"]
        style = {"color": names.colour(arch), "marker": names.marker(arch), "zorder": 2.5, **HOLLOW, **look}
        axis.plot([row["N"] for row in edged], [value(row) for row in edged], **style)
        for words in dict.fromkeys(map(edge, edged)):
            axis.plot([], [], marker="o", color=MARK, label=words, **HOLLOW)


def mark_line(axis, height, edges, colour):
    """Draw a hollow marker at the left end of the line of what needs no sample, if its choice was at an edge."""
    if edges:
        place = {"transform": axis.get_yaxis_transform(), "zorder": 2.5}
        axis.plot([0.025], [height], marker="o", color=colour, **place, **HOLLOW)
        axis.plot([], [], marker="o", color=MARK, label=AT_EDGE, **HOLLOW)


def legend_below(figure, handles, gap=0.0):
    """Draw a legend with as many columns as the figure's width has room for; the figure grows by its height."""
    width = figure.get_size_inches()[0]
    for rows in range(1, len(handles) + 1):
        columns = math.ceil(len(handles) / rows)
        legend = figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=columns, frameon=False)
        extent = legend.get_window_extent(figure.canvas.get_renderer()).transformed(figure.dpi_scale_trans.inverted())
        if extent.width <= width or columns == 1:
            break
        legend.remove()
    _grow(figure, extent.height + gap)


def panels(lines, columns, size=(2.0, 1.65), left=0.64, right=0.12, above=0.3, below=0.45, across=None, down=None):
    """Return a figure and the axes of a grid of panels of one size (inches), with space around and between them."""
    across, down = left + right if across is None else across, above + below if down is None else down
    width = left + columns * size[0] + (columns - 1) * across + right
    height = above + lines * size[1] + (lines - 1) * down + below
    figure, axes = plt.subplots(lines, columns, figsize=(width, height), squeeze=False)
    edges = {"left": left / width, "right": 1 - right / width, "bottom": below / height, "top": 1 - above / height}
    figure.subplots_adjust(**edges, wspace=across / size[0], hspace=down / size[1])
    return figure, axes


def titles(names, sweeps, width):
    """Return the titles of sweeps, in lines of so many characters, and the inches that the tallest takes."""
    found = {sweep: textwrap.fill(names.title(sweep), width) for sweep in sweeps}
    return found, 0.12 * max(title.count("\n") + 1 for title in found.values())


def finish_panel(axis, N, row, names, fresh=False):
    """Set scales, ticks and labels of the panel of a sweep; `row` is any of its rows, `fresh` asks for a last tick."""
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    labels, size = _tick_labels(N, axis)
    end = {FRESH_AWAY * N[-1]: "fresh"} if fresh else {}
    axis.set_xticks([*N, *end], [*labels, *end.values()], fontsize=size)
    axis.xaxis.set_minor_locator(NullLocator())
    label_powers(axis.yaxis)
    axis.set_axisbelow(True)
    axis.grid(True, which="major", axis="y", color="0.9", linewidth=0.5)
    axis.set(title=names.sweep(row), xlabel=f"training {names.counted(row['sweep'])} $N$")
    axis.set_ylabel(f"test {CurveMetric(row['metric']).label}", labelpad=2)


class _Steps(LogLocator):
    """Powers of ten; over less than two decades, 1, 2 and 5 of each."""

    def tick_values(self, low, high):
        self.set_params(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0))
        return super().tick_values(low, high)


def label_powers(side):
    """Label a logarithmic x- or y-axis by powers of ten, or where it has few of them by plain numbers."""

    def text(value, _):
        low, high = sorted(side.get_view_interval())
        if high > 100 * low:
            return f"$10^{{{round(math.log10(value))}}}$"
        return f"{value:g}" if low > 1e-4 else power_of_ten(value, 0)

    side.set_major_locator(_Steps())
    side.set_major_formatter(FuncFormatter(text))
    side.set_minor_formatter(NullFormatter())


def _tick_labels(N, axis):
    """Return every N as text and its size, smaller where powers of four would run into one another.

    A text is empty where it still does: powers of four come first, then the largest.
    """
    width = axis.get_window_extent().width / axis.figure.dpi * 72  # points
    low, high = np.log(axis.get_xlim())
    fours = {n for n in N if np.log2(n) % 2 == 0}
    for font in (plt.rcParams["font.size"], 7, 6):
        size, taken = 0.64 * font, {}  # of a digit
        for n in sorted(N, key=lambda n: (n not in fours, -n)):
            middle, half = (np.log(n) - low) / (high - low) * width, len(f"{n:,}") * size / 2 + size / 8
            if all(abs(middle - other) > half + its for other, its in taken.values()):
                taken[n] = middle, half
        if fours <= taken.keys():
            break
    return [f"{n:,}" if n in taken else "" for n in N], font


def share_limits(axes, rows=(), names=None):
    """Give {sweep: axis} of one metric the same range, so that they can be compared by eye.

    The errors of what needs no sample, in `rows`, become horizontal lines behind the curves. A line far below all
    curves is put in words at the lower edge.
    """
    baselines = {sweep: [row for row in rows if row["sweep"] == sweep] for sweep in axes}
    low, high = _common_range(axes.values(), [row["error_mean"] for each in baselines.values() for row in each])
    most_words = max(sum(row["error_mean"] <= low for row in each) for each in baselines.values())
    for sweep, axis in axes.items():
        height = axis.get_window_extent().height / axis.figure.dpi * 72  # points
        room = LINE * most_words / height  # share of the panel
        bottom = low * (low / high) ** (room / (1 - room))
        axis.set_ylim(bottom, high)
        for row in baselines[sweep]:
            _draw_baseline(axis, row, bottom, names)
        below = [row for row in baselines[sweep] if row["error_mean"] <= bottom]
        for line, row in enumerate(below):
            _put_in_words(axis, row, line, names)


def _common_range(axes, errors):
    """Return the range of all axes together, with room for errors that are not far below it."""
    limits = np.array([axis.get_ylim() for axis in axes])
    low, high = limits[:, 0].min(), limits[:, 1].max()
    near = [error for error in errors if error > low / REACH]
    return min([low, *(error / 1.3 for error in near)]), max([high, *(error * 1.3 for error in near)])


def _draw_baseline(axis, row, bottom, names):
    style = {"label": names.arch(row["arch"]), **names.line(row["arch"])}
    if row["error_mean"] > bottom:
        axis.axhline(row["error_mean"], **style)
    else:
        axis.plot([], [], **style)  # for the legend
    mark_line(axis, row["error_mean"], row.get("edges"), style["color"])  # clipped below the axis


def _put_in_words(axis, row, line, names):
    """Write what is below the axis at its lower edge; lines are counted from there."""
    hollow = r" $\circ$" if row.get("edges") else ""
    words = f"$\\downarrow$ {names.arch(row['arch'])} {power_of_ten(row['error_mean'], 1)}{hollow}"
    place = {"xy": (0, 0), "xytext": (3, 3 + LINE * line), "xycoords": "axes fraction", "textcoords": "offset points"}
    axis.annotate(words, fontsize=6.5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3}, **place)


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
