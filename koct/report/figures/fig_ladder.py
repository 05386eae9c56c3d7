"""Error against N of networks between known and learned; below a panel, which layers each knows and learns."""

import itertools
import json
import math
import textwrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import grouped

PRODUCT = Product(
    title="which layers should be known",
    about="[the best](ladder.md) at every N, and the layers it learns",
    reads=("ladder.parquet", "curves.parquet"),
    when="ladder",
    caption="""\
**Error against N of networks between known and learned.** Below a panel, the layers of every network: white is
known, dark is learned. A ring marks the best network at each N that all have; those stacked on it cannot be
told from it: the 90 % interval of their ratio, over seeds and test images, holds 1. Horizontal lines need
no sample.

Read it from left to right: which layers should be known, given N samples.""",
)
WIDTH = 3.45  # inches: a column of a paper
MARGIN = 0.66  # inches left of a panel
PANEL = (2.7, 2.05)
GAP = 0.06  # inches between a panel and the best networks above it
STEP = 0.115  # inches between the best network and those that come close
LINE = 0.165  # inches between the networks of the key
RING = {"marker": "o", "markersize": 8, "markeredgecolor": "black", "markerfacecolor": "none"}
RING |= {"zorder": 4, "clip_on": False}
KNOWN, LEARNED = "white", "0.25"  # what boxes are filled with


def figure(ladder_path, curves_path):
    """Return a figure with a panel per sweep; panels with the same networks share one key."""
    rows, names, chains = inputs.ladder(ladder_path)
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "error_mean"))
    told = {(row["sweep"], row["arch"], row["N"]): {key: row.get(key) for key in ("edges", "gain")} for row in curves}
    rows = rows_of_all = [{**row, **told.get((row["sweep"], row["arch"], row["N"]), {})} for row in rows]
    sweeps = grouped(rows, "sweep")
    free = {sweep: [row for row in baselines if row["sweep"] == sweep] for (sweep,) in sweeps}
    columns = min(len(sweeps), 2 if len(sweeps) <= 4 else 3)
    lines, panels = math.ceil(len(sweeps) / columns), {}
    shared = len({_networks(rows, chains.get(sweep, {}), free[sweep]) for (sweep,), rows in sweeps.items()}) == 1
    listed = max(len(grouped(rows, "arch")) + len(free[sweep]) for (sweep,), rows in sweeps.items())
    marked = " or ".join(sorted(set(map(drawing.edge, itertools.chain(rows, *free.values()))) - {""}))
    key = LINE * (3.2 + listed + bool(marked))  # head, networks, what marks mean
    ties = GAP + STEP * max(len(stack) for rows in sweeps.values() for stack in _stacks(rows).values())
    above, below = 0.26, 0.41
    height = above + ties + PANEL[1] + below + (0 if shared else key)
    made = plt.figure(figsize=(columns * WIDTH, lines * height + (key if shared else 0)))
    for i, ((sweep,), rows) in enumerate(sweeps.items()):
        line, column = divmod(i, columns)
        left, bottom = column * WIDTH, (lines - 1 - line) * height + key
        panel = _axes(made, left + MARGIN, bottom + below, *PANEL)
        _panel(panel, names, rows)
        panel.set_title(panel.get_title(), pad=4 + 72 * ties)
        panels[sweep] = panel
        place = (left + MARGIN, bottom + below + PANEL[1] + GAP, PANEL[0], ties - GAP)
        _winners(_axes(made, *place), panel, names, rows)
        if not shared or i == 0:
            axis = _axes(made, left, 0 if shared else bottom - key, WIDTH, key)
            axis.set(xlim=(0, WIDTH), ylim=(0, key))
            axis.set_axis_off()
            _key(axis, key, names, rows, chains.get(sweep, {}), free[sweep])
            if marked:
                _edge_key(axis, marked)
    for group in grouped(rows_of_all, "metric").values():
        drawing.share_limits({row["sweep"]: panels[row["sweep"]] for row in group}, baselines, names)
    grid = np.full(lines * columns, None)
    grid[: len(panels)] = list(panels.values())
    drawing.label_once(grid.reshape(lines, columns), pad=4 + 72 * ties)
    return made


