"""From how many samples on a network is better than what needs none, and than a network that learns fewer numbers."""

from koct.base.stamps import Stamp, made_from
from koct.forecast.bootstrap import crossing_interval
from koct.forecast.crossing import overtaken
from koct.metrics.curve_metric import CurveMetric
from koct.study import results


def compute(cells_path, images_path, spec, path):
    """Write crossings.parquet; `spec` names each sweep's metric under `metrics`."""
    *both, origin = results.read_cells(cells_path)
    curves, baselines = (results.grouped(rows, "sweep", "arch") for rows in both)
    tested, table = results.Images(images_path), []
    for (sweep, _), rows in curves.items():
        metric = CurveMetric(spec["metrics"][sweep])
        others = [other for key, other in baselines.items() if key[0] == sweep]
        others += [other for key, other in curves.items() if key[0] == sweep and other[0]["p"] < rows[0]["p"]]
        for other in others:
            about = {**rows[0], "metric": metric.name, "versus": other[0]["arch"]}
            table.append({**about, **crossing(rows, other, metric, tested)})
    results.write(table, results.CROSSINGS, path, origin, Stamp(spec, made_from(cells_path, images_path)))


def crossing(rows, versus, metric, tested):
    """Return N, N_low, N_high and upto, from which on the mean error of `rows` is below that of `versus`.

    `versus` are cells with the same N, or with N = 0: a constant. `tested` has the errors of every test image.
    """
    of, others = ({N: cells for (N,), cells in results.grouped(side, "N").items()} for side in (rows, versus))
    sizes = sorted(N for N in of if N in others or 0 in others)
    pairs = [(of[N], others.get(N) or others[0]) for N in sizes]
    means = [[metric.mean(side[i]) for side in pairs] for i in (0, 1)]
    errors, groups = [], None
    for cells in pairs:
        sides = [tested.errors(side[0]["sweep"], side[0]["arch"], side[0]["N"], metric.column) for side in cells]
        errors.append(results.paired(*sides))
        groups = sides[0].groups
    # curves are compared by the logarithm of their ratio, which has the same sign for errors and for their squares
    interval = crossing_interval(sizes, [one for _, one in errors], [one for one, _ in errors], groups)
    found = (overtaken(sizes, means[1], means[0]), *(interval or (None, None)))
    whole = (None if N is None else round(N) for N in found)
    return {**dict(zip(("N", "N_low", "N_high"), whole, strict=True)), "upto": sizes[-1]}
