"""What the conditions of a measurement, such as dose and arc, do to the number of samples."""

from collections import Counter

from koct.report import inputs
from koct.report.labels import SEPARATOR
from koct.report.markup import INDENT, count, power_of_ten, short
from koct.report.overtakes import by_metric, or_fewer
from koct.report.product import Product
from koct.report.table import BREAK, LINES, RULE, Span, Table, Underline, chosen, dagger, defined, needed
from koct.study.results import grouped

PRODUCT = Product(
    title="dose, arc and rays",
    about="samples needed by [dose, arc and rays](conditions.md)",
    reads=("curves.parquet", "calibration.parquet", "budget.parquet", "crossings.parquet"),
    when="compared",
    caption="""\
**What dose, arc and rays do to the number of samples**, and from which N on the largest network is the best.
*None* stands for no condition beyond the size of the scan; of the fan beam, these are the rays that made the
printed numbers.

The first rows are the errors of what needs no sample.

Compare a row with *none* in its block: where N or the crossing changes, the result is one of the measurement
and not of the networks.""",
)


def table(curves_path, calibration_path, budget_path, crossings_path):
    """Return a row per sweep: N of every network for every target, and from which N on the largest is the best."""
    curves, baselines, names = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"))
    fitted, _ = inputs.rows(calibration_path, ("sweep", "problem", "arch", "p", "H", "V", "B"))
    answers, _ = inputs.rows(budget_path, ("sweep", "arch", "target", "n"), empty=True)
    crossings, _ = inputs.rows(crossings_path, ("sweep", "arch", "versus", "metric", "N", "upto"), empty=True)
    families = compared(fitted, names)
    shown = {sweep for family in families.values() for sweep, _ in family}
    curves, baselines, fitted, answers = (
        [row for row in rows if row["sweep"] in shown] for rows in (curves, baselines, fitted, answers)
    )
    parameters = {row["arch"]: row["p"] for row in fitted}
    archs, largest = list(parameters), max(parameters, key=parameters.get)
    others, targets = [arch for arch in archs if arch != largest], sorted({row["target"] for row in answers})[::-1]
    free = list(dict.fromkeys(row["arch"] for row in baselines))
    width = 1 + max(len(targets) * len(archs) + len(others), len(free))

    needs = _needs(curves, answers, archs, targets)
    overtakes = _overtakes(curves, crossings, largest, others)
    head = _head(names, targets, archs, others, names.arch(largest))
    body = _rows(families, width, lambda sweep: needs(sweep) + overtakes(sweep), ruled=True)[1:]
    baselines = baselines if 2 * len(shown) <= LINES else []  # then table_calibration has them
    if baselines:
        errors = {(row["sweep"], row["arch"]): power_of_ten(row["error_mean"]) + dagger([row]) for row in baselines}
        above = _rows(families, width, lambda sweep: [errors.get((sweep, arch), "--") for arch in free])
        below = [RULE, *head, RULE, *body] if targets or others else []
        head, body = [["Error without samples", *map(names.arch, free)]], [*above, *below]
    caption = "What the conditions of the measurement do to the number of samples"
    caption += (
        ": the $N$ that reaches a target mean error by the forecast, never if it is out of reach, and the smallest $N$ "
        "of the sweep if that is enough."
        if targets
        else "."
    )
    if others:
        caption += (
            f" {'Right, the' if targets else 'The'} $N$ from which on {names.arch(largest)} has a smaller error than "
            "another network; between the $N$ of the sweep, errors are interpolated."
        )
    return Table(
        caption=caption
        + defined(names, baselines, "the first rows have their mean test errors")
        + chosen(names, [*baselines, *curves]),
        columns="l" + "r" * (width - 1),
        head=head,
        body=body,
    )


def _needs(curves, answers, archs, targets):
    """Return a function of a sweep: its cells with the N of every network for every target."""
    points = grouped(curves, "sweep", "arch")
    samples = {(row["sweep"], row["arch"], row["target"]): row["n"] for row in answers}

    def cell(sweep, arch, target):
        if (sweep, arch, target) not in samples:
            return "--"
        curve = points.get((sweep, arch), [])
        largest = max((point["N"] for point in curve), default=0)
        return needed(samples[sweep, arch, target], largest) + dagger(curve)

    return lambda sweep: [cell(sweep, arch, target) for target in targets for arch in archs]


def _overtakes(curves, crossings, largest, others):
    """Return a function of a sweep: its cells with the N from which on the largest network is below each other."""
    points, overtakes = grouped(curves, "sweep", "arch"), by_metric(crossings)

    def cells(sweep):
        answers, curve = overtakes.get((sweep, largest), {}), points.get((sweep, largest), [])
        return [_overtaken(answers.get(arch, {}), curve) for arch in others]

    return cells


def _rows(families, width, cells, ruled=False):
    """Return the rows of all sweeps, below what those of a family have in common."""
    rows = []
    for common, family in families.items():
        rows += [BREAK] if ruled else []
        rows += [[Span(width, "@{}l", common)], *([INDENT + condition, *cells(sweep)] for sweep, condition in family)]
    return rows


def compared(fitted, names):
    """Return {what they have in common: [(sweep, its conditions)]} of sweeps of one problem and size that differ."""
    groups = {}
    for (name,), (row, *_) in grouped(fitted, "sweep").items():
        words = names.problem(name, row["problem"]).split(SEPARATOR)
        said = f"{row['V']} views" in words  # the label may have them
        words += [f"${key} = {row[key]}$" for key in ("V", "B")[said:] if row[key] is not None]
        groups.setdefault((row["problem"], row["H"]), []).append((name, words))
    families = {}
    for (_, H), group in groups.items():
        everywhere = [word for word in group[0][1] if all(word in words for _, words in group)]
        rest = [(name, SEPARATOR.join(word for word in words if word not in everywhere)) for name, words in group]
        if len({condition for _, condition in rest}) > 1:
            size = [] if H is None else [f"$H = {H}$"]
            common = SEPARATOR.join([*everywhere[:1], *size, *everywhere[1:]])
            alike = Counter(condition for _, condition in rest)
            families[common] = [
                (name, (condition or "none") + f" ({name})" * (alike[condition] > 1)) for name, condition in rest
            ]
    return families


def _overtaken(answers, points):
    """Return the N from which on the largest network, whose curve has these points, is below another."""
    row = answers.get(points[0]["metric"]) if points else None
    if row is None:
        return "--"
    return f"$>$ {count(row['upto'])}" if row["N"] is None else or_fewer(row["N"], min(point["N"] for point in points))


def _head(names, targets, archs, others, label):
    """Return the rows of the head: what groups of columns are, lines below them, and the network of each."""
    spans, lines, start = [""], [], 2
    for target in targets:
        spans.append(Span(len(archs), "c", f"$N$ for {short(target)}"))
        lines.append(("lr", start, start + len(archs) - 1))
        start += len(archs)
    if others:
        spans.append(Span(len(others), "c@{}", f"{label} below"))
        lines.append(("l", start, start + len(others) - 1))
    networks = [names.arch(arch).replace(" ", "\n") for arch in archs * len(targets) + others]  # columns are narrow
    return [spans, Underline(tuple(lines)), ["Conditions", *networks]]
