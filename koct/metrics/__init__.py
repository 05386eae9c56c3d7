"""Errors of reconstructions. A metric is one file here: its function, its unit, its symbol.

To add one, write `koct/metrics/NAME.py` with `error(predicted, y)` on flat NumPy arrays (n, size), and SYMBOL, UNIT and
DESCRIPTION (and a SUBSCRIPT if it has one). Every result file then has a column NAME, and a sweep's `metric` may be
NAME or, for the square of its mean over seeds, NAME2. Cells that are expensive to fit are only evaluated again. If the
metric is a mean of RMSE / scale over images, `scale(y)` lets its curves be predicted from mean squared errors.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import Any

HELPERS = {"__init__", "curve", "relative"}


@cache
def names() -> tuple[str, ...]:
    """All metrics."""
    files = (name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return tuple(sorted(name for name in files if name not in HELPERS))


def modules() -> list[str]:
    return [f"{__name__}.{name}" for name in names()]


def load(name: str) -> Any:
    """The module of a metric."""
    return importlib.import_module(f"{__name__}.{name}")


def errors(predicted: Any, y: Any) -> dict[str, float]:
    """Every metric of flat predictions (n, size), by name."""
    return {name: load(name).error(predicted, y) for name in names()}


def curve_metrics() -> list[str]:
    """What the key `metric` of a sweep may be."""
    return [name + power for name in names() for power in ("", "2")]