def _networks(rows, chains, free):
    """Return what the key of a panel says."""
    networks = {row["arch"]: row["p"] for row in rows}
    return json.dumps([networks, [chains.get(arch) for arch in networks], [row["arch"] for row in free]])


def _axes(made, left, bottom, width, height):
    """Return axes at a place in inches."""
    across, up = made.get_size_inches()
    return made.add_axes((left / across, bottom / up, width / across, height / up))


def _panel(axis, names, rows):
    archs = grouped(rows, "arch")
    for i, ((arch,), points) in enumerate(archs.items()):
        points = sorted(points, key=lambda row: row["N"])
        colour, N = names.colour(arch), [row["N"] for row in points]
        size = 1 - 0.5 * i / len(archs)  # a curve that lies on another leaves some of it to be seen
        look = {"color": colour, "marker": names.marker(arch), "markersize": 5.2 * size, "linewidth": 2 * size}
        axis.plot(N, [row["error_mean"] for row in points], linestyle=_style(points), **look)
        drawing.mark_edges(axis, names, points, markersize=5.2 * size)
        low = min(row["error_mean"] for row in rows) / 3  # few seeds leave intervals that reach down to zero
        for row in points:
            if row["mean_low"] is not None:
                ends = [max(row["mean_low"], low), row["mean_high"]]
                axis.plot([row["N"]] * 2, ends, color=colour, linewidth=0.7, zorder=1.9)
    for row in (row for stack in _stacks(rows).values() for row in stack if row["best"]):
        axis.plot(row["N"], row["error_mean"], **RING)
    drawing.finish_panel(axis, sorted({row["N"] for row in rows}), rows[0], names)


def _style(points):
    """Return dashes if several layers are learned."""
    return (0, (2.2, 1.2)) if (points[0]["learned"] or 0) > 1 else "-"


def _stacks(rows):
    """Return {N: rows of the best network and of those that the interval does not tell from it}, where all are."""
    stacks, archs = {}, {row["arch"] for row in rows}
    complete = {N for (N,), same in grouped(rows, "N").items() if {row["arch"] for row in same} == archs}
    for row in sorted(rows, key=lambda row: row["rank"]):
        if row["N"] in complete and (row["best"] or row["beyond"] is False):
            stacks.setdefault(row["N"], []).append(row)
    return stacks


def _winners(axis, panel, names, rows):
    """Draw above the panel the marker of the best network at every N, and on it those that come close."""
    stacks = _stacks(rows)
    axis.set_xscale("log", base=2)
    axis.set(xlim=panel.get_xlim(), ylim=(0, axis.bbox.height / axis.figure.dpi))
    axis.set_axis_off()
    for N, stack in stacks.items():
        for i, row in enumerate(stack):
            y, arch = (i + 0.5) * STEP, row["arch"]
            axis.plot(N, y, color=names.colour(arch), marker=names.marker(arch), markersize=3.6)
            if row["best"]:
                axis.plot(N, y, **RING)
    for i, text in enumerate(("best", "close")[: max(map(len, stacks.values()))]):
        place = (panel.get_xlim()[0], (i + 0.5) * STEP)
        axis.annotate(text, place, (-4, 0), textcoords="offset points", fontsize=6.5, ha="right", va="center_baseline")


