"""Report the budget planner's answers as text, as JSON or as a figure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from koct.errors import KoctError
from koct.risk.budget import LEVEL, Answer, Forecast
from koct.risk.calibration import Calibration, calibrate, two_factors
from koct.risk.runs import Pilot
from koct.risk.scores import Score

if TYPE_CHECKING:
    from koct.risk.curve import Curve

LABEL_BOX = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}  # behind names in a figure


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
    for stream, (arch, pilot) in enumerate(pilots.items()):
        theory = curves.get(arch) if curves else None
        own = "auto" if law == "theory" and curves and theory is None else law
        # independent random numbers, so that they do not cancel in ratios
        forecasts[arch] = Forecast(pilot, own, seed=stream, theory=theory)
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
    if arch is None and len(pilots) > 1:
        raise KoctError(f"--pairs is about one of the pilot's archs; say with --pairs-arch which: {', '.join(pilots)}")
    if arch is not None and arch not in pilots:
        raise KoctError(f"--pairs-arch {arch}: the pilot has no such arch; choose one of {', '.join(pilots)}")
    return arch or next(iter(pilots))


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
    values = {key: float(f"{score.score(error):.12g}") for key, error in errors.items()}
    return {key: value if np.isfinite(value) else None for key, value in values.items()}


def as_text(result: Sequence[Plan], assurance: float | None = None, score: Score | None = None) -> str:
    """A table, a sentence for every plan, and the ratios between architectures."""
    groups = by_target(result)
    units = "error" if score is None else score.name
    rows = [["target", "arch", "law", "N", f"{LEVEL:.0%} interval".replace("%", " %"), f"predicted {units}"]]
    for plan in result:
        answer = plan.answer
        place = f"{_predicted(answer, score)} at N = {answer.at:,}"
        law = plan.forecast.formula_
        rows.append([_shown(answer.target, score), plan.arch, law, _count(answer), _interval(answer), place])
    lines = _table([row if len(groups) > 1 else row[1:] for row in rows])
    lines += ["", *(_sentence(plan, assurance, score) for plan in result)]
    for group in groups:
        for plan in group[1:]:
            lines += ["", *_compare(group[0], plan, assurance, score, len(groups) > 1)]
    return "\n".join(lines) + "\n"


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _shown(target: float, score: Score | None) -> str:
    return f"{target if score is None else score.score(target):.6g}"


def _predicted(answer: Answer, score: Score | None) -> str:
    """The predicted error, or score, and its interval."""
    if score is None:
        return f"{answer.error:.3g} ({answer.error_low:.3g} to {answer.error_high:.3g})"
    decimals = score.decimals(answer.error)
    errors = (answer.error, answer.error_high, answer.error_low)  # a high error is a low score
    value, low, high = (f"{score.score(error):.{decimals}f}" for error in errors)
    return f"{value} ({low} to {high})"


def _count(answer: Answer) -> str:
    return f"out of reach ({_percent(answer.probability)})" if answer.n is None else f"{answer.n:,}"


def _interval(answer: Answer) -> str:
    if answer.n_low is None:
        return "-"
    return f"from {answer.n_low:,}" if answer.n_high is None else f"{answer.n_low:,} to {answer.n_high:,}"


def _percent(probability: float) -> str:
    """A probability estimated from some hundreds of curves: never quite 0 or 1."""
    per_cent = round(100 * probability)
    if per_cent in (0, 100):
        return "below 1 %" if per_cent == 0 else "above 99 %"
    return f"{per_cent} %"


def _sentence(plan: Plan, assurance: float | None, score: Score | None) -> str:
    answer, goal = plan.answer, _goal(plan.answer.target, assurance, score)
    remark = ": "
    if not answer.reachable:
        text = f"{plan.arch} probably does not reach {goal}: the probability is {_percent(answer.probability)}"
        text += "" if answer.n_low is None else f", and then with {answer.n_low:,} samples or more"
        remark = "; "
    elif answer.n_high is None:
        text = (
            f"{plan.arch} should reach {goal} with about {answer.n:,} samples, at least {answer.n_low:,}; "
            f"it never does with probability {_percent(1 - answer.probability)}"
        )
        remark = "; "
    else:
        text = (
            f"{plan.arch} should reach {goal} with about {answer.n:,} samples "
            f"(between {answer.n_low:,} and {answer.n_high:,})"
        )
    return text + (f"{remark}{answer.reason}." if answer.reason else ".")


def _goal(target: float, assurance: float | None, score: Score | None) -> str:
    shown = _shown(target, score)
    if assurance is None:
        return f"a mean error of {shown}" if score is None else score.goal(shown)
    what = f"an error of {shown}" if score is None else f"{score.name} {shown}"
    return f"{what} in {100 * assurance:g} % of runs"


def _compare(first: Plan, other: Plan, assurance: float | None, score: Score | None, several: bool) -> list[str]:
    """How many times as many samples `other` needs as `first`, by the laws and by the paper's two factors."""
    target = first.answer.target
    ratio, low, high = ratios(first, other, assurance)
    pair = f"{other.arch} versus {first.arch}"
    shown = _shown(target, score)
    if first.answer.n is None or ratio is None:
        line = f"{pair}: neither is likely to reach {shown}, so there is no ratio."
    elif other.answer.n is None or not np.isfinite(ratio):
        least = f"; it is at least {low:.3g}" if 0 < low < np.inf else ""
        line = f"{pair}: {other.arch} probably does not reach {shown}, so the ratio has no upper end{least}."
    else:
        line = f"{other.arch} needs {ratio:.3g} times as many samples as {first.arch} ({_between(low, high)})."
        line = f"For {shown}, {line}" if several else line
    return [line, *_factors(first, other, target)]


