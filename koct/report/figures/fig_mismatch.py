"""What a scanner that is not the known one does to error curves, and to the error with the most samples."""

from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.mismatch import KINDS, errors, strengths
from koct.report.product import Product

PRODUCT = Product(
    title="known operators that are wrong",
    about="error against N and against [how wrong the operator is](know.md)",
    reads=("curves.parquet",),
    when="mismatch",
    takes=("mismatch",),
    caption="""\
**What a wrong operator costs**, for each way in which a scanner differs from the known geometry. Upper panels: error
against N of a weight per measurement, the darker the more the scanner differs, and of the dense matrix, which knows
nothing and hardly notices. Lower panels: the error with the most samples against the difference; dotted, with none.

Where the curve of a network lies below that of the dense matrix, knowing still pays.""",
)
COLUMNS = 4
KNOWING, LEARNING = "ko-ridge", "fc"


def figure(curves_path, mismatch):
    found, archs, names = errors(curves_path, mismatch)
    kinds = [kind for kind in KINDS if strengths(found, kind)]
    blocks = -(-len(kinds) // COLUMNS)
    made, axes = drawing.panels(2 * blocks, min(COLUMNS, len(kinds)), left=0.7, across=0.2, down=0.72)
    for axis in axes.flat:
        axis.set_axis_off()
    handles, metric = {}, CurveMetric(inputs.rows(curves_path, ("metric",))[0][0]["metric"]).label
    for place, kind in enumerate(kinds):
        upper, lower = (axes[2 * (place // COLUMNS) + row, place % COLUMNS] for row in (0, 1))
        upper.set_axis_on()
        lower.set_axis_on()
        words, unit = KINDS[kind]
        _curves(upper, found, kind, names)
        handles |= _floors(lower, found, kind, archs, names)
        upper.set(title=words, ylabel=f"test {metric}")
        lower.set(xlabel=f"difference in {unit}", ylabel=f"{metric} at largest $N$")
    for row in (0, 1):
        drawing.share_limits(dict(enumerate(axis for axis in axes[row::2].flat if axis.axison)))
    drawing.label_once(axes)
    handles["the operator is right"] = Line2D([], [], color="0.4", linestyle=":", linewidth=0.7)
    drawing.legend_below(made, handles, 0.05)
    drawing.note_below(made, f"Curves of {names.arch(KNOWING)} over $N$: the darker, the more the scanner differs.")
    return made


def _curves(axis, found, kind, names):
    """Error against N: of the dense matrix as one line, of the weights as one for every strength."""
    levels = strengths(found, kind)
    sizes = sorted(found[kind, levels[0]][LEARNING])
    for number, strength in enumerate(levels):
        curve = found[kind, strength].get(KNOWING, {})
        shade = 0.25 + 0.75 * (number + 1) / len(levels)
        axis.plot(list(curve), list(curve.values()), color=names.colour(KNOWING), alpha=shade, linewidth=1)
    strongest = found[kind, levels[-1]][LEARNING]
    axis.plot(list(strongest), list(strongest.values()), color=names.colour(LEARNING), linewidth=1.2)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(sizes, [f"{N:,}" for N in sizes])
    axis.minorticks_off()
    axis.set_xlabel("training samples $N$")


def _floors(axis, found, kind, archs, names):
    """The error with the most samples against the strength, and dotted where the scanner is the known one."""
    levels, handles = strengths(found, kind), {}
    for arch in (arch for arch in archs if arch in found[kind, levels[0]]):
        ends = [curve[max(curve)] for curve in (found[kind, strength][arch] for strength in levels)]
        look = {"color": names.colour(arch), "marker": names.marker(arch), "markersize": 3.5}
        handles[names.arch(arch)] = axis.plot(levels, ends, **look)[0]
        if (kind, 0.0) in found:
            curve = found[kind, 0.0][arch]
            axis.axhline(curve[max(curve)], color=names.colour(arch), linestyle=":", linewidth=0.7)
    axis.set(xscale="log", yscale="log")
    axis.set_xticks(levels, [f"{strength:g}" for strength in levels])
    axis.xaxis.set_minor_locator(NullLocator())
    drawing.label_powers(axis.yaxis)
    return handles
