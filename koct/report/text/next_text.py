"""Report which runs to add to a pilot as text or as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from koct.base.messages import listed, printable
from koct.errors import KoctError
from koct.forecast.budget import Forecast
from koct.forecast.next_runs import FACTOR, MOST_SEEDS, STOP, RunCost, RunPlan, plan, sizes
from koct.forecast.runs import Pilot
from koct.forecast.scores import Score
from koct.report.text import words

MOST_COST = 1e200  # of a plan: far from the end of float64
WIDER = (
    f"These intervals are wider than those of `koct budget`, by a factor of {STOP:g} at either end: they are to hold "
    "where one stops to add runs."
)


@dataclass(frozen=True)
class Next:
    """What to do next for one architecture."""

    arch: str
    design: RunPlan  # the runs to add
    cost: RunCost  # of a run
    limited: bool  # whether a budget was given
    remark: str  # which N were considered, where --largest leaves out some of the pilot; may be empty


def designs(
    pilots: Mapping[str, Pilot],
    target: float,
    costs: Mapping[str, RunCost],
    arch: str | None = None,
    factor: float | None = None,
    budget: float | None = None,
    largest: int | None = None,
) -> list[Next]:
    """A plan for every architecture, or for one of them."""
    if arch is not None and arch not in pilots:
        known = printable(listed(list(pilots)))
        raise KoctError(f"--arch {printable(arch)}: the pilot has no such arch; choose one of {known}")
    wanted, limit = FACTOR if factor is None else factor, np.inf if budget is None else budget
    plans = []
    for name, pilot in pilots.items():
        if arch in (None, name):
            cost = costs.get(name, RunCost())
            _check_cost(cost, sizes(pilot, largest))
            design = plan(Forecast(pilot), target, cost, wanted, limit, largest)  # the forecast of `koct budget`
            plans.append(Next(name, design, cost, budget is not None, _left_out(pilot, largest)))
    return plans


def _check_cost(cost: RunCost, N: Sequence[int]) -> None:
    with np.errstate(all="ignore"):
        together = 2 * MOST_SEEDS * cost.of(N)
    if not np.all((together > 0) & (together < MOST_COST)):
        growth = f"grows as N^{cost.slope:.0f}, too fast to compute with"
        raise KoctError(f"column {cost.column}: the cost of a run {growth}; correct the column or remove it")


def _left_out(pilot: Pilot, largest: int | None) -> str:
    if largest is None or largest >= pilot.N[-1]:
        return ""
    below = f"With --largest {largest:,}, below the pilot's largest N of {pilot.N[-1]:,.0f}"
    return f"{below}, only runs at N = {listed([f'{n:,}' for n in sizes(pilot, largest)])} are considered"


def as_json(plans: Sequence[Next], score: Score | None = None, **about: object) -> str:
    """Return a JSON list with one object per architecture; `about` is added to each."""
    return json.dumps([{**_content(each, score), **about} for each in plans], indent=1, allow_nan=False)


def _content(each: Next, score: Score | None) -> dict[str, object]:
    design, answer, after = each.design, each.design.answer, each.design.interval_after or (None, None)
    content = {
        "arch": each.arch,
        **{key: getattr(answer, key) for key in ("target", "n", "n_low", "n_high", "probability")},
        "factor": design.wanted,
        "widened": STOP,
        "present": _finite(design.present),
        "expected": _finite(design.expected),
        "expected_low": after[0],
        "expected_high": after[1],
        **{key: getattr(design, key) for key in ("done", "enough", "largest", "cost")},
        "cost_law": asdict(each.cost),
        "runs": [asdict(step) for step in design.steps],
    }
    return content if score is None else {**content, **words.scored_targets(content, score)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def as_text(plans: Sequence[Next], score: Score | None = None) -> str:
    """A table of the runs, a sentence or two for every architecture, and what is assumed about cost."""
    rows = [["arch", "N", "seeds", "cost", "interval after"]]
    for each in plans:
        for step in each.design.steps:
            cost, after = words.cost(step.cost, each.cost.column), _factor(step.factor)
            rows.append([printable(each.arch), f"{step.N:,}", str(step.seeds), cost, after])
    lines = [*words.table(rows), ""] if len(rows) > 1 else []
    lines += [_sentence(each, score) for each in plans]
    lines += [f"{remark}." for remark in dict.fromkeys(each.remark for each in plans) if remark]
    if any(each.design.answer.n_low is not None for each in plans):
        lines += [WIDER]
    if len(rows) > 1:
        lines += ["", *dict.fromkeys(_assumed(each, len(plans) > 1) for each in plans if each.design.steps)]
    return "\n".join(lines) + "\n"


def _factor(factor: float | None) -> str:
    """A dash where the interval has no upper end, since nothing can be promised then."""
    if factor is None:
        return "-"
    return f"factor {factor:,.3g}" if factor < 1000 else "factor above 1,000"


def _sentence(each: Next, score: Score | None) -> str:
    design, answer, arch = each.design, each.design.answer, printable(each.arch)
    goal, wanted = words.goal(words.target(answer.target, score), None, score), f"{design.wanted:,g}"
    interval = f"For {goal}, the interval of {arch} is {words.interval(answer)}"
    narrow, much = "narrow it", "narrow it much"
    if answer.n_low is None:
        interval = f"For {goal}, {arch} has no interval, since it hardly ever gets there"
        narrow, much = "tell more", "tell much more"
    elif answer.n_high is None:
        interval += " on and has no upper end"
    if design.done:
        return f"{interval}: it is within a factor of {wanted} already, and no more runs are needed."
    if not design.steps:
        allowed, options = (" that the budget allows", "--largest or --budget") if each.limited else ("", "--largest")
        return (
            f"{interval}, and no runs up to N = {design.largest:,}{allowed} would {much}; "
            f"give a larger {options}, or another target."
        )
    one = sum(step.seeds for step in design.steps) == 1
    cost = words.cost(design.cost, each.cost.column)
    runs = f"The run costs {cost}" if one else f"The runs cost {cost} together"
    again = f"plan again when {'it is' if one else 'they are'} done"
    if design.expected is None:
        effect = f"should {narrow}; {again}"
    elif design.enough:
        effect = f"should bring it within a factor of {wanted}"
    else:
        effect = f"should bring it to a {_factor(design.expected)}, not to {wanted} yet: {again}"
    ends = design.interval_after
    known = f" If N is {answer.n:,}, it should then be {ends[0]:,} to {ends[1]:,}." if ends else ""
    return f"{interval}. {runs} and {effect}.{known}"


def _assumed(each: Next, several: bool) -> str:
    if each.cost.column is None:
        return "A run is taken to cost its N, since the pilot has no column seconds or cost."
    run = f"A run of {printable(each.arch)}" if several else "A run"
    law = f"{words.number(each.cost.scale)} × N^{each.cost.slope:.2f}"
    return f"{run} costs {law}, fitted to the column {each.cost.column}."
