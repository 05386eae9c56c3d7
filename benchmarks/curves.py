"""How good are forecasts on learning curves that nobody here made? 20 scikit-learn models on OpenML data sets (LCDB).

.venv/bin/python benchmarks/curves.py [--curves K] [--json FILE]

A pilot is five runs at each N up to a quarter or a sixteenth of the curve's largest N. A forecast is judged at the
largest N, where 20 other runs give the true error. benchmarks/curves/README.md describes the data. koct's priors are
from these same curves; benchmarks/priors.py --check cross-validates them. "log" are fits in log space, with bounds
chosen where they do best here.
"""

import argparse
import json
import time
import warnings
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.optimize import least_squares

from koct.errors import KoctError
from koct.forecast.budget import Forecast
from koct.forecast.runs import Pilot
from koct.prediction.curve import first_crossing

DATA = Path(__file__).with_name("curves") / "lcdb.parquet"
METRICS = ("error", "logloss")
FACTORS = (4, 16)  # the curve's largest N over the largest N that its pilot may have
RUNS = 25  # per N: five splits into training and test data, and five samples of the training data in each
RESOLUTION = 1e-4  # of the data; smaller errors are taken for this one
MARGIN = 1.1  # the target is the true error at the largest N, times this
VARIANTS = {741: 679, 959: 26, 978: 12, 995: 22, 1000: 57, 1119: 179, 1590: 179}  # the same data under another id
EXPONENTS = np.geomspace(0.01, 2, 40)  # of the baselines with four parameters
MAX_RATIO = 1e6  # a baseline that needs more than this many times the pilot's largest N is out of reach


class Task(NamedTuple):
    """A pilot, with one entry per run, and the truth: the mean error of the other runs at each N of the curve."""

    curve: str
    N: np.ndarray
    error: np.ndarray
    seed: np.ndarray
    sizes: np.ndarray
    truth: np.ndarray


@cache
def load(metric):
    """{curve: (N, seeds, errors)} with the errors of every run at every N, shape (n_sizes, RUNS)."""
    table = pq.ParquetFile(DATA).read()
    table = table.filter(pc.equal(table["metric"].cast(pa.string()), metric))
    curve = np.array(table["curve"].cast(pa.string()).to_pylist())
    N, seed = table["N"].to_numpy(), table["seed"].to_numpy()
    error = np.round(table["error"].cast(pa.float64()).to_numpy(), 4)  # the cast is off by the last bit
    starts = np.flatnonzero(np.r_[True, curve[1:] != curve[:-1], True])
    return {str(curve[i]): (N[i:j:RUNS], seed[i : i + RUNS], error[i:j].reshape(-1, RUNS)) for i, j in pairwise(starts)}


def tasks(metric, factor, curves=None):
    """One task per curve, or per curve in `curves`; a curve whose pilot would have fewer than two N has none."""
    found = []
    for curve, (sizes, seeds, errors) in load(metric).items():
        small = sizes <= sizes[-1] / factor
        if small.sum() < 2 or (curves is not None and curve not in curves):
            continue
        pilot = seeds % 100 == 0
        N, seed = np.meshgrid(sizes[small], seeds[pilot], indexing="ij")
        error = errors[small][:, pilot]
        found.append(Task(curve, N.ravel(), error.ravel(), seed.ravel(), sizes, errors[:, ~pilot].mean(axis=1)))
    return found


def dataset(curve):
    """The OpenML id of the data set that a curve belongs to."""
    return int(curve.split("-", 1)[0])


def folds(curves, k=5):
    """The curves in k lists of similar length; all curves of a data set and its variants are in the same list."""
    groups = {}
    for curve in sorted(curves):
        groups.setdefault(VARIANTS.get(dataset(curve), dataset(curve)), []).append(curve)
    split = [[] for _ in range(k)]
    for _, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        min(split, key=len).extend(group)
    return split


# Forecasters: functions of the pilot's N, error and seed that return an object with `predict` and `required`.


def koct(N, error, seed):
    return Forecast(Pilot.from_points(N, error, seed))


class Size(NamedTuple):
    """What a baseline answers: the N that reaches the target, without an interval."""

    n: int | None
    n_low: None = None
    n_high: None = None


