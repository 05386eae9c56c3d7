"""Report what a known operator explains of pairs, and what would repair it: as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

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
        removed = "" if repair is repairs[0] else _percent(_removed(repair, repairs))
        error, floor = words.number(repair.error), words.number(repair.floor)
        rows.append([repair.name, f"{repair.learned:,}", error, removed, floor, found])
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
    first = crossing.weights[0].N  # a crossing there is one there, or with fewer pairs
    low = f"≤ {first:,}" if (crossing.N_low or first) <= first else f"{crossing.N_low:,}"
    interval = f"90 % interval: {low} to {crossing.N_high:,}" if crossing.N_high else f"{low} at least, or never"
    about = f"{first:,} or fewer" if first >= crossing.N else f"about {crossing.N:,}"
    return f"Learning everything, by a dense matrix, is predicted to pay from {about} pairs on ({interval})."
