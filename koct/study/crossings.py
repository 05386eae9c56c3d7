"""From how many samples on a network is better than what needs none, and than a network that learns fewer numbers."""

import math

from koct import metrics
from koct.base.stamps import Stamp, made_from
from koct.forecast import scores
from koct.forecast.bootstrap import crossing_interval
from koct.forecast.crossing import overtaken
from koct.metrics.curve_metric import CurveMetric
from koct.study import results

METRICS = ("mse", "rrmse_peak2", "ssim")  # by which curves are compared, beside the sweep's own
ROUNDING = 1e-9  # relative: what a crossing at a whole N may lie above it


def compute(cells_path, images_path, spec, path):
    """Write crossings.parquet; `spec` names each sweep's metric under `metrics`, and its rows come first."""
    *both, origin = results.read_cells(cells_path)
    curves, baselines = (results.grouped(rows, "sweep", "arch") for rows in both)
    tested, table = results.Images(images_path), []
    for (sweep, _), rows in curves.items():
        others = [other for key, other in baselines.items() if key[0] == sweep]
        others += [other for key, other in curves.items() if key[0] == sweep and other[0]["p"] < rows[0]["p"]]
        own = CurveMetric(spec["metrics"][sweep])
        for other in others:
            beside = (CurveMetric(name) for name in METRICS if name != own.name)
            for metric in (own, *(each for each in beside if _measured(each.column, [*rows, *other], tested))):
                about = {**rows[0], "metric": metric.name, "versus": other[0]["arch"]}
                found = crossing(rows, other, metric, tested)
                table.append({**about, **{key: rounded_up(N) for key, N in found.items()}})
    results.write(table, results.CROSSINGS, path, origin, Stamp(spec, made_from(cells_path, images_path)))


def rounded_up(N):
    """Return a whole N, so that the smallest of a curve says that the network is better there already."""
    return None if N is None else math.ceil(N * (1 - ROUNDING))


def _measured(column, cells, tested):
    """Whether all cells have a metric, and their test images."""
    return column in tested.columns and all(row.get(column) is not None for row in cells)


def crossing(rows, versus, metric, tested):
    """Return N, N_low, N_high and upto, from which on `rows` are better than `versus` on the mean.

    `versus` are cells with the same N, or all with one: a constant. `tested` has the errors of every test image. A
    score, where higher is better, is compared by its distance from the best.
    """
    score = scores.named(metric.column) if metric.column in metrics.scores() else None
    distance = score.error if score else lambda errors: errors
    of, others = ({N: cells for (N,), cells in results.grouped(side, "N").items()} for side in (rows, versus))
    constant = next(iter(others.values())) if len(others) == 1 else None
    sizes = sorted(N for N in of if constant or N in others)
    pairs = [(of[N], constant or others[N]) for N in sizes]
    means = [[distance(metric.mean(side[i])) for side in pairs] for i in (0, 1)]
    errors, groups = [], None
    for cells in pairs:
        sides = [tested.errors(side[0]["sweep"], side[0]["arch"], side[0]["N"], metric.column) for side in cells]
        errors.append([distance(values) for values in results.paired(*sides)])
        groups = sides[0].groups
    # curves are compared by the logarithm of their ratio, which has the same sign for errors and for their squares
    interval = crossing_interval(sizes, [one for _, one in errors], [one for one, _ in errors], groups)
    found = (overtaken(sizes, means[1], means[0]), *(interval or (None, None)))
    return {**dict(zip(("N", "N_low", "N_high"), found, strict=True)), "upto": sizes[-1]}
