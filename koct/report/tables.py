"""LaTeX tables in booktabs, as in the paper."""

import json
from pathlib import Path

from koct.base.files import write_text
from koct.base.stamps import Stamp, again, made_from
from koct.errors import KoctError
from koct.forecast.crossing import order
from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.labels import Names, escaped, sweep_label
from koct.study.results import grouped

PAIR = ("ko", "fc")  # the two networks of the paper
MEANS = {  # what needs no sample
    "untrained": "the known layers before any learning",
    "fbp": "filtered backprojection, or the problem's own inverse",
    "nnls": "non-negative least squares",
    "tv": "least squares with total variation",
}
PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))


def calibration(curves_path, calibration_path, out, spec=None):
    """The paper's Table 2: floor and sigma of every network, a row per sweep; first what needs no sample."""
    rows, origin = inputs.rows(calibration_path, ("sweep", "arch", "metric", "floor", "sigma"), ("H",))
    _, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"), ("H",))
    names = Names(origin)
    archs = list(dict.fromkeys(row["arch"] for row in rows))
    by_sweep = {}
    for row in rows:
        by_sweep.setdefault(row["sweep"], {})[row["arch"]] = row
    symbols = (r"\mathrm{floor}", r"\sigma")
    heads = [f"${symbol}_{{\\mathrm{{{escaped(names.arch(arch))}}}}}$" for arch in archs for symbol in symbols]
    body = []
    for fitted in by_sweep.values():
        first = next(iter(fitted.values()))
        cells = [escaped(sweep_label(first)), CurveMetric(first["metric"]).label]
        for arch in archs:
            cells += [power_of_ten(fitted[arch][key]) if arch in fitted else "--" for key in ("floor", "sigma")]
        body.append(cells)
    starts = {row["sweep"]: [escaped(sweep_label(row)), CurveMetric(row["metric"]).label] for row in baselines}
    head, lines, width = stacked(names, baselines, starts, ["Sweep", "Error"], ["Sweep", "Error", *heads], body)
    write(
        out,
        Stamp(spec or {}, made_from(curves_path, calibration_path)),
        caption=r"Calibration factors $\mathrm{floor}$ and $\sigma$ of the bound "
        r"$\mathrm{floor} + \sigma \log N / N$, fitted on each sweep."
        + defined(names, baselines, "the first rows have their mean test errors"),
        label="tab:calibration",
        columns="@{}ll" + "c" * (width - 2) + "@{}",
        head=head,
        body=lines,
    )


def stacked(names, baselines, starts, first, head, body):
    """(head, lines, columns) of a table whose first rows are the errors of what needs no sample, under their own head.

    `starts` are {sweep: first cells of its row}, `first` their heads; `head` and `body` are the cells of the others.
    """
    if not baselines:
        return row_of(head), [row_of(cells) for cells in body], len(head)
    errors = {(row["sweep"], row["arch"]): row["error_mean"] for row in baselines}
    archs = list(dict.fromkeys(row["arch"] for row in baselines))
    above = [[*first, *(escaped(names.arch(arch)) for arch in archs)]]
    for sweep, start in starts.items():
        above.append(
            [*start, *(power_of_ten(errors[key]) if (key := (sweep, arch)) in errors else "--" for arch in archs)]
        )
    width = max(len(head), len(above[0]))
    top, *lines = (row_of(cells, width) for cells in above)
    return (
        top,
        [*lines, r"\midrule", row_of(head, width), r"\midrule", *(row_of(cells, width) for cells in body)],
        width,
    )


def row_of(cells, width=0):
    """A line of a table; empty cells follow up to `width`."""
    return " & ".join([*cells, *[""] * (width - len(cells))]) + r" \\"


def defined(names, baselines, where=""):
    """The sentence of a caption that says what needs no sample, and `where` its errors are; empty if nothing does."""
    archs = dict.fromkeys(row["arch"] for row in baselines)
    if not archs:
        return ""
    labels = [escaped(names.arch(arch)) + (f" ({MEANS[arch]})" if arch in MEANS else "") for arch in archs]
    listed = " and ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)
    return rf" No training sample ($N = 0$, $p = 0$) is needed by {listed}{where and f'; {where}'}."