def _between(low: float, high: float) -> str:
    """An interval of ratios; 0 and infinity are no ends, but where one of the two never reaches the target."""
    if low == 0 and high == np.inf:
        return "the pilot leaves it open, since either may never get there"
    if low == 0:
        return f"at most {high:.3g}"
    return f"at least {low:.3g}" if high == np.inf else f"between {low:.3g} and {high:.3g}"


def _factors(first: Plan, other: Plan, target: float) -> list[str]:
    """The paper's two factors, which are about a network with known operators and a dense one."""
    networks = {plan.arch.lower(): plan for plan in (first, other)}
    if set(networks) != {"ko", "fc"}:
        return []
    known, dense = networks["ko"], networks["fc"]
    try:
        factors = two_factors(known.calibration, dense.calibration, target, (known.arch, dense.arch))
    except KoctError as error:
        return [f"The paper's two factors are undefined here: {error}."]
    return [
        f"By the paper's rule for the mean error, the ratio of N / log N ({dense.arch} to {known.arch}): structural "
        f"{factors.structural:.3g} × approximation {factors.approximation:.3g} = {factors.product:.3g}."
    ]


def ratios(first: Plan, other: Plan, assurance: float | None) -> tuple[float | None, float, float]:
    """(median, low, high) of the samples of `other` over those of `first`; infinite where only `first` gets there.

    The median is None if neither gets there in any replicate.
    """
    target = first.answer.target
    top, bottom = (plan.forecast.samples(target, assurance) for plan in (other, first))
    defined = np.isfinite(top) | np.isfinite(bottom)
    if not defined.any():
        return None, np.inf, np.inf
    levels = [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2]
    ratio, low, high = np.quantile(top[defined] / bottom[defined], levels, method="inverted_cdf")
    return float(ratio), float(low), float(high)


def check_format(path: str | PathLike[str]) -> None:
    """Fail early if a figure cannot be written in the format of its file name."""
    if not str(path).endswith((".pdf", ".png", ".svg")):
        raise KoctError(f"--plot {path}: the file name must end in .pdf, .png or .svg")


