"""Errors of reconstructions. A metric is one file here: its function, its unit, its symbol.

To add one, write `koct/metrics/NAME.py` with `error(predicted, y)` on flat NumPy arrays (n, size), and SYMBOL, UNIT and
DESCRIPTION (and a SUBSCRIPT if it has one). Every result file then has a column NAME, and a sweep's `metric` may be
NAME or, for the square of its mean over seeds, NAME2. Cells that are expensive to fit are only evaluated again. If the
metric is a mean of RMSE / scale over images, `scale(y)` lets its curves be predicted from mean squared errors.

`each(predicted, y, shape)` gives the metric of every image (n,), NaN where it has none, for images of that shape;
without it, `error` is called for one image after the other. Of a problem with a field of view, both are given the
pixels in it, and `shape` is how many they are; a metric with `NEIGHBOURS`, such as `ssim`, has whole images and the
pixels as a fourth argument. Where higher is better, the metric has `each` and no `error`: its mean over images is a
column of the results, and no curve shows it.

A metric of a user's own is such a file anywhere, which `metrics` of config.yaml names; it is an error. Jobs know of it
by a variable of the environment.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from koct.base.imports import import_from
from koct.errors import KoctError

HELPERS = {"__init__", "curve_metric"}
OWN = "KOCT_METRICS"  # variable of the environment: the paths of the user's own metrics, as JSON
GIVEN = ("error", "SYMBOL", "UNIT", "DESCRIPTION")  # what a metric has


def use(paths: Iterable[str]) -> None:
    """Let these files be metrics too, here and in all processes that are started from here."""
    os.environ[OWN] = json.dumps(list(paths))
    for function in (names, scores, load):
        function.cache_clear()


def own() -> dict[str, str]:
    """The paths of the user's own metrics, by name."""
    try:
        paths = json.loads(os.environ.get(OWN) or "[]")
    except ValueError:
        raise KoctError(f"{OWN} must be a list of paths in JSON, like '[\"largest.py\"]'") from None
    return {os.path.basename(path).removesuffix(".py"): path for path in paths}


@cache
def names() -> tuple[str, ...]:
    """All metrics."""
    files = (name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return (*sorted(name for name in files if name not in HELPERS), *own())


@cache
def scores() -> tuple[str, ...]:
    """The metrics where higher is better, told by the text of their files: none is imported to plan a run."""
    places = {name: os.path.join(os.path.dirname(__file__), f"{name}.py") for name in names() if name not in own()}
    return tuple(name for name, place in places.items() if "\ndef error(" not in Path(place).read_text())


def error_names() -> tuple[str, ...]:
    """The metrics that are errors: lower is better."""
    return tuple(name for name in names() if name not in scores())


def modules() -> list[str]:
    return [module_of(name) for name in names()]


def module_of(name: str) -> str:
    """A dotted name, or the path of a user's own file."""
    return own().get(name, f"{__name__}.{name}")


@cache
def load(name: str) -> Any:
    """The module of a metric."""
    module = module_of(name)
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = Path(module).resolve()
    import_from(path.parent)
    spec = importlib.util.spec_from_file_location(f"koct_metric_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def fixed(array: Any) -> Any:
    """Return an array that a metric cannot change: others come behind it."""
    view = array.view()
    view.flags.writeable = False
    return view


def error_of(name: str, inside: Any = slice(None)) -> Callable[[Any, Any], float]:
    """Return the function of predictions and images that an error is, where they are `inside`, an index."""
    error = load(name).error
    return lambda predicted, y: error(fixed(predicted[:, inside]), fixed(y[:, inside]))


def each(predicted: Any, y: Any, shape: Sequence[int], inside: Any = slice(None)) -> dict[str, Any]:
    """Every metric of each image of that shape, by name: (n,), NaN where an image has none.

    `predicted` and `y` are flat, (n, size), and compared where they are `inside`, an index.
    """
    import numpy as np

    found, whole = {}, (fixed(predicted), fixed(y))
    predicted, y = (fixed(images[:, inside]) for images in whole)
    for name in names():
        metric = load(name)
        if hasattr(metric, "NEIGHBOURS"):
            found[name] = metric.each(*whole, shape, inside)
            continue
        if hasattr(metric, "each"):
            found[name] = metric.each(predicted, y, shape if isinstance(inside, slice) else y.shape[1:])
            continue
        found[name] = np.full(len(y), np.nan)
        for i in range(len(y)):
            with contextlib.suppress(KoctError):  # such as the relative error of an empty image
                found[name][i] = metric.error(predicted[i : i + 1], y[i : i + 1])
    return found


def errors(predicted: Any, y: Any, images: dict[str, Any]) -> dict[str, float | None]:
    """Every metric of flat predictions (n, size), by name; `images` is what `each` gave for them."""
    found: dict[str, float | None] = {name: error_of(name)(predicted, y) for name in error_names()}
    for name in scores():
        there = images[name][images[name] == images[name]]
        found[name] = float(there.mean()) if len(there) else None  # None if no image has one
    return {name: found[name] for name in names()}


def column(curve_metric: str) -> str:
    """Return the metric that a curve shows: its name, without the 2 that stands for a square."""
    name = curve_metric if curve_metric in names() else curve_metric.removesuffix("2")
    if name not in names():
        raise KoctError(f"there is no metric {curve_metric!r}; take one of {', '.join(names())}")
    return name


def is_proper(name: str, value: Any) -> bool:
    """Whether a metric may have this value: an error is finite and not negative, a score finite or None."""
    number = isinstance(value, int | float) and math.isfinite(value)
    return (number or value is None) if name in scores() else number and value >= 0


def curve_metrics() -> list[str]:
    """What the key `metric` of a sweep may be."""
    return [name + power for name in error_names() for power in ("", "2")]


def wrong_metric(value: Any) -> str:
    """What is wrong with the metric of a curve, in words that follow it; empty if nothing is."""
    if value in curve_metrics():
        return ""
    if isinstance(value, str) and value.removesuffix("2") in scores():
        return (
            f"is a score, and curves are of errors: {' and '.join(scores())} are columns of cells.parquet; "
            f"take one of {', '.join(curve_metrics())}"
        )
    return f"must be one of {', '.join(curve_metrics())}"
