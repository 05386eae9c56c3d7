"""Estimate the planner's priors from real learning curves: koct/forecast/priors.json, and those without each data set.

.venv/bin/python benchmarks/priors.py

The priors are those that make the errors at the largest N of 195 curves of others, in two metrics, and of koct's own
curves most probable, after pilots up to a quarter and a sixteenth of it. A Gaussian prior keeps every log probability
near the others. benchmarks/curves/left_out.json has what the same gives without the curves of a data set, or of a fifth
of those of others; benchmarks/curves.py judges forecasts by these.

The ends of intervals are shares of the curves that a forecast draws. They are chosen afterwards, on forecasts of the
curves of others by the priors without them: those of the error for the best interval score, and those of N so that 6 %
of the true N lie below and 4 % above; the mean that first reaches a target has noise, which makes the true N early.
Again, what judges a fifth of the data sets is chosen on the other four.
"""

import argparse
import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from curves import FACTORS, LEFT_OUT, METRICS, judge, koct, left_out, tasks
from scipy.special import ndtr

from koct.forecast.budget import LEVEL
from koct.forecast.ensemble import Ensemble, drift_growth
from koct.forecast.laws import LAWS, GridLaw, Priors
from koct.forecast.runs import Pilot

FILE = Path(__file__).parents[1] / "koct" / "forecast" / "priors.json"
SETS = [*((name, factor) for name in (*METRICS, "studies") for factor in FACTORS), ("reference", None)]
MISFIT, DRIFT = (0.01, 0.03, 0.08, 0.2), (0.0, 0.025, 0.05, 0.1, 0.3)
BINS = {name: int(law.bins.max()) + 1 for name, law in LAWS.items() if isinstance(law, GridLaw)}
OWN = 3.0  # weight of koct's own curves: they are fewer
STRENGTH = 1.5  # standard deviation of a log probability
TRUTH_NOISE = 0.02  # of the log of the true error, a mean of 20 runs
BAND = 0.03  # around the truth: what is to be probable
SELDOM = 1e-4  # density that every truth has, so that a single one does not decide
SHARES = np.arange(1, 21) / 200  # of drawn curves beyond an end of an interval of the error: those to choose from
TAIL = (1 - LEVEL) / 2
N_TAILS = 0.06, 0.04  # shares of the true N below and above its interval


def _even(names):
    return dict.fromkeys(names, 1 / len(names))


SHAPES = {name: [1 / count] * count for name, count in BINS.items()}
EVEN = Priors(_even(LAWS), SHAPES, _even(MISFIT), _even(DRIFT), (TAIL, 1 - TAIL), (TAIL, 1 - TAIL))


def table(task):
    """(groups, log evidence of each, density of the truth for each and every drift); a group is (law, bin, misfit)."""
    pilot = Pilot.from_points(task.N, task.error, task.seed)
    points = pilot.points()
    ensemble = Ensemble(points, {name: (law, EVEN.laws[name]) for name, law in LAWS.items()}, EVEN, pilot.freedom)
    _, mean, variance = ensemble.moments(float(task.sizes[-1]))
    drift = np.array(DRIFT) * drift_growth(np.log2(task.sizes[-1] / pilot.N[-1]))
    truth, known = np.log(task.truth[-1]), max(TRUTH_NOISE, np.sqrt(points.covariance[-1, -1]))
    start, groups, evidence, density = 0, [], [], []
    for member in ensemble.members:
        bins = getattr(member.law, "bins", np.zeros(len(member.log_weight), dtype=int))
        for place in np.unique(bins):
            own = np.flatnonzero(bins == place)
            top = member.log_weight[own].max()
            weight = np.exp(member.log_weight[own] - top)
            spread = np.sqrt(variance[start + own] + TRUTH_NOISE**2 + drift[:, None] ** 2)
            # A curve is above an end if its law says so, and the pilot's last error is as well: it does not rise.
            above = [
                ndtr((mean[start + own] - end) / spread) @ weight * ndtr((points.log_mean[-1] - end) / known)
                for end in (truth - BAND, truth + BAND)
            ]
            groups.append((member.name, int(place), member.walk))
            evidence.append(top + np.log(weight.sum()) - member.law.log_prior(EVEN)[own[0]] - np.log(len(own)))
            density.append((above[0] - above[1]) / weight.sum() / (2 * BAND))
        start += len(bins)
    return groups, evidence, density


