"""Report the budget planner's answers as text or as JSON."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from koct.base.messages import listed, printable
from koct.bound.calibration import Calibration, calibrate, two_factors
from koct.errors import KoctError
from koct.forecast.budget import LEVEL, Answer, Forecast, quantiles
from koct.forecast.runs import FloatArray, Pilot
from koct.forecast.scores import Score
from koct.report.printed import PAIR
from koct.report.text import words

if TYPE_CHECKING:
    from koct.prediction.curve import Curve

EVEN = (0.35, 0.65)  # probabilities at which a target is called neither likely nor unlikely to be reached
SIDES = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)  # of the interval of a ratio
FAR = 64  # an upper end this many times the lower one: the chances are told instead
WIDE = 100  # an upper end of a ratio this many times the lower one
PAIRING = 7  # seed of the order in which replicates of two architectures are compared


@dataclass(frozen=True)
class Plan:
    """What one architecture needs for one target."""

    arch: str
    forecast: Forecast  # the same for every target
    answer: Answer
    calibration: Calibration  # by the paper's rule, of the same points
    samples: FloatArray  # the real N that every replicate needs, shape (replicates,)

    @property
    def open_end(self) -> bool:
        """Whether the interval of N has no upper end, or one so far that it says nothing."""
        return self.answer.n_low is not None and (self.answer.n_high or np.inf) > FAR * self.answer.n_low


def forecasts(
    pilots: Mapping[str, Pilot], law: str = "auto", curves: "Mapping[str, Curve] | None" = None
) -> dict[str, Forecast]:
    """Return {arch: Forecast}.

    `curves` are those that pairs predict, by architecture. The law "theory" is for these; it leaves the others "auto".
    """
    found = curves or {}
    laws = {arch: "auto" if law == "theory" and found and arch not in found else law for arch in pilots}
    return {arch: Forecast(pilot, laws[arch], theory=found.get(arch)) for arch, pilot in pilots.items()}


def plans(forecasts: Mapping[str, Forecast], targets: Sequence[float], assurance: float | None = None) -> list[Plan]:
    """Return a plan for every target and architecture: target by target, and that with the fewest samples first."""
    columns = []
    for arch, forecast in forecasts.items():
        calibration = calibrate(forecast.pilot.N, forecast.pilot.mean)
        samples = forecast.samples(targets, assurance)
        answers = zip(forecast.answers(targets, samples), samples.T, strict=True)
        columns.append([Plan(arch, forecast, answer, calibration, N) for answer, N in answers])
    fewest = partial(sorted, key=lambda plan: (plan.answer.n or np.inf, -plan.answer.probability))
    return list(itertools.chain(*map(fewest, zip(*columns, strict=True))))


def by_target(result: Sequence[Plan]) -> list[list[Plan]]:
    """The plans of each target, which are neighbours."""
    return [list(group) for _, group in itertools.groupby(result, lambda plan: plan.answer.target)]


def arch_of_pairs(pilots: Mapping[str, Pilot], arch: str | None) -> str:
    """The architecture that the pairs are about: the named one, or the only one of the pilot."""
    if arch is None and len(pilots) == 1:
        return next(iter(pilots))
    known = printable(listed(list(pilots)))
    if arch is None:
        raise KoctError(f"--pairs is about one of the pilot's archs; say with --pairs-arch which: {known}")
    if arch not in pilots:
        raise KoctError(f"--pairs-arch {printable(arch)}: the pilot has no such arch; choose one of {known}")
    return arch


def as_json(
    result: Sequence[Plan], score: Score | None = None, at: Sequence[Mapping[str, Any]] = (), **about: object
) -> str:
    """A JSON list with an object per target and architecture, and one per row of `at_rows`; each has `about`."""
    found = [
        {
            "arch": plan.arch,
            **asdict(plan.answer),
            "reachable": plan.answer.reachable,
            "weights": {law: float(weight) for law, weight in plan.forecast.weights_.items()},
            "calibration": asdict(plan.calibration),
        }
        for plan in result
    ]
    scored = ({**each, **(_scored(each, score) if score else {}), **about} for each in (*found, *at))
    return json.dumps(list(scored), indent=1, allow_nan=False)


def _scored(answer: Mapping[str, Any], score: Score) -> dict[str, object]:
    """An answer in a score's units; a low error is a high score."""
    names = {"score": "error", "score_low": "error_high", "score_high": "error_low"}
    values = {key: words.rounded(score, answer[name]) for key, name in names.items()}
    scored = {key: value if np.isfinite(value) else None for key, value in values.items()}
    return {**scored, **words.scored_targets(answer, score)}


