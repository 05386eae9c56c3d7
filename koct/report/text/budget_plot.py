"""Plot the budget planner's answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.forecast.columns import printable
from koct.forecast.scores import Score
from koct.report import drawing
from koct.report.labels import Names
from koct.report.text import words
from koct.report.text.budget_text import Plan, by_target

SIZE = (3.4, 2.5)  # of the panel, in inches
LETTER = 0.075  # width of a letter, in inches
LINE = 0.14 / SIZE[1]  # from one label to the next, as a share of the panel's height
LABEL_BOX = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}  # behind names
LONGEST_LABEL = 5  # letters of a name that is written beside its curve; a longer one goes into a legend
LONGEST_NAME = 40  # letters that are shown of a name
MOST_RUNS = 100  # marks at each N


def plot(
    result: Sequence[Plan],
    path: str | PathLike[str],
    metric: str = "error",
    score: Score | None = None,
    assurance: float | None = None,
) -> None:
    """Plot points, laws, intervals and targets, with all architectures in one panel; a star is where one is reached.

    Errors have a logarithmic axis, where a run without error has no place, and scores a linear one.
    """

    def height(errors: ArrayLike) -> NDArray[np.float64]:
        values = np.asarray(errors, dtype=float)
        return np.where(values > 0, values, np.nan) if score is None else score.score(values)

    targets = [group[0].answer.target for group in by_target(result)]
    texts = [words.target(target, score) for target in targets] if len(targets) > 1 else ["target"]
    archs = {plan.arch: _literal(plan.arch) for plan in result}
    names, curves, seen, firsts = Names(), {}, [], []
    with drawing.styled():
        figure, axis = _panel(list(archs.values()), texts)
        axis.set_xscale("log")
        axis.set_yscale("log" if score is None else "linear")
        for arch, label in archs.items():
            own = [plan for plan in result if plan.arch == arch]
            forecast, colour = own[0].forecast, names.colour(arch)
            pilot = forecast.pilot
            last = max(4 * pilot.N[-1], *(1.5 * (plan.answer.n or 0) for plan in own))
            N = np.geomspace(pilot.N[0], last, 200)
            middle, low, high = (height(errors) for errors in forecast.predict(N))
            mean, runs = height(pilot.mean), height(pilot.errors[:MOST_RUNS])
            axis.plot(pilot.N, mean, names.marker(arch), color=colour)
            axis.plot(pilot.N, runs.T, "_", color=colour, alpha=0.5, markersize=5, markeredgewidth=0.7)
            curves[label] = axis.plot(N, middle, color=colour)[0]
            axis.fill_between(N, low, high, color=colour, alpha=0.15, linewidth=0)
            for target in (plan.answer.target for plan in own if plan.answer.reachable):
                reached = np.quantile(forecast.samples(target, assurance), 0.5, method="inverted_cdf")
                axis.plot([reached], [height(target)], "*", color=colour, markersize=8, zorder=4)
            seen += [runs.ravel(), mean, middle]
            firsts.append(N[0])
        first, last = min(firsts), max(curve.get_xdata()[-1] for curve in curves.values())
        axis.set_xlim(first / 1.2, last * (last / first) ** 0.12)  # with room for a name
        axis.set_ylim(*_limits(np.concatenate([*seen, height(targets)]), score is None))
        _label_axes(axis)
        axis.set_ylabel(_literal(metric if score is None else score.label))
        _label_targets(axis, height(targets), texts)
        _label_curves(axis, curves)
        drawing.save(figure, [path])


def _panel(names: Sequence[str], targets: Sequence[str]) -> tuple[Any, Any]:
    """A figure and its panel, with room for the targets on its right and for a legend, if there is one, below."""
    right = max(0.5, 0.1 + LETTER * max(map(len, targets)))
    lines = math.ceil(len(names) / _in_a_line(names)) if _in_legend(names) else 0
    figure, axes = drawing.panels(1, 1, size=SIZE, left=0.72, right=right, legend=0.16 * lines + 0.14 * bool(lines))
    return figure, axes[0, 0]


def _in_legend(names: Sequence[str]) -> bool:
    return max(map(len, names)) > LONGEST_LABEL or len(names) * LINE > 1


def _in_a_line(names: Sequence[str]) -> int:
    """How many names a line of the legend has."""
    return max(1, min(len(names), int(SIZE[0] / (0.45 + LETTER * max(map(len, names))))))


def _label_curves(axis: Any, curves: Mapping[str, Any]) -> None:
    """The names of the architectures: beside the ends of their curves, or in a legend if they are long or many."""
    names = list(curves)
    if _in_legend(names):
        look = {"ncols": _in_a_line(names), "loc": "lower center", "frameon": False}
        axis.figure.legend(list(curves.values()), names, **look)
        return
    ends = [(curve.get_xdata()[-1], curve.get_ydata()[-1]) for curve in curves.values()]
    x, y = axis.transAxes.inverted().transform(axis.transData.transform(ends)).T
    for name, place in zip(names, zip(x, _apart(y), strict=True), strict=True):
        look = {"color": curves[name].get_color(), "va": "center", "bbox": LABEL_BOX}
        axis.text(*place, f" {name}", transform=axis.transAxes, **look)


def _label_targets(axis: Any, heights: NDArray[np.float64], texts: Sequence[str]) -> None:
    """A line for every target, and its value on the right; where lines are near, the labels make room."""
    for height in heights:
        axis.axhline(height, color="0.3", linestyle=":", linewidth=1)
    points = np.column_stack([np.ones(len(heights)), heights])
    y = axis.transAxes.inverted().transform(axis.transData.transform(points))[:, 1]
    shown, places = list(range(len(y))), y
    if len(y) * LINE <= 1:
        places = _apart(y)
    else:  # no room for all
        first, *rest = np.argsort(y).tolist()
        shown = [first]
        for i in rest:
            if y[i] - y[shown[-1]] >= LINE:
                shown.append(i)
    for i in shown:
        axis.text(1, places[i], f" {texts[i]}", color="0.3", va="center", transform=axis.transAxes)


def _apart(places: ArrayLike) -> NDArray[np.float64]:
    """Places of labels, shape (n,), that are a line apart and as near to the given ones as that allows."""
    places = np.asarray(places, dtype=float)
    order = np.argsort(places, kind="stable")
    steps = LINE * np.arange(len(places))
    blocks: list[list[float]] = []  # without the steps, the places must not fall: neighbours that do are averaged
    for value in places[order] - steps:
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    found = np.concatenate([np.full(len(block), np.mean(block)) for block in blocks]) + steps
    result = np.empty(len(places))
    result[order] = found
    return result


def _label_axes(axis: Any) -> None:
    """Plain numbers, and as many as there is room for."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_xlim()
    if high < min(100 * low, 1e6):
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1, 3)))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    low, high = axis.get_ylim()
    if axis.get_yscale() == "linear":
        axis.ticklabel_format(axis="y", useOffset=high - low < 1e-4 * abs(high))
    elif high < 50 * low:
        subs = (1, 2, 3, 5) if high < 20 * low else (1, 2, 5)
        axis.yaxis.set_major_locator(MaxNLocator(4) if high < 3 * low else LogLocator(subs=subs))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("training samples $N$")


def _limits(values: NDArray[np.float64], logarithmic: bool) -> tuple[float, float]:
    """The ends of an axis that shows the values; an interval may leave it."""
    values = values[np.isfinite(values)]
    values = np.log(values) if logarithmic else values
    low, high = values.min(), values.max()
    margin = max(0.08 * (high - low), 0.05 if logarithmic else 1e-9 * max(1.0, abs(high)))
    ends = low - margin, high + margin
    return tuple(np.exp(ends)) if logarithmic else ends


def _literal(name: str) -> str:
    """A name as text of a figure, where dollars would enclose a formula."""
    name = printable(name)
    name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
    return name.replace("$", r"\$")
