"""Floor and sigma of every curve with their intervals over seeds, and how well the calibrated bound fits the curve."""

import math

import numpy as np

from koct.bound.calibration import Calibration
from koct.report.markup import INDENT, count, power_of_ten
from koct.report.measured import Study
from koct.report.product import Product
from koct.report.table import BREAK, FLOOR, Span, Table, chosen, dagger, defined

PRODUCT = Product(
    title="floor and σ with intervals",
    about="the same with 90 % intervals over seeds, and how well the bound fits",
    reads=("cells.parquet", "curves.parquet", "calibration.parquet"),
    caption="""\
**Floor and σ of every curve with 90 % intervals** by the jackknife over seeds, and how well the bound fits: R²
on the mean errors, and the largest error over the bound.

What needs no sample has its error for the floor.

A ratio above 1 says that the curve is above its bound at that N. A floor is the smallest of a few means, for
which a jackknife is rough: of two N with nearly the same error, another seed may take the other.""",
)


def table(cells_path, curves_path, calibration_path):
    study = Study.read(cells_path, curves_path, calibration_path)
    return Table(
        caption=r"The calibrated bound $\mathrm{floor} + \sigma \log N / N$ of every curve. In brackets, the $90\,\%$ "
        r"interval by the jackknife over seeds. $R^2$ is that of the bound on the mean errors. Ratio: the largest "
        r"mean error over the bound, and its $N$; above one, the curve is not bounded there."
        + defined(study.names, [row for rows in study.baselines.values() for row in rows[:1]], FLOOR)
        + chosen(
            study.names, [row for part in (study.baselines, study.cells) for rows in part.values() for row in rows]
        ),
        columns="lllrrr",
        head=[["Network", r"$\mathrm{floor}$", r"$\sigma$", "$R^2$", "Ratio", "$N$"]],
        body=[row for sweep in dict.fromkeys(sweep for sweep, _ in study.fitted) for row in _rows(study, sweep)],
    )


def _rows(study, sweep):
    """Yield what the curves of a sweep have in common, and a row for each."""
    fitted = {arch: row for (name, arch), row in study.fitted.items() if name == sweep}
    seeds = {cell["seed"] for arch in fitted for cell in study.cells[sweep, arch]}
    about = [study.names.sweep(next(iter(fitted.values()))), study.metrics[sweep].label]
    about.append("one seed" if len(seeds) == 1 else f"{len(seeds)} seeds")
    yield BREAK
    yield [Span(6, "@{}l", ", ".join(about))]
    for arch in (arch for name, arch in study.baselines if name == sweep):
        error = _estimate(study, sweep, lambda of, arch=arch: of.metrics[sweep].mean(of.baselines[sweep, arch]))
        yield [INDENT + study.names.arch(arch) + dagger(study.baselines[sweep, arch]), error]
    for arch, row in fitted.items():
        keys = ("floor", "sigma")
        cells = [_estimate(study, sweep, lambda of, arch=arch, key=key: of.fitted[sweep, arch][key]) for key in keys]
        yield [
            INDENT + study.names.arch(arch) + dagger(study.cells[sweep, arch]),
            *cells,
            *_fit(study.points[sweep, arch], row),
        ]


def _estimate(study, sweep, statistic):
    """Return 2.48\\,[2.31, 2.66] \\cdot 10^{-3}: value and interval in one power of ten; no interval for one seed."""
    value, (low, high) = statistic(study), study.interval(statistic, [sweep])
    if low is None or not value:
        return power_of_ten(value)
    power = int(f"{value:.2e}".split("e")[1])
    scaled = [each / 10.0**power for each in (value, low, high)]
    number, *ends = (f"{each:.{2 if abs(each) < 100 else 0}f}" for each in scaled)
    unit = rf" \cdot 10^{{{power}}}" if power else ""
    return rf"${number}\,[{', '.join(ends)}]{unit}$"


def _fit(points, row):
    """Return R² of the bound on the mean errors, and the largest mean error over the bound with its N."""
    N, error = (np.array(list(part), float) for part in zip(*sorted(points.items()), strict=True))
    bound = Calibration(row["floor"], row["sigma"]).predict(N)
    total = np.sum((error - error.mean()) ** 2)
    fit = f"${1 - np.sum((error - bound) ** 2) / total:.2f}$" if total > 0 else "--"
    ratio = np.divide(error, bound, out=np.full(len(N), math.nan), where=bound > 0)
    if np.isnan(ratio).all():
        return [fit, "--", "--"]
    worst = int(np.nanargmax(ratio))
    return [fit, f"${ratio[worst]:.2f}$", count(int(N[worst]))]
