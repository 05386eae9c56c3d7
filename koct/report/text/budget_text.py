"""Report the budget planner's answers as text or as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from koct.bound.calibration import PAPER_PAIR, Calibration, calibrate, two_factors
from koct.errors import KoctError
from koct.forecast.budget import LEVEL, Answer, Forecast
from koct.forecast.columns import listed, printable
from koct.forecast.runs import Pilot
from koct.forecast.scores import Score
from koct.report.text import words

if TYPE_CHECKING:
    from koct.prediction.curve import Curve

EVEN = (0.35, 0.65)  # probabilities at which a target is called neither likely nor unlikely to be reached
PAIRING = 7  # seed of the order in which replicates of two architectures are compared


@dataclass(frozen=True)
class Plan:
    """What one architecture needs for one target.

    Attributes
    ----------
    arch : name of the architecture
    forecast : the forecast from its pilot, the same for every target
    answer : how many samples it needs for the target
    calibration : the paper's calibration of the same points
    """

    arch: str
    forecast: Forecast
    answer: Answer
    calibration: Calibration


def plans(
    pilots: Mapping[str, Pilot],
    targets: Sequence[float],
    law: str = "auto",
    assurance: float | None = None,
    curves: "Mapping[str, Curve] | None" = None,
) -> list[Plan]:
    """A plan for every target and architecture: target by target, and the architecture with the fewest samples first.

    `curves` are those that pairs predict, by architecture. The law "theory" is for these; it leaves the others "auto".
    """
    forecasts = {}
    for arch, pilot in pilots.items():
        theory = curves.get(arch) if curves else None
        own = "auto" if law == "theory" and curves and theory is None else law
        forecasts[arch] = Forecast(pilot, own, theory=theory)
    calibrations = {arch: calibrate(pilot.N, pilot.mean) for arch, pilot in pilots.items()}
    result = []
    for target in targets:
        found = [
            Plan(arch, forecast, forecast.required(target, assurance), calibrations[arch])
            for arch, forecast in forecasts.items()
        ]
        result += sorted(found, key=_effort)
    return result


def _effort(plan: Plan) -> tuple[float, float]:
    n = np.inf if plan.answer.n is None else plan.answer.n
    return n, -plan.answer.probability


def by_target(result: Sequence[Plan]) -> list[list[Plan]]:
    """The plans of each target."""
    groups: dict[float, list[Plan]] = {}
    for plan in result:
        groups.setdefault(plan.answer.target, []).append(plan)
    return list(groups.values())


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


def as_json(result: Sequence[Plan], score: Score | None = None, **about: object) -> str:
    """A JSON list with one object per target and architecture; `about` is added to each."""
    return json.dumps(
        [
            {
                "arch": plan.arch,
                **asdict(plan.answer),
                "reachable": plan.answer.reachable,
                "weights": {law: float(weight) for law, weight in plan.forecast.weights_.items()},
                "floor": plan.calibration.floor,
                "sigma": plan.calibration.sigma,
                **(_scored(plan.answer, score) if score else {}),
                **about,
            }
            for plan in result
        ],
        indent=1,
        allow_nan=False,
    )


def _scored(answer: Answer, score: Score) -> dict[str, float | None]:
    """An answer in a score's units; a low error is a high score."""
    errors = {
        "score": answer.error,
        "score_low": answer.error_high,
        "score_high": answer.error_low,
        "score_target": answer.target,
    }
    values = {key: words.rounded(score, error) for key, error in errors.items()}
    return {key: value if np.isfinite(value) else None for key, value in values.items()}


def as_text(result: Sequence[Plan], assurance: float | None = None, score: Score | None = None) -> str:
    """A table, a sentence for every plan, and the ratios between architectures."""
    groups = by_target(result)
    units = "error" if score is None else score.name
    rows = [["target", "arch", "law", "N", f"{LEVEL:.0%} interval".replace("%", " %"), f"predicted {units}"]]
    for plan in result:
        answer, target = plan.answer, words.target(plan.answer.target, score)
        place = f"{_predicted(answer, score)} at N = {answer.at:,}"
        law, interval = plan.forecast.formula_, words.interval(answer)
        rows.append([target, printable(plan.arch), law, _count(answer), interval, place])
    lines = words.table([row if len(groups) > 1 else row[1:] for row in rows])
    lines += ["", *(_sentence(plan, assurance, score) for plan in result)]
    for group in groups:
        for plan in group[1:]:
            lines += ["", *_compare(group[0], plan, assurance, score, len(groups) > 1)]
    return "\n".join(lines) + "\n"


def _predicted(answer: Answer, score: Score | None) -> str:
    """The predicted error, or score, and its interval."""
    if score is None:
        value, low, high = map(words.number, (answer.error, answer.error_low, answer.error_high))
    else:
        decimals = score.decimals(answer.error)
        errors = (answer.error, answer.error_high, answer.error_low)  # a high error is a low score
        value, low, high = (f"{score.score(error):,.{decimals}f}" for error in errors)
    return f"{value} ({low} to {high})"


def _count(answer: Answer) -> str:
    return f"out of reach ({words.percent(answer.probability)})" if answer.n is None else f"{answer.n:,}"