def scaling(curves_path, calibration_path, out, spec=None):
    """The paper's Table 3: a row per sweep, and which network has the smaller error where."""
    curves, *_ = inputs.split(curves_path, ("sweep", "arch", "N", "error_mean"))
    calibrations, origin = inputs.rows(calibration_path, ("sweep", "problem", "arch", "p"), ("H", "V", "B"))
    names = Names(origin)
    points = []
    for (name,), fitted in grouped(calibrations, "sweep").items():
        size = ("--" if fitted[0][key] is None else f"${fitted[0][key]}$" for key in ("H", "V", "B"))
        point = [escaped(names.problem(name, fitted[0]["problem"])), *size]
        curve = [row for row in curves if row["sweep"] == name]
        lacking = {row["arch"] for row in curve} - {row["arch"] for row in fitted}
        if lacking:
            raise KoctError(
                f"{calibration_path} lacks {name} {', '.join(sorted(lacking))}, which {curves_path} has; "
                f"{again(calibration_path)}"
            )
        points.append((name, point, _versus(fitted, curve, names)))
    body = []
    for name, point, versus in points:
        if sum(point == other for _, other, _ in points) > 1:  # two sweeps of one operating point: say which
            point = [f"{point[0]} ({escaped(name)})", *point[1:]]
        ratio, result = versus  # the result is set ragged, where \\ would end its line and not the row
        body.append(" & ".join([*point, ratio, rf"\raggedright {result}"]) + r" \tabularnewline")
    write(
        out,
        Stamp(spec or {}, made_from(curves_path, calibration_path)),
        caption=r"Operating points, the parameter ratio $p_{\mathrm{FC}} / p_{\mathrm{KO}} = H^2$, "
        r"and which network has the smaller mean test error at the $N$ of the sweep.",
        label="tab:scaling",
        columns=r"@{}lccccp{0.42\linewidth}@{}",
        head=r"Operating point & $H$ & $V$ & $B$ & $p_{\mathrm{FC}} / p_{\mathrm{KO}}$ & Outcome \\",
        body=body,
    )


