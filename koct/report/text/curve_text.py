"""Report the learning curve that pairs predict: as text or as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from koct.base.messages import counted
from koct.prediction.curve import FARTHEST, Curve
from koct.prediction.prediction import Prediction
from koct.report.text import words


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
    """Return a table with footnotes, and a sentence for all pairs, for twice as many and for the target."""
    rows = [["N", "λ", "error", "90 % interval", ""]]
    notes = list(dict.fromkeys(note for point in points for note in _reasons(point)))
    for point in points:
        interval = f"{_digits(point.low)} to {_digits(point.high)}"
        marks = "".join(f"[{notes.index(note) + 1}]" for note in _reasons(point))
        rows.append([f"{point.N:,}", f"{point.lam:.3g}", _digits(point.error), interval, marks])
    lines = [*words.table(rows), *(f"[{number}] {note}" for number, note in enumerate(notes, 1))]
    lines += [
        "",
        f"Mean squared errors on new samples, predicted from {counted(curve.theory.M, 'pair')} with "
        f"{counted(curve.theory.outputs, 'output')}. The interval is for a single training set.",
        _more(curve),
    ]
    if target is not None:
        lines.append(_sentence(curve, target))
    return "\n".join(lines) + "\n"


def _reasons(point: Prediction) -> list[str]:
    """Return why a point is flagged, in words that fit any N."""
    return [re.sub(r"^N = \d+ is ", "", reason) for reason in point.reason.split("; ") if reason]


def _digits(value: float) -> str:
    """Three digits, zeros among them."""
    return f"{value:#.3g}".rstrip(".")


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


def _sentence(curve: Curve, target: float) -> str:
    """How many samples the target takes, and why one should not rely on it."""
    pairs, first, last = curve.theory.M, curve.octaves[0].N, curve.octaves[-1].N
    n, n_low, n_high, reason = curve.required(target)
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