def _sentence(plan: Plan, assurance: float | None, score: Score | None) -> str:
    answer, goal = plan.answer, words.goal(plan.answer.target, assurance, score)
    arch, odds = printable(plan.arch), words.percent(answer.probability)
    remark = "; "
    if _even(answer):
        least = f"{answer.n_low:,}"
        about = f"about {answer.n:,} samples (at least {least})" if answer.n else f"{least} samples or more"
        text = f"{arch} may reach {goal}, with {about}, or never: the probability of reaching it is {odds}"
    elif not answer.reachable:
        text = f"{arch} probably does not reach {goal}: the probability is {odds}"
        text += "" if answer.n_low is None else f", and then with {answer.n_low:,} samples or more"
    elif answer.n_high is None:
        text = (
            f"{arch} should reach {goal} with about {answer.n:,} samples, at least {answer.n_low:,}; "
            f"it never does with probability {words.percent(1 - answer.probability)}"
        )
    else:
        ends = f" (between {answer.n_low:,} and {answer.n_high:,})" if answer.n_low != answer.n_high else ""
        text = f"{arch} should reach {goal} with about {answer.n:,} samples{ends}"
        remark = ": "
    return text + (f"{remark}{answer.reason}." if answer.reason else ".")


def _even(answer: Answer) -> bool:
    return EVEN[0] <= answer.probability <= EVEN[1]


def _compare(first: Plan, other: Plan, assurance: float | None, score: Score | None, several: bool) -> list[str]:
    """How many times as many samples `other` needs as `first`, by the laws and by the paper's two factors."""
    shown = words.target(first.answer.target, score)
    pair = f"{printable(other.arch)} versus {printable(first.arch)}"
    ratio, low, high = ratios(first, other, assurance)
    if first.answer.n is None or ratio is None:
        line = f"{pair}: neither is likely to reach {shown}, so there is no ratio."
    elif other.answer.n is None or ratio == np.inf:
        never = "may never reach" if _even(other.answer) else "probably does not reach"
        open_end = f"the ratio has no upper end; it is at least {words.number(low)}"
        told = open_end if 1 <= low < np.inf else "the pilot does not tell the ratio"
        line = f"{pair}: {printable(other.arch)} {never} {shown}, so {told}."
    else:
        line = _times(printable(first.arch), printable(other.arch), shown, ratio, low, high)
        line = f"For {shown}, {line}" if several else line
    return [line, *_factors(first, other)]


def _times(first: str, other: str, shown: str, ratio: float, low: float, high: float) -> str:
    """How many times as many samples `other` needs; 0 and infinity are ends where one never reaches the target."""
    least, value, most = map(words.number, (low, ratio, high))
    if least == value == most:
        same = value == "1"
        return f"{other} and {first} need the same number of samples." if same else _many(other, value, first) + "."
    equal = value == "1"
    about = f"{other} needs about as many samples as {first}" if equal else _many(other, f"about {value}", first)
    if low > 0 and high < np.inf:
        return f"{about} (between {least} and {most}{' times as many' if equal else ''})."
    if low == 0 and high == np.inf:
        return f"{about}; the pilot leaves open how many more or fewer, since either may never reach {shown}."
    if low == 0:
        return f"{about}, at most {most} times; there is no lower end, since {first} may never reach {shown}."
    bound = f", at least {least} times" if low >= 1 else ""
    return f"{about}{bound}; the pilot leaves open how many more, since {other} may never reach {shown}."


def _many(other: str, times: str, first: str) -> str:
    return f"{other} needs {times} times as many samples as {first}"


def _factors(first: Plan, other: Plan) -> list[str]:
    """The paper's two factors, which are about a network with known operators and a dense one."""
    networks = {plan.arch.lower(): plan for plan in (first, other)}
    if set(networks) != set(PAPER_PAIR):
        return []
    known, dense = (networks[name] for name in PAPER_PAIR)
    try:
        factors = two_factors(known.calibration, dense.calibration, first.answer.target, (known.arch, dense.arch))
    except KoctError as error:
        return [f"The paper's two factors are undefined here: {error}."]
    structural, approximation, product = map(words.number, (factors.structural, factors.approximation, factors.product))
    return [
        f"By the paper's rule for the mean error, the ratio of N / log N ({dense.arch} to {known.arch}): structural "
        f"{structural} × approximation {approximation} = {product}."
    ]


def ratios(first: Plan, other: Plan, assurance: float | None) -> tuple[float | None, float, float]:
    """(ratio, low, high) of the samples of `other` over those of `first`: the ratio of the medians, and its interval.

    The ratio is None if `first` does not get there in half of its replicates. The upper end is infinite where `other`
    may never get there, the lower one 0 where `first` may not.
    """
    bottom, top = (plan.forecast.samples(first.answer.target, assurance) for plan in (first, other))
    medians = [float(np.quantile(samples, 0.5, method="inverted_cdf")) for samples in (bottom, top)]
    if not np.isfinite(medians[0]):
        return None, np.inf, np.inf
    ratio = medians[1] / medians[0]
    top = np.random.default_rng(PAIRING).permutation(top)  # the random numbers of both are the same ones
    defined = np.isfinite(top) | np.isfinite(bottom)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(top[defined] / bottom[defined], ends, method="inverted_cdf")
    return ratio, min(float(low), ratio), max(float(high), ratio)


def check_format(path: str | PathLike[str]) -> None:
    """Fail early if a figure cannot be written in the format of its file name."""
    if not str(path).endswith((".pdf", ".png", ".svg")):
        raise KoctError(f"--plot {path}: the file name must end in .pdf, .png or .svg")
