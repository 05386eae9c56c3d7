"""Report what a known operator explains of pairs, and what would repair it: as text, as JSON, and as a figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike

from koct.report.text import words
from koct.study.knowing import Crossing, Repair

LITTLE = 0.05  # of the error: what removes less is no repair
HALF = 0.5  # of what the best repair does is enough to be named


def as_json(pairs: int, power: float, repairs: Sequence[Repair], crossing: Crossing) -> str:
    """`power` is the mean square of y."""
    curves = [
        {"N": weights.N, "weights": weights.error, "dense": dense.error}
        for weights, dense in zip(crossing.weights, crossing.dense, strict=True)
    ]
    places = {key: getattr(crossing, key) for key in ("N", "N_low", "N_high", "upto")}
    tried = [{**repair._asdict(), "floor": repair.floor} for repair in repairs]
    result = {"pairs": pairs, "mean_square": power, "repairs": tried, "crossing": places, "curves": curves}
    return json.dumps(result, indent=1, allow_nan=False)


def as_text(pairs: int, power: float, repairs: Sequence[Repair], crossing: Crossing) -> str:
    rows = [["repair", "learned", "error", "removed", "floor", ""]]
    for repair in repairs:
        found = ", ".join(f"{key} {value:.3g}" for key, value in repair.found.items())
        removed = "" if repair is repairs[0] else f"{100 * _removed(repair, repairs):.0f} %"
        rows.append(
            [repair.name, f"{repair.learned:,}", words.number(repair.error), removed, words.number(repair.floor), found]
        )
    lines = words.table(rows, left=1)
    lines += [
        "",
        f"Mean squared errors on pairs that no fit has seen: two thirds of {pairs:,} are fitted and the others tested, "
        "in turns.",
        "Floor: what no values of what is learned can repair.",
        f"The operator as it is explains {100 * max(0.0, 1 - repairs[0].error / power):.3g} % of the mean square of y.",
        _advice(repairs),
        _pays(crossing),
    ]
    return "\n".join(lines) + "\n"


def _removed(repair: Repair, repairs: Sequence[Repair]) -> float:
    """The share of the error that a repair removes."""
    return 1 - repair.error / repairs[0].error if repairs[0].error > 0 else 0.0


def _advice(repairs: Sequence[Repair]) -> str:
    """Name the repair that learns least of those that do half of what the best does, and the best if that does more."""
    best = min(repairs, key=lambda repair: repair.error)
    if _removed(best, repairs) < LITTLE:
        return f"No repair in front of it removes more than {100 * LITTLE:.0f} % of its error."
    enough = [repair for repair in repairs if _removed(repair, repairs) >= HALF * _removed(best, repairs)]
    first = min(enough, key=lambda repair: repair.learned)
    values = f" ({', '.join(f'{key} {value:.3g}' for key, value in first.found.items())})" if first.found else ""
    name = first.name[0].upper() + first.name[1:]
    text = f"{name}{values} would repair {_percent(_removed(first, repairs))} of its error"
    left = 1 - best.error / first.error
    return f"{text}; {best.name} would repair {_percent(left)} of the rest." if left >= HALF else f"{text}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _pays(crossing: Crossing) -> str:
    if crossing.N is None:
        return (
            "Learning everything, by a dense matrix, is not predicted to be better than a weight per measurement up to "
            f"{crossing.upto:,} pairs."
        )
    ends = f"{crossing.N_low or crossing.weights[0].N:,} to {crossing.N_high:,}" if crossing.N_high else None
    interval = f"90 % interval: {ends}" if ends else f"{crossing.N_low:,} at least, or never"
    return (
        f"Learning everything, by a dense matrix, is predicted to pay from about {crossing.N:,} pairs on ({interval})."
    )


def plot(crossing: Crossing, pairs: int, path: str | PathLike[str]) -> None:
    """Plot both curves with their intervals, and where they cross."""
    from koct.report import drawing
    from koct.report.labels import Names
    from koct.report.printed import PAIR
    from koct.report.text.plots import _label_axes

    names, curves = Names(), {"weight per measurement": crossing.weights, "dense matrix": crossing.dense}
    with drawing.styled():
        figure, axes = drawing.panels(1, 1, size=(2.65, 1.9), left=0.7, above=0.25, below=0.42, legend=0)
        axis, handles = axes[0, 0], {}
        axis.set_xscale("log")
        axis.set_yscale("log")
        for (label, points), arch in zip(curves.items(), PAIR, strict=True):
            N, error, low, high = ([getattr(point, key) for point in points] for key in ("N", "error", "low", "high"))
            handles[label] = axis.plot(N, error, color=names.colour(arch))[0]
            axis.fill_between(N, low, high, color=names.colour(arch), alpha=0.18, linewidth=0)
        axis.axvline(pairs, color="0.6", linewidth=0.7, zorder=1)
        axis.text(pairs, 1.02, f"{pairs:,} pairs", ha="center", transform=axis.get_xaxis_transform())
        if crossing.N is not None:
            at = min(crossing.weights, key=lambda point: abs(point.N - (crossing.N or 0)))
            star = axis.plot([crossing.N], [at.error], "*", color="0.2", markersize=9, zorder=4)
            handles[f"$N$ ≈ {crossing.N:,}"] = star[0]
        _label_axes(axis, "mean squared error")
        drawing.legend_below(figure, handles)
        drawing.save(figure, [path])
