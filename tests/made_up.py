"""Cells of made-up studies, and the curves and calibrations that follow from them."""

import json

from koct.base.stamps import Stamp
from koct.study import aggregation, results


def cell(sweep="A", arch="ko", N=4, seed=1, error=0.1, **others):
    """A row of cells whose metrics are all the same number; `others` are further columns."""
    about = {"sweep": sweep, "problem": "x", "H": 8, "V": 10, "B": 8, "arch": arch, "N": N, "seed": seed, "lam": None}
    values = dict.fromkeys(("val_mse", *results.METRICS), error)
    return {**about, "p": 80, **values, "fit_seconds": 0.1, "device": "cpu", **others}


def save(folder, cells, labels=None, archs=(), **metrics):
    """Write cells, curves and calibration of a study; return the spec of their metrics, which are `mse` unless told.

    Labels are those of sweeps; an architecture in `archs` has its name with a capital letter for a label.
    """
    spec = {"metrics": {**dict.fromkeys((row["sweep"] for row in cells), "mse"), **metrics}}
    told = {sweep: {"label": label, "metric": spec["metrics"][sweep]} for sweep, label in (labels or {}).items()}
    styles = {arch: {"label": arch.capitalize(), "colour": "", "marker": ""} for arch in archs}
    origin = {"koct.archs": json.dumps(styles), "koct.sweeps": json.dumps(told)}
    files = [folder / f"{name}.parquet" for name in ("cells", "curves", "calibration")]
    results.write(cells, results.CELLS, files[0], origin, Stamp({}))
    aggregation.aggregate(files[0], spec, *files[1:])
    return spec


def check_layout(figure):
    """Nothing leaves the page, and the legend meets no panel."""
    figure.canvas.draw()
    (legend,) = figure.legends or [axis.get_legend() for axis in figure.axes if axis.get_legend()]
    box, panels = legend.get_window_extent(), [axis.get_tightbbox() for axis in figure.axes if axis.get_title()]
    for extent in (box, *panels):
        assert 0 <= extent.x0 <= extent.x1 <= figure.bbox.width
        assert 0 <= extent.y0 <= extent.y1 <= figure.bbox.height
    assert panels
    assert not any(box.overlaps(panel) for panel in panels)
    return legend