def _versus(fitted, curves, names):
    """Parameter ratio and outcome of a sweep with both networks."""
    p = {row["arch"]: row["p"] for row in fitted}
    ko, fc = ({row["N"]: row["error_mean"] for row in curves if row["arch"] == arch} for arch in PAIR)
    N = sorted(ko.keys() & fc.keys())
    if not N:
        return ["--", "--"]
    return [count(p["fc"] // p["ko"], 999_999), outcome(order(N, [ko[n] for n in N], [fc[n] for n in N]), names)]


def outcome(stretches, names=None):
    """The order of the curves of KO and FC in words: who is below where."""
    names = [(names or Names()).arch(arch) for arch in PAIR]
    parts = []
    for i, stretch in enumerate(stretches):
        first, last = (f"{n:,}".replace(",", "{,}") for n in (stretch.first, stretch.last))
        if stretch.below is None:
            part = "equal" if parts else " and ".join(names) + " equal"
        else:
            lower, upper = names[stretch.below], names[1 - stretch.below]
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


def fullscale(out, spec=None):
    """The paper's Table 1: parameters and memory of both networks at every image size."""
    points = PRINTED["operating_points"]
    p_ko = [point["V"] * point["B"] for point in points]
    p_fc = [point["H"] ** 2 * p for point, p in zip(points, p_ko, strict=True)]
    rows = [
        ["$V$, $B$", *(f"${point['V']}, {point['B']}$" for point in points)],
        [r"$p_{\mathrm{KO}}$", *map(count, p_ko)],
        [r"$p_{\mathrm{FC}}$", *map(count, p_fc)],
        [r"$p_{\mathrm{FC}} / p_{\mathrm{KO}} = H^2$", *(count(b // a, 9999) for a, b in zip(p_ko, p_fc, strict=True))],
        ["KO FP32 weights", *(memory(4 * p) for p in p_ko)],
        ["KO Adam state", *(memory(16 * p) for p in p_ko)],
        ["FC FP32 weights", *(memory(4 * p) for p in p_fc)],
        ["FC Adam state", *(memory(16 * p) for p in p_fc)],
    ]
    write(
        out,
        Stamp(spec or {}, made_from()),
        caption=r"Trainable parameters and memory of the operator-aware (KO) and the fully connected (FC) network. "
        r"Adam state: $16$ bytes a parameter for weights, gradient and two moments.",
        label="tab:fullscale",
        columns="@{}l" + "r" * len(points) + "@{}",
        head=" & ".join(["Quantity", *(f"$H = {point['H']}$" for point in points)]) + r" \\",
        body=[" & ".join(row) + r" \\" for row in rows],
    )


def structural(norms_path, out, spec=None):
    """Computed operator norms and the matched-κ reference of Eq. ct-structural."""
    body = []
    for point in inputs.norms(norms_path):
        numbers = (f"{point[key]:.4g}" for key in ("filter_norm", "backprojection_norm"))
        size = (point[key] for key in ("H", "V", "B"))
        cells = [point["beam"], *(f"${value}$" for value in (*size, *numbers)), count(point["H"] ** 2, 9999)]
        reference = point["reference"]
        cells.append(power_of_ten(reference) if reference >= 1000 else f"${reference:.3g}$")
        body.append(" & ".join(cells) + r" \\")
    write(
        out,
        Stamp(spec or {}, made_from(norms_path)),
        caption=r"Operator norms by power iteration and the matched-$\kappa$ reference "
        r"$H^2 / (4 \|K\|^2 \|A^\top\|^2)$ of the structural-sparsity factor.",
        label="tab:structural",
        columns="@{}lrrrrrrr@{}",
        head=r"Beam & $H$ & $V$ & $B$ & $\|K\|$ & $\|A^\top\|$ & $H^2$ & reference \\",
        body=body,
    )


def budget(curves_path, budget_path, out, spec=None):
    """How many samples reach each target, with the 90 % interval; first the targets that need none."""
    theory = ("theory_n", "theory_low", "theory_high", "theory_upto")
    columns, nullable = ("sweep", "arch", "target", "law"), ("H", "n", "n_low", "n_high", *theory)
    rows, origin = inputs.rows(budget_path, columns, nullable, empty=True)
    _, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "error_mean"), ("H",))
    names, targets = Names(origin), {}
    for row in rows:
        targets.setdefault(row["sweep"], set()).add(row["target"])
    body = []
    for row in (row for row in baselines if row["sweep"] in targets):
        met = [target for target in targets[row["sweep"]] if target >= row["error_mean"]]
        start = [escaped(sweep_label(row)), rf"$\geq$ {power_of_ten(min(met))}" if met else "none"]
        error = rf"\multicolumn{{5}}{{l@{{}}}}{{needs no sample, error {power_of_ten(row['error_mean'])}}}"
        body.append(row_of([*start, escaped(names.arch(row["arch"])), error]))
    body += [r"\midrule"] if body else []
    for row in rows:
        n = "out of reach" if row["n"] is None else count(row["n"], 999_999)
        low = "--" if row["n_low"] is None else count(row["n_low"], 999_999)
        high = r"$\infty$" if row["n_high"] is None else count(row["n_high"], 999_999)
        interval = "--" if row["n_low"] is None else f"{low} to {high}"
        target, arch = power_of_ten(row["target"]), escaped(names.arch(row["arch"]))
        start = [escaped(sweep_label(row)), target, arch]
        body.append(" & ".join([*start, escaped(row["law"]), n, interval, *_by_theory(row)]) + r" \\")
    write(
        out,
        Stamp(spec or {}, made_from(curves_path, budget_path)),
        caption=r"Samples that reach a target mean error: the most probable law, the median of the forecast, and its "
        r"$90\,\%$ interval. Right, the same from the curve that pairs predict before any fit."
        + defined(names, baselines, "the first rows say which targets they reach"),
        label="tab:budget",
        columns="@{}llllrrrr@{}",
        head=r"& & & \multicolumn{3}{c}{from the fits} & \multicolumn{2}{c}{from pairs} \\"
        "\n"
        r"\cmidrule(lr){4-6} \cmidrule(l){7-8}"
        "\n"
        r"Sweep & Target & Network & Law & $N$ & Interval & $N$ & Interval \\",
        body=body,
    )


def _by_theory(row):
    """N and its interval from the predicted curve, which ends at some N."""
    if row["theory_upto"] is None:
        return ["--", "--"]
    if not row["theory_upto"]:
        return ["not trusted", "--"]
    beyond = f"$>$ {count(row['theory_upto'], 999_999)}"
    n, low, high = (
        beyond if row[key] is None else count(row[key], 999_999) for key in ("theory_n", "theory_low", "theory_high")
    )
    return [n, "--" if row["theory_low"] is None else f"{low} to {high}"]


def power_of_ten(value):
    """2.48 \\cdot 10^{-3}: three digits, as the paper prints them."""
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"${mantissa} \\cdot 10^{{{int(exponent)}}}$" if float(mantissa) else "$0$"


def count(value, plain=99):
    """A whole number, written out up to `plain` and as a power of ten beyond."""
    return f"${value:,}$".replace(",", "{,}") if value <= plain else power_of_ten(value)


def short(value):
    """A target: as it is written in a config down to 0.0001, as a power of ten below."""
    return f"${value:g}$" if value >= 1e-4 else power_of_ten(value)


def needed(answers, key):
    """The planner's N from {(sweep, arch, target): N}, or -- if the target is out of reach or was not asked for."""
    return "--" if answers.get(key) is None else count(answers[key], 999_999)


def memory(size):
    """Bytes in KiB, MiB or GiB (powers of 1024), three digits."""
    scaled = [(size / 1024**power, unit) for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB"))]
    value, unit = next((entry for entry in scaled if entry[0] >= 0.1), scaled[-1])
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"${value:.{digits}f}$ {unit}"


def write(path, stamp, caption, label, columns, head, body):
    """A complete table float; the document that inputs it needs the package booktabs."""
    lines = [
        "% Made by koct; needs \\usepackage{booktabs}.",
        r"\begin{table}[t]",
        r"\centering",
        r"\small",
        f"\\caption{{{caption}}}",
        f"\\label{{{label}}}",
        r"\smallskip",
        f"\\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    write_text(path, "\n".join(lines) + "\n", stamp)
