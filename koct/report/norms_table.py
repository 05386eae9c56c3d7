"""Operator norms, the constants of the bound that they give, and the matched-κ ratio beside the measured slopes."""

from koct.base.stamps import Stamp, made_from
from koct.bound.theorem import operator_aware
from koct.errors import KoctError
from koct.report import tables
from koct.report.claims_numbers import reference, slope_ratio
from koct.report.claims_study import NotComputedError, Study
from koct.report.labels import escaped, sweep_label


def table(cells_path, curves_path, calibration_path, out, sweeps=None, spec=None):
    """A row per sweep at an operating point of the paper; of `sweeps`, if there are such as only look like it."""
    study, _ = Study.read(cells_path, curves_path, calibration_path)
    body = []
    for sweep in dict.fromkeys(sweep for sweep, _ in study.fitted):
        if sweeps is None or sweep in sweeps:
            body += _row(study, sweep)
    if not body:
        raise KoctError("no sweep of this study has the known network at an operating point of the paper")
    known, dense = (escaped(study.label(arch)) for arch in (study.known, study.dense))
    ratio = rf"\sigma_{{\mathrm{{{dense}}}}} / \sigma_{{\mathrm{{{known}}}}}"
    tables.write(
        out,
        Stamp(spec or {}, made_from(cells_path, curves_path, calibration_path)),
        caption=rf"Norms of the filter $K$ and of the backprojection $A^\top$ by power iteration, the amplification "
        rf"$A_1 = 8 \|K\|^2 \|A^\top\|^2$ of {known} (that of {dense} is $2$), the matched-$\kappa$ ratio "
        r"$H^2 / (4 \|K\|^2 \|A^\top\|^2)$ of Proposition 1, and the ratio of slopes that was measured, with its "
        r"$90\,\%$ interval by the jackknife over seeds.",
        label="tab:norms",
        columns="@{}lrrrrrrr@{}",
        head=r"Sweep & $\|K\|$ & $\|A^\top\|$ & $A_1$ & matched-$\kappa$ ratio & "
        rf"${ratio}$ & interval & matched / measured \\",
        body=body,
    )


def _row(study, sweep):
    """The line of a sweep; none if it is at no operating point of the paper."""
    try:
        filter_norm, back_norm = study.norms(sweep)
    except NotComputedError:
        return []
    row, p = study.fitted[sweep, study.known], study.parameters(sweep, study.known)
    amplification = operator_aware(filter_norm, back_norm, p=p).amplifications()[0]
    print(f"{sweep}: ‖K‖ {filter_norm:.6g}, ‖Aᵀ‖ {back_norm:.6g}, A_1 {amplification:.6g}", flush=True)
    matched = reference(study, sweep)
    norms = [f"${filter_norm:.3g}$", f"${back_norm:.2f}$", _digits(amplification), _digits(matched)]
    return [" & ".join([escaped(sweep_label(row)), *norms, *_measured(study, sweep, matched)]) + r" \\"]


def _measured(study, sweep, matched):
    """The ratio of slopes, its interval, and the matched-κ ratio over it."""
    try:
        ratio = slope_ratio(study, sweep)
    except NotComputedError:
        return ["--", "--", "--"]
    low, high = study.interval(lambda found: slope_ratio(found, sweep), [sweep])
    interval = "--" if low is None else f"{_digits(low)} to {_digits(high)}"
    return [_digits(ratio), interval, _digits(matched / ratio)]


def _digits(value):
    """Three of them, and whole numbers from a hundred on."""
    if value < 1e-3:
        return tables.power_of_ten(value)
    return f"${value:,.0f}$".replace(",", "{,}") if value >= 100 else f"${value:#.3g}$"
