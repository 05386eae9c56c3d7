"""Estimate the planner's priors from real learning curves, and write koct/forecast/priors.json.

.venv/bin/python benchmarks/priors.py [--check]

The priors are those that make the errors at the largest N of 195 curves, in two metrics, most probable after pilots up
to a quarter and a sixteenth of it. START is where they begin: laws of few parameters first, so that clean pilots are
answered as well as noisy ones. A Gaussian prior keeps every log probability near it. --check writes nothing: it tells
how forecasts come out whose priors are from other data sets.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import torch
from curves import FACTORS, METRICS, RESOLUTION, folds, judge, load, measures, tasks

from koct.forecast.budget import Forecast
from koct.forecast.ensemble import Ensemble, drift_growth
from koct.forecast.laws import LAWS
from koct.forecast.priors import Priors, to_json
from koct.forecast.runs import Pilot

FILE = Path(__file__).parents[1] / "koct" / "risk" / "priors.json"
START = Priors(
    laws={"power": 0.6, "pow4": 0.16, "mmf4": 0.1, "broken": 0.139, "last": 0.001},
    no_floor={"power": 0.2, "pow4": 0.05, "mmf4": 0.05},
    misfit={0.01: 0.84, 0.05: 0.1, 0.15: 0.06},
    drift={0.0: 0.64, 0.05: 0.14, 0.3: 0.22},
)
STRENGTH = 0.15  # standard deviation of a log probability, or log odds, around START
TRUTH_NOISE = 0.02  # of the log of the true error, a mean of 20 runs


class Tables:
    """How probable every shape with every misfit is after each pilot, under START, and what it says of the truth.

    Attributes
    ----------
    posterior : log probabilities, shape (n_tasks, n_shapes)
    truth : log density of the truth given the shape, for every drift; shape (n_drifts, n_tasks, n_shapes)
    law, misfit : of every shape, as an index; shape (n_shapes,)
    free, floored : for every law of START.no_floor, 1 for its shapes without floor, 1 for all; shape (n_laws, n_shapes)
    """

    def __init__(self, found):
        posterior, truth = [], []
        for task in found:
            pilot = Pilot.from_points(task.N, task.error, task.seed)
            laws = {name: (law, START.laws[name]) for name, law in LAWS.items()}
            ensemble = Ensemble(pilot.points(), laws, START, pilot.freedom)
            weight, mean, variance = ensemble.moments(float(task.sizes[-1]))
            octaves = np.log2(task.sizes[-1] / pilot.N[-1])
            miss = np.log(max(task.truth[-1], RESOLUTION)) - mean
            spreads = (variance + TRUTH_NOISE**2 + (size * drift_growth(octaves)) ** 2 for size in START.drift)
            posterior.append(np.log(np.maximum(weight, 1e-30)))
            truth.append([-0.5 * (miss**2 / spread + np.log(spread)) for spread in spreads])
        self.posterior = torch.tensor(np.array(posterior), dtype=torch.float32)
        self.truth = torch.tensor(np.array(truth).transpose(1, 0, 2), dtype=torch.float32)
        members, sizes = ensemble.members, [len(member.log_weight) for member in ensemble.members]
        walks = list(START.misfit)
        self.law = torch.tensor(np.repeat([list(LAWS).index(member.name) for member in members], sizes))
        self.misfit = torch.tensor(np.repeat([walks.index(member.walk) for member in members], sizes))
        free = [[_floorless(member) * (member.name == name) for member in members] for name in START.no_floor]
        self.free = torch.tensor(np.array([np.concatenate(row) for row in free]), dtype=torch.float32)
        self.floored = torch.stack([self.law == list(LAWS).index(name) for name in START.no_floor]).float()


def _floorless(member):
    """1 for the shapes whose probability grows with that of having no floor."""
    few, many = (member.law.log_prior(_with_no_floor(odds)) for odds in (0.1, 0.5))
    return (many > few).astype(float) if np.any(many != few) else np.zeros(len(few))


def _with_no_floor(odds):
    return Priors(START.laws, dict.fromkeys(START.no_floor, odds), START.misfit, START.drift)


def estimate(tables, rows):
    """Priors from the tasks with these indices."""
    shifts = {name: torch.zeros(len(getattr(START, name)), requires_grad=True) for name in Priors.__dataclass_fields__}
    posterior, truth = tables.posterior[rows], tables.truth[:, rows]
    drift = torch.log(torch.tensor(list(START.drift.values())))
    no_floor = torch.tensor(list(START.no_floor.values()))

    def loss():
        weight = posterior + shifts["laws"][tables.law] + shifts["misfit"][tables.misfit]
        mass = torch.log1p(no_floor * torch.expm1(shifts["no_floor"]))  # that every law keeps its own
        weight = weight + shifts["no_floor"] @ tables.free - mass @ tables.floored
        odds = torch.log_softmax(drift + shifts["drift"], 0)
        joint = torch.logsumexp(weight + truth, 2) + odds[:, None]
        fit = torch.logsumexp(joint, 0) - torch.logsumexp(weight, 1)
        return -fit.sum() + sum((shift**2).sum() for shift in shifts.values()) / (2 * STRENGTH**2)

    optimiser = torch.optim.LBFGS(list(shifts.values()), max_iter=25, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    optimiser.step(closure)
    moved = {name: shift.detach().numpy().astype(float) for name, shift in shifts.items()}
    free = np.array(list(START.no_floor.values()))
    odds = free / (1 - free) * np.exp(moved["no_floor"])
    return Priors(
        _tilted(START.laws, moved["laws"]),
        _rounded(START.no_floor, odds / (1 + odds)),
        _tilted(START.misfit, moved["misfit"]),
        _tilted(START.drift, moved["drift"]),
    )


def _tilted(start, shift):
    """Probabilities with their logs shifted."""
    weight = np.array(list(start.values())) * np.exp(shift)
    return _rounded(start, weight / weight.sum())


def _rounded(names, values):
    return {name: round(float(value), 4) for name, value in zip(names, values, strict=True)}


def koct(priors, N, error, seed):
    return Forecast(Pilot.from_points(N, error, seed), priors=priors)


def check(found, tables):
    """Print the measures of forecasts whose priors are from the other four fifths of the data sets."""
    split = folds(load(METRICS[0]))
    rows = {key: [] for key in found}
    for fold in split:
        inside = np.array([task.curve in set(fold) for each in found.values() for task in each])
        priors = estimate(tables, np.flatnonzero(~inside))
        for key, each in found.items():
            rows[key] += [judge(task, partial(koct, priors)) for task in each if task.curve in set(fold)]
    for (metric, factor), judged in rows.items():
        numbers = {name: value for name, value in measures(judged).items() if isinstance(value, float)}
        print(
            f"{metric}, ×{factor}: " + ", ".join(f"{name} {value:.3f}" for name, value in numbers.items()), flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="cross-validate over data sets instead")
    arguments = parser.parse_args()
    found = {(metric, factor): tasks(metric, factor) for metric in METRICS for factor in FACTORS}
    tables = Tables([task for each in found.values() for task in each])
    if arguments.check:
        check(found, tables)
        return
    priors = estimate(tables, np.arange(len(tables.posterior)))
    FILE.write_text(to_json(priors, about="estimated by benchmarks/priors.py from benchmarks/curves/lcdb.parquet"))
    print(FILE.read_text(), end="")


if __name__ == "__main__":
    main()