def _key(axis, height, names, rows, chains, free):
    """Draw a line for each network: how it is drawn, its layers as boxes, and how many numbers it learns."""
    boxes, end = (1.38, 2.98), WIDTH - 0.07
    small, grey = {"fontsize": 6.5, "va": "center_baseline"}, {"fontsize": 5.5, "va": "bottom", "color": "0.3"}
    archs = grouped(rows, "arch")
    heads = _heads([chains[arch] for (arch,) in archs if chains.get(arch)])
    y = height - LINE
    for i, name in enumerate(heads):
        name = name.replace("backprojection", "back-projection")  # where a line may end
        text = "\n".join(textwrap.wrap(name, max(42 // len(heads), 4), break_long_words=False))
        axis.text(_part(boxes, len(heads), i + 0.5), y - 0.15 * LINE, text, ha="center", **grey)
    axis.text(end, y - 0.15 * LINE, "$p$", ha="right", **{**grey, "fontsize": 6.5})
    y += 0.2 * LINE
    for (arch,), points in archs.items():
        y -= LINE
        look = {"color": names.colour(arch), "marker": names.marker(arch), "markersize": 3.6}
        axis.plot([0.1, 0.24, 0.38], [y] * 3, markevery=[1], linestyle=_style(points), **look)
        axis.text(0.44, y, names.arch(arch), **small)
        _strip(axis, boxes, y, chains.get(arch, []), heads)
        if not chains.get(arch):
            axis.text(sum(boxes) / 2, y, "no chain of layers", ha="center", **{**small, "color": "0.3"})
        axis.text(end, y, _count(points[0]["p"]), ha="right", **small)
    for row in free:
        y -= LINE
        axis.plot([0.1, 0.38], [y] * 2, **names.line(row["arch"]))
        axis.text(0.44, y, names.arch(row["arch"]), **small)
        axis.text(sum(boxes) / 2, y, "no sample", ha="center", **{**small, "color": "0.3"})
        axis.text(end, y, "0", ha="right", **small)
    y -= 1.3 * LINE
    axis.plot(0.24, y, **RING)
    axis.text(0.35, y, "best", **small)
    axis.text(0.66, y, "close: within the 90 % interval", **small)
    for place, fill, text in ((2.26, KNOWN, "known"), (2.81, LEARNED, "learned")):
        axis.add_patch(_box(place, y, 0.14, fill))
        axis.text(place + 0.19, y, text, **small)


def _edge_key(axis, words):
    """Draw the last line of a key: what hollow markers mean."""
    axis.plot(0.24, 0.7 * LINE, marker="o", color=drawing.MARK, markersize=3.6, **drawing.HOLLOW)
    axis.text(0.35, 0.7 * LINE, words, fontsize=6.5, va="center_baseline")


def _heads(chains):
    """Return what the layers of the longest chains are called, where one of them knows the layer if possible."""
    longest = max(map(len, chains), default=0)
    columns = zip(*(chain for chain in chains if len(chain) == longest), strict=True)
    return [min(layers, key=lambda layer: layer["p"] > 0)["name"] for layers in columns]


def _part(boxes, count, i):
    return boxes[0] + (boxes[1] - boxes[0]) * i / count


def _strip(axis, boxes, y, chain, heads):
    for i, layer in enumerate(chain):
        left, right = (_part(boxes, len(chain), j) for j in (i, i + 1))
        axis.add_patch(_box(left + 0.015, y, right - left - 0.03, LEARNED if layer["p"] else KNOWN))
        if len(chain) != len(heads):
            colour = KNOWN if layer["p"] else LEARNED
            size = min(5.5, 130 * (right - left - 0.03) / len(layer["name"]))  # points, so that it fits
            axis.text((left + right) / 2, y, layer["name"], fontsize=size, ha="center", va="center", color=colour)


def _box(left, y, width, fill):
    return Rectangle((left, y - 0.3 * LINE), width, 0.6 * LINE, facecolor=fill, edgecolor="0.25", linewidth=0.6)


def _count(p):
    """Return 1,872,871 as 1.87 M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if p >= 10 * size or p >= size > 10**3:
            return f"{p / size:.3g} {unit}"
    return f"{p:,}"
