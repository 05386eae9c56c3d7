"""How good are forecasts? One table: koct, laws and simple rules, on learning curves that are not in its priors.

.venv/bin/python benchmarks/curves.py [--every K] [--json FILE] [--figure FILE]

The sets of curves, and `benchmarks/curves/README.md` describes those of others:
error, logloss   20 scikit-learn models on OpenML data sets (LCDB), from five runs at N up to a quarter or a sixteenth
                 of a curve's largest N; the truth is the mean of 20 other runs there
classes, numbers five learners on scikit-learn's data sets (benchmarks/learners.py); the truth is a mean of ten runs
studies          linear networks of koct, up to a quarter or a sixteenth of the largest N: results/reference/*
networks         the same, U-Nets and unrolled ones among them: results/reference/benchmark, if it is there
reference        the two largest N of every curve of results/reference/cells.parquet, hidden: 36 points

koct's priors are here always from other data sets: from `error`, `logloss`, `studies` and `reference`, each without
the data set that is judged (benchmarks/priors.py). The other forecasters
have no intervals of their own: theirs are conformal, from what they missed on the other data sets of the same set.
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

from koct.base.loglog import first_at
from koct.bound.calibration import calibrate
from koct.errors import KoctError
from koct.forecast.budget import LEVEL, Forecast
from koct.forecast.laws import from_json
from koct.forecast.runs import Pilot
from koct.metrics.curve_metric import CurveMetric

HERE = Path(__file__).parent
DATA = HERE / "curves" / "lcdb.parquet"
OWN = HERE.parent / "results" / "reference"
METRICS = ("error", "logloss")
TABLES = {"classes": "error", "numbers": "mse"}  # the metric in sklearn.parquet
SETS = (*METRICS, *TABLES, "networks", "studies", "reference")
LEFT_OUT = HERE / "curves" / "left_out.json"  # priors without some curves; benchmarks/priors.py writes it
FACTORS = (4, 16)  # the curve's largest N over the largest N that its pilot may have
RESOLUTION = 1e-4  # of the data; smaller errors are taken for this one
MARGIN = 1.1  # the target is the true error at the largest N, times this
VARIANTS = {"741": "679", "959": "26", "978": "12", "995": "22", "1000": "57", "1119": "179", "1590": "179"}
VARIANTS |= dict.fromkeys(("dose", "arc", "no", "ellipses50"), "H128")  # the same data under another name
EXPONENTS = np.geomspace(0.01, 2, 40)  # of the baselines with four parameters
MAX_RATIO = 1e6  # a baseline that needs more than this many times the pilot's largest N is out of reach
SHARES = np.array([0.95, 0.9, 0.8, 0.7, 0.5, 0.3])  # of the pilot's last error: targets whose chances are judged


class Task(NamedTuple):
    """A pilot, with one entry per run, and the truth: the mean error of the other runs at each N of the curve."""

    curve: str
    N: np.ndarray
    error: np.ndarray
    seed: np.ndarray
    sizes: np.ndarray
    truth: np.ndarray


@cache
def load(name):
    """{curve: (N, seeds, errors)} with the errors of every run at every N, shape (n_sizes, n_runs)."""
    if name in ("networks", "studies", "reference"):
        return _own(name)
    table = pq.ParquetFile(DATA if name in METRICS else DATA.with_name("sklearn.parquet")).read()
    table = table.filter(pc.equal(table["metric"].cast(pa.string()), TABLES.get(name, name)))
    curve = np.array(table["curve"].cast(pa.string()).to_pylist())
    N, seed = table["N"].to_numpy(), table["seed"].to_numpy()
    error = table["error"].cast(pa.float64()).to_numpy()
    error = np.round(error, 4) if name in METRICS else error  # the cast is off by the last bit
    runs = len(np.unique(seed))
    starts = np.flatnonzero(np.r_[True, curve[1:] != curve[:-1], True])
    return {str(curve[i]): (N[i:j:runs], seed[i : i + runs], error[i:j].reshape(-1, runs)) for i, j in pairwise(starts)}


def _own(name):
    """The curves of koct's networks; those that a study has in common with another one are taken once."""
    found = {}
    folders = {"reference": ["."], "networks": ["benchmark"], "studies": ["crossing", "dose", "ladder", "modalities"]}
    for path in (OWN / folder / "cells.parquet" for folder in folders[name]):
        curves = {}
        if not path.exists():
            continue
        for cell in pq.ParquetFile(path).read().to_pylist():
            if cell["N"]:  # N = 0: what needs no sample
                metric = CurveMetric("mse" if cell["problem"] == "surrogate" else "rrmse_peak2")
                curve = curves.setdefault(f"{cell['sweep']}-{cell['arch']}", {})
                curve.setdefault(cell["N"], {})[cell["seed"]] = metric.of(cell)
        for curve, errors in curves.items():
            N, seeds = np.array(sorted(errors)), np.array(sorted(errors[max(errors)]))
            found[curve] = N, seeds, np.array([[errors[n][seed] for seed in seeds] for n in N])
    return found