def as_text(
    result: Sequence[Plan], assurance: float | None = None, score: Score | None = None, unit: str = "samples"
) -> str:
    """A table, a sentence for every plan, and the ratios between architectures; `unit` is what N counts."""
    groups, (N, interval, predicted) = by_target(result), _heads(score, unit)
    rows = [["target", "arch", "law", N, interval, predicted]]
    for plan in result:
        answer, target = plan.answer, words.target(plan.answer.target, score)
        value, low, high = words.errors(answer.error, answer.error_low, answer.error_high, score)
        place = f"{value} ({low} to {high}) at N = {answer.at:,}"
        n = f"out of reach ({words.percent(answer.probability)})" if answer.n is None else f"{answer.n:,}"
        rows.append([target, printable(plan.arch), plan.forecast.formula_, n, words.interval(answer), place])
    lines = words.table([row if len(groups) > 1 else row[1:] for row in rows])
    lines += ["", *(_sentence(plan, assurance, score, unit) for plan in result)]
    for group in groups:
        for plan in group[1:]:
            lines += ["", *_compare(group[0], plan, score, len(groups) > 1, unit)]
    return "\n".join(lines) + "\n"


def _heads(score: Score | None, unit: str) -> tuple[str, str, str]:
    """What the columns of N, of intervals and of errors are called."""
    predicted = f"predicted {'error' if score is None else score.name}"
    return "N" if unit == "samples" else f"N ({unit})", f"{100 * LEVEL:.0f} % interval", predicted


def _sentence(plan: Plan, assurance: float | None, score: Score | None, unit: str) -> str:
    answer = plan.answer
    goal = words.goal(words.target(answer.target, score), assurance, score)
    arch, odds = printable(plan.arch), words.percent(answer.probability)
    remark = "; "
    if _even(answer):
        least = f"{answer.n_low:,}"
        about = f"about {answer.n:,} {unit} (at least {least})" if answer.n else f"{least} {unit} or more"
        text = f"{arch} may reach {goal}, with {about}, or never: the probability of reaching it is {odds}"
    elif not answer.reachable:
        text = f"{arch} probably does not reach {goal}: the probability is {odds}"
        text += "" if answer.n_low is None else f", and then with {answer.n_low:,} {unit} or more"
    elif plan.open_end:
        text = f"{arch} should reach {goal} with about {answer.n:,} {unit}, at least {answer.n_low:,}"
    else:
        ends = f" (between {answer.n_low:,} and {answer.n_high:,})" if answer.n_low != answer.n_high else ""
        text = f"{arch} should reach {goal} with about {answer.n:,} {unit}{ends}"
        remark = ": "
    text += f"{remark}{answer.reason}." if answer.reason else "."
    return f"{text} {_chances(plan, unit)}" if plan.open_end else text


def _chances(plan: Plan, unit: str) -> str:
    """What an interval without upper end does not say."""
    start = plan.answer.n or plan.answer.n_low or 1
    series = [step * 10**decade for decade in range(16) for step in (1, 3)]
    first = next(i for i, N in enumerate(series) if start <= N)
    sizes = [series[first], series[first + 1], series[first + 3]]
    odds = [f"{words.percent(float(np.mean(plan.samples <= N)))} with {N:,}" for N in sizes]
    return f"The chance is {odds[0]} {unit}, {odds[1]} and {odds[2]}."


def at_rows(
    forecasts: Mapping[str, Forecast], N: Sequence[int], targets: Sequence[float], assurance: float | None
) -> list[dict[str, object]]:
    """For every architecture and N: the predicted error with its interval, and the chance of every target."""
    rows: list[dict[str, object]] = []
    for arch, forecast in forecasts.items():
        chances = [forecast.chance(target, N, assurance).tolist() for target in targets]
        errors = zip(N, *(each.tolist() for each in forecast.predict(N)), strict=True)
        for i, (n, error, low, high) in enumerate(errors):
            row = {"arch": arch, "at": n, "error": error, "error_low": low, "error_high": high}
            rows.append({**row, "targets": list(targets), "chances": [each[i] for each in chances]})
    return rows


def at_text(
    rows: Sequence[Mapping[str, Any]], targets: Sequence[float], assurance: float | None, score: Score | None, unit: str
) -> str:
    """A table of `at_rows`."""
    goals = [f"chance of {words.target(target, score)}" for target in targets]
    if assurance is not None:
        goals = [f"{goal} in {100 * assurance:g} % of runs" for goal in goals]
    N, interval, predicted = _heads(score, unit)
    lines = [["arch", N, predicted, interval, *goals]]
    for row in rows:
        value, low, high = words.errors(row["error"], row["error_low"], row["error_high"], score)
        chances = map(words.percent, row["chances"])
        lines.append([printable(row["arch"]), f"{row['at']:,}", value, f"{low} to {high}", *chances])
    return "\n".join(words.table(lines)) + "\n"


def _even(answer: Answer) -> bool:
    return EVEN[0] <= answer.probability <= EVEN[1]


