"""Report from how many samples on a network is better than what needs none, and than the known operator."""

from koct.base.stamps import Stamp, made_from
from koct.bound.calibration import PAPER_PAIR
from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs, tables
from koct.report.labels import Names, escaped, sweep_label
from koct.study.results import grouped


def table(crossings_path, curves_path, out, spec=None):
    """A block per sweep, a row per network: its error at the largest N, and the N from which on it is the better."""
    curves, baselines, origin = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"), ("H",))
    nullable = ("N", "N_low", "N_high")
    found, _ = inputs.rows(crossings_path, ("sweep", "arch", "versus", "upto"), nullable, empty=True)
    names, known = Names(origin), PAPER_PAIR[0]
    answers = {(row["sweep"], row["arch"], row["versus"]): row for row in found}
    columns = list(dict.fromkeys(row["arch"] for row in baselines))
    columns += [known] if any(row["versus"] == known for row in found) else []
    body, width = [], 2 + len(columns)
    for (sweep,), rows in grouped(curves, "sweep").items():
        body += [r"\midrule"] if body else []
        about = f"{escaped(sweep_label(rows[0]))}, {CurveMetric(rows[0]['metric']).label}"
        body.append(rf"\multicolumn{{{width}}}{{@{{}}l}}{{{about}}} \\")
        for row in (row for row in baselines if row["sweep"] == sweep):
            cells = [rf"\quad {escaped(names.arch(row['arch']))}", tables.power_of_ten(row["error_mean"])]
            body.append(" & ".join([*cells, *["--"] * len(columns)]) + r" \\")
        for (arch,), points in grouped(rows, "arch").items():
            last, first = max(points, key=lambda row: row["N"]), min(row["N"] for row in points)
            cells = [rf"\quad {escaped(names.arch(arch))}", tables.power_of_ten(last["error_mean"])]
            cells += [_needed(answers.get((sweep, arch, versus)), first) for versus in columns]
            body.append(" & ".join(cells) + r" \\")
    heads = [rf"\shortstack[r]{{better than\\{escaped(names.arch(arch))}}}" for arch in columns]
    tables.write(
        out,
        Stamp(spec or {}, made_from(crossings_path, curves_path)),
        caption="The mean test error, of networks at the largest $N$ of the sweep, and the $N$ from which on a "
        "network's is smaller than another's, up to that $N$; between the $N$ of the sweep, errors are interpolated. "
        r"In brackets, the $90\,\%$ interval by the bootstrap. Never: not up to the largest $N$."
        + tables.defined(names, baselines),
        label="tab:crossings",
        columns="@{}lr" + "r" * len(columns) + "@{}",
        head=" & ".join(["", "error", *heads]) + r" \\",
        body=body,
    )


def _needed(row, first):
    """The N of a crossing with its interval; `first` is the smallest N of the sweep."""
    if row is None:
        return "--"
    if row["N"] is None:
        return "never"
    if row["N"] <= first:
        return rf"$\leq$ {tables.count(first, 999_999)}"
    low, high = ("never" if row[key] is None else _count(row[key]) for key in ("N_low", "N_high"))
    interval = "" if row["N_low"] is None else f" [{low}, {high}]"
    return f"{_count(row['N'])}{interval}"


def _count(value):
    return tables.count(value, 999_999)
