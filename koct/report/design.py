"""Report which runs to add to a pilot as text, as JSON or as an overlay of the workflow's configuration."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike

import numpy as np

from koct.errors import KoctError
from koct.report.budget import _goal, _interval, _table
from koct.risk.budget import Answer, Forecast
from koct.risk.next_runs import Cost, Design, plan
from koct.risk.runs import Pilot
from koct.risk.scores import Score


@dataclass(frozen=True)
class Next:
    """The runs to add for one architecture, what a run costs, and the answer without them."""

    arch: str
    design: Design
    cost: Cost
    answer: Answer


@dataclass(frozen=True)
class Overlay:
    """A sweep of the workflow with the N and seeds of the plans, and how many fits they add to its grid."""

    sweep: str
    N: list[int]
    seeds: list[int]
    added: int

    def as_yaml(self) -> str:
        import yaml

        content = {"sweeps": {self.sweep: {"N": self.N, "seeds": self.seeds}}}
        return yaml.safe_dump(content, default_flow_style=None, allow_unicode=True, width=120)


def designs(
    pilots: Mapping[str, Pilot],
    target: float,
    costs: Mapping[str, Cost],
    arch: str | None = None,
    factor: float = 2.0,
    budget: float | None = None,
    largest: int | None = None,
) -> list[Next]:
    """A plan for every architecture, or for one of them."""
    if arch is not None and arch not in pilots:
        raise KoctError(f"--arch {arch}: the pilot has no such arch; choose one of {', '.join(pilots)}")
    found = []
    for stream, (name, pilot) in enumerate(pilots.items()):
        if arch in (None, name):
            forecast = Forecast(pilot, seed=stream)  # the same as that of `koct budget`
            cost = costs.get(name, Cost())
            limit = np.inf if budget is None else budget
            design = plan(forecast, target, cost, factor, limit, largest)
            found.append(Next(name, design, cost, forecast.required(target)))
    return found


def overlay(path: str | PathLike[str], sweep: str | None, found: list[Next]) -> Overlay:
    """The sweep's whole grid with the runs that the plans add; `path` is the workflow's cells.parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if sweep is None:
        raise KoctError("--overlay is for a sweep of the workflow; name it with --sweep")
    try:
        rows = pq.read_table(path, columns=["sweep", "arch", "N", "seed"]).to_pylist()
        rows = [row for row in rows if row["sweep"] == sweep]
        runs = {(row["arch"], int(row["N"]), int(row["seed"])) for row in rows}
    except (pa.ArrowException, OSError, ValueError, TypeError):
        raise KoctError(f"--overlay is for the cells.parquet of the workflow, and {path} is none; omit it") from None
    archs, N, seeds = (sorted({run[i] for run in runs}) for i in range(3))
    steps = [step for plan in found for step in plan.design.steps]
    done = {n: min(sum(run[:2] == (arch, n) for run in runs) for arch in archs) for n in N}
    most = max((done.get(step.N, 0) + step.seeds for step in steps), default=0)
    fresh = (seed for seed in itertools.count(1) if seed not in seeds)
    seeds = seeds + list(itertools.islice(fresh, max(0, most - len(seeds))))
    N = sorted({*N, *(step.N for step in steps)})
    return Overlay(sweep, N, seeds, len(archs) * len(N) * len(seeds) - len(runs))


def as_json(found: list[Next], **about: object) -> str:
    """A JSON list with one object per architecture; `about` is added to each."""
    return json.dumps(
        [
            {
                "arch": each.arch,
                "target": each.design.target,
                "factor": each.design.wanted,
                "present": _finite(each.design.present),
                "expected": _finite(each.design.expected),
                "done": each.design.done,
                "enough": each.design.enough,
                "largest": each.design.largest,
                "cost": each.design.cost,
                "cost_law": asdict(each.cost),
                "runs": [asdict(step) for step in each.design.steps],
                **about,
            }
            for each in found
        ],
        indent=1,
        allow_nan=False,
    )


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def as_text(found: list[Next], score: Score | None = None) -> str:
    """A table of the runs, a sentence or two for every architecture, and what is assumed about cost."""
    rows = [["arch", "N", "seeds", "cost", "interval after"]]
    for each in found:
        for step in each.design.steps:
            rows.append([each.arch, f"{step.N:,}", str(step.seeds), _cost(step.cost, each.cost), _times(step.factor)])
    lines = [*_table(rows), ""] if len(rows) > 1 else []
    lines += [_sentence(each, score) for each in found]
    if len(rows) > 1:
        lines += ["", *dict.fromkeys(_assumed(each, len(found) > 1) for each in found if each.design.steps)]
    return "\n".join(lines) + "\n"


def overlay_text(made: Overlay, path: str) -> str:
    """What an overlay adds, and how to use it."""
    fits = "1 fit" if made.added == 1 else f"{made.added:,} fits"
    return (
        f"\n{path} adds {fits} to {made.sweep}, whose grid has every seed at every N: "
        f"snakemake --configfile {path}\n"
        f"If an N is above the sweep's pool.train, plan again with --largest, or make the pool larger.\n"
    )


def _times(factor: float) -> str:
    return f"factor {factor:,.3g}" if factor < 1000 else "factor above 1,000"


def _cost(value: float, law: Cost) -> str:
    shown = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{shown} s" if law.column in ("seconds", "fit_seconds") else shown


def _sentence(each: Next, score: Score | None) -> str:
    design, wanted = each.design, f"{each.design.wanted:g}"
    interval = f"For {_goal(design.target, None, score)}, the interval of {each.arch} "
    interval += "has no lower end" if each.answer.n_low is None else f"is {_interval(each.answer)}"
    if design.done:
        return f"{interval}: it is within a factor of {wanted} already, and no more runs are needed."
    if not design.steps:
        return (
            f"{interval}, and no runs up to N = {design.largest:,} that the budget allows would narrow it much; "
            f"give a larger --largest or --budget, or another target."
        )
    text = f"{interval}. The runs cost {_cost(design.cost, each.cost)} together and should bring it "
    if design.enough:
        return text + f"within a factor of {wanted}."
    return text + f"to a {_times(design.expected)}, not to {wanted} yet: plan again when they are done."


def _assumed(each: Next, several: bool) -> str:
    if each.cost.column is None:
        return "A run is taken to cost its N, since the pilot has no column seconds or cost."
    law = f"{each.cost.scale:.3g} × N^{each.cost.slope:.2f}"
    return f"A run{f' of {each.arch}' if several else ''} costs {law}, fitted to the column {each.cost.column}."
