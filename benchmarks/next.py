"""What does `koct next` save, and do its intervals hold? Recorded learning curves (LCDB), against doubling N.

.venv/bin/python benchmarks/next.py [--every K] [--first K]

A pilot is five runs at each N up to a sixteenth of a curve's largest N; the target is 1.1 times the error at the
largest. Both ways add recorded runs, at most 15 at each N, until the ends of the 90 % interval of N are within a wanted
factor; the other ten give the true error. A run costs its N. Doubling, with five runs at each N, ends with the curve,
and the planned runs end where they have cost as much. Curves whose pilot has reached the target already, or whose
interval is narrow enough, are left out. Priors know nothing of a curve's data set (benchmarks/priors.py).

Who stops where an interval is narrow stops where it is so by chance, so `koct next` moves its ends outward by a factor,
`next_runs.STOP`. Where doubling stops, which is no matter of plans, all of STOPS are tried.
"""

import argparse
from functools import partial
from multiprocessing import Pool
from typing import NamedTuple

import numpy as np
from curves import MARGIN, METRICS, RESOLUTION, first_at, left_out, load, priors, tasks

from koct.forecast.budget import Forecast
from koct.forecast.next_runs import AHEAD, STOP, plan, widened
from koct.forecast.runs import Pilot

WANTED = (4, 10)  # upper over lower end of the interval
STOPS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)  # one of them is STOP
START = 16  # the curve's largest N over the largest N that its pilot may have
SEEDS = 5
SAMPLES = 3  # of the training data, of five, whose runs may be added


class Narrow(NamedTuple):
    """The cost of the runs that were added until the interval was narrow, and whether it then held the true N."""

    cost: float
    covers: bool


class Row(NamedTuple):
    """How both ways came out on one curve; None where the interval did not get narrow."""

    metric: str
    curve: str
    wanted: float
    planned: Narrow | None
    doubled: dict[float, Narrow | None]  # by every one of STOPS
    kept: list[float]  # the logs of factors after planned runs, each over what was expected


