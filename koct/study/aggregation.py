"""From the rows of cells to the tables of a study: collected, averaged over seeds, calibrated, forecast."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np

import koct
from koct import metrics
from koct.base import stamps
from koct.base.files import read_json
from koct.base.stamps import Stamp, again, checksum_of, combined, made_from
from koct.bound.calibration import calibrate
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.study import brought, paths, results

OTHERWISE = "was made with other options or other code than those of this study"


def collect(spec, path, images_path):
    """Gather the rows of a study into Parquet, if each is that of the cell asked for: cells, and test images.

    `spec` has the `sweeps`, each with its `archs`, and `config`, a hash; those have `N`, `seeds` and `spec` of a curve.
    """
    rows, contents = [], []
    for sweep in spec["sweeps"]:
        for arch in sweep["archs"]:
            for N, seed in itertools.product(arch["N"], arch["seeds"]):
                place = paths.cell(sweep["name"], arch["name"], N, seed)
                elsewhere = paths.brought(sweep["name"], arch["name"], N, seed)
                cell = {"sweep": sweep["name"], "arch": arch["name"], "N": N, "seed": seed}
                from_elsewhere = not Path(place).exists() and Path(elsewhere).exists()
                place = elsewhere if from_elsewhere else place
                row, stamp = read_json(place)
                if from_elsewhere:  # perhaps by a koct with fewer metrics, which did not tell what chose a strength
                    row = {**dict.fromkeys(results.METRICS), "tuned_on": "validation pairs", **row}
                    other = brought.refused(row, stamp.spec, cell, arch["brought"])
                else:
                    of_curve = {key: value for key, value in stamp.spec.items() if key not in ("N", "seed")}
                    other = checksum_of(of_curve) != arch["spec"]
                _check_row(place, row, stamp, cell)
                if other:
                    raise KoctError(f"{place} {OTHERWISE}; {again(place)}")
                rows.append(row)
                contents.append(stamps.as_input(stamp, timed=True))
    origin, stamp = _origin(spec), Stamp(spec, combined(contents), {"timed": True})
    results.write(rows, results.CELLS, path, origin, stamp)
    results.write_images(rows, images_path, origin, stamp)


def collect_theory(spec, path):
    """Gather the predicted curves of a study into theory.parquet; `spec` is as that of `collect`."""
    rows, contents = [], []
    for sweep in spec["sweeps"]:
        for arch in sweep["archs"]:
            place = paths.theory(sweep["name"], arch["name"])
            curve, stamp = read_json(place)
            if checksum_of(stamp.spec) != arch["spec"]:
                raise KoctError(f"{place} {OTHERWISE}; {again(place)}")
            rows += curve["rows"]
            contents.append(stamp.content)
    results.write(rows, results.THEORY, path, _origin(spec), Stamp(spec, combined(contents)))


def collect_transfer(spec, cells_path, path):
    """Gather rows on the test pairs of other sweeps into transfer.parquet, beside those of the sweeps on their own.

    `spec` has the `rows`, {path: hash of the spec}, and by sweep those that it is `tested_on`.
    """
    cells, origin = results.read_all(cells_path)
    involved = {name for sweep, others in spec["tested_on"].items() if others for name in (sweep, *others)}
    rows = [row for row in cells if row["sweep"] in involved]
    for place, wanted in sorted(spec["rows"].items(), key=lambda row: row[0].partition("/transfer/")[2]):
        row, stamp = read_json(place)
        if checksum_of(stamp.spec) != wanted:
            raise KoctError(f"{place} {OTHERWISE}; {again(place)}")
        rows.append(row)
    stamp = Stamp(spec, made_from(cells_path, *spec["rows"], timed=True), {"timed": True})
    results.write(rows, results.TRANSFER, path, origin, stamp)


def _check_row(path, row, stamp, cell):
    """Refuse the row of another cell, and one without proper errors."""
    wrong = [key for key, value in cell.items() if row.get(key) != value]
    wrong += [key for key in ("sweep", "N", "seed") if key not in wrong and stamp.spec.get(key) != cell[key]]
    missing = [name for name in (*results.CELLS, "images") if name not in row and name not in results.UNTOLD]
    if wrong or missing:
        what = f"is the row of another cell ({', '.join(wrong)} differ)" if wrong else f"lacks {', '.join(missing)}"
        raise KoctError(f"{path} {what}; {again(path)}")
    known = [name for name in results.METRICS if name in row["images"]]
    judged = {name: row[name] for name in known} | {"val_mse": row.get("val_mse") or 0.0}
    for name, value in judged.items():
        if not metrics.is_proper(name, value):
            kind = "score" if name in metrics.scores() else "error"
            raise KoctError(f"{path} has {name} = {value}, which is no {kind}; {again(path)}")


def _origin(spec):
    """What made a file, for its schema metadata, and what reports call the sweeps and architectures in it."""
    styles = ("label", "colour", "marker")
    archs = {arch["name"]: {key: arch[key] for key in styles} for sweep in spec["sweeps"] for arch in sweep["archs"]}
    words = ("label", "metric", "counts")  # what N counts is told where it is not single samples
    sweeps = {sweep["name"]: {key: sweep[key] for key in words if key in sweep} for sweep in spec["sweeps"]}
    made = {"koct.version": koct.__version__, "koct.commit": results.commit(), "koct.config_sha256": spec["config"]}
    return {**made, "koct.archs": json.dumps(archs), "koct.sweeps": json.dumps(sweeps)}


def aggregate(cells_path, spec, curves_path, calibration_path):
    """Curves over seeds and their calibration; `spec` names each sweep's metric under `metrics`.

    What needs no sample is a curve of one point at N = 0, and has no calibration.
    """
    cells, origin = results.read_all(cells_path)
    curves, calibrations = [], []
    for (sweep, _), rows in results.grouped(cells, "sweep", "arch").items():
        metric, points = CurveMetric(spec["metrics"][sweep]), []
        for (N,), group in sorted(results.grouped(rows, "N").items()):
            spread = float(np.std([metric.of(row) for row in group], ddof=1)) if len(group) > 1 else None
            point = {"N": N, "error_mean": metric.mean(group), "error_std": spread, "seeds": len(group)}
            points.append({**point, **_chosen(group)})
        about = {**rows[0], "metric": metric.name}
        curves += [{**about, **point} for point in points]
        if curve := results.trained(points):
            fitted = calibrate([point["N"] for point in curve], [point["error_mean"] for point in curve])
            calibrations.append({**about, "floor": fitted.floor, "sigma": fitted.sigma})
    stamp = Stamp(spec, made_from(cells_path))
    results.write(curves, results.CURVES, curves_path, origin, stamp)
    results.write(calibrations, results.CALIBRATION, calibration_path, origin, stamp)


def _chosen(cells):
    """Return what chose the strengths of some cells, and how many were at an edge; None where a cell does not tell."""
    told = sorted({row.get("tuned_on") or "" for row in cells})
    edges = [row.get("edge") for row in cells]
    most = {
        key: max((row[key] for row in cells if row.get(key) is not None), default=None) for key in ("steps", "gain")
    }
    return {
        **most,
        "tuned_on": " and ".join(filter(None, told)) or None,
        "edges": None if None in edges else sum(edges),
    }


def budget(cells_path, theory_path, spec, path):
    """How many samples reach each target; `spec` gives each sweep's metric and targets."""
    from koct.forecast.budget import Forecast
    from koct.forecast.runs import Pilot, told_sizes

    cells, origin = results.read_all(cells_path)
    predicted = results.grouped(results.read(theory_path)[0], "sweep", "arch") if theory_path else {}
    answers = []
    for (sweep, arch), rows in results.grouped([row for row in cells if row["N"]], "sweep", "arch").items():
        metric = CurveMetric(spec["metrics"][sweep])
        told = [(N, metric.of(row), row["seed"]) for N, row in zip(told_sizes(rows), rows, strict=True) if N]
        forecast = Forecast(Pilot.from_points(*zip(*told, strict=True)))
        for target in spec["targets"][sweep]:
            answer = forecast.required(target)
            about = {**rows[0], "metric": metric.name, "reachable": answer.reachable}
            required = _by_theory(predicted.get((sweep, arch), []), target)
            answers.append({**about, **dataclasses.asdict(answer), **required})
    stamp = Stamp(spec, made_from(*filter(None, (cells_path, theory_path))))
    results.write(answers, results.BUDGET, path, origin, stamp)


def _by_theory(rows, target):
    """Where the predicted curve, at the best λ of each N, comes down to the target."""
    from koct.prediction.curve import crossing

    best = results.usable([row for row in rows if row["error"] is not None])
    ends = {"theory_n": "error", "theory_low": "error_low", "theory_high": "error_high"}
    N = [row["N"] for row in best]
    required = {name: crossing(N, [row[column] for row in best], target) for name, column in ends.items()}
    return {**required, "theory_upto": max(N, default=0) if rows else None}
