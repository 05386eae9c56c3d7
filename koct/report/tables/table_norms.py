"""Operator norms, the constants of the bound that they give, and the matched-κ ratio beside the measured slopes."""

from koct.bound.theorem import operator_aware
from koct.errors import KoctError
from koct.report.claims.statistics import parameters, reference, slope_ratio
from koct.report.markup import latex, power_of_ten
from koct.report.measured import NotComputedError, Study
from koct.report.product import Product
from koct.report.table import Table

PRODUCT = Product(
    title="norms and slope ratios",
    about="‖K‖, ‖Aᵀ‖, A₁ of the paper's problems; the matched-κ ratio beside the measured ratio of slopes",
    reads=("cells.parquet", "curves.parquet", "calibration.parquet"),
    when="normed",
    takes=("normed",),
    supplement=True,
    caption="""\
**Norms of the filter K and of the backprojection Aᵀ**, the amplification A₁ that they give in the bound, the
ratio of slopes that Proposition 1 expects if both networks have the same κ, and the ratio that was measured,
with its 90 % interval over seeds. Norms are those of the paper's chain, filter and backprojection, at the
geometry of a sweep; the surrogate fits a Tikhonov inverse instead.

Where *matched / measured* is far from 1, the networks do not share a κ: the ratio of slopes has to be measured,
and cannot be had from norms.""",
)


def table(cells_path, curves_path, calibration_path, normed=None):
    """Return a row per sweep at an operating point of the paper; of those `normed`, if some only look like it."""
    study = Study.read(cells_path, curves_path, calibration_path)
    body = []
    for sweep in dict.fromkeys(sweep for sweep, _ in study.fitted):
        if normed is None or sweep in normed:
            body += _rows(study, sweep)
    if not body:
        raise KoctError("no sweep of this study has the known network at an operating point of the paper")
    known, dense = (study.names.arch(arch) for arch in (study.known, study.dense))
    ratio = rf"$\sigma_{{\mathrm{{{latex(dense)}}}}} / \sigma_{{\mathrm{{{latex(known)}}}}}$"
    norms = [r"$\|K\|$", r"$\|A^\top\|$", "$A_1$", r"matched-$\kappa$ ratio"]
    return Table(
        caption=rf"Norms of the filter $K$ and of the backprojection $A^\top$ by power iteration, the amplification "
        rf"$A_1 = 8 \|K\|^2 \|A^\top\|^2$ of {known} (that of {dense} is $2$), the matched-$\kappa$ ratio "
        r"$H^2 / (4 \|K\|^2 \|A^\top\|^2)$ of Proposition 1, and the ratio of slopes that was measured, with its "
        r"$90\,\%$ interval by the jackknife over seeds.",
        columns="lrrrrrrr",
        head=[["Sweep", *norms, ratio, "interval", "matched / measured"]],
        body=body,
    )


def _rows(study, sweep):
    """Return the row of a sweep; none if it is at no operating point of the paper."""
    try:
        filter_norm, back_norm = study.norms(sweep)
    except NotComputedError:
        return []
    p = parameters(study, sweep, study.known)
    amplification = operator_aware(filter_norm, back_norm, p=p).amplifications()[0]
    print(f"{sweep}: ‖K‖ {filter_norm:.6g}, ‖Aᵀ‖ {back_norm:.6g}, A_1 {amplification:.6g}", flush=True)
    matched = reference(study, sweep)
    norms = [f"${filter_norm:.3g}$", f"${back_norm:.2f}$", _digits(amplification), _digits(matched)]
    return [[study.names.sweep(study.fitted[sweep, study.known]), *norms, *_measured(study, sweep, matched)]]


def _measured(study, sweep, matched):
    """Return the ratio of slopes, its interval, and the matched-κ ratio over it."""
    try:
        ratio = slope_ratio(study, sweep)
    except NotComputedError:
        return ["--", "--", "--"]
    low, high = study.interval(lambda of: slope_ratio(of, sweep), [sweep])
    interval = "--" if low is None else f"{_digits(low)} to {_digits(high)}"
    return [_digits(ratio), interval, _digits(matched / ratio)]


def _digits(value):
    """Return three of them, and whole numbers from a hundred on."""
    if value < 1e-3:
        return power_of_ten(value)
    return f"${value:,.0f}$".replace(",", "{,}") if value >= 100 else f"${value:#.3g}$"
