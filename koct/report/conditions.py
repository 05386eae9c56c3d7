"""Report what the conditions of a measurement, such as dose and arc, do to the number of samples."""

from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.forecast.crossing import overtaken
from koct.report import inputs, tables
from koct.report.labels import Names, escaped
from koct.study.results import grouped

SEPARATOR = ", "  # between the words of a problem's label


def table(curves_path, calibration_path, budget_path, out, spec=None):
    """A row per sweep: N of every network for every target, and from which N on the largest network is the best.

    Above, a row per sweep with the errors of what needs no sample.
    """
    curves, baselines, origin = inputs.split(curves_path, ("sweep", "arch", "N", "error_mean"))
    fitted, _ = inputs.rows(calibration_path, ("sweep", "problem", "arch", "p"), ("H", "V", "B"))
    answers, _ = inputs.rows(budget_path, ("sweep", "arch", "target"), ("n",), empty=True)
    names, sweeps = Names(origin), grouped(fitted, "sweep")
    families = compared(
        [(sweep, rows[0], names.problem(sweep, rows[0]["problem"])) for (sweep,), rows in sweeps.items()]
    )
    if not families:
        raise KoctError("no two sweeps of this study differ in the conditions of the measurement; take another study")
    shown = [sweep for family in families.values() for sweep, _ in family]
    p = {row["arch"]: row["p"] for row in fitted if row["sweep"] in shown}
    largest, needed = max(p, key=p.get), {(row["sweep"], row["arch"], row["target"]): row["n"] for row in answers}
    targets = sorted({target for sweep, _, target in needed if sweep in shown}, reverse=True)
    others = [arch for arch in p if arch != largest]
    errors = {
        key: {row["N"]: row["error_mean"] for row in rows} for key, rows in grouped(curves, "sweep", "arch").items()
    }
    baselines = [row for row in baselines if row["sweep"] in shown]
    free = list(dict.fromkeys(row["arch"] for row in baselines))
    width, body = 1 + max(len(targets) * len(p) + len(others), len(free)), []
    label = escaped(names.arch(largest))
    head = _head(names, targets, list(p), others, label)
    if baselines:
        body = [*_without_samples(families, baselines, free, width), r"\midrule", *head, r"\midrule"]
        head = [tables.row_of(["Error without samples", *(escaped(names.arch(arch)) for arch in free)], width)]
    for i, (common, family) in enumerate(families.items()):
        body += [r"\midrule"] if i else []
        body.append(_common(common, width))
        for sweep, condition in family:
            cells = [rf"\quad {escaped(condition)}"]
            cells += [tables.needed(needed, (sweep, arch, target)) for target in targets for arch in p]
            cells += [_overtaken(errors.get((sweep, arch), {}), errors.get((sweep, largest), {})) for arch in others]
            body.append(tables.row_of(cells, width))
    tables.write(
        out,
        Stamp(spec or {}, made_from(curves_path, calibration_path, budget_path)),
        caption="What the conditions of the measurement do to the number of samples: the $N$ that reaches a target "
        "mean error by the forecast, -- if it is out of reach, and the smallest $N$ of the sweep if that is enough. "
        "Right, the $N$ from which on "
        f"{label} has a smaller error than another network; between the $N$ of the sweep, errors are interpolated."
        + tables.defined(names, baselines, "the first rows have their mean test errors"),
        label="tab:conditions",
        columns="@{}l" + "r" * (width - 1) + "@{}",
        head="\n".join(head),
        body=body,
    )


def _without_samples(families, baselines, archs, width):
    """A line per sweep with the errors of what needs no sample."""
    errors = {(row["sweep"], row["arch"]): tables.power_of_ten(row["error_mean"]) for row in baselines}
    for common, family in families.items():
        yield _common(common, width)
        for sweep, condition in family:
            cells = [rf"\quad {escaped(condition)}", *(errors.get((sweep, arch), "--") for arch in archs)]
            yield tables.row_of(cells, width)


def _common(common, width):
    return rf"\multicolumn{{{width}}}{{@{{}}l}}{{{escaped(common)}}} \\"


def compared(sweeps):
    """{what they have in common: [(sweep, its conditions)]} of sweeps of one problem and size that differ otherwise.

    `sweeps` are (name, row, label); a label is a list of words with commas between them.
    """
    groups = {}
    for name, row, label in sweeps:
        words = [*label.split(SEPARATOR), *(f"${key} = {row[key]}$" for key in ("V", "B") if row[key] is not None)]
        groups.setdefault((row["problem"], row["H"]), []).append((name, words))
    families = {}
    for (_, H), group in groups.items():
        everywhere = [word for word in group[0][1] if all(word in words for _, words in group)]
        rest = [(name, SEPARATOR.join(word for word in words if word not in everywhere)) for name, words in group]
        if len({condition for _, condition in rest}) > 1:
            size = [] if H is None else [f"$H = {H}$"]
            common = SEPARATOR.join([*everywhere[:1], *size, *everywhere[1:]])
            families[common] = [(name, condition or "none") for name, condition in rest]
    return families


def _overtaken(errors, largest):
    N = sorted(errors.keys() & largest.keys())
    if not N:
        return "--"
    n = overtaken(N, [errors[n] for n in N], [largest[n] for n in N])
    if n is None:
        return f"$>$ {tables.count(N[-1], 999_999)}"
    return rf"$\leq$ {tables.count(N[0], 999_999)}" if n == N[0] else tables.count(round(n), 999_999)


def _head(names, targets, archs, others, label):
    """Lines: what groups of columns are, rules below them, and the network of each."""
    spans, rules, start = [""], [], 2
    for target in targets:
        spans.append(rf"\multicolumn{{{len(archs)}}}{{c}}{{$N$ for {tables.short(target)}}}")
        rules.append(rf"\cmidrule(lr){{{start}-{start + len(archs) - 1}}}")
        start += len(archs)
    if others:
        spans.append(rf"\multicolumn{{{len(others)}}}{{c@{{}}}}{{{label} below}}")
        rules.append(rf"\cmidrule(l){{{start}-{start + len(others) - 1}}}")
    columns = [_stacked(escaped(names.arch(arch))) for arch in archs * len(targets) + others]
    return [tables.row_of(spans), " ".join(rules), tables.row_of(["Conditions", *columns])]


def _stacked(text):
    """Words below one another, since columns of numbers are narrow."""
    lines = text.replace(" ", r"\\")
    return rf"\shortstack[r]{{{lines}}}" if lines != text else text
