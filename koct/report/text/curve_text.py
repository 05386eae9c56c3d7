"""Report the learning curve that pairs predict: as text, as JSON or as a figure."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from koct.prediction.curve import FARTHEST, Curve, Required
from koct.prediction.prediction import Prediction

BLUE, VERMILION = "#0072B2", "#D55E00"  # told apart by the colour-blind too (Okabe and Ito)


def as_json(curve: Curve, points: Sequence[Prediction], target: float | None) -> str:
    shown = ("N", "lam", "error", "low", "high", "trusted", "reason")
    result: dict[str, Any] = {"pairs": curve.theory.M, "outputs": curve.theory.outputs}
    result["points"] = [{name: getattr(point, name) for name in shown} for point in points]
    if target is not None:
        required = curve.required(target)
        result |= {"target": target, **required._asdict(), "reachable": required.reachable}
        result["trusted"] = not required.reason
    return json.dumps(result, indent=1, allow_nan=False)


def as_text(curve: Curve, points: Sequence[Prediction], target: float | None) -> str:
    """A table with footnotes, and a sentence for all pairs, for twice as many and for the target."""
    rows, notes = [["N", "λ", "error", "90 % interval", ""]], _notes(points)
    for point in points:
        interval = f"{_digits(point.low)} to {_digits(point.high)}"
        marks = "".join(f"[{notes.index(note) + 1}]" for note in _reasons(point))
        rows.append([f"{point.N:,}", f"{point.lam:.3g}", _digits(point.error), interval, marks])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    lines += [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    lines += [
        "",
        f"Mean squared errors on new samples, predicted from {_count(curve.theory.M, 'pair')} with "
        f"{_count(curve.theory.outputs, 'output')}. The interval is for a single training set.",
        _more(curve),
    ]
    if target is not None:
        lines.append(_sentence(curve, curve.required(target), target))
    return "\n".join(lines) + "\n"


def _reasons(point: Prediction) -> list[str]:
    """Why a point is flagged, in words that fit any N."""
    return [re.sub(r"^N = \d+ is ", "", reason) for reason in point.reason.split("; ") if reason]


def _notes(points: Sequence[Prediction]) -> list[str]:
    return list(dict.fromkeys(reason for point in points for reason in _reasons(point)))


def _digits(value: float) -> str:
    """Three digits, zeros among them."""
    return f"{value:#.3g}".rstrip(".")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _more(curve: Curve) -> str:
    """What all pairs give, and what twice as many would."""
    at = {point.N: point for point in curve.octaves}
    here, there = at[curve.theory.M], at[2 * curve.theory.M]
    gain = 1 - there.error / here.error if here.error > 0 else 0.0
    less = f"{100 * gain:.0f} % less" if gain >= 0.005 else "hardly less"
    return (
        f"Training on all of them should give {_digits(here.error)}; "
        f"on twice as many, about {_digits(there.error)}, {less}."
    )


def _sentence(curve: Curve, required: Required, target: float) -> str:
    """How many samples the target takes, and why one should not rely on it."""
    pairs, first, last = curve.theory.M, curve.octaves[0].N, curve.octaves[-1].N
    n, n_low, n_high, reason = required
    if n is None:
        best = f"; the lower end of the interval gets there with {n_low:,}" if n_low else ""
        return f"An error of {target:g} is not reached with up to {last:,} samples, {FARTHEST} times the pairs{best}."
    about = f"{first:,} samples or fewer" if n == first else f"about {n:,} samples"
    text = f"An error of {target:g} takes {about} (90 % interval: {n_low:,} to {n_high or 0:,})."
    if n_high is None:
        text = f"An error of {target:g} may take {about}, {n_low:,} at least, or never be reached."
    if n > pairs:
        return f"{text}\nThis is an extrapolation: beyond the {pairs:,} pairs, the curve is continued as a line."
    return f"{text}\nDo not rely on it: {reason}." if reason else text


def plot(curve: Curve, target: float | None, path: str | os.PathLike[str]) -> None:
    """The curve, its interval and the target, as wide as a column; dashed beyond the pairs at hand."""
    from koct.report import drawing

    points, pairs = curve.octaves, curve.theory.M
    inside = points[: [point.N for point in points].index(pairs) + 1]
    notes = _notes(inside)
    below = 0.24 + 0.16 * len(notes)  # inches for the legend
    with drawing.styled():
        figure, axes = drawing.panels(1, 1, size=(2.65, 1.9), left=0.7, above=0.25, below=0.42, legend=below)
        axis = axes[0, 0]
        _line(axis, inside, "o-", color=BLUE, markersize=3, label="predicted")
        _line(axis, points[len(inside) - 1 :], "--", color=BLUE, label="extrapolated")
        low, high = ([getattr(point, name) for point in points] for name in ("low", "high"))
        axis.fill_between(
            [point.N for point in points], low, high, color=BLUE, alpha=0.18, linewidth=0, label="90 % interval"
        )
        bottom = below / figure.get_figheight()
        figure.legend(loc="upper center", bbox_to_anchor=(0.5, bottom + 0.02), ncols=3, frameon=False, columnspacing=1)
        flags = []
        for note, marker in zip(notes, "sDv^P", strict=False):
            flagged = [point for point in inside if note in _reasons(point)]
            look = {"color": VERMILION, "markersize": 5, "markerfacecolor": "none", "zorder": 3}
            flags += _line(axis, flagged, marker, **look, label=f"not to be trusted: {note}")
        figure.legend(handles=flags, loc="lower center", frameon=False, fontsize=6.5, handletextpad=0.2)
        axis.axvline(pairs, color="0.6", linewidth=0.7, zorder=1)
        axis.annotate(
            _count(pairs, "pair"), (pairs, 1), (0, 2), axis.get_xaxis_transform(), "offset points", ha="center"
        )
        axis.set_xscale("log")
        axis.set_yscale("log")
        if target is not None:
            _mark(axis, curve.required(target), target)
        _label_axes(axis)
        drawing.save(figure, [path])


def _line(axis: Any, points: Sequence[Prediction], style: str, **look: Any) -> list[Any]:
    return axis.plot([point.N for point in points], [point.error for point in points], style, **look)


def _mark(axis: Any, required: Required, target: float) -> None:
    """The target as a line, and a star where the curve gets there; their names where the curve does not run."""
    from matplotlib.patheffects import withStroke

    axis.axhline(target, color="0.3", linestyle=":", linewidth=1, zorder=1)
    low, high = axis.get_xlim()
    right = required.n is not None and required.n**2 > low * high
    place, name = axis.get_yaxis_transform(), f"target {target:g}"
    if right:
        axis.annotate(name, (0, target), (3, -2), place, "offset points", ha="left", va="top")
    else:
        axis.annotate(name, (1, target), (-3, 2), place, "offset points", ha="right", va="bottom")
    if required.n is not None:
        axis.plot([required.n], [target], "*", color=BLUE, markersize=9, zorder=4)
        place = {"xytext": (-4, -3), "ha": "right", "va": "top"} if right else {"xytext": (4, 3), "ha": "left"}
        text = f"$N$ ≈ {required.n:,}"
        label = axis.annotate(text, (required.n, target), textcoords="offset points", color=BLUE, **place)
        label.set_path_effects([withStroke(linewidth=2, foreground="white")])  # legible across other lines


def _label_axes(axis: Any) -> None:
    """Plain numbers, and enough of them where an axis spans less than a decade."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    low, high = axis.get_ylim()
    subs = (1, 2, 3, 5) if high < 50 * low else (1,)
    axis.yaxis.set_major_locator(MaxNLocator(4) if high < 3 * low else LogLocator(subs=subs))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for side in (axis.xaxis, axis.yaxis):
        side.set_minor_formatter(NullFormatter())
    axis.set_xlabel("training samples $N$")
    axis.set_ylabel("mean squared error")