def tasks(name, factor=None, curves=None):
    """One task per curve, or per curve in `curves`; a curve whose pilot would have fewer than two N has none.

    Without `factor`, two per curve: its two largest N, from those below both.
    """
    found = []
    for curve, (sizes, seeds, errors) in load(name).items():
        small = sizes <= sizes[-1] / factor if factor else sizes < sizes[-2]
        if small.sum() < 2 or (curves is not None and curve not in curves):
            continue
        pilot = seeds % 100 == 0 if name in (*METRICS, *TABLES) else np.full(len(seeds), True)
        truth = errors[:, ~pilot if np.any(~pilot) else pilot].mean(axis=1)
        N, seed = np.meshgrid(sizes[small], seeds[pilot], indexing="ij")
        unit = 1.0 if name in (*METRICS, "classes") else truth[-1]  # far above RESOLUTION
        error, truth = errors[small][:, pilot] / unit, np.maximum(truth / unit, RESOLUTION)
        for end in (len(sizes),) if factor else (len(sizes) - 1, len(sizes)):
            found.append(Task(curve, N.ravel(), error.ravel(), seed.ravel(), sizes[:end], truth[:end]))
    return found


def dataset(curve):
    """The data set that a curve belongs to."""
    name = curve.split("-", 1)[0]
    return VARIANTS.get(name, name)


def folds(curves, k=5):
    """The curves in k lists of similar length; all curves of a data set and its variants are in the same list."""
    groups = {}
    for curve in sorted(set(curves)):
        groups.setdefault(dataset(curve), []).append(curve)
    split = [[] for _ in range(k)]
    for _, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        min(split, key=len).extend(group)
    return split


# Forecasters: functions of the pilot's N, error and seed that return an object with `predict` and `required`.


def koct(N, error, seed, priors=None):
    return Forecast(Pilot.from_points(N, error, seed), priors=priors)


def left_out(name, curve):
    """Which priors a curve is judged by: the name of those that know nothing of its data set; None for koct's own."""
    if name in METRICS:
        return f"LCDB {next(i for i, fold in enumerate(_lcdb()) if curve in fold)}"
    return dataset(curve) if dataset(curve) in _left_out() else None


@cache
def _lcdb():
    return [set(fold) for fold in folds(load(METRICS[0]))]


@cache
def _left_out():
    return json.loads(LEFT_OUT.read_text())


@cache
def priors(name):
    return None if name is None else from_json(json.dumps(_left_out()[name]))


def judged(name, factor, curves=None):
    """koct's rows, each with the priors that know nothing of its data set."""
    return [
        judge(task, partial(koct, priors=priors(left_out(name, task.curve)))) for task in tasks(name, factor, curves)
    ]


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
        n = first_at(N, np.maximum(self.predict(N)[0], RESOLUTION), target)
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
        self.theta = np.array([0, max(error[N.max() == N].mean(), RESOLUTION), 0.0])

    def shape(self, x, theta):
        return x ** -theta[0]


