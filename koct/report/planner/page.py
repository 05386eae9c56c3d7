"""Write the planner page of a pilot."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import koct
from koct import metrics
from koct.base import stamps
from koct.base.files import write_text
from koct.base.stamps import Stamp
from koct.bound.calibration import PAPER_PAIR
from koct.errors import KoctError
from koct.forecast import portable, scores
from koct.forecast.budget import ENDS, EXTRAPOLATION_RATIO, LEVEL, MAX_LOG_RATIO, N_ENDS, REPLICATES, Forecast
from koct.forecast.columns import printable
from koct.forecast.ensemble import STEP
from koct.forecast.next_runs import Cost
from koct.forecast.pilot import PilotFile
from koct.forecast.runs import MAX_ERROR, MIN_ERROR, Pilot
from koct.forecast.scores import Score
from koct.metrics.curve_metric import CurveMetric
from koct.report.labels import Names, described
from koct.report.planner import packed
from koct.report.text.budget_text import EVEN, PAIRING, Plan, plans

STYLE, PAGE = "page.css", "page.html"
SCRIPTS = ("numbers.js", "forecast.js", "words.js", "plot.js", "main.js")
MOST_CURVES = 1000  # of all sweeps together
MOST_RUNS, LEAST_RUNS, MOST_MARKS = 100, 5, 2000  # that are drawn: at each N, at least, and of a network
AHEAD = 64  # times the pilot's largest N: what the slider's end reaches at best
FAR = 100  # times below the smallest error of the pilot: where the slider ends at the latest
SECONDS = ("seconds", "fit_seconds")  # columns of costs with a unit


def write(
    file: PilotFile,
    out: str,
    metric: str | None = None,
    higher: float | None = None,
    group: str | None = None,
    test_size: int | None = None,
    sweep: str | None = None,
    spec: Mapping[str, Any] | None = None,
) -> None:
    """Write the page of a pilot file; the options are those of `PilotFile.pilots`.

    Without `sweep`, the page has all that the file has, and without `metric`, each has the one that a study gave it.
    """
    inputs, origin = _origin(file)
    try:
        about, names = described(origin, "koct.sweeps"), Names(origin)
    except KoctError as error:
        raise KoctError(printable(f"{file.path}: {error}; remove it, or give a file that koct has made")) from None
    given = {name: entry.get("metric") for name, entry in about.items()} | dict((spec or {}).get("metrics", {}))
    found, curves = [], 0
    for name in [sweep] if sweep is not None else file.sweeps():
        own = metric or (None if higher is not None else given.get(name))
        pilots = file.pilots(own, name, higher, group, test_size)
        curves += len(pilots)
        if curves > MOST_CURVES:
            problem = f"has more than {MOST_CURVES:,} curves, too many for a page; choose a sweep with --sweep"
            raise KoctError(printable(f"{file.path} {problem}"))
        content = _sweep(pilots, scores.named(own, higher), own, names, file.costs(name))
        found.append({"name": name, "label": about.get(name or "", {}).get("label"), **content})
        if name in about and own in metrics.curve_metrics():
            found[-1] |= {"quantity": _symbol(own), "axis": f"test {_symbol(own)}"}
    content = {**_constants(), "source": _source(file, origin), "sweeps": found}
    options = {"higher": higher, "group": group, "test-size": test_size}
    content["options"] = {key: value for key, value in options.items() if value is not None}
    write_text(out, page(content), Stamp(spec or {}, inputs))


def page(content: Mapping[str, Any]) -> str:
    """The HTML; names can hold anything, so nothing in the data can end its element."""
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    text = _asset(PAGE)
    parts = {"style": _asset(STYLE), "script": "\n".join(map(_asset, SCRIPTS)), "data": data}  # data last
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _origin(file: PilotFile) -> tuple[str, dict[str, str]]:
    """(what a stamp says of the file, its provenance): both empty for what koct has not made."""
    if not file.data.startswith(b"PAR1"):
        return stamps.BLANK, {}
    inputs = stamps.BLANK
    with contextlib.suppress(stamps.Unstamped):
        inputs = stamps.combined([stamps.check_bytes(file.path, file.data).content])
    try:
        metadata = pq.ParquetFile(pa.BufferReader(file.data)).schema_arrow.metadata or {}
    except (pa.ArrowException, OSError, ValueError):
        return inputs, {}  # its reader says what is wrong
    origin = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
    return inputs, {key: value for key, value in origin.items() if key.startswith("koct.")}


def _source(file: PilotFile, origin: Mapping[str, str]) -> dict[str, str | None]:
    name = printable(os.path.basename(os.fspath(file.path)))
    return {"file": name, "koct": koct.__version__, "commit": origin.get("koct.commit")}


def _constants() -> dict[str, Any]:
    """What forecast.js computes with, as `koct.risk` does."""
    return {
        "portable": portable.CONSTANTS,
        "step": STEP,
        "level": LEVEL,
        "ends": ENDS,
        "nEnds": N_ENDS,
        "errors": [MIN_ERROR, MAX_ERROR],
        "maxLogRatio": MAX_LOG_RATIO,
        "extrapolation": EXTRAPOLATION_RATIO,
        "even": EVEN,
        "pair": PAPER_PAIR,
        "pairing": np.random.default_rng(PAIRING).permutation(REPLICATES).tolist(),
    }


def _sweep(
    pilots: Mapping[str, Pilot],
    score: Score | None,
    metric: str | None,
    names: Names,
    costs: tuple[str, Mapping[str, Any]] | None,
) -> dict[str, Any]:
    target = _first_target(pilots, score)
    found = {plan.arch: plan for plan in plans(pilots, [target if score is None else score.target(target)])}
    for arch in found:  # the next colour is for the network with the fewest samples, as in `koct budget --plot`
        names.colour(arch)
    column, runs = costs or (None, {})
    fitted = {arch: Cost.fitted(N, cost, column or "") for arch, (N, cost) in runs.items()}
    name = metric or ("error" if score is None else score.name)
    return {
        "metric": name,
        "given": metric,
        "quantity": name,
        "axis": name if score is None else score.label,
        "score": None if score is None else _score(score),
        "cost": None if column is None else {"column": column, "unit": "s" if column in SECONDS else ""},
        "target": target,
        **_ends([plan.forecast for plan in found.values()]),
        "archs": [_arch(found[arch], names, fitted.get(arch)) for arch in pilots],
    }


def _symbol(metric: str) -> str:
    """A metric of koct as plain text: `rRMSE², peak`."""
    found = CurveMetric(metric)
    module = metrics.load(found.column)
    below = getattr(module, "SUBSCRIPT", "")
    return module.SYMBOL + ("²" if found.squared else "") + (f", {below}" if below else "")


def _score(score: Score) -> dict[str, Any]:
    return {
        "name": score.name,
        "label": score.label,
        "best": _finite(score.best),
        "lowest": _finite(score.lowest),
        "scale": _finite(score.scale),
        "decibel": scores.DECIBEL if isinstance(score, scores.Decibels) else None,
        "mostLog": scores.MOST_LOG,
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _first_target(pilots: Mapping[str, Pilot], score: Score | None) -> float:
    """Two digits of the smallest error that every network has reached in its pilot, or of the score."""
    error = max(float(pilot.level.min()) for pilot in pilots.values())
    if score is None:
        step = 10.0 ** (np.floor(np.log10(error)) - 1)
        return float(f"{np.ceil(error / step) * step:.2g}")
    found = float(f"{score.score(error):.{score.decimals(error)}f}")
    return found if found < score.best else float(score.score(0.5))


def _ends(forecasts: Sequence[Forecast]) -> dict[str, float]:
    """The errors at the ends of the slider."""
    levels = [forecast.pilot.level for forecast in forecasts]
    low = min(float(forecast.predict(AHEAD * forecast.pilot.N[-1:])[1][0]) for forecast in forecasts)
    low = max(low, min(float(level.min()) for level in levels) / FAR, MIN_ERROR)
    return {"low": float(f"{low:.2g}"), "high": max(float(f"{max(level.max() for level in levels):.2g}"), 2 * low)}


def _arch(plan: Plan, names: Names, cost: Cost | None) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    arch, forecast = plan.arch, plan.forecast
    pilot, curves = forecast.pilot, forecast.curves_
    first = int(np.searchsorted(curves.N, pilot.N[0]))
    middle, low, high = forecast.predict(curves.N[first:])
    count = int(np.clip(MOST_MARKS // len(pilot.N), LEAST_RUNS, MOST_RUNS))
    return {
        "name": arch,
        "label": printable(names.archs.get(arch, {}).get("label") or arch),
        "colour": to_hex(names.colour(arch)),
        "marker": names.marker(arch),
        "law": forecast.formula_,
        "remarks": [*forecast.warnings_, *forecast.remarks()],
        "floor": plan.calibration.floor,
        "sigma": plan.calibration.sigma,
        "cost": [cost.scale, cost.slope] if cost is not None and np.isfinite(cost.scale) else None,
        "rate": pilot.test_size is not None,
        "assurable": pilot.degrees_of_freedom > 0,
        "centre": float(pilot.points().log_mean[-1]),
        "N": packed.floats(curves.N[first:]),
        "reached": packed.falling(curves.reached[:, first:]),
        "spreads": packed.falling(forecast.spreads_[:, None]),
        "band": [_digits(values) for values in (low, middle, high)],
        "pilot": [pilot.N.astype(int).tolist(), pilot.mean.tolist()],
        "runs": [_digits(column[~np.isnan(column)][:count]) for column in pilot.errors.T],
    }


def _digits(values: Sequence[float] | np.ndarray) -> list[float]:
    """Five digits: what is only drawn."""
    return [float(f"{value:.5g}") for value in values]
