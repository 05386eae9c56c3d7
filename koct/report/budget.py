"""Report the budget planner's answers as text, as JSON or as a figure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from koct.errors import KoctError
from koct.risk.budget import LEVEL, Answer, Forecast, Pilot
from koct.risk.calibration import Calibration, calibrate, two_factors

if TYPE_CHECKING:
    from koct.risk.curve import Curve


@dataclass(frozen=True)
class Plan:
    """The forecast for one architecture.

    Attributes
    ----------
    arch : name of the architecture
    forecast : the forecast from its pilot
    answer : how many samples it needs for the target
    calibration : the paper's calibration of the same points
    """

    arch: str
    forecast: Forecast
    answer: Answer
    calibration: Calibration


def plans(
    pilots: Mapping[str, Pilot],
    target: float,
    law: str = "auto",
    assurance: float | None = None,
    curves: "Mapping[str, Curve] | None" = None,
) -> list[Plan]:
    """A plan for every architecture, sorted by the number of samples it needs.

    `curves` are those that pairs predict, by architecture. The law "theory" is for these; it leaves the others "auto".
    """
    result = []
    for stream, (arch, pilot) in enumerate(pilots.items()):
        theory = curves.get(arch) if curves else None
        own = "auto" if law == "theory" and curves and theory is None else law
        # independent random numbers, so that they do not cancel in ratios
        forecast = Forecast(pilot, own, seed=stream, theory=theory)
        answer = forecast.required(target, assurance)
        result.append(Plan(arch, forecast, answer, calibrate(pilot.N, pilot.mean)))
    return sorted(result, key=lambda plan: np.inf if plan.answer.n is None else plan.answer.n)


def arch_of_pairs(pilots: Mapping[str, Pilot], arch: str | None) -> str:
    """The architecture that the pairs are about: the named one, or the only one of the pilot."""
    if arch is None and len(pilots) > 1:
        raise KoctError(f"--pairs is about one of the pilot's archs; say with --pairs-arch which: {', '.join(pilots)}")
    if arch is not None and arch not in pilots:
        raise KoctError(f"--pairs-arch {arch}: the pilot has no such arch; choose one of {', '.join(pilots)}")
    return arch or next(iter(pilots))


def as_json(result: Sequence[Plan], **about: object) -> str:
    """A JSON list with one object per architecture; `about` is added to each."""
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


def as_text(result: Sequence[Plan], target: float, assurance: float | None = None) -> str:
    """A table, one sentence per architecture, and the ratios between architectures."""
    head = ["arch", "law", "N", f"{LEVEL:.0%} interval".replace("%", " %"), "predicted error"]
    rows = [head]
    for plan in result:
        answer = plan.answer
        error = f"{answer.error:.3g} ({answer.error_low:.3g} to {answer.error_high:.3g}) at N = {answer.at:,}"
        rows.append([plan.arch, plan.forecast.formula_, _count(answer.n), _interval(answer), error])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    lines += ["", *(_sentence(plan, target, assurance) for plan in result)]
    for plan in result[1:]:
        lines += ["", *_compare(result[0], plan, target, assurance)]
    return "\n".join(lines) + "\n"


def _count(n: int | None) -> str:
    return "out of reach" if n is None else f"{n:,}"


def _interval(answer: Answer) -> str:
    if answer.n_low is None:
        return "out of reach"
    return f"{answer.n_low:,} to {'?' if answer.n_high is None else f'{answer.n_high:,}'}"


def _sentence(plan: Plan, target: float, assurance: float | None) -> str:
    answer = plan.answer
    goal = f"a mean error of {target:g}"
    if assurance is not None:
        goal = f"an error of {target:g} in {100 * assurance:g} % of runs"
    if not answer.reachable:
        text = f"{plan.arch} is not expected to reach {goal}"
    elif answer.n_high is None:
        text = f"{plan.arch} should reach {goal} with about {answer.n:,} samples, but may never do so"
    else:
        text = (
            f"{plan.arch} should reach {goal} with about {answer.n:,} samples "
            f"(between {answer.n_low:,} and {answer.n_high:,})"
        )
    return text + (f": {answer.reason}." if answer.reason else ".")


def _compare(first: Plan, other: Plan, target: float, assurance: float | None) -> list[str]:
    """How many times as many samples `other` needs as `first`, by the laws and by the paper's two factors."""
    if first.answer.n is None:
        return [f"{other.arch} versus {first.arch}: neither reaches {target:g}, so the ratio is undefined."]
    if other.answer.n is None:
        lines = [
            f"{other.arch} versus {first.arch}: {other.arch} does not reach {target:g}, so the ratio is unbounded."
        ]
    else:
        ratio, low, high = _ratio(first, other, target, assurance)
        upper = "?" if high is None else f"{high:.3g}"
        lines = [
            f"{other.arch} needs {ratio:.3g} times as many samples as {first.arch} (between {low:.3g} and {upper})."
        ]
    try:
        factors = two_factors(first.calibration, other.calibration, target, (first.arch, other.arch))
    except KoctError as error:
        return [*lines, f"The paper's two factors are undefined here: {error}."]
    return [
        *lines,
        f"By the paper's rule for the mean error, the ratio of N / log N ({other.arch} to {first.arch}): structural "
        f"{factors.structural:.3g} × approximation {factors.approximation:.3g} = {factors.product:.3g}.",
    ]


