"""Floor and sigma of every curve with their intervals over seeds, and how well the calibrated bound fits the curve."""

import math

import numpy as np

from koct.base.stamps import Stamp, made_from
from koct.bound.calibration import Calibration
from koct.report import tables
from koct.report.claims_study import Study
from koct.report.labels import escaped, sweep_label

FLOOR = r"their mean test error stands for $\mathrm{floor}$"


def table(cells_path, curves_path, calibration_path, out, spec=None):
    """A block per sweep, a row per curve."""
    study, _ = Study.read(cells_path, curves_path, calibration_path)
    body = [line for sweep in dict.fromkeys(sweep for sweep, _ in study.fitted) for line in _lines(study, sweep)]
    tables.write(
        out,
        Stamp(spec or {}, made_from(cells_path, curves_path, calibration_path)),
        caption=r"The calibrated bound $\mathrm{floor} + \sigma \log N / N$ of every curve. In brackets, the $90\,\%$ "
        r"interval by the jackknife over seeds. $R^2$ is that of the bound on the mean errors. Ratio: the largest "
        r"mean error over the bound, and its $N$; above one, the curve is not bounded there."
        + tables.defined(study.names, [row for rows in study.baselines.values() for row in rows[:1]], FLOOR),
        label="tab:calibration-wide",
        columns="@{}lllrrr@{}",
        head=r"Network & $\mathrm{floor}$ & $\sigma$ & $R^2$ & Ratio & $N$ \\",
        body=body,
    )


def _lines(study, sweep):
    """What the curves of a sweep have in common, and a line for each."""
    found = {arch: row for (name, arch), row in study.fitted.items() if name == sweep}
    seeds = {cell["seed"] for arch in found for cell in study.cells[sweep, arch]}
    about = [escaped(sweep_label(next(iter(found.values())))), study.metrics[sweep].label]
    about.append("one seed" if len(seeds) == 1 else f"{len(seeds)} seeds")
    yield rf"\multicolumn{{6}}{{@{{}}l}}{{{', '.join(about)}}} \\"
    for arch in (arch for name, arch in study.baselines if name == sweep):
        error = with_interval(*baseline(study, sweep, arch))
        yield tables.row_of([rf"\quad {escaped(study.label(arch))}", error, *["--"] * 4])
    for arch, row in found.items():
        cells = [rf"\quad {escaped(study.label(arch))}"]
        cells += [with_interval(*estimate(study, sweep, arch, key)) for key in ("floor", "sigma")]
        yield " & ".join([*cells, *_fit(study.points[sweep, arch], row)]) + r" \\"


def estimate(study, sweep, arch, key):
    """(value, low, high) of the floor or the sigma of a curve; no interval for one seed."""

    def of(found):
        return found.fitted[sweep, arch][key]

    return of(study), *study.interval(of, [sweep])


def baseline(study, sweep, arch):
    """(value, low, high) of the mean error of what needs no sample."""

    def of(found):
        return found.metrics[sweep].mean(found.baselines[sweep, arch])

    return of(study), *study.interval(of, [sweep])


def with_interval(value, low, high):
    """2.48\\,[2.31, 2.66] \\cdot 10^{-3}: value and interval in one power of ten."""
    if low is None or not value:
        return tables.power_of_ten(value)
    power = int(f"{value:.2e}".split("e")[1])
    number, *ends = (_decimals(each / 10.0**power) for each in (value, low, high))
    unit = rf" \cdot 10^{{{power}}}" if power else ""
    return rf"${number}\,[{', '.join(ends)}]{unit}$"


def _decimals(value):
    """Two of them, fewer where three digits are there without."""
    return f"{value:.{2 if abs(value) < 100 else 0}f}"


def _fit(points, row):
    """R² of the bound on the mean errors, and the largest mean error over the bound with its N."""
    N, error = (np.array(list(part), float) for part in zip(*sorted(points.items()), strict=True))
    bound = Calibration(row["floor"], row["sigma"]).predict(N)
    total = np.sum((error - error.mean()) ** 2)
    fit = f"${1 - np.sum((error - bound) ** 2) / total:.2f}$" if total > 0 else "--"
    ratio = np.divide(error, bound, out=np.full(len(N), math.nan), where=bound > 0)
    if np.isnan(ratio).all():
        return [fit, "--", "--"]
    worst = int(np.nanargmax(ratio))
    return [fit, f"${ratio[worst]:.2f}$", tables.count(int(N[worst]), 999_999)]
