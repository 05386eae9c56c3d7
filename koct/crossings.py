"""From how many samples on a network is better than what needs none, and than a network that learns fewer numbers."""

import math

import numpy as np

from koct import results
from koct.metrics.curve import CurveMetric
from koct.risk.crossing import overtaken
from koct.stamps import Stamp, made_from

LEVEL = 0.9  # of intervals
DRAWS = 400  # of the bootstrap
SEED = 1


def compute(cells_path, spec, path):
    """Write crossings.parquet; `spec` names each sweep's metric under `metrics`."""
    cells, origin = results.read_cells(cells_path)
    baselines = results.grouped(results.read_baselines(cells_path)[0], "sweep", "arch")
    curves, found = results.grouped(cells, "sweep", "arch"), []
    for (sweep, _), rows in curves.items():
        metric = CurveMetric(spec["metrics"][sweep])
        others = [other for key, other in baselines.items() if key[0] == sweep]
        others += [other for key, other in curves.items() if key[0] == sweep and other[0]["p"] < rows[0]["p"]]
        for other in others:
            about = {**rows[0], "metric": metric.name, "versus": other[0]["arch"]}
            found.append({**about, **crossing(rows, other, metric)})
    results.write(found, results.CROSSINGS, path, origin, Stamp(spec, made_from(cells_path)))


def crossing(rows, versus, metric):
    """Return N, N_low, N_high and upto, from which on the mean error of `rows` is below that of `versus`.

    `versus` are cells with the same N, or with N = 0: a constant.
    """
    seeds, N, values = _by_seed(rows, metric)
    other_seeds, other_N, other = _by_seed(versus, metric)
    if other_N == [0]:
        other = np.repeat(other, len(N), axis=1)
    else:
        shared = sorted(set(N) & set(other_N))
        values, other = values[:, [N.index(n) for n in shared]], other[:, [other_N.index(n) for n in shared]]
        N = shared
    if other_seeds != seeds:  # the same for every seed, or seeds of its own
        other = np.repeat(np.nanmean(other, axis=0)[None], len(seeds), axis=0)
    low = high = None
    if len(seeds) > 1:
        drawn = [_overtaken(N, *means) for means in _power(resampled_means(np.stack([values, other])), metric)]
        low, high = (_whole(end) for end in interval(drawn))
    means = _power(np.nanmean([values, other], axis=1), metric)
    return {"N": _whole(_overtaken(N, *means)), "N_low": low, "N_high": high, "upto": N[-1]}


def resampled_means(values):
    """Means over seeds that are drawn with replacement, the same ones for all curves.

    `values` are (n_curves, n_seeds, n_sizes), the means (n_draws, n_curves, n_sizes).
    """
    count = values.shape[1]
    draws = np.random.default_rng(SEED).integers(0, count, (DRAWS, count))
    return np.nanmean(values[:, draws], axis=2).swapaxes(0, 1)


def interval(values):
    """The ends of the 90 % interval of values that may be infinite."""
    ends = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    return [float(end) for end in np.quantile(values, ends, method="inverted_cdf")]


def _by_seed(rows, metric):
    """(seeds, sizes, values (n_seeds, n_sizes)) of cells; NaN where there is none."""
    seeds, sizes = (sorted({row[key] for row in rows}) for key in ("seed", "N"))
    values = np.full((len(seeds), len(sizes)), np.nan)
    for row in rows:
        values[seeds.index(row["seed"]), sizes.index(row["N"])] = row[metric.column]
    return seeds, sizes, values


def _power(means, metric):
    return means**2 if metric.squared else means


def _overtaken(N, error, versus):
    """The N from which on `error` is below `versus`; infinite if it is not at the largest N."""
    found = overtaken(N, versus, error)
    return math.inf if found is None else found


def _whole(value):
    return round(value) if math.isfinite(value) else None
