"""The paper's Table 3: a row per sweep, and which network has the smaller error where."""

from koct.forecast.crossing import order
from koct.report import inputs
from koct.report.markup import count
from koct.report.printed import PAIR
from koct.report.product import Product
from koct.report.table import Table, defined
from koct.study.results import grouped

PRODUCT = Product(
    title="who is below whom",
    about="the paper's table of outcomes: whether KO or FC has the smaller error",
    reads=("curves.parquet", "calibration.parquet"),
    when="paired",
    caption="""\
**Which network has the smaller mean error at which N.** The parameter ratio is that of the two networks of the
paper.""",
)


def table(curves_path, calibration_path):
    curves, *_ = inputs.split(curves_path, ("sweep", "arch", "N", "error_mean"))
    calibrations, names = inputs.rows(calibration_path, ("sweep", "problem", "arch", "p", "H", "V", "B"))
    inputs.check_alike({calibration_path: calibrations, curves_path: curves}, "sweep", "arch")
    means, points, square = inputs.means(curves), [], []
    for (name,), fitted in grouped(calibrations, "sweep").items():
        size = ("--" if fitted[0][key] is None else f"${fitted[0][key]}$" for key in ("H", "V", "B"))
        p, versus = {row["arch"]: row["p"] for row in fitted}, ["--", "--"]
        ko, fc = (means.get((name, arch), {}) for arch in PAIR)
        if N := sorted(ko.keys() & fc.keys()):
            ratio = p[PAIR[1]] // p[PAIR[0]]
            square.append(ratio == (fitted[0]["H"] or 0) ** 2)
            versus = [count(ratio), outcome(order(N, [ko[n] for n in N], [fc[n] for n in N]), names)]
        points.append((name, [names.problem(name, fitted[0]["problem"]), *size], versus))
    body = []
    for name, point, versus in points:
        if sum(point == other for _, other, _ in points) > 1:  # two sweeps of one operating point: say which
            point = [f"{point[0]} ({name})", *point[1:]]
        body.append([*point, *versus])
    return Table(
        caption=r"Operating points, the parameter ratio $p_{\mathrm{FC}} / p_{\mathrm{KO}}"
        + (" = H^2$, " if square and all(square) else "$, ")
        + "and which network has the smaller mean test error at the $N$ of the sweep."
        + defined(names),
        columns="lccccp",
        head=[["Operating point", "$H$", "$V$", "$B$", r"$p_{\mathrm{FC}} / p_{\mathrm{KO}}$", "Outcome"]],
        body=body,
    )


def outcome(stretches, names):
    """Return the order of the curves of KO and FC in words: who is below where."""
    labels = [names.arch(arch) for arch in PAIR]
    parts = []
    for i, stretch in enumerate(stretches):
        first, last = (f"{n:,}".replace(",", "{,}") for n in (stretch.first, stretch.last))
        if stretch.below is None:
            part = "equal" if parts else " and ".join(labels) + " equal"
        else:
            lower, upper = labels[stretch.below], labels[1 - stretch.below]
            part = f"{lower} below" if parts else f"{lower} below {upper}"
        if len(stretches) == 1:
            part += " at every $N$"
        elif i == 0:
            part += f" up to ${{N = {last}}}$"  # in braces, so that no line ends after the equals sign
        elif i == len(stretches) - 1:
            part += f" from ${{N = {first}}}$"
        else:
            part += f" at ${{N = {first}}}$" if first == last else f" from ${{N = {first}}}$ to ${last}$"
        parts.append(part)
    return "; ".join(parts)