class Study:
    """A pilot to which recorded runs are added."""

    def __init__(self, metric, task):
        self.sizes, seeds, errors = load(metric)[task.curve]
        free = seeds % 100 < SAMPLES
        truth = np.maximum(errors[:, ~free].mean(axis=1), RESOLUTION)
        order = np.lexsort([seeds[free] // 100, seeds[free] % 100])  # one run of every split first
        self.seeds, self.errors = seeds[free][order], errors[:, free][:, order]
        self.target = MARGIN * truth[-1]
        self.true_n = first_at(self.sizes, truth, self.target)
        self.runs = np.where(self.sizes <= task.N.max(), SEEDS, 0)
        self.cost, self.priors = 0.0, priors(left_out(metric, task.curve))
        self._forecast()

    def _forecast(self):
        place, run = np.array([(k, run) for k, n in enumerate(self.runs) for run in range(n)]).T
        pilot = Pilot.from_points(self.sizes[place], self.errors[place, run], self.seeds[run])
        self.forecast, self.largest = Forecast(pilot, priors=self.priors), pilot.N[-1]
        self.answer = self.forecast.required(self.target)

    def interval(self, stop):
        """(its upper over its lower end, whether it holds the true N)."""
        answer = widened(self.answer, self.forecast.pilot.N[0], stop)
        low, high = (np.inf if n is None else n for n in (answer.n_low, answer.n_high))
        return high / low if low < np.inf else np.inf, bool(low <= self.true_n <= high)

    def add(self, steps):
        """Add `seeds` runs at every N of `steps`, or as many as are recorded."""
        for N, seeds in steps:
            k = np.searchsorted(self.sizes, N)
            seeds = min(seeds, len(self.seeds) - self.runs[k])
            self.runs[k] += seeds
            self.cost += float(seeds * N)
        self._forecast()

    def planned(self, wanted):
        """What `koct next` would run, of what is recorded, and the factor that it expects afterwards."""
        free = self.sizes[(self.runs < len(self.seeds)) & (self.sizes <= AHEAD * self.largest)]
        if not len(free):
            return [], None
        design = plan(self.forecast, self.target, factor=wanted, candidates=free)
        return [(step.N, step.seeds) for step in design.steps], design.expected

    def doubled(self):
        larger = self.sizes[self.sizes > self.largest]
        enough = larger[larger >= 2 * self.largest]
        return [(N, SEEDS) for N in (enough[:1] if len(enough) else larger[-1:])]


def compare(metric, task):
    """A row for every wanted factor that the pilot alone does not achieve."""
    study = Study(metric, task)
    if study.true_n <= study.largest:
        return []
    after = {stop: [(*study.interval(stop), 0.0)] for stop in STOPS}
    while steps := study.doubled():
        study.add(steps)
        for stop, found in after.items():
            found.append((*study.interval(stop), study.cost))
    rows = []
    for wanted in WANTED:
        if wanted < after[STOP][0][0]:
            narrow = {stop: next((each for each in found if each[0] <= wanted), None) for stop, found in after.items()}
            doubled = {
                stop: Narrow(found[2], found[1]) if found and found[2] else None for stop, found in narrow.items()
            }
            rows.append(Row(metric, task.curve, wanted, *_planned(metric, task, wanted, study.cost, doubled)))
    return rows


def _planned(metric, task, wanted, limit, doubled):
    study, kept = Study(metric, task), []
    while study.interval(STOP)[0] > wanted:
        steps, expected = study.planned(wanted)
        if not steps or study.cost + sum(N * seeds for N, seeds in steps) > limit:
            return None, doubled, kept
        study.add(steps)
        if expected is not None:
            kept.append(float(np.log(study.interval(STOP)[0] / expected)))
    return Narrow(study.cost, study.interval(STOP)[1]), doubled, kept


def held(found):
    """(how many intervals hold where one stopped, of how many)."""
    stops = [narrow.covers for narrow in found if narrow]
    return sum(stops), len(stops)


def show(rows):
    for metric in METRICS:
        for wanted in WANTED:
            mine = [row for row in rows if (row.metric, row.wanted) == (metric, wanted)]
            ways = [row.planned for row in mine], [row.doubled[STOP] for row in mine]
            ratios = [one.cost / two.cost for one, two in zip(*ways, strict=True) if one and two]
            spread = ", ".join(f"{value:.2f}" for value in np.quantile(ratios, [0.25, 0.5, 0.75])) if ratios else "none"
            told = " and ".join("{} of {}".format(*held(way)) for way in ways)
            print(f"{metric}, factor {wanted}: {len(mine)} curves; planned / doubled cost, quartiles: {spread}, of")
            print(f"    {len(ratios)} narrow by both; the true N is inside in {told} that planning, doubling narrowed")
    print("doubling: " + "; ".join(f"{stop}: {'{} of {}'.format(*held(row.doubled[stop] for row in rows))}"
                                   for stop in STOPS))  # fmt: skip
    good, count = held(row.planned for row in rows)
    kept = np.array([each for row in rows for each in row.kept])
    print(f"planned, {STOP}: {good} of {count} hold ({good / count:.0%})")
    quartiles = ", ".join(f"{value:.2f}" for value in np.exp(np.quantile(kept, [0.25, 0.5, 0.75])))
    print(f"factor after {len(kept)} plans, over what was expected, quartiles: {quartiles}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="K", help="take every Kth curve only")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="begin with curve K, counted from 0")
    arguments = parser.parse_args()
    rows = []
    with Pool() as pool:
        for metric in METRICS:
            found = pool.imap(partial(compare, metric), tasks(metric, START)[arguments.first :: arguments.every])
            rows += [row for each in found for row in each]
    show(rows)


if __name__ == "__main__":
    main()
