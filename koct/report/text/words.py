"""Numbers, targets and tables as the planner's answers show them."""

import math
from collections.abc import Mapping
from typing import Any

from koct.forecast.budget import Answer
from koct.forecast.scores import Score

PLAIN = 1e15  # above, a number has an exponent


def number(value: float) -> str:
    """Three significant digits, with an exponent only where there is a need."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if 1000 <= abs(rounded) < PLAIN else f"{value:.3g}"


def cost(value: float, column: str | None) -> str:
    """What a run costs; the columns of koct and of most others have seconds."""
    shown = f"{value:,.0f}" if 1000 <= value < PLAIN else number(value)
    return f"{shown} s" if column in ("seconds", "fit_seconds") else shown


def percent(probability: float) -> str:
    """A probability estimated from some hundreds of curves: never quite 0 or 1."""
    per_cent = round(100 * probability)
    if per_cent in (0, 100):
        return "below 1 %" if per_cent == 0 else "above 99 %"
    return f"{per_cent} %"


def target(error: float, score: Score | None) -> str:
    """A target as it was given, in units of the score if there is one: two of them never look alike."""
    if score is None:
        return f"{error:,.15g}"
    value = float(score.score(error))
    for digits in (6, 9, 12, 15):  # as many as tell the error: computing it back adds others
        if math.isclose(score.error(float(f"{value:.{digits}g}")), error, rel_tol=1e-15):
            return f"{value:,.{digits}g}"
    return repr(value)


def rounded(score: Score, error: float) -> float:
    """The score of an error, without what rounding adds to it."""
    return float(f"{score.score(error):.15g}")


def scored_targets(answer: Mapping[str, Any], score: Score) -> dict[str, object]:
    """The target or targets of an answer as they were given, and their errors under a name of their own."""
    if "target" in answer:
        return {"target": rounded(score, answer["target"]), "error_target": answer["target"]}
    return {"targets": [rounded(score, each) for each in answer["targets"]], "error_targets": answer["targets"]}


def goal(shown: str, assurance: float | None, score: Score | None) -> str:
    """What is to be reached, in words; `shown` is the target."""
    if assurance is None:
        return f"a mean error of {shown}" if score is None else score.goal(shown)
    what = f"an error of {shown}" if score is None else f"{score.name} {shown}"
    return f"{what} in {100 * assurance:g} % of runs"


def interval(answer: Answer) -> str:
    """The interval of N; a dash if it is out of reach altogether."""
    if answer.n_low is None:
        return "-"
    return f"from {answer.n_low:,}" if answer.n_high is None else f"{answer.n_low:,} to {answer.n_high:,}"


def errors(error: float, low: float, high: float, score: Score | None) -> tuple[str, str, str]:
    """Return an error and the ends of its interval as texts, in units of the score if there is one."""
    if score is None:
        return number(error), number(low), number(high)
    decimals = score.decimals(error)
    value, least, most = (f"{score.score(each):,.{decimals}f}" for each in (error, high, low))
    return value, least, most  # a high error is a low score


def table(rows: list[list[str]], left: int | None = None) -> list[str]:
    """Return lines with aligned columns, flush right but for the first `left`; the first row is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if left is None or i < left else str.rjust for i in range(len(widths))]
    aligned = ([side(*cell) for side, cell in zip(sides, zip(row, widths, strict=True), strict=True)] for row in rows)
    lines = ["  ".join(cells).rstrip() for cells in aligned]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]