def _compare(first: Plan, other: Plan, score: Score | None, several: bool, unit: str) -> list[str]:
    """How many times as many samples `other` needs as `first`, by the laws and by the paper's two factors."""
    shown = words.target(first.answer.target, score)
    pair = f"{printable(other.arch)} versus {printable(first.arch)}"
    ratio, low, high = ratios(first, other)
    if first.answer.n is None or ratio is None:
        line = f"{pair}: neither is likely to reach {shown}, so there is no ratio."
    elif other.answer.n is None or ratio == np.inf:
        never = "may never reach" if _even(other.answer) else "probably does not reach"
        open_end = f"the ratio has no upper end; it is at least {words.number(low)}"
        told = open_end if 1 <= low < np.inf else "the pilot does not tell the ratio"
        line = f"{pair}: {printable(other.arch)} {never} {shown}, so {told}."
    else:
        line = _times(printable(first.arch), printable(other.arch), shown, ratio, low, high, unit)
        line = f"For {shown}, {line}" if several else line
    return [line, *factors(first, other)]


def untold(low: float, high: float) -> bool:
    """Whether an interval of a ratio holds 1, and is so wide that the ratio says nothing."""
    return low < 1 < high and high > WIDE * low


def _times(first: str, other: str, shown: str, ratio: float, low: float, high: float, unit: str) -> str:
    """How many times as many samples `other` needs; 0 and infinity are ends where one never reaches the target."""
    least, value, most = map(words.number, (low, ratio, high))
    equal, exact = value == "1", least == value == most
    if equal and exact:
        return f"{other} and {first} need the same number of {unit}."
    about = f"{other} needs {'' if exact else 'about '}{'' if equal else f'{value} times '}as many {unit} as {first}"
    if exact:
        return f"{about}."
    if low > 0 and high < np.inf and untold(low, high):
        return f"{other} and {first} cannot be compared: the pilot cannot tell which of them needs more {unit}."
    if low > 0 and high < np.inf:
        return f"{about} (between {least} and {most}{' times as many' if equal else ''})."
    if low == 0 and high == np.inf:
        return f"{about}; the pilot leaves open how many more or fewer, since either may never reach {shown}."
    if low == 0:
        return f"{about}, at most {most} times; there is no lower end, since {first} may never reach {shown}."
    bound = f", at least {least} times" if low >= 1 else ""
    return f"{about}{bound}; the pilot leaves open how many more, since {other} may never reach {shown}."


def factors(first: Plan, other: Plan) -> list[str]:
    """The paper's two factors, which are about a network with known operators and a dense one."""
    networks = {plan.arch.lower(): plan for plan in (first, other)}
    if set(networks) != set(PAIR):
        return []
    known, dense = (networks[name] for name in PAIR)
    try:
        both = two_factors(known.calibration, dense.calibration, first.answer.target, (known.arch, dense.arch))
    except KoctError as error:
        return [f"The paper's two factors are undefined here: {error}."]
    structural, approximation, product = map(words.number, (both.structural, both.approximation, both.product))
    return [
        f"By the paper's rule for the mean error, the ratio of N / log N ({dense.arch} to {known.arch}): structural "
        f"{structural} × approximation {approximation} = {product}."
    ]


def ratios(first: Plan, other: Plan) -> tuple[float | None, float, float]:
    """(ratio, low, high) of the samples of `other` over those of `first`: the ratio of the medians, and its interval.

    The ratio is None if `first` does not get there in half of its replicates. The upper end is infinite where `other`
    may never get there, the lower one 0 where `first` may not.
    """
    ratio, low, high = (float(values[0]) for values in ratio_intervals(first.samples[:, None], other.samples[:, None]))
    return (None, np.inf, np.inf) if np.isnan(ratio) else (ratio, low, high)


@np.errstate(invalid="ignore")
def ratio_intervals(bottom: FloatArray, top: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (ratio, low, high) of `top` over `bottom`, each of shape (n_targets,), as `ratios` does.

    `top` and `bottom` are samples of replicates, shape (replicates, n_targets). A ratio is NaN where there is none.
    """
    below, above = (quantiles(samples, [0.5])[0] for samples in (bottom, top))
    ratio = np.where(np.isfinite(below), above / below, np.nan)
    order = np.random.default_rng(PAIRING).permutation(len(top))  # the random numbers of both are the same ones
    each = np.sort(top[order] / bottom, axis=0)  # NaN, where neither gets there, comes last
    count = np.count_nonzero(~np.isnan(each), axis=0)
    low, high = (each[np.maximum(np.ceil(count * end).astype(int) - 1, 0), np.arange(each.shape[1])] for end in SIDES)
    return ratio, np.fmin(low, ratio), np.fmax(high, ratio)


def check_format(path: str) -> None:
    """Fail early if a figure cannot be written in the format of its file name."""
    if not path.endswith((".pdf", ".png", ".svg")):
        raise KoctError(f"--plot {path}: the file name must end in .pdf, .png or .svg")
