"""Write the planner page of a pilot: what `koct budget` answers for every target of a grid, in one HTML file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

import koct
from koct import metrics
from koct.base import stamps
from koct.base.files import write_text
from koct.base.messages import counted, printable
from koct.base.stamps import Stamp
from koct.errors import KoctError
from koct.forecast import scores
from koct.forecast.budget import LEVEL, REPLICATES, Forecast
from koct.forecast.laws import LAWS, Law, Theory
from koct.forecast.next_runs import RunCost
from koct.forecast.pilot import PilotFile
from koct.forecast.runs import MIN_ERROR, FloatArray
from koct.forecast.scores import Score
from koct.metrics.curve_metric import CurveMetric
from koct.report.labels import Names, names_of
from koct.report.printed import PAIR
from koct.report.product import Product
from koct.report.text import budget_text as budget
from koct.report.text import words
from koct.report.text.budget_text import Plan

PRODUCT = Product(
    title="the planner",
    about="a [page](how-many-samples.md) that says how many samples reach a target error",
    reads=("cells.parquet",),
    takes=("metrics",),
    files=("planner.html",),
    caption="""\
**How many samples reach a target error**, for every sweep of this study: choose a target, and read N with its interval,
the curves, and the chance of the target against N.""",
)

MOST_CURVES = 1000  # of all sweeps together
MOST_RUNS, LEAST_RUNS, MOST_MARKS = 100, 5, 2000  # that are drawn: at each N, at least, and of a network
ROUND = (10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36, 40, 45, 50, 55, 60, 65, 70, 80, 90)
DECIBEL_STEP = 0.25  # between targets, 6 % of the error
MOST_TARGETS = 250  # of a sweep
AHEAD = 64  # times the pilot's largest N: what the hardest target takes at best
FAR_AWAY = 100  # times the pilot's largest N: beyond that, N are no numbers
FAR = 30  # times below the smallest error of the pilot: the hardest target at the latest
ASSURANCES = (None, 0.8, 0.95)  # None: the mean error
TARGET = "{target}"  # stands for a target in texts that main.js completes
UNTOLD = "?"  # stands for a ratio that the pilot cannot tell


def write(paths: Sequence[str], out: Sequence[str], spec: Mapping[str, Any]) -> None:
    print(write_page(PilotFile(paths[0]), out[0], spec=spec), flush=True)


def write_page(file: PilotFile, out: str, spec: Mapping[str, Any] | None = None, **reading: Any) -> str:
    """Write the page of a pilot file, and say so; `reading` are the options of `PilotFile.pilots`.

    Without `sweep`, the page has all that the file has, and without `metric`, each has the one that a study gave it.
    """
    names = names_of(file)
    usual = {name: entry.get("metric") for name, entry in names.sweeps.items()} | dict((spec or {}).get("metrics", {}))
    source, sweeps, curves = printable(os.path.basename(os.fspath(file.path))), [], 0
    sweep, metric, higher, columns = (reading.get(key) for key in ("sweep", "metric", "higher", "columns"))
    for name in [sweep] if sweep is not None else file.sweeps():
        own = metric or (None if higher is not None else usual.get(name))
        given: dict[str, Any] = {"sweep": name, "metric": own}
        given |= {key: value for key, value in reading.items() if key not in given}
        pilots = file.pilots(**given)
        curves += len(pilots)
        if curves > MOST_CURVES:
            problem = f"has more than {MOST_CURVES:,} curves, too many for a page; choose a sweep with --sweep"
            raise KoctError(printable(f"{file.path} {problem}"))
        own = file.metric(own, name, higher, columns)
        score = scores.named(own, higher)
        quantity = own or ("error" if score is None else score.name)
        label = names.problem(name, None)
        symbol = _symbol(own) if own in metrics.curve_metrics() and name in names.sweeps else quantity
        chosen = ((key.replace("_", "-"), value) for key, value in given.items() if value is not None)
        options = [text for key, value in chosen for text in (f"--{key}", str(value))]
        sweeps.append(
            {
                "name": name,
                "title": f"{name} ({label})" if label and label != name else name,
                "metric": quantity,
                "counts": names.counted(name),
                "unit": "error" if score is None else "score",
                "control": f"Target {symbol}" if score or symbol == "error" else f"Target error ({symbol})",
                "noun": "error" if score is None else score.name,
                "axis": score.label if score else symbol if symbol == quantity else f"test {symbol}",
                "command": f"koct budget --target {TARGET} {shlex.join([source, *options])}",  # an assurance last
                **_sweep(budget.forecasts(pilots), score, names, file.costs(name, columns)),
            }
        )
    commit = file.origin.get("koct.commit", "unknown")
    made = f"From {source}{'' if commit == 'unknown' else f', of commit {commit[:10]}'}, by koct {koct.__version__}"
    content = {
        "source": f"{made}; {REPLICATES:,} plausible curves for each network.",
        "interval": f"{100 * LEVEL:.0f} % interval",
        "sweeps": sweeps,
    }
    write_text(out, page(content), Stamp(spec or {}, _inputs(file), {"timed": True}))
    targets = counted(sum(len(each["targets"]) for each in sweeps), "target")
    return f"{out} answers for {targets} and {counted(curves, 'learning curve')}; open it in a browser."


def page(content: Mapping[str, Any]) -> str:
    """Return the HTML; names can hold anything, so nothing in the data can end its element."""
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    names = ("planner.html", "planner.css", "plot.js", "main.js")
    text, style, *scripts = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names)
    for name, part in {"style": style, "script": "".join(scripts), "data": data}.items():  # data last
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def _inputs(file: PilotFile) -> str:
    """Return what a stamp says of the file; empty for what koct has not made."""
    with contextlib.suppress(stamps.Unstamped):
        if file.data.startswith(b"PAR1"):
            return stamps.combined([stamps.as_input(stamps.check_bytes(file.path, file.data), timed=True)])
    return stamps.BLANK


def _symbol(metric: str) -> str:
    """Return a metric of koct as plain text: `rRMSE², peak`."""
    curve = CurveMetric(metric)
    module = metrics.load(curve.column)
    below = getattr(module, "SUBSCRIPT", "")
    return module.SYMBOL + ("²" if curve.squared else "") + (f", {below}" if below else "")


def _sweep(
    forecasts: Mapping[str, Forecast], score: Score | None, names: Names, costs: tuple[str, Mapping[str, Any]] | None
) -> dict[str, Any]:
    """Return what the page shows of a sweep: its targets, its networks, and the answers to all questions."""
    targets = _targets(list(forecasts.values()), score)
    errors = [each if score is None else score.target(each) for each in targets]
    repeated = all(forecast.pilot.degrees_of_freedom > 0 for forecast in forecasts.values())
    answers = {
        assurance: budget.by_target(budget.plans(forecasts, errors, assurance))
        for assurance in (ASSURANCES if repeated else ASSURANCES[:1])
    }
    reached = max(float(forecast.pilot.level.min()) for forecast in forecasts.values())  # by all of them
    first = min(range(len(errors)), key=lambda i: (errors[i] < reached, abs(np.log(errors[i] / reached))))
    for plan in answers[None][first]:  # the next colour is for the fewest samples, as in `koct budget --plot`
        names.colour(plan.arch)
    known: Mapping[str, Law | type[Law]] = {**LAWS, Theory.name: Theory}
    named = {name for forecast in forecasts.values() for name in re.findall(r"\w+", forecast.formula_)}
    reasons: dict[str, int] = {}
    column, runs = costs or (None, {})
    laws = {arch: RunCost.fitted(N, cost, column or "") for arch, (N, cost) in runs.items()}
    texts = [[[_cost(plan, laws.get(plan.arch)) for plan in group] for group in groups] for groups in answers.values()]
    return {
        "score": score is not None,
        "targets": [words.target(error, score) for error in errors],
        "first": first,
        "archs": [_arch(arch, forecast, score, names) for arch, forecast in forecasts.items()],
        "laws": "; ".join(f"{name}: {law.words}" for name, law in known.items() if name in named),
        "questions": [
            {
                "assurance": assurance,
                "choice": "on average" if assurance is None else f"in {100 * assurance:g} % of single runs",
                "goal": words.goal(TARGET, assurance, score),
                "answers": _answers(groups, list(forecasts), score, reasons),
            }
            for assurance, groups in answers.items()
        ],
        "factors": [
            sentence
            for group in answers[None]
            if len(pair := [plan for plan in group if plan.arch.lower() in PAIR]) == 2
            for sentence in budget.factors(*pair)
        ],
        "reasons": list(reasons),
        "cost": column and {"column": column, "texts": texts},
    }


def _targets(forecasts: Sequence[Forecast], score: Score | None) -> list[float]:
    """Return round numbers for `koct budget --target`, in rising order: from what is far ahead to what is reached."""
    levels = [forecast.pilot.level for forecast in forecasts]
    low = min(float(forecast.predict(AHEAD * forecast.pilot.N[-1:])[1][0]) for forecast in forecasts)
    low = max(low, min(float(level.min()) for level in levels) / FAR, MIN_ERROR)
    high = max(max(float(level.max()) for level in levels), 2 * low)
    if isinstance(score, scores.Decibels):
        ends = (float(score.score(error)) / DECIBEL_STEP for error in (high, low))
        targets = [DECIBEL_STEP * step for step in range(int(np.floor(next(ends))), int(np.ceil(next(ends))) + 1)]
    else:
        decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        errors = [float(f"{digits}e{decade - 1}") for decade in decades for digits in ROUND]
        targets = [error for error in errors if low * 0.95 <= error <= high * 1.05]
    if score is not None and not isinstance(score, scores.Decibels):
        rounded = {float(f"{score.score(error):.{score.decimals(error)}f}") for error in targets}
        targets = sorted(each for each in rounded if score.lowest <= each < score.best)
    return targets[:: -(-len(targets) // MOST_TARGETS)] if targets else [0.5]


def _answers(
    groups: Sequence[Sequence[Plan]], archs: Sequence[str], score: Score | None, reasons: dict[str, int]
) -> list[list[list[Any]]]:
    """Return a row for every target and network, as main.js names its entries; `reasons` collects the remarks."""
    samples = [np.stack([plan.samples for plan in plans], axis=1) for plans in zip(*groups, strict=True)]  # by rank
    ratios = [np.transpose(budget.ratio_intervals(samples[0], others)) for others in samples[1:]]  # to the first rank
    rows: list[list[list[Any]]] = []
    for target, group in enumerate(groups):
        to_first = [["1", "", ""], *(_ratio(plan, *of[target]) for plan, of in zip(group[1:], ratios, strict=True))]
        rows.append([])
        for plan, ratio in zip(group, to_first, strict=True):
            answer = plan.answer
            needed = [archs.index(plan.arch), answer.n, answer.n_low, answer.n_high]
            chance = [answer.probability, words.percent(answer.probability)]
            errors = words.errors(answer.error, answer.error_low, answer.error_high, score)
            remark = reasons.setdefault(answer.reason, len(reasons))
            octaves = [round(100 * float(np.mean(plan.samples <= N))) for N in _octaves(plan.forecast)]
            rows[-1].append([*needed, *chance, *errors, *ratio, remark, octaves])
    return rows


def _ratio(plan: Plan, ratio: float, low: float, high: float) -> list[str]:
    """Return a ratio and its interval as texts, each empty where there is none."""
    if np.isnan(ratio):
        return ["", "", ""]
    if plan.answer.n is None or np.isinf(ratio):
        return ["", words.number(low) if 1 <= low < np.inf else "", ""]
    if budget.untold(low, high):
        return [UNTOLD, "", ""]
    return [words.number(each) if 0 < each < np.inf else "" for each in (ratio, low, high)]


def _cost(plan: Plan, law: RunCost | None) -> str:
    """Return what a run with the N of an answer costs; a dash where there is no answer, or no such number."""
    if plan.answer.n is None or law is None or not np.isfinite(value := float(law.of(plan.answer.n))):
        return "–"
    return words.cost(value, law.column)


def _arch(arch: str, forecast: Forecast, score: Score | None, names: Names) -> dict[str, Any]:
    """Return what is drawn of a network: its runs, and its forecast from the pilot's smallest N on."""
    pilot, N = forecast.pilot, forecast.curves_.N
    N = N[np.searchsorted(N, pilot.N[0]) :]
    middle, low, high = forecast.predict(N)
    count = int(np.clip(MOST_MARKS // len(pilot.N), LEAST_RUNS, MOST_RUNS))
    return {
        "name": arch,
        "label": printable(names.archs.get(arch, {}).get("label") or arch),
        "colour": _hex(names.colour(arch)),
        "marker": names.marker(arch),
        "law": forecast.formula_.replace(" %", "\u00a0%"),
        "N": _digits(N, None),
        "band": [_digits(values, score) for values in (low, middle, high)],
        "pilot": [pilot.N.astype(int).tolist(), _digits(pilot.mean, score)],
        "far": int(FAR_AWAY * pilot.N[-1]),
        "octaves": _octaves(forecast),
        "runs": [_digits(column[~np.isnan(column)][:count], score) for column in pilot.errors.T],
    }


def _octaves(forecast: Forecast) -> list[int]:
    """Return the N whose chances are drawn: from the pilot's smallest, by octaves."""
    N = forecast.pilot.N
    return [round(N[0] * 2.0**k) for k in range(2 + int(np.log2(AHEAD * N[-1] / N[0])))]


def _hex(colour: str) -> str:
    """Return a colour of Matplotlib as CSS has it."""
    if colour.startswith("#"):
        return colour
    from matplotlib.colors import to_hex

    return to_hex(colour)


def _digits(errors: FloatArray, score: Score | None) -> list[float | None]:
    """Return five digits of what is only drawn, in the units of the score; None where it has no finite value."""
    values = errors if score is None else score.score(errors)
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]
