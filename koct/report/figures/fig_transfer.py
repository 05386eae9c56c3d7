"""What samples of another kind are worth on a sweep's test pairs, and what other conditions at the test cost."""

import math
import re
import textwrap

from matplotlib.lines import Line2D

from koct.base import FRESH
from koct.base.loglog import below_from
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing, inputs
from koct.report.figures.fig_benchmark import label_ends, panel
from koct.report.labels import SEPARATOR
from koct.report.markup import listed
from koct.report.product import Product
from koct.study.crossings import rounded_up
from koct.study.results import baselines, grouped

PRODUCT = Product(
    title="tested on other pairs",
    about="what samples of another kind [are worth](your-scans.md#another-dose-other-images), and what other "
    "conditions at the test cost",
    reads=("transfer.parquet",),
    when="transferred",
    takes=("metrics", "origins"),
    caption="""\
**Test error by what a network was trained on**, a column for each, on the same test pairs. Grey and black lines need no
sample.

Where networks were trained on samples of other kinds, there is a line of panels with the error against N. The numbers
below say how many samples of the first panel alone give the same error with the same seeds, by lines in logarithms
between its N; > and ≤ where the curves do not meet. Of a flat curve these numbers say little: the dashes are its seeds.

Where measurements are made under other conditions at the test, there is a line of panels with the error under each, at
the largest N. Crosses are networks that were trained under these conditions, with as many samples. The numbers below
are the error over that of the cross with the same seeds: what the change costs.""",
)
SIZE, ACROSS = (1.55, 1.55), 0.22  # inches of a panel, and between panels
BELOW, LINE = 28, 8.5  # points from a panel to the numbers below it, and from one line of them to the next
SMALL = {"fontsize": 7, "textcoords": "offset points", "annotation_clip": False}


def figure(transfer_path, metrics, origins):
    metrics, origins = inputs.of_study(metrics), origins or {}
    rows, names = inputs.rows(transfer_path, ("sweep", "tested_on", "arch", "N"))
    tests, lines = {}, []  # rows by the sweeps tested on and trained on
    for row in rows:
        tests.setdefault((row["tested_on"] or row["sweep"], row["sweep"]), []).append(row)
    for home, (sources, conditions) in homes(tests, names, origins).items():
        kinds = [source for source in sources if _trained(tests.get((home, source), []))]
        lines += [(home, kinds, [])] * (set(kinds) > {home}) + [(home, sources, conditions)] * (len(conditions) > 1)
    archs = {row["arch"]: names.arch(row["arch"]) for row in _trained(rows)}
    trained_on = {arch: {row["sweep"] for row in same} for (arch,), same in grouped(_trained(rows), "arch").items()}
    compared = sum(len(sweeps) > 1 for sweeps in trained_on.values())  # others have no numbers below
    below, side = (BELOW + LINE * (2 + compared)) / 72, 0.2 + 0.052 * max(13, *map(len, archs.values()))
    columns = max(len(sources) for _, sources, _ in lines)
    room = int((columns * (SIZE[0] + ACROSS) + side) * 72 / 4.8)  # letters
    tops = [textwrap.wrap(_tested_on(conditions or [home], names), room) for home, _, conditions in lines]
    above = 0.38 + 0.13 * max(map(len, tops))
    made, axes = drawing.panels(len(lines), columns, SIZE, side, side, above, below, ACROSS)
    against_samples, crosses, unnamed = {}, False, {}
    for line, (home, sources, conditions), top in zip(axes, lines, tops, strict=True):
        metric, numbers = CurveMetric(metrics[home]), {}
        for axis, source in zip(line, sources, strict=False):
            if conditions:
                N, numbers[axis] = _by_conditions(axis, tests, home, source, conditions, metric, names)
            else:
                N, numbers[axis] = "", _by_samples(axis, tests, home, source, metric, names)
                against_samples[axis] = source
            axis.set(yscale="log", ylabel=f"test {metric.label}")
            axis.set_title(_trained_on(source, home, origins, N), pad=4)
            drawing.label_powers(axis.yaxis)
        for axis in line[len(sources) :]:
            axis.set_axis_off()
        drawing.share_limits(dict(enumerate(numbers)))
        *before, last = numbers
        label_ends(last)
        named = {label for *_, label, _ in last.ends}
        named |= {archs[arch] for rows in numbers.values() for arch, texts in rows.items() if texts}
        ends = {label: colour for axis in before for *_, label, colour in axis.ends}
        unnamed |= {label: Line2D([], [], color=ends[label]) for label in ends if label not in named}
        title = "error over ×" if conditions else f"$N$ of {home} with the same error"
        crosses |= _write_below(numbers, title, archs, names) and bool(conditions)
        line[0].annotate("\n".join(top), (0, 1), (0, 20), xycoords="axes fraction", **{**SMALL, "fontsize": 8.5})
    drawing.label_once(axes)
    for axis, source in against_samples.items():
        axis.set_xlabel(f"training {names.counted(source)} $N$", labelpad=2)
    made.align_ylabels()
    marks = [words for words in drawing.handles(*axes.flat) if words in (drawing.AT_EDGE, drawing.UNFINISHED)]
    if unnamed:
        drawing.legend_below(made, unnamed)
    notes = ["×: trained under these conditions, on as many samples."] * crosses
    notes += [f"Hollow: {', or '.join(marks)}."] * bool(marks)
    drawing.note_below(made, " ".join(notes))
    return made


