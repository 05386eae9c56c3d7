"""How many samples: the answers of the budget planner as text, as JSON and as a picture."""

import json
from dataclasses import asdict, dataclass

import numpy as np

from koct.errors import KoctError
from koct.risk.budget import LEVEL, Answer, Forecast
from koct.risk.calibration import Calibration, calibrate, two_factors
from koct.risk.laws import LAWS


@dataclass(frozen=True)
class Plan:
    """One architecture's forecast, its answer, and the paper's calibration of the same points."""

    arch: str
    forecast: Forecast
    answer: Answer
    calibration: Calibration


def plans(pilots, target, law="auto", assurance=None):
    """A plan for every architecture of a pilot, the one that needs fewest samples first."""
    result = []
    for stream, (arch, pilot) in enumerate(pilots.items()):
        forecast = Forecast(pilot, law, seed=stream)  # with random numbers of its own: a ratio must not cancel them
        answer = forecast.required(target, assurance)
        result.append(Plan(arch, forecast, answer, calibrate(pilot.N, pilot.mean)))
    return sorted(result, key=lambda plan: np.inf if plan.answer.n is None else plan.answer.n)


def as_json(result, **about):
    """A list with one object per architecture."""
    return json.dumps(
        [
            {
                "arch": plan.arch,
                **asdict(plan.answer),
                "reachable": plan.answer.reachable,
                "scores": plan.forecast.scores_,
                "floor": plan.calibration.floor,
                "sigma": plan.calibration.sigma,
                **about,
            }
            for plan in result
        ],
        indent=1,
        allow_nan=False,
    )


def as_text(result, target, assurance=None):
    """A table, the ratio between architectures, and a plain sentence for each."""
    head = ["arch", "law", "N", f"{LEVEL:.0%} interval".replace("%", " %"), "error there"]
    rows = [head]
    for plan in result:
        answer = plan.answer
        error = f"{answer.error:.3g} ({answer.error_low:.3g} to {answer.error_high:.3g}) at N = {answer.at:,}"
        rows.append([plan.arch, LAWS[answer.law].text, _count(answer.n), _interval(answer), error])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    lines += ["", *(_sentence(plan, target, assurance) for plan in result)]
    for plan in result[1:]:
        lines += ["", *_compare(result[0], plan, target, assurance)]
    return "\n".join(lines) + "\n"


def _count(n):
    return "out of reach" if n is None else f"{n:,}"


def _interval(answer):
    low = "out of reach" if answer.n_low is None else f"{answer.n_low:,}"
    return low if answer.n_low is None else f"{low} to {'?' if answer.n_high is None else f'{answer.n_high:,}'}"


def _sentence(plan, target, assurance):
    answer = plan.answer
    what = "a mean error of" if assurance is None else f"in {100 * assurance:g} % of runs an error of"
    if not answer.reachable:
        text = f"{plan.arch} is not expected to reach {what} {target:g}"
    elif answer.n_high is None:
        text = f"{plan.arch} should reach {what} {target:g} with about {answer.n:,} samples, but may never do so"
    else:
        text = (
            f"{plan.arch} should reach {what} {target:g} with about {answer.n:,} samples "
            f"(between {answer.n_low:,} and {answer.n_high:,})"
        )
    return text + (f": {answer.reason}." if answer.reason else ".")


def _compare(first, other, target, assurance):
    """How many times the samples of `first` the other needs, by the laws and by the paper's two factors."""
    if first.answer.n is None:
        return [f"{other.arch} against {first.arch}: neither reaches {target:g}, so there is no ratio."]
    if other.answer.n is None:
        lines = [f"{other.arch} against {first.arch}: {other.arch} does not reach {target:g}, so the ratio has no end."]
    else:
        ratio, low, high = _ratio(first, other, target, assurance)
        high = "?" if high is None else f"{high:.3g}"
        lines = [f"{other.arch} needs {ratio:.3g} times the samples of {first.arch} (between {low:.3g} and {high})."]
    try:
        factors = two_factors(first.calibration, other.calibration, target, (first.arch, other.arch))
    except KoctError as error:
        return [*lines, f"The paper's two factors do not exist here: {error}."]
    return [
        *lines,
        f"By the paper's rule for the mean, N / log N of {other.arch} over {first.arch}: structural "
        f"{factors.structural:.3g} × approximation {factors.approximation:.3g} = {factors.product:.3g}.",
    ]


def _ratio(first, other, target, assurance):
    """(ratio, low, high) of the samples of two architectures; high is None if it has no end."""
    top, bottom = (plan.forecast.samples(target, assurance) for plan in (other, first))
    reached = np.isfinite(bottom)
    ratios = top[reached] / bottom[reached]
    low, high = np.quantile(ratios[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    low, high = min(low, ratios[0]), max(high, ratios[0])
    return float(ratios[0]), float(low), float(high) if np.isfinite(high) else None


def check_format(path):
    """Say at once that a picture cannot be written in the format that its name asks for."""
    if not str(path).endswith((".pdf", ".png", ".svg")):
        raise KoctError(f"--plot {path}: the name must end in .pdf, .png or .svg")


def plot(result, target, path, metric="error"):
    """Points, law, interval and target, all architectures in one panel."""
    from koct.report import figures

    with figures.styled():
        figure, axes = figures.panels(1, 1, size=(3.4, 2.5), right=0.5, legend=0)
        axis = axes[0, 0]
        for plan in result:
            pilot, answer = plan.forecast.pilot, plan.answer
            last = max(4 * pilot.N[-1], 1.5 * (answer.n or 0))
            N = np.geomspace(pilot.N[0], last, 200)
            error, low, high = plan.forecast.predict(N)
            marker, colour = figures.MARKERS.get(plan.arch, "D"), figures.COLOURS.get(plan.arch)
            (line,) = axis.plot(pilot.N, pilot.mean, marker, color=colour)
            colour = line.get_color()
            axis.plot(pilot.N, pilot.errors[:100].T, "_", color=colour, alpha=0.5, markersize=5, markeredgewidth=0.7)
            axis.plot(N, error, color=colour, label=plan.arch)
            axis.fill_between(N, low, high, color=colour, alpha=0.15, linewidth=0)
            if answer.reachable:
                axis.plot([answer.n], [target], "*", color=colour, markersize=8, zorder=4)
            axis.annotate(f" {plan.arch}", (N[-1], error[-1]), color=colour, va="center", annotation_clip=False)
        axis.axhline(target, color="0.3", linestyle=":", linewidth=1)
        axis.text(1, target, " target", color="0.3", va="bottom", transform=axis.get_yaxis_transform())
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("training samples $N$")
        axis.set_ylabel(metric)
        figures.save(figure, [path])
