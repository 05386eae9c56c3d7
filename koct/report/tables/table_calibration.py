"""The paper's Table 2: floor and sigma of every network, a row per sweep; first what needs no sample."""

from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.labels import Names, sweep_label
from koct.report.markup import latex, power_of_ten
from koct.report.product import Product
from koct.report.table import Table, defined, stacked

PRODUCT = Product(
    title="floor and σ of every curve",
    about="the paper's Table 2: floor and σ of each curve",
    reads=("curves.parquet", "calibration.parquet"),
    caption="""\
**Floor and σ of every curve**, as in Table 2 of the paper: floor is the smallest mean error of the sweep, σ the
slope of (error − floor) on log N / N without an intercept.

The first rows are the errors of what needs no sample.

σ of FC over σ of KO is the paper's structural factor. A floor is that of the sweep, not of the network: where a
curve still falls at the largest N, it is too high.""",
)


def table(curves_path, calibration_path):
    rows, origin = inputs.rows(calibration_path, ("sweep", "arch", "metric", "floor", "sigma"), ("H",))
    _, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"), ("H",))
    names = Names(origin)
    archs = list(dict.fromkeys(row["arch"] for row in rows))
    by_sweep = {}
    for row in rows:
        by_sweep.setdefault(row["sweep"], {})[row["arch"]] = row
    symbols = (r"\mathrm{floor}", r"\sigma")
    heads = [f"${symbol}_{{\\mathrm{{{latex(names.arch(arch))}}}}}$" for arch in archs for symbol in symbols]
    body = []
    for fitted in by_sweep.values():
        cells = _start(next(iter(fitted.values())))
        for arch in archs:
            cells += [power_of_ten(fitted[arch][key]) if arch in fitted else "--" for key in ("floor", "sigma")]
        body.append(cells)
    starts = {row["sweep"]: _start(row) for row in baselines}
    head, body, width = stacked(names, baselines, starts, ["Sweep", "Error"], ["Sweep", "Error", *heads], body)
    return Table(
        caption=r"Calibration factors $\mathrm{floor}$ and $\sigma$ of the bound "
        r"$\mathrm{floor} + \sigma \log N / N$, fitted on each sweep."
        + defined(names, baselines, "the first rows have their mean test errors"),
        label="tab:calibration",
        columns="ll" + "c" * (width - 2),
        head=head,
        body=body,
    )


def _start(row):
    """Return the sweep and its metric."""
    return [sweep_label(row), CurveMetric(row["metric"]).label]
