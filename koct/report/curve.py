"""Report the learning curve that pairs predict: as text, as JSON or as a figure."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from koct.risk.curve import FARTHEST, Curve, Required
from koct.risk.spectral import Prediction


def as_json(curve: Curve, points: Sequence[Prediction], target: float | None) -> str:
    shown = ("N", "lam", "error", "low", "high", "trusted", "reason")
    result: dict[str, Any] = {"pairs": curve.theory.M, "outputs": curve.theory.outputs}
    result["points"] = [{name: getattr(point, name) for name in shown} for point in points]
    if target is not None:
        required = curve.required(target)
        result |= {"target": target, **required._asdict(), "reachable": required.reachable}
    return json.dumps(result, indent=1, allow_nan=False)


def as_text(curve: Curve, points: Sequence[Prediction], target: float | None) -> str:
    rows = [["N", "λ", "error", "90 % interval", ""]]
    for point in points:
        interval = f"{point.low:.3g} to {point.high:.3g}"
        rows.append([f"{point.N:,}", f"{point.lam:.2g}", f"{point.error:.3g}", interval, point.reason])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines[:1] + [line for line in lines if line])))
    lines += ["", f"From {curve.theory.M:,} pairs with {curve.theory.outputs:,} outputs. {_more(curve)}"]
    if target is not None:
        lines.append(_sentence(curve.required(target), target, curve.theory.M))
    return "\n".join(lines) + "\n"


def _more(curve: Curve) -> str:
    """What twice the pairs would bring."""
    here = next(point for point in curve.octaves if point.N == curve.theory.M)
    there = next(point for point in curve.octaves if point.N == 2 * curve.theory.M)
    return (
        f"Training on all of them should give {here.error:.3g}; twice as many about {there.error:.3g}, "
        f"{1 - there.error / here.error:.0%} less.".replace("%", " %")
    )


def _sentence(required: Required, target: float, pairs: int) -> str:
    if required.n is None:
        low = f", {required.n_low:,} at best" if required.n_low else ""
        return f"An error of {target:g} is not reached with up to {FARTHEST * pairs:,} samples{low}."
    high = f"{required.n_high:,}" if required.n_high else "more than can be told"
    beyond = f"; beyond the {pairs:,} pairs at hand the curve is continued as a line" if required.n > pairs else ""
    return f"An error of {target:g} takes about {required.n:,} samples (between {required.n_low:,} and {high}){beyond}."


def plot(curve: Curve, target: float | None, path: str | os.PathLike[str]) -> None:
    """The curve, its interval, and the target; dashed beyond the pairs at hand."""
    from koct.report import figures

    points = curve.octaves
    inside = [point for point in points if point.N <= curve.theory.M]
    outside = [point for point in points if point.N >= curve.theory.M]
    with figures.styled():
        figure, axes = figures.panels(1, 1, size=(3.4, 2.5), left=0.8, right=0.5, legend=0)
        axis = axes[0, 0]
        axis.fill_between(
            [point.N for point in points],
            [point.low for point in points],
            [point.high for point in points],
            color="C0",
            alpha=0.15,
            linewidth=0,
        )
        axis.plot([point.N for point in inside], [point.error for point in inside], "o-", color="C0", markersize=3)
        axis.plot([point.N for point in outside], [point.error for point in outside], "--", color="C0")
        flagged = [point for point in inside if not point.trusted]
        axis.plot([point.N for point in flagged], [point.error for point in flagged], "o", color="C3", markersize=4)
        if target is not None:
            axis.axhline(target, color="0.3", linestyle=":", linewidth=1)
            axis.text(1, target, " target", color="0.3", va="center", transform=axis.get_yaxis_transform())
            required = curve.required(target)
            if required.reachable:
                axis.plot([required.n], [target], "*", color="C0", markersize=8, zorder=4)
        axis.axvline(curve.theory.M, color="0.7", linewidth=0.7)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("training samples $N$")
        axis.set_ylabel("mean squared error")
        figures.save(figure, [path])