def _ratio(first: Plan, other: Plan, target: float, assurance: float | None) -> tuple[float, float, float | None]:
    """(ratio, low, high) of the samples of two architectures; high is None if the interval has no upper end."""
    top, bottom = (plan.forecast.samples(target, assurance) for plan in (other, first))
    reached = np.isfinite(bottom)
    ratios = top[reached] / bottom[reached]
    if len(ratios) == 1:  # no replicate of `first` reaches the target
        return float(ratios[0]), float(ratios[0]), None
    low, high = np.quantile(ratios[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    low, high = min(low, ratios[0]), max(high, ratios[0])
    return float(ratios[0]), float(low), float(high) if np.isfinite(high) else None


def check_format(path: str | PathLike[str]) -> None:
    """Fail early if a figure cannot be written in the format of its file name."""
    if not str(path).endswith((".pdf", ".png", ".svg")):
        raise KoctError(f"--plot {path}: the file name must end in .pdf, .png or .svg")


def plot(result: Sequence[Plan], target: float, path: str | PathLike[str], metric: str = "error") -> None:
    """Plot points, laws, intervals and target, with all architectures in one panel."""
    from koct.report import figures
    from koct.report.labels import Names

    names = Names()
    with figures.styled():
        figure, axes = figures.panels(1, 1, size=(3.4, 2.5), right=0.5, legend=0)
        axis = axes[0, 0]
        for plan in result:
            pilot, answer = plan.forecast.pilot, plan.answer
            last = max(4 * pilot.N[-1], 1.5 * (answer.n or 0))
            N = np.geomspace(pilot.N[0], last, 200)
            error, low, high = plan.forecast.predict(N)
            colour = names.colour(plan.arch)
            axis.plot(pilot.N, pilot.mean, names.marker(plan.arch), color=colour)
            axis.plot(pilot.N, pilot.errors[:100].T, "_", color=colour, alpha=0.5, markersize=5, markeredgewidth=0.7)
            axis.plot(N, error, color=colour, label=_literal(plan.arch))
            axis.fill_between(N, low, high, color=colour, alpha=0.15, linewidth=0)
            if answer.reachable:
                axis.plot([answer.n], [target], "*", color=colour, markersize=8, zorder=4)
            axis.annotate(
                f" {_literal(plan.arch)}", (N[-1], error[-1]), color=colour, va="center", annotation_clip=False
            )
        axis.axhline(target, color="0.3", linestyle=":", linewidth=1)
        axis.text(1, target, " target", color="0.3", va="bottom", transform=axis.get_yaxis_transform())
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("training samples $N$")
        axis.set_ylabel(_literal(metric))
        figures.save(figure, [path])


def _literal(name: str) -> str:
    """A name as text of a figure, where dollars would enclose a formula."""
    return name.replace("$", r"\$")
