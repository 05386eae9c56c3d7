"""The two factors of Proposition 1 over the target error ε, and where they exist."""

import math

import numpy as np

from koct.bound.calibration import Calibration, two_factors
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.printed import PAIR
from koct.report.product import Product
from koct.study.results import grouped

PRODUCT = Product(
    title="the two factors over the target error",
    about="the two factors of Proposition 1 over the target error",
    reads=("calibration.parquet",),
    when="paired",
    supplement=True,
    caption="""\
**The two factors of Proposition 1 over the target error ε**: the structural factor σ of FC over σ of KO, the
approximation factor, and their product, which is the ratio of N / log N. Beside it, the ratio of N itself.

Both bounds can be solved for ε in the white range only: below it, ε is under a floor; above it, one of the
bounds is below ε at every N. Where there is no white range, no target error tells how many more samples FC
needs. Near a floor the product says more about that floor than about the networks.""",
)
POINTS = 200  # of a curve
MOST, LEAST = 1000.0, 0.1  # of a factor that is shown, unless the structural factor is beyond
RATIO = "ratio of samples"
LINES = {  # label: colour, style and width; all of the palette of Okabe and Ito
    "structural factor": ("#0072B2", "--", 1.1),
    "approximation factor": ("#D55E00", ":", 1.4),
    "product": ("0.1", "-", 1.3),
    RATIO: ("#009E73", "-.", 1.2),
}
SHADES = {"below a floor": "0.72", "a bound is below ε at every $N$": "#bcd7ee"}


def figure(calibration_path):
    """Return a figure with a panel per sweep that has both networks of the paper."""
    rows, names = inputs.rows(calibration_path, ("sweep", "arch", "metric", "floor", "sigma", "H"))
    sweeps = {
        name: group for (name,), group in grouped(rows, "sweep").items() if set(PAIR) <= {row["arch"] for row in group}
    }
    if not sweeps:
        raise KoctError("no sweep of this study has both networks of the paper, which the factors compare")
    without = []
    for name, group in sweeps.items():
        low, high = limits(*_both(group))
        where = f"from {low:.3g} to {high:.3g}" if low < high else "no target error has both factors and both N"
        without += [] if low < high else [name]
        print(f"{name}: {where}", flush=True)
    shown = [name for name in sweeps if name not in without] or list(sweeps)
    absent = [names.sweep(sweeps[name][0]) for name in sweeps if name not in shown]
    note = f"No target error has both factors and both $N$ in {', '.join(absent)}." if absent else ""
    return drawing.by_sweep(_panel, names, [row for row in rows if row["sweep"] in shown], down=0.7, note=note)


def _both(rows):
    """Return the calibrations of the two networks of the paper."""
    fitted = {row["arch"]: Calibration(row["floor"], row["sigma"]) for row in rows}
    return [fitted[arch] for arch in PAIR]


def limits(known, dense):
    """Return (low, high): below `low` ε is under a floor, above `high` over a bound's maximum, floor + sigma / e."""
    return max(known.floor, dense.floor), min(fit.floor + fit.sigma / math.e for fit in (known, dense))


def curves(known, dense, targets):
    """Return {label: values at the targets}; NaN where a factor or an N does not exist."""
    values = np.full((len(LINES), len(targets)), np.nan)
    for i, target in enumerate(targets):
        if known.sigma > 0 and target > max(known.floor, dense.floor):
            factors = two_factors(known, dense, float(target))
            n = [fit.required(float(target)).n for fit in (known, dense)]
            ratio = np.nan if None in n else n[1] / n[0]
            values[:, i] = factors.structural, factors.approximation, factors.product, ratio
    return dict(zip(LINES, values, strict=True))


def _panel(axis, names, rows):
    both = _both(rows)
    low, high = limits(*both)
    ends = sorted((low, high))
    first, last = 0.6 * ends[0], 1.35 * ends[1] or 1.0
    targets = np.linspace(low, max(low, high), POINTS + 2)[1:-1]  # where both bounds can be solved
    for (label, (colour, style, width)), values in zip(LINES.items(), curves(*both, targets).values(), strict=True):
        if label == RATIO:
            label = " / ".join(f"$N$ of {names.arch(arch)}" for arch in reversed(PAIR))
        axis.plot(targets, values, style, color=colour, linewidth=width, label=label)
    for span, (label, colour) in zip(((first, low), (high, last)), SHADES.items(), strict=True):
        axis.axvspan(*span, color=colour, alpha=0.6, linewidth=0, zorder=0, label=label)  # darker where both hold
    if high <= low:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 3}
        axis.text(0.5, 0.5, "no ε for both networks", transform=axis.transAxes, ha="center", va="center", bbox=box)
    structural = both[1].sigma / both[0].sigma if both[0].sigma > 0 else 1.0
    power = math.floor(math.log10(ends[0])) if ends[0] > 0 else 0  # of ten, in which targets are written
    axis.set(xlim=(first, last), ylim=(min(LEAST, structural / 10 or LEAST), max(MOST, 10 * structural)), yscale="log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value / 10.0**power:g}")
    axis.locator_params(axis="x", nbins=5)
    axis.axhline(1, color="0.6", linewidth=0.5, zorder=1)
    scale = "" if power == 0 else rf" ($10^{{{power}}}$)"
    label = CurveMetric(rows[0]["metric"]).label
    axis.set(title=names.sweep(rows[0]), xlabel=rf"target {label} $\varepsilon${scale}")
    axis.set_ylabel("factor", labelpad=2)