class Line(Last):
    """A line in log-log through the pilot's last two N; it never rises."""

    def __init__(self, N, error, seed):
        super().__init__(N, error, seed)
        before, last = (np.log(max(error[n == N].mean(), RESOLUTION)) for n in self.N[-2:])
        self.theta[2] = max(0.0, (before - last) / np.log(self.N[-1] / self.N[-2]))


class Paper(Last):
    """The paper's rule: floor + σ log N / N, with the smallest error of the pilot as floor."""

    def __init__(self, N, error, seed):
        super().__init__(N, error, seed)
        self.curve = calibrate(self.N, [error[n == N].mean() for n in self.N])

    def _curve(self, theta, x):
        return self.curve.predict(x * self.N[-1])


BASELINES = {
    "pow3": Pow3,
    "pow3 log": partial(Pow3, log=True),
    "pow4": Pow4,
    "pow4 log": partial(Pow4, log=True),
    "mmf4": Mmf4,
    "mmf4 log": partial(Mmf4, log=True),
    "last": Last,
    "line": Line,
    "paper": Paper,
}


def judge(task, forecast):
    """How one forecast came out, as a dict; `refused` is the message if there is none.

    `draws` are logs of plausible errors at the largest N over the true one, for a forecaster that has them.
    """
    largest, true = int(task.sizes[-1]), task.truth[-1]
    target = MARGIN * true
    row = {"curve": task.curve, "true": true, "refused": None, "draws": None}
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = forecast(task.N, task.error, task.seed)
            row["forecast"] = float(np.maximum(made.predict([largest])[0][0], RESOLUTION))
            answer = made.required(target)
        except KoctError as refusal:
            row["refused"] = str(refusal)
    row |= {"seconds": time.perf_counter() - start, "warnings": len(caught)}
    if row["refused"] is not None:
        return row
    row |= {"n": answer.n, "true_n": int(np.ceil(first_at(task.sizes, task.truth, target) - 1e-9))}
    if hasattr(made, "replicates"):
        row["draws"] = np.log(np.maximum(made.replicates([largest])[:, 0], RESOLUTION) / true)
        row["ends"] = made.priors.error_ends
        row["n_interval"] = [np.inf if n is None else n for n in (answer.n_low, answer.n_high)]
        samples = made.samples(target)
        row["n_shares"] = [float(np.mean(samples < row["true_n"])), float(np.mean(samples <= row["true_n"]))]
        row["chances"] = list(_chances(task, made))
    return row


def _chances(task, made):
    """(chance, whether it came true) of targets that the truth does not choose, at every N beyond the pilot."""
    last = task.error[task.N.max() == task.N].mean()
    for N, truth in zip(task.sizes, np.minimum.accumulate(task.truth), strict=True):  # reached with N, or before
        if task.N.max() < N and last > 0:
            for target in SHARES * last:
                yield float(np.mean(made.samples(target) <= N)), bool(truth <= target)


def conformal(rows):
    """Give rows the interval and the draws of a forecaster that has none: what it missed on other data sets."""
    for fold in folds([row["curve"] for row in rows]):
        inside = np.array([row["curve"] in set(fold) for row in rows])
        missed = np.array([np.log(row["true"] / row["forecast"]) for row in rows])
        for i in np.flatnonzero(inside):
            rows[i] |= {"draws": missed[~inside] - missed[i], "ends": [(1 - LEVEL) / 2, (1 + LEVEL) / 2]}
    return rows


def run(name, factor, forecast, curves=None):
    """One row per task: how the forecaster's answers came out."""
    rows = [judge(task, forecast) for task in tasks(name, factor, curves)]
    return conformal(rows) if rows and all(row["draws"] is None and not row["refused"] for row in rows) else rows


