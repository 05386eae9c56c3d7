"""Figures of the verbs for people: the forecasts of `koct budget`, the curves of `koct curve` and `koct know`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.base.messages import counted, cut, printable
from koct.forecast.scores import Score
from koct.metrics.curve_metric import CurveMetric
from koct.prediction.curve import Curve
from koct.prediction.prediction import Prediction
from koct.report import drawing, inputs
from koct.report.labels import Names
from koct.report.printed import PAIR
from koct.report.text import words
from koct.report.text.budget_text import Plan, by_target
from koct.study.knowing import Crossing
from koct.study.results import grouped, trained

OTHER = {"linestyle": "--", "markerfacecolor": "white"}  # curves of the second of two files
LETTER = 0.075  # width of a letter, in inches
MOST_RUNS = 100  # marks at each N
BLUE, VERMILION = "#0072B2", "#D55E00"  # told apart by the colour-blind too (Okabe and Ito)


def plot_budget(
    result: Sequence[Plan], path: str, metric: str, score: Score | None, assurance: float | None, unit: str
) -> None:
    """Plot points, laws, intervals and targets, with all architectures in one panel; a star is where one is reached.

    Errors have a logarithmic axis, where a run without error has no place, and scores a linear one.
    """

    def height(errors: ArrayLike) -> NDArray[np.float64]:
        values = np.asarray(errors, dtype=float)
        return np.where(values > 0, values, np.nan) if score is None else score.score(values)

    targets = [group[0].answer.target for group in by_target(result)]
    texts = [words.target(target, score) for target in targets] if len(targets) > 1 else ["target"]
    names, handles, shown, ends = Names(), {}, [height(targets)], []
    with drawing.styled():
        right = max(0.5, 0.1 + LETTER * max(map(len, texts)))
        figure, axes = drawing.panels(1, 1, size=(3.4, 2.5), left=0.72, right=right)
        axis = axes[0, 0]
        axis.set(xscale="log", yscale="log" if score is None else "linear")
        for arch in dict.fromkeys(plan.arch for plan in result):
            own = [plan for plan in result if plan.arch == arch]
            forecast, colour = own[0].forecast, names.colour(arch)
            pilot = forecast.pilot
            N = np.geomspace(pilot.N[0], max(4 * pilot.N[-1], *(1.5 * (plan.answer.n or 0) for plan in own)), 200)
            middle, low, high = (height(errors) for errors in forecast.predict(N))
            mean, runs = height(pilot.mean), height(pilot.errors[:MOST_RUNS])
            axis.plot(pilot.N, mean, names.marker(arch), color=colour)
            axis.plot(pilot.N, runs.T, "_", color=colour, alpha=0.5, markersize=5, markeredgewidth=0.7)
            handles[_literal(arch)] = axis.plot(N, middle, color=colour)[0]
            axis.fill_between(N, low, high, color=colour, alpha=0.15, linewidth=0)
            for target in (plan.answer.target for plan in own if plan.answer.reachable):
                reached = np.quantile(forecast.samples(target, assurance), 0.5, method="inverted_cdf")
                axis.plot([reached], [height(target)], "*", color=colour, markersize=8, zorder=4)
            shown += [runs.ravel(), mean, middle]
            ends += [N[0], N[-1]]
        axis.set_xlim(min(ends) / 1.2, max(ends) * 1.2)
        axis.set_ylim(*_limits(np.concatenate(shown), score is None))
        for level, text in zip(height(targets), texts, strict=True):
            axis.axhline(level, color="0.3", linestyle=":", linewidth=1)
            axis.text(1, level, f" {text}", color="0.3", va="center", transform=axis.get_yaxis_transform())
        _label_axes(axis, _literal(metric if score is None else score.label), unit)
        drawing.legend_below(figure, handles)
        drawing.save(figure, [path])


def plot_compared(paths: Sequence[str], out: str) -> None:
    """Plot the curves of two cells.parquet over one another: lines of the first, dashes of the second.

    A panel is a sweep that both have; if there is none, it is a problem with its conditions and its size.
    """
    tables = [inputs.rows(path, ("sweep", "problem", "H", "arch", "N", "seed")) for path in paths]
    both = set.intersection(*({row["sweep"] for row in rows} for rows, _ in tables))
    first, places = {row["arch"] for row in tables[0][0]}, dict[tuple[str, int | None, str], list[Any]]()
    for number, (rows, names) in enumerate(tables):
        for (sweep, arch), cells in grouped(trained(rows), "sweep", "arch").items():
            metric = names.sweeps.get(sweep, {}).get("metric") or "mse"
            if sweep in both or not both:
                label, H = names.problem(sweep, cells[0]["problem"]), cells[0]["H"]
                place = (sweep, None, metric) if both else (label, H, metric)
                places.setdefault(place, []).append((number, arch, {**cells[0], "metric": metric}, cells))
    with drawing.styled():
        columns = min(len(places), drawing.MOST_PANELS)
        figure, axes = drawing.panels(-(-len(places) // columns), columns)
        for axis in axes.ravel()[len(places) :]:
            axis.set_axis_off()
        for axis, ((title, H, _), curves) in zip(axes.ravel(), places.items(), strict=False):
            for number, arch, about, cells in curves:
                names, metric = tables[number][1], CurveMetric(about["metric"])
                points = {N: metric.mean(same) for (N,), same in sorted(grouped(cells, "N").items())}
                look = {"color": names.colour(arch), "marker": names.marker(arch)}
                look |= {} if number and arch in first else {"label": _literal(names.arch(arch))}
                axis.plot(list(points), list(points.values()), **look | (OTHER if number else {}))
            sizes = sorted({row["N"] for *_, cells in curves for row in cells})
            drawing.finish_panel(axis, sizes, curves[0][2], tables[curves[0][0]][1])
            axis.set_title(_literal(title) + (f", $H = {H}$" if H else ""))
        drawing.label_once(axes)
        shown = drawing.handles(*axes.ravel()[: len(places)])
        for path, look in zip(paths, ({}, OTHER), strict=True):
            shown[_literal(_folder(path))] = axis.plot([], [], **{"color": "0.4", "marker": "o"} | look)[0]
        drawing.legend_below(figure, shown, 0.08)
        drawing.save(figure, [out])


def _folder(path: str) -> str:
    """Return what tells a results file from another: its folder, or else its name."""
    return os.path.dirname(path) or os.path.basename(path)


def plot_curve(curve: Curve, target: float | None, path: str) -> None:
    """Plot the curve, its interval and the target, as wide as a column; dashed beyond the pairs at hand."""
    points, pairs = curve.octaves, curve.theory.M
    inside = points[: [point.N for point in points].index(pairs) + 1]
    with _column(pairs, path) as axis:
        _line(axis, inside, "o-", color=BLUE, markersize=3, label="predicted")
        _line(axis, points[len(inside) - 1 :], "--", color=BLUE, label="extrapolated")
        _band(axis, points, color=BLUE, label="90 % interval")
        if flagged := [point for point in inside if not point.trusted]:
            look = {"color": VERMILION, "markersize": 5, "markerfacecolor": "none", "zorder": 3}
            _line(axis, flagged, "s", **look, label="not to be trusted")
        if target is not None:
            axis.axhline(target, color="0.3", linestyle=":", linewidth=1, zorder=1, label=f"target {target:g}")
            if (n := curve.required(target).n) is not None:
                axis.plot([n], [target], "*", color=BLUE, markersize=9, zorder=4, label=f"$N$ ≈ {n:,}")


def plot_crossing(crossing: Crossing, pairs: int, path: str) -> None:
    """Plot the curves of a weight per measurement and of a dense matrix, and where they cross."""
    names, curves = Names(), {"weight per measurement": crossing.weights, "dense matrix": crossing.dense}
    with _column(pairs, path) as axis:
        for (label, points), arch in zip(curves.items(), PAIR, strict=True):
            _line(axis, points, "-", color=names.colour(arch), label=label)
            _band(axis, points, color=names.colour(arch))
        if crossing.N is not None:
            at = min(crossing.weights, key=lambda point: abs(point.N - (crossing.N or 0)))
            look = {"color": "0.2", "markersize": 9, "zorder": 4, "label": f"$N$ ≈ {crossing.N:,}"}
            axis.plot([crossing.N], [at.error], "*", **look)


@contextlib.contextmanager
def _column(pairs: int, path: str) -> Iterator[Any]:
    """The axes of a figure as wide as a column, with a line at the pairs at hand; it is written in the end."""
    with drawing.styled():
        figure, axes = drawing.panels(1, 1, size=(2.65, 1.9), left=0.7, above=0.25, below=0.42)
        axis = axes[0, 0]
        axis.set(xscale="log", yscale="log")
        yield axis
        axis.axvline(pairs, color="0.6", linewidth=0.7, zorder=1)
        axis.text(pairs, 1.02, counted(pairs, "pair"), ha="center", transform=axis.get_xaxis_transform())
        _label_axes(axis, "mean squared error")
        drawing.legend_below(figure, drawing.handles(axis))
        drawing.save(figure, [path])


def _band(axis: Any, points: Sequence[Prediction], **look: Any) -> None:
    N, low, high = ([getattr(point, name) for point in points] for name in ("N", "low", "high"))
    axis.fill_between(N, low, high, alpha=0.18, linewidth=0, **look)


def _line(axis: Any, points: Sequence[Prediction], style: str, **look: Any) -> None:
    axis.plot([point.N for point in points], [point.error for point in points], style, **look)


def _label_axes(axis: Any, label: str, unit: str = "samples") -> None:
    """Plain numbers, and enough of them where an axis spans less than a decade or two."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_xlim()
    if high < min(100 * low, 1e6):
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1, 3)))
    if high < 1e6:
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    low, high = axis.get_ylim()
    if axis.get_yscale() == "linear":
        axis.ticklabel_format(axis="y", useOffset=high - low < 1e-4 * abs(high))
    elif high < 50 * low:
        axis.yaxis.set_major_locator(MaxNLocator(4) if high < 3 * low else LogLocator(subs=(1, 2, 3, 5)))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for side in (axis.xaxis, axis.yaxis):
        side.set_minor_formatter(NullFormatter())
    axis.set(xlabel=f"training {unit} $N$", ylabel=label)


def _limits(values: NDArray[np.float64], logarithmic: bool) -> tuple[float, float]:
    """Return the ends of an axis that shows the values; an interval may leave it."""
    values = values[np.isfinite(values)]
    values = np.log(values) if logarithmic else values
    low, high = values.min(), values.max()
    margin = max(0.08 * (high - low), 0.05 if logarithmic else 1e-9 * max(1.0, abs(high)))
    ends = low - margin, high + margin
    return tuple(np.exp(ends)) if logarithmic else ends


def _literal(name: str) -> str:
    """Return a name as text of a figure, where dollars would enclose a formula."""
    return cut(printable(name)).replace("$", r"\$")