class Fitted:
    """A baseline: floor + amplitude · shape(N), fitted to the mean errors in linear or in log space.

    `grids` hold values of the shape's parameters, for N in units of the pilot's largest. The whole grid is searched
    first, with the best floor and amplitude for each of its points; `least_squares` then refines all parameters from
    the best point. The ends of the grids are bounds, set where the baselines do best; no amplitude is negative, so a
    curve never rises.
    """

    interval = False  # a baseline has no intervals
    grids = ()

    def __init__(self, N, error, seed, log=False):
        self.N = np.unique(N).astype(float)
        mean = np.maximum([error[n == N].mean() for n in self.N], RESOLUTION)
        x = self.N / self.N[-1]
        weight = 1 / mean if log else np.full(len(mean), 1 / mean.mean())
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*self.grids, indexing="ij")])
        floor, amplitude, loss = _linear_part(self.shape(x, grid[..., None]), mean, weight)
        best = np.argmin(loss)
        start = np.r_[floor[best], amplitude[best], grid[:, best]] / self._units(mean)

        def residuals(theta):
            model = self._curve(theta * self._units(mean), x)
            return np.log(np.maximum(model, RESOLUTION) / mean) if log else (model - mean) * weight

        low = np.r_[0, 0, [axis[0] for axis in self.grids]]
        high = np.r_[np.inf, np.inf, [axis[-1] for axis in self.grids]]
        fit = least_squares(residuals, np.clip(start, low, high), bounds=(low, high), max_nfev=50)
        self.theta = fit.x * self._units(mean)

    def _units(self, mean):
        return np.r_[mean[-1], mean[-1], np.ones(len(self.grids))]

    def _curve(self, theta, x):
        return theta[0] + theta[1] * self.shape(x, theta[2:, None])

    def predict(self, N):
        error = self._curve(self.theta, np.asarray(N, dtype=float) / self.N[-1])
        return error, np.full(len(error), np.nan), np.full(len(error), np.nan)

    def required(self, target):
        N = np.geomspace(self.N[0], MAX_RATIO * self.N[-1], 4000)
        n = first_crossing(N, np.maximum(self.predict(N)[0], RESOLUTION), target)
        return Size(int(np.ceil(n - 1e-9)) if np.isfinite(n) else None)


def _linear_part(shapes, mean, weight):
    """The best floor and amplitude, neither negative, for each of many shapes, and the loss; each shape (n_shapes,)."""
    w = weight**2 / np.sum(weight**2)
    centre, level = shapes @ w, mean @ w
    with np.errstate(divide="ignore", invalid="ignore"):
        amplitude = ((shapes - centre[:, None]) * (mean - level)) @ w / ((shapes - centre[:, None]) ** 2 @ w)
    amplitude = np.maximum(np.nan_to_num(amplitude, posinf=0.0, neginf=0.0), 0)
    floor = level - amplitude * centre
    amplitude = np.where(floor < 0, (shapes * mean) @ w / (shapes**2 @ w), amplitude)
    floor = np.maximum(floor, 0)
    return floor, amplitude, (floor[:, None] + amplitude[:, None] * shapes - mean) ** 2 @ w


class Pow3(Fitted):
    """a + b N^(−c)."""

    grids = (np.geomspace(0.01, 5, 60),)

    def shape(self, x, theta):
        return x ** -theta[0]


class Pow4(Fitted):
    """a + b (N + d)^(−c)."""

    grids = (EXPONENTS, np.r_[0, np.geomspace(1e-3, 1, 20)])

    def shape(self, x, theta):
        return ((x + theta[1]) / (1 + theta[1])) ** -theta[0]


class Mmf4(Fitted):
    """(a b + c N^d) / (b + N^d), which is c + (a − c) b / (b + N^d); its parameters here are d and log b."""

    grids = (EXPONENTS, np.linspace(-9, 0, 20))

    def shape(self, x, theta):
        return (1 + np.exp(theta[1])) / (x ** theta[0] + np.exp(theta[1]))


class Last(Fitted):
    """The mean error at the pilot's largest N."""

    def __init__(self, N, error, seed):
        self.N = np.unique(N).astype(float)
        self.theta = np.array([error[N.max() == N].mean(), 0])

    def shape(self, x, theta):
        return np.zeros_like(x)


BASELINES = {
    "pow3": {"linear": Pow3, "log": partial(Pow3, log=True)},
    "pow4": {"linear": Pow4, "log": partial(Pow4, log=True)},
    "mmf4": {"linear": Mmf4, "log": partial(Mmf4, log=True)},
    "last": {"": Last},
}


def judge(task, forecast):
    """How one forecast came out, as a dict; `refused` is the message if there is none."""
    largest, truth = int(task.sizes[-1]), np.maximum(task.truth, RESOLUTION)
    target = MARGIN * truth[-1]
    row = {"curve": task.curve, "N": largest, "true": truth[-1], "refused": None}
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = forecast(task.N, task.error, task.seed)
            error, low, high = (float(np.maximum(values[0], RESOLUTION)) for values in made.predict([largest]))
            answer = made.required(target)
        except KoctError as refusal:
            row["refused"] = str(refusal)
    row |= {"seconds": time.perf_counter() - start, "warnings": len(caught)}
    if row["refused"] is None:
        n_low, n_high = (np.inf if n is None else n for n in (answer.n_low, answer.n_high))
        row |= {
            "forecast": error,
            "interval": (low, high) if getattr(made, "interval", True) else None,
            "true_n": int(np.ceil(first_crossing(task.sizes, truth, target) - 1e-9)),
            "n": answer.n,
            "n_interval": (n_low, n_high),
        }
    return row