def scores(draws, ends):
    """(whether the truth, at 0, is in the interval of its draws, below, above; width, interval score, CRPS).

    `ends` are the two quantiles of the interval.
    """
    draws = np.sort(draws)
    low, high = draws[np.clip(np.ceil((len(draws) + 1) * np.array(ends)).astype(int) - 1, 0, len(draws) - 1)]
    score = high - low + 2 / (1 - LEVEL) * (max(low, 0) + max(-high, 0))
    rank = 2 * np.arange(1, len(draws) + 1) - len(draws) - 1
    return low <= 0 <= high, low > 0, high < 0, high - low, score, np.abs(draws).mean() - rank @ draws / len(draws) ** 2


def measures(rows):
    """The numbers of a table's row; those of N are None for a baseline. Refusals are only counted."""
    made = [row for row in rows if row["refused"] is None]
    result = dict.fromkeys(key for key, _, _ in COLUMNS)
    result |= {"forecasts": len(made), "refused": len(rows) - len(made)}
    result["warnings"] = sum(row["warnings"] for row in rows)
    if not made:
        return result
    off = np.array([np.log(row["forecast"] / row["true"]) for row in made])
    result["log_miss"] = float(np.median(np.abs(off)))
    result["mean_off"] = float(np.mean(np.abs(np.expm1(off))))
    result["out_of_reach"] = float(np.mean([row["n"] is None for row in made]))
    result["seconds"] = float(np.median([row["seconds"] for row in made]))
    names = ("error_in", "error_below", "error_above", "width", "score", "crps")
    result |= dict(
        zip(names, np.mean([scores(row["draws"], row["ends"]) for row in made], axis=0).tolist(), strict=True)
    )
    if any("n_interval" not in row for row in made):
        return result
    n, (low, high) = np.array([row["true_n"] for row in made]), np.transpose([row["n_interval"] for row in made])
    result |= {"n_in": float(np.mean((low <= n) & (n <= high))), "upper_end": float(np.mean(np.isfinite(high)))}
    result |= {"n_below": float(np.mean(n < low)), "n_above": float(np.mean(high < n))}
    return result


COLUMNS = (  # key of `measures`, heading, format
    ("forecasts", "forecasts", "d"),
    ("refused", "refused", "d"),
    ("log_miss", "log miss", ".3f"),
    ("mean_off", "mean off", ".0%"),
    ("error_in", "error in", ".0%"),
    ("error_below", "below", ".0%"),
    ("error_above", "above", ".0%"),
    ("width", "width", ".2f"),
    ("score", "score", ".3f"),
    ("crps", "CRPS", ".3f"),
    ("n_in", "N in", ".0%"),
    ("n_below", "below", ".0%"),
    ("n_above", "above", ".0%"),
    ("upper_end", "upper end", ".0%"),
    ("out_of_reach", "out of reach", ".0%"),
    ("warnings", "warnings", "d"),
    ("seconds", "seconds", ".3f"),
)

LEGEND = f"""log miss: median |log(forecast / true error)| at the largest N; mean off: mean |forecast / true - 1|
error in, below, above: share of the true errors in, below, above the 90 % interval
width, score, CRPS: means of log(high / low), of the interval score (Winkler) and of the CRPS, all of the log error
N in, below, above: the same for the N at which the true curve first falls to {MARGIN} times its last error
upper end: share of the intervals of N that have one; out of reach: share of the answers; seconds: median per forecast
"""


def compare(name, factor, own, curves=None):
    """{name: rows} of koct and of every baseline; `own` are koct's."""
    return {"koct": own} | {kind: run(name, factor, fit, curves) for kind, fit in BASELINES.items()}


def show(title, table):
    """Print a table of {name: measures}."""
    print(f"{title}: {table['koct']['forecasts'] + table['koct']['refused']} forecasts")
    print(f"{'':<11}" + "".join(f"{heading:>{len(heading) + 2}}" for _, heading, _ in COLUMNS))
    for name, numbers in table.items():
        print(f"{name:<11}", end="")
        for key, heading, style in COLUMNS:
            text = "–" if numbers[key] is None else format(numbers[key], style).replace("%", " %")
            print(f"{text:>{len(heading) + 2}}", end="")
        print()
    print(flush=True)