def plot(
    result: Sequence[Plan],
    path: str | PathLike[str],
    metric: str = "error",
    score: Score | None = None,
    assurance: float | None = None,
) -> None:
    """Plot points, laws, intervals and targets, with all architectures in one panel; a star is where one is reached.

    Errors have a logarithmic axis, where a run without error has no place, and scores a linear one.
    """
    from koct.report import figures
    from koct.report.labels import Names

    def height(errors: NDArray[np.float64] | float) -> NDArray[np.float64]:
        values = np.asarray(errors, dtype=float)
        return np.where(values > 0, values, np.nan) if score is None else score.score(values)

    names, seen, ends = Names(), [], []
    with figures.styled():
        figure, axes = figures.panels(1, 1, size=(3.4, 2.5), left=0.72, right=0.5, legend=0)
        axis = axes[0, 0]
        for arch in dict.fromkeys(plan.arch for plan in result):
            own = [plan for plan in result if plan.arch == arch]
            forecast, colour = own[0].forecast, names.colour(arch)
            pilot = forecast.pilot
            last = max(4 * pilot.N[-1], *(1.5 * (plan.answer.n or 0) for plan in own))
            N = np.geomspace(pilot.N[0], last, 200)
            middle, low, high = (height(errors) for errors in forecast.predict(N))
            mean, runs = height(pilot.mean), height(pilot.errors[:100])
            axis.plot(pilot.N, mean, names.marker(arch), color=colour)
            axis.plot(pilot.N, runs.T, "_", color=colour, alpha=0.5, markersize=5, markeredgewidth=0.7)
            axis.plot(N, middle, color=colour, label=_literal(arch))
            axis.fill_between(N, low, high, color=colour, alpha=0.15, linewidth=0)
            place = {"va": "center", "annotation_clip": False, "bbox": LABEL_BOX}
            axis.annotate(f" {_literal(arch)}", (N[-1], middle[-1]), color=colour, **place)
            for target in (plan.answer.target for plan in own if plan.answer.reachable):
                reached = np.quantile(forecast.samples(target, assurance), 0.5, method="inverted_cdf")
                axis.plot([reached], [height(target)], "*", color=colour, markersize=8, zorder=4)
            seen += [runs.ravel(), mean, middle]
            ends += [N[0], N[-1]]
        targets = [group[0].answer.target for group in by_target(result)]
        for target in targets:
            axis.axhline(height(target), color="0.3", linestyle=":", linewidth=1)
            text = f" {_shown(target, score)}" if len(targets) > 1 else " target"
            axis.text(1, height(target), text, color="0.3", va="center", transform=axis.get_yaxis_transform())
        axis.set_xscale("log")
        axis.set_yscale("log" if score is None else "linear")
        axis.tick_params(axis="y", which="minor", labelsize=6)  # has labels only where powers of ten are too few
        axis.set_xlim(min(ends) / 1.2, max(ends) * (max(ends) / min(ends)) ** 0.12)  # with room for a name
        axis.set_ylim(*_limits(np.concatenate([*seen, height(np.array(targets))]), score is None))
        axis.set_xlabel("training samples $N$")
        axis.set_ylabel(_literal(metric if score is None else score.label))
        figures.save(figure, [path])


def _limits(values: NDArray[np.float64], logarithmic: bool) -> tuple[float, float]:
    """The ends of an axis that shows the values; an interval may leave it."""
    values = values[np.isfinite(values)]
    values = np.log(values) if logarithmic else values
    low, high = values.min(), values.max()
    margin = max(0.08 * (high - low), 0.05 if logarithmic else 1e-6 * max(1.0, abs(high)))
    ends = low - margin, high + margin
    return tuple(np.exp(ends)) if logarithmic else ends


def _literal(name: str) -> str:
    """A name as text of a figure, where dollars would enclose a formula."""
    return name.replace("$", r"\$")