def homes(tests, names, origins):
    """Return {sweep: (those that networks were trained on, conditions)}, each with the sweep itself.

    Conditions are sweeps that networks are tested on whose labels begin as that of the sweep: the same images, measured
    otherwise. A sweep whose networks start from another's comes last among those that others are compared with.
    """
    sweeps = list(dict.fromkeys(source for _, source in tests))
    kinds = {sweep: names.problem(sweep, sweep).split(SEPARATOR)[0] for sweep in sweeps}
    targets = [sweep for sweep in sweeps if any(target == sweep != source for target, source in tests)]
    found = {}
    for kind in dict.fromkeys(kinds[target] for target in targets):
        conditions = [target for target in targets if kinds[target] == kind]
        alike = sorted((sweep for sweep in sweeps if kinds[sweep] == kind), key=lambda sweep: sweep in origins)
        home = next(sweep for sweep in alike if any((target, sweep) in tests for target in conditions))
        conditions = list(dict.fromkeys([home, *conditions]))
        others = [source for source in sweeps if any((target, source) in tests for target in conditions)]
        found[home] = [home, *(source for source in others if source not in conditions)], _ordered(conditions, names)
    return found


def _ordered(sweeps, names):
    """Return sweeps by the numbers that their words begin with, if all have one."""
    numbers = {sweep: re.match(r"[\d,.]*\d", words) for sweep, words in told_apart(sweeps, "", names)[1].items()}
    if not all(numbers.values()):
        return sweeps
    return sorted(sweeps, key=lambda sweep: float(numbers[sweep][0].replace(",", "")))


def told_apart(sweeps, home, names):
    """Return the words that the labels of all sweeps have, and {sweep: its others, or its name if they are no help}."""
    words = {sweep: names.problem(sweep, sweep).split(SEPARATOR) for sweep in sweeps}
    common = [word for word in words[sweeps[0]] if all(word in own for own in words.values())]
    rest = {sweep: SEPARATOR.join(word for word in own if word not in common) for sweep, own in words.items()}
    if len({*rest.values()} - {""}) < len(sweeps):
        rest = {sweep: _short(sweep, home) for sweep in sweeps}
    return SEPARATOR.join(common), rest


def _tested_on(sweeps, names):
    """Return what networks are tested on in words: the sweeps, and what their labels share."""
    return f"tested on {listed(sweeps)}: {told_apart(sweeps, '', names)[0]}"


def _short(sweep, home):
    """Return the name of a sweep, without that of another at its beginning."""
    return sweep.removeprefix(home).strip("-_. ") or sweep


def _trained_on(source, home, origins, N):
    """Return what networks were trained on in words, with the number of samples if it is given."""
    before = f"{_short(origins[source], home)}, then" if source in origins else "trained on"
    return " ".join(filter(None, (before, N and f"{N} of", _short(home if source in origins else source, home))))


def _by_samples(axis, tests, home, source, metric, names):
    """Draw errors on the test pairs of a sweep against N; return {arch: {x: what N samples are worth}}."""
    rows, free = _trained(tests[home, source]), baselines(tests[home, home])
    edged = {(row["sweep"], row["arch"], row["N"]): {**row, "edges": 1} for row in (*rows, *free) if row.get("edge")}
    panel(axis, rows, free, metric, names, edged)
    if source == home:
        return {}
    alone, end = _by_N(tests[home, home]), drawing.FRESH_AWAY * max(row["N"] for row in rows)
    return {
        arch: {end if N == FRESH else N: worth(alone[arch], same, metric) for N, same in curve.items()}
        for arch, curve in _by_N(rows).items()
        if arch in alone
    }


def worth(curve, rows, metric):
    """Return the N from which on a curve {N: rows} is below the error of some rows, for the same seeds, as a text."""
    sizes = sorted(N for N in curve if N != FRESH)
    errors = _same_seeds([rows, *(curve[N] for N in sizes)], metric)
    if not errors:
        return ""
    N = below_from(sizes, [math.log(alone / errors[0]) for alone in errors[1:]])
    if math.isinf(N):
        return f">{sizes[-1]:,}"
    return f"{rounded_up(N):,}" if sizes[0] < N else f"≤{sizes[0]:,}"