def summary(numbers):
    """Lines of a Markdown table: koct, the best law, and the line through a pilot's last two N."""

    def koct(title, key, style):
        return format(numbers[title]["koct"][key], style).replace("%", " %")

    def others(title, key, style):
        laws = [own[key] for name, own in numbers[title].items() if name not in ("koct", "line")]
        one, two = (format(value, style).replace("%", " %") for value in (min(laws), numbers[title]["line"][key]))
        return f"{one.removesuffix(' %')}, {two}"

    columns = [("log_miss", ".3f"), ("mean_off", ".0%"), ("score", ".2f"), ("crps", ".3f")]
    heads = "curves", "log miss", "law, line", "mean off", "law, line", "score", "law, line", "CRPS", "law, line"
    yield "| " + " | ".join((*heads, "error in", "N in", "upper end")) + " |"
    yield "|---" * 12 + "|"
    for title in numbers:
        cells = [each(title, key, style) for key, style in columns for each in (koct, others)]
        cells += [koct(title, key, ".0%") for key in ("error_in", "n_in", "upper_end")]
        yield "| " + " | ".join((title, *cells)) + " |"


def calibration(rows):
    """[(mean chance, share that came true, how many)] of the statements of koct's rows, in bins of a tenth."""
    chance, true = np.array([each for row in rows for each in row.get("chances", ())]).T
    bins = np.clip(np.round(10 * chance).astype(int), 0, 10)
    return [(chance[bins == k].mean(), true[bins == k].mean(), int(np.sum(bins == k))) for k in np.unique(bins)]


def draw(lines, path):
    """Draw the chances of {title: calibration} against what came true."""
    from koct.report import drawing

    with drawing.styled():
        figure, axes = drawing.panels(1, 1, left=0.6, right=0.2, below=0.5)
        axis = axes[0][0]
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for (title, points), mark in zip(lines.items(), "osD^vP", strict=False):
            axis.plot(*np.transpose(points)[:2], marker=mark, markersize=3, linewidth=1, label=title)
        axis.set_xlabel("chance that was stated")
        axis.set_ylabel("share that came true")
        axis.legend(fontsize=6, frameon=False)
        drawing.save(figure, [path])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="K", help="take every Kth curve only")
    parser.add_argument("--json", metavar="FILE", help="write the numbers of the tables")
    parser.add_argument("--figure", metavar="FILE", help="draw how often chances came true")
    arguments = parser.parse_args()

    print(LEGEND)
    numbers, lines = {}, {}
    for name in SETS:
        curves = list(load(name))[:: arguments.every]
        if len(set(map(dataset, curves))) < 2:  # conformal intervals are from other data sets
            continue
        for factor in (None,) if name == "reference" else FACTORS:
            title = name if factor is None else f"{name}, ×{factor}"
            own = judged(name, factor, curves)
            found = {title: compare(name, factor, own, curves)}
            if name == "reference":
                dense = {
                    kind: [row for row in rows if row["curve"].endswith("fc")] for kind, rows in found[title].items()
                }
                found[f"{title}, FC"] = dense
            for title, table in found.items():
                numbers[title] = {kind: measures(rows) for kind, rows in table.items()}
                show(title, numbers[title])
            lines.setdefault(name, []).extend(own)
    print("\n".join(summary(numbers)))
    lines = {name: calibration(rows) for name, rows in lines.items()}
    for name, points in lines.items():
        told = ", ".join(f"{chance:.0%} {true:.0%} ({count})" for chance, true, count in points)
        print(f"chances of {name}, what came true, how many: {told}".replace("%", " %"))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(numbers | {"chances": lines}, indent=1) + "\n")
    if arguments.figure:
        draw({name: points for name, points in lines.items() if name in METRICS}, arguments.figure)


if __name__ == "__main__":
    main()
