"""The validation loss of trainings against the number of their steps."""

from matplotlib.colors import to_rgb

from koct.base import FRESH
from koct.errors import KoctError
from koct.report import drawing, inputs
from koct.report.product import Product
from koct.study.results import grouped

PRODUCT = Product(
    title="trained until it is done",
    about="validation loss against steps, [the rule](benchmark.md)",
    reads=("cells.parquet",),
    when="doubled",
    caption="""\
**Validation loss of trainings of ever twice as many steps**, a panel per sweep and network, a line per N, which stands
at its end, and seed. A training ends where twice the steps gain less than its `gain`, 2 % by default; a hollow marker
at its end says that it was not finished.

Where lines are level at their ends, an error is the data's or the network's, and not that of a training that was too
short.""",
)
SHADES = (0.25, 1.0)  # of the fewest and the most samples
PER_ROW = 4


def figure(cells_path):
    rows, names = inputs.rows(cells_path, ("sweep", "arch", "N", "seed", "H"))
    curves = grouped([row for row in rows if row.get("losses")], "sweep", "arch")
    if not curves:
        raise KoctError(f"{cells_path} has no training with `schedule: warmup-stable-decay`: there is nothing to draw")
    lines = -(-len(curves) // PER_ROW)
    made, axes = drawing.panels(lines, min(PER_ROW, len(curves)), (1.7, 1.5), left=0.75, across=0.4)
    for axis in axes.flat[len(curves) :]:
        axis.set_axis_off()
    for axis, ((_, arch), cells) in zip(axes.flat, curves.items(), strict=False):
        sizes = sorted({row["N"] for row in cells}, key=lambda N: (N == FRESH, N))
        for row in cells:
            steps = [row["steps"] / 2**k for k in reversed(range(len(row["losses"])))]
            shade = SHADES[0] + (SHADES[1] - SHADES[0]) * sizes.index(row["N"]) / max(1, len(sizes) - 1)
            colour = [1 - shade * (1 - part) for part in to_rgb(names.colour(arch))]
            axis.plot(steps, row["losses"], color=colour, marker=names.marker(arch))
            if row["seed"] == cells[0]["seed"]:
                text, place = "fresh" if row["N"] == FRESH else f"{row['N']:,}", (steps[-1], row["losses"][-1])
                look = {"color": names.colour(arch), "ha": "center", "fontsize": 6}
                axis.annotate(text, place, (0, 4), textcoords="offset points", **look)
            end = {**row, "N": steps[-1], "edges": row["edge"]}
            drawing.mark_edges(axis, names, [end], lambda row: row["losses"][-1])
        axis.set(yscale="log", xlabel="steps", ylabel="validation loss")
        axis.set_xscale("log", base=2)
        lengths = sorted({row["steps"] / 2**k for row in cells for k in range(len(row["losses"]))})
        shown = lengths[:: -(-len(lengths) // 3)]
        axis.set_xticks(shown, [f"{length:,.0f}" for length in shown])
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        drawing.label_powers(axis.yaxis)
        axis.set_title(f"{names.arch(arch)}, {names.sweep(cells[0])}")
    for row in axes:
        drawing.share_limits({place: axis for place, axis in enumerate(row) if axis.axison})
    drawing.label_once(axes)
    return made
