"""The validation loss of trainings against the number of their steps."""

import textwrap

from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from koct.base import FRESH
from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import grouped

PRODUCT = Product(
    title="trained until it is done",
    about="validation loss against steps, [the rule](benchmark.md)",
    reads=("cells.parquet",),
    when="doubled",
    caption="""\
**Validation loss of trainings of ever twice as many steps**, a panel per sweep and network, a line per N and seed,
the darker the more samples. A training ends where twice the steps gain less than its `gain`, 2 % by default; a hollow
marker at its end says that it was not finished.

Where lines are level at their ends, an error is the data's or the network's, and not that of a training that was too
short.""",
)
SHADES = (0.25, 1.0)  # of the fewest and the most samples
PER_ROW = 4
WIDTH = 28  # characters of a line of a title


def figure(cells_path):
    rows, names = inputs.rows(cells_path, ("sweep", "arch", "N", "seed", "H"))
    rows = [row for row in rows if row.get("losses")]
    curves = grouped(rows, "sweep", "arch")
    titles = [f"{names.arch(arch)}\n{textwrap.fill(names.title(sweep), WIDTH)}" for sweep, arch in curves]
    above = 0.1 + 0.12 * max(title.count("\n") + 1 for title in titles)
    lines, columns = -(-len(curves) // PER_ROW), min(PER_ROW, len(curves))
    made, axes = drawing.panels(
        lines, columns, (1.7, 1.5), left=0.75, right=0.2, above=above, across=0.4, down=above + 0.25
    )
    for axis in axes.flat[len(curves) :]:
        axis.set_axis_off()
    sizes = sorted({row["N"] for row in rows}, key=lambda N: (N == FRESH, N))
    shades = {N: SHADES[0] + (SHADES[1] - SHADES[0]) * k / max(1, len(sizes) - 1) for k, N in enumerate(sizes)}
    for axis, title, ((_, arch), cells) in zip(axes.flat, titles, curves.items(), strict=False):
        for row in cells:
            steps = [row["steps"] / 2**k for k in reversed(range(len(row["losses"])))]
            axis.plot(
                steps, row["losses"], color=lighter(names.colour(arch), shades[row["N"]]), marker=names.marker(arch)
            )
            end = {**row, "N": steps[-1], "edges": row["edge"]}
            drawing.mark_edges(axis, names, [end], lambda row: row["losses"][-1])
        axis.set(yscale="log", xlabel="steps", ylabel="validation loss")
        axis.set_xscale("log", base=2)
        lengths = sorted({row["steps"] / 2**k for row in cells for k in range(len(row["losses"]))})
        shown = lengths[:: -(-len(lengths) // 3)]
        axis.set_xticks(shown, [f"{length:,.0f}" for length in shown])
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        drawing.label_powers(axis.yaxis)
        axis.set_title(title, fontsize=7)
    for row in axes:
        drawing.share_limits({place: axis for place, axis in enumerate(row) if axis.axison})
    drawing.label_once(axes)
    labels = {N: "fresh" if N == FRESH else f"N = {N:,}" for N in sizes}
    keys = {labels[N]: Line2D([], [], color=lighter("black", shades[N])) for N in sizes}
    drawing.legend_below(made, keys | drawing.handles(*axes.flat), 0.08)
    return made


def lighter(colour, shade):
    """Return a colour mixed with white, of which 1 has none."""
    return [1 - shade * (1 - part) for part in to_rgb(colour)]