def run(metric, factor, forecast, curves=None):
    """One row per task: how the forecaster's answers came out."""
    return [judge(task, forecast) for task in tasks(metric, factor, curves)]


def measures(rows):
    """The numbers of a table's row; those of intervals are None for a forecaster without. Refusals are only counted."""
    made = [row for row in rows if row["refused"] is None]
    result = dict.fromkeys(key for key, _, _ in COLUMNS)
    result |= {"forecasts": len(made), "refused": len(rows) - len(made)}
    result["warnings"] = sum(row["warnings"] for row in rows)
    if not made:
        return result
    forecast, true, true_n = (np.array([row[key] for row in made]) for key in ("forecast", "true", "true_n"))
    miss = np.abs(np.log(forecast / true))
    result["log_miss"] = float(np.median(np.where(np.isnan(miss), np.inf, miss)))
    result["out_of_reach"] = float(np.mean([row["n"] is None for row in made]))
    result["seconds"] = float(np.median([row["seconds"] for row in made]))
    if any(row["interval"] is None for row in made):
        return result
    for name, value, key in (("error", true, "interval"), ("n", true_n, "n_interval")):
        low, high = np.array([row[key] for row in made], dtype=float).T
        result[f"{name}_in"] = float(np.mean((low <= value) & (value <= high)))
        result[f"{name}_below"] = float(np.mean(value < low))
        result[f"{name}_above"] = float(np.mean(high < value))
    result["width"] = float(np.median([np.log(np.divide(*row["interval"][::-1])) for row in made]))
    result["upper_end"] = float(np.mean([np.isfinite(row["n_interval"][1]) for row in made]))
    return result


COLUMNS = (  # key of `measures`, heading, format
    ("forecasts", "forecasts", "d"),
    ("refused", "refused", "d"),
    ("log_miss", "log miss", ".3f"),
    ("error_in", "error in", ".0%"),
    ("error_below", "below", ".0%"),
    ("error_above", "above", ".0%"),
    ("width", "width", ".2f"),
    ("n_in", "N in", ".0%"),
    ("n_below", "below", ".0%"),
    ("n_above", "above", ".0%"),
    ("upper_end", "upper end", ".0%"),
    ("out_of_reach", "out of reach", ".0%"),
    ("warnings", "warnings", "d"),
    ("seconds", "seconds", ".3f"),
)

LEGEND = f"""log miss: median |log(forecast / true error)| at the curve's largest N
error in, below, above: share of the true errors in, below, above the 90 % interval; width: median log(high / low)
N in, below, above: the same for the N at which the true curve first falls to {MARGIN} times its last error
upper end: share of the intervals of N that have one; out of reach: share of the answers; seconds: median per forecast
"""


def compare(metric, factor, curves=None):
    """{name: measures} of koct and of every variant of the baselines."""
    fits = {f"{name} {kind}".strip(): fit for name, kinds in BASELINES.items() for kind, fit in kinds.items()}
    return {name: measures(run(metric, factor, fit, curves)) for name, fit in {"koct": koct, **fits}.items()}


def show(metric, factor, table, dropped):
    """Print a table."""
    count = table["koct"]["forecasts"] + table["koct"]["refused"]
    print(f"{metric}, pilots up to 1/{factor} of the largest N: {count} curves; {dropped} have no pilot with two N")
    print(f"{'':<11}" + "".join(f"{heading:>{len(heading) + 2}}" for _, heading, _ in COLUMNS))
    for name, numbers in table.items():
        print(f"{name:<11}", end="")
        for key, heading, style in COLUMNS:
            text = "–" if numbers[key] is None else format(numbers[key], style).replace("%", " %")
            print(f"{text:>{len(heading) + 2}}", end="")
        print()
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=int, metavar="K", help="take the first K curves only")
    parser.add_argument("--json", metavar="FILE", help="write the numbers of the tables")
    arguments = parser.parse_args()

    print(LEGEND)
    numbers = {}
    for metric in METRICS:
        curves = list(load(metric))[: arguments.curves]
        for factor in FACTORS:
            table = compare(metric, factor, curves)
            show(metric, factor, table, len(curves) - len(tasks(metric, factor, curves)))
            numbers.setdefault(metric, {})[str(factor)] = table
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