class Tables:
    """The tables of all tasks; `without` says which priors each is judged by."""

    def __init__(self):
        found = [(name, task) for name, factor in SETS for task in tasks(name, factor)]
        made = [table(task) for _, task in found]
        self.without = np.array([left_out(name, task.curve) for name, task in found])
        self.weight = torch.tensor([1.0 if name in METRICS else OWN for name, _ in found])
        self.groups = made[0][0]
        self.evidence, self.density = (
            torch.tensor(np.array([each[i] for each in made]), dtype=torch.float32) for i in (1, 2)
        )

    def estimate(self, without=None):
        """Priors from the tasks that are not left out."""
        kinds = [sorted({group[:2] for group in self.groups}), list(MISFIT)]
        place = [torch.tensor([kinds[0].index(group[:2]) for group in self.groups])]
        place.append(torch.tensor([kinds[1].index(group[2]) for group in self.groups]))
        logs = [torch.zeros(count, requires_grad=True) for count in (*map(len, kinds), len(DRIFT))]
        kept = torch.tensor(self.without != without)
        evidence, density, weight = self.evidence[kept], self.density[kept], self.weight[kept]

        def loss():
            posterior = torch.softmax(evidence + logs[0][place[0]] + logs[1][place[1]], 1)
            fit = torch.einsum("tg,d,tgd->t", posterior, torch.softmax(logs[2], 0), density)
            return -(weight * torch.log(fit + SELDOM)).sum() + sum((log**2).sum() for log in logs) / (2 * STRENGTH**2)

        optimiser = torch.optim.LBFGS(logs, max_iter=60, line_search_fn="strong_wolfe")

        def closure():
            optimiser.zero_grad()
            value = loss()
            value.backward()
            return value

        optimiser.step(closure)
        laws, misfit, drift = (torch.softmax(log, 0).tolist() for log in logs)
        of = dict(zip(kinds[0], laws, strict=True))
        whole = {name: sum(share for (law, _), share in of.items() if law == name) for name in LAWS}
        return Priors(
            {name: round(share, 4) for name, share in whole.items()},
            {name: [round(of[name, i] / whole[name], 4) for i in range(count)] for name, count in BINS.items()},
            {size: round(share, 4) for size, share in zip(MISFIT, misfit, strict=True)},
            {size: round(share, 4) for size, share in zip(DRIFT, drift, strict=True)},
            EVEN.error_ends,
            EVEN.n_ends,
        )


def ends(rows):
    """`error_ends` and `n_ends` of priors, from rows of `curves.judge`."""
    draws = np.sort([row["draws"] for row in rows])  # of the log error over the true one
    low, high = (draws[:, np.ceil(len(draws[0]) * shares).astype(int) - 1] for shares in (SHARES, 1 - SHARES))
    scores = (
        np.maximum(-end, (1 / TAIL - 1) * end).mean(axis=0) for end in (low, -high)
    )  # the two halves of Winkler's
    below, above = (SHARES[np.argmin(score)] for score in scores)
    least, most = np.transpose([row["n_shares"] for row in rows])
    of_n = max(np.quantile(most, N_TAILS[0]), 1 / len(draws[0])), np.quantile(least, 1 - N_TAILS[1])
    chosen = {"error_ends": (below, 1 - above), "n_ends": of_n}
    return {name: [round(float(end), 3) for end in both] for name, both in chosen.items()}


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    tables = Tables()
    found = {name: tables.estimate(name) for name in (None, *sorted(set(tables.without)))}
    rows = {}
    for metric, factor in SETS:
        for task in tasks(metric, factor) if metric in METRICS else ():
            name = left_out(metric, task.curve)
            rows.setdefault(name, []).append(judge(task, partial(koct, priors=found[name])))
    for name, priors in found.items():
        others = [row for fold, each in rows.items() if fold != name for row in each]
        found[name] = replace(priors, **ends(others))
    own = {"about": "estimated by benchmarks/priors.py", **asdict(found.pop(None))}
    FILE.write_text(json.dumps(own, indent=1) + "\n")
    print(FILE.read_text(), end="")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(asdict(priors))}" for name, priors in found.items())
    LEFT_OUT.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
