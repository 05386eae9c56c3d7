"""What does `koct next` save? Recorded learning curves (LCDB), against doubling N with five seeds.

.venv/bin/python benchmarks/next.py [--every K]

A pilot is five runs at each N up to a sixteenth of a curve's largest N; the target is 1.1 times the error at the
largest. Both ways add recorded runs, at most 15 at each N, until the ends of the 90 % interval of N are within a wanted
factor; the other ten give the true error. A run costs its N. Doubling ends with the curve, and the planned runs end
where they have cost as much. Curves whose pilot has reached the target already, or whose interval is narrow enough, are
left out.
"""

import argparse
from functools import partial
from multiprocessing import Pool
from typing import NamedTuple

import numpy as np
from curves import MARGIN, METRICS, RESOLUTION, first_crossing, load, tasks

from koct.forecast import next_runs
from koct.forecast.budget import Forecast
from koct.forecast.next_runs import AHEAD, plan
from koct.forecast.runs import Pilot

WANTED = (2, 4, 10)  # upper over lower end of the interval
START = 16  # the curve's largest N over the largest N that its pilot may have
SEEDS = 5
SAMPLES = 3  # of the training data, of five, whose runs may be added


class Narrow(NamedTuple):
    """The cost of the runs that were added until the interval was narrow, and whether it then held the true N."""

    cost: float
    covers: bool


class Row(NamedTuple):
    """How both ways came out on one curve; None where the interval did not get narrow."""

    wanted: float
    planned: Narrow | None
    doubled: Narrow | None


class Study:
    """A pilot to which recorded runs are added."""

    def __init__(self, metric, task):
        self.sizes, seeds, errors = load(metric)[task.curve]
        free = seeds % 100 < SAMPLES
        truth = np.maximum(errors[:, ~free].mean(axis=1), RESOLUTION)
        order = np.lexsort([seeds[free] // 100, seeds[free] % 100])  # one run of every split first
        self.seeds, self.errors = seeds[free][order], errors[:, free][:, order]
        self.target = MARGIN * truth[-1]
        self.true_n = first_crossing(self.sizes, truth, self.target)
        self.runs = np.where(self.sizes <= task.N.max(), SEEDS, 0)
        self.cost = 0.0
        self._forecast()

    def _forecast(self):
        place, run = np.array([(k, run) for k, n in enumerate(self.runs) for run in range(n)]).T
        pilot = Pilot.from_points(self.sizes[place], self.errors[place, run], self.seeds[run])
        self.forecast, self.largest = Forecast(pilot), pilot.N[-1]
        answer = self.forecast.answers([self.target], self.forecast.samples([self.target], blur=next_runs.BLUR))[0]
        low, high = (np.inf if n is None else n for n in (answer.n_low, answer.n_high))
        self.factor = high / low if low < np.inf else np.inf
        self.covers = bool(low <= self.true_n <= high)

    def add(self, steps):
        """Add `seeds` runs at every N of `steps`, or as many as are recorded."""
        for N, seeds in steps:
            k = np.searchsorted(self.sizes, N)
            seeds = min(seeds, len(self.seeds) - self.runs[k])
            self.runs[k] += seeds
            self.cost += float(seeds * N)
        self._forecast()

    def planned(self, wanted):
        """What `koct next` would run, of what is recorded."""
        free = self.sizes[(self.runs < len(self.seeds)) & (self.sizes <= AHEAD * self.largest)]
        if not len(free):
            return []
        design = plan(self.forecast, self.target, factor=wanted, candidates=free)
        return [(step.N, step.seeds) for step in design.steps]

    def doubled(self):
        larger = self.sizes[self.sizes > self.largest]
        enough = larger[larger >= 2 * self.largest]
        return [(N, SEEDS) for N in (enough[:1] if len(enough) else larger[-1:])]


def compare(metric, task):
    """A row for every wanted factor that the pilot alone does not achieve."""
    study = Study(metric, task)
    if study.true_n <= study.largest:
        return []
    start = study.factor
    after = []
    while steps := study.doubled():
        study.add(steps)
        after.append((study.factor, Narrow(study.cost, study.covers)))
    return [
        Row(wanted, _planned(metric, task, wanted, study.cost), _first(after, wanted))
        for wanted in WANTED
        if wanted < start
    ]


def _first(after, wanted):
    return next((narrow for factor, narrow in after if factor <= wanted), None)


def _planned(metric, task, wanted, limit):
    study = Study(metric, task)
    while study.factor > wanted:
        steps = study.planned(wanted)
        if not steps or study.cost + sum(N * seeds for N, seeds in steps) > limit:
            return None
        study.add(steps)
    return Narrow(study.cost, study.covers)


def show(metric, rows):
    for wanted in WANTED:
        mine = [row for row in rows if row.wanted == wanted]
        planned, doubled = ([row for row in mine if getattr(row, way)] for way in ("planned", "doubled"))
        ratios = [row.planned.cost / row.doubled.cost for row in planned if row.doubled]
        spread = ", ".join(f"{value:.2f}" for value in np.quantile(ratios, [0.25, 0.5, 0.75])) if ratios else "none"
        print(
            f"{metric}, factor {wanted}: {len(mine)} curves; narrow by planning {len(planned)}, by doubling "
            f"{len(doubled)}, by both {len(ratios)}; ratio of the costs, quartiles: {spread}; "
            f"true N inside: {_share(planned, 'planned')} and {_share(doubled, 'doubled')}",
            flush=True,
        )


def _share(rows, way):
    return f"{np.mean([getattr(row, way).covers for row in rows]):.0%}" if rows else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="K", help="take every Kth curve only")
    arguments = parser.parse_args()
    with Pool() as pool:
        for metric in METRICS:
            found = pool.imap(partial(compare, metric), tasks(metric, START)[:: arguments.every])
            show(metric, [row for rows in found for row in rows])


if __name__ == "__main__":
    main()