def _trained(rows):
    """Return the rows of networks that were trained, on fresh samples too."""
    return [row for row in rows if row["N"]]


def _by_N(rows):
    """Return {arch: {N: rows}} of what was trained."""
    archs = grouped(_trained(rows), "arch")
    return {arch: {N: cells for (N,), cells in grouped(own, "N").items()} for (arch,), own in archs.items()}


def _by_conditions(axis, tests, home, source, conditions, metric, names):
    """Draw errors at the largest N under every condition; return that N as a text, and {arch: {x: what it costs}}."""
    axis.ends, costs, sizes, free = [], {}, set(), {}

    def draw(arch, rows, look):
        """Draw a curve from {x: rows}."""
        points = {x: metric.mean(cells) for x, cells in rows.items()}
        axis.plot(points.keys(), points.values(), **look)
        axis.ends.append((*list(points.items())[-1], names.arch(arch), look["color"]))
        edged = [{**row, "N": x, "edges": 1} for x, cells in rows.items() for row in cells if row.get("edge")]
        marker = "o" if look["marker"] == "." else look["marker"]  # that of a baseline may have no inside
        drawing.mark_edges(axis, names, edged, lambda row: points[row["N"]], color=look["color"], marker=marker)

    for x, sweep in enumerate(conditions):
        for (arch,), rows in grouped(baselines(tests[sweep, sweep]), "arch").items():
            free.setdefault(arch, {})[x] = rows
    for arch, rows in free.items():
        draw(arch, rows, {**names.line(arch), "marker": "."})
    moved = [_by_N(tests.get((sweep, source), [])) for sweep in conditions]
    there = [_by_N(tests[sweep, sweep]) if source == home != sweep else {} for sweep in conditions]
    for arch in dict.fromkeys(arch for curves in moved for arch in curves):
        each = [set(curves[arch]) for curves in (*moved, *there) if arch in curves]
        N = max(set.intersection(*each) or each[0], key=lambda N: (N == FRESH, N))
        rows, others = (
            {x: curves[arch][N] for x, curves in enumerate(of) if N in curves.get(arch, ())} for of in (moved, there)
        )
        look = {"color": names.colour(arch), "marker": names.marker(arch)}
        draw(arch, rows, look)
        axis.plot(
            others.keys(), [metric.mean(cells) for cells in others.values()], "x", color=look["color"], markersize=5
        )
        costs[arch] = {x: _ratio(rows[x], cells, metric) for x, cells in others.items() if x in rows}
        sizes.add("fresh" if N == FRESH else f"{N:,}")
    words = told_apart(conditions, home, names)[1].values()
    axis.set_xticks(range(len(conditions)), [each.replace(" ", "\n") for each in words], fontsize=6.5)
    axis.set_xlim(-0.4, len(conditions) - 0.6)
    return sizes.pop() if len(sizes) == 1 else "", costs


def _ratio(rows, others, metric):
    """Return the mean error of rows over that of others, of the seeds that both have, as a text."""
    errors = _same_seeds([rows, others], metric)
    return f"{errors[0] / errors[1]:.2f}" if errors else ""


def _same_seeds(groups, metric):
    """Return the mean errors of some groups of rows, of the seeds that all have; none without such seeds."""
    shared = set.intersection(*({row["seed"] for row in rows} for rows in groups))
    return [metric.mean([row for row in rows if row["seed"] in shared]) for rows in groups] if shared else []


def _write_below(numbers, title, archs, names):
    """Write {axis: {arch: {x: text}}} below panels, and left of the first what they are; return whether there are any.

    `archs` has the labels of networks, in their order.
    """
    shown = [axis for axis, rows in numbers.items() if any(rows.values())]
    labels = {arch: archs[arch] for arch in archs if any(rows.get(arch) for rows in numbers.values())}
    for line, (arch, label) in enumerate([("", title), *labels.items()] if shown else []):
        look = {"color": names.colour(arch) if arch else "black", "va": "top", **SMALL}
        down = -BELOW - LINE * line
        shown[0].annotate(label, (0, 0), (-8, down), xycoords="axes fraction", ha="right", **look)
        for axis in shown:
            place = {"xycoords": axis.get_xaxis_transform(), "ha": "center"}
            look["fontsize"] = min(SMALL["fontsize"], 30 / len(axis.get_xticks()))
            for x, text in numbers[axis].get(arch, {}).items():
                axis.annotate(text, (x, 0), (0, down), **place, **look)
    return bool(shown)
