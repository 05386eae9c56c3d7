"""Which tables and figures a study has: those that compare the networks of the paper need both, or its geometries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import koct
from koct.config.sweep import Sweep

LEAST_HELD_OUT = 3  # N of a sweep: two to calibrate on, and one to predict
ARC = 180  # degrees, of every operating point of the paper


def held_out(study: Iterable[Sweep]) -> bool:
    """Whether there are errors to predict from those at smaller N."""
    return any(len(sweep.N) >= LEAST_HELD_OUT for sweep in study)


def paired(study: Iterable[Sweep]) -> bool:
    """Whether a sweep has both networks of the paper."""
    pair = set(_pair(_printed()))
    return any(pair <= {arch.name for arch in sweep.archs} for sweep in study)


def normed(study: Iterable[Sweep]) -> list[str]:
    """The sweeps at an operating point of the paper that have its known network: those whose norms are known."""
    printed = _printed()
    known, _ = _pair(printed)
    points = [
        (printed["problems"][point["beam"]], *(point[key] for key in ("H", "V", "B")))
        for point in printed["operating_points"]
    ]
    found = []
    for sweep in study:
        problem = sweep.problem
        here = (problem.source, *(getattr(problem, key, None) for key in ("H", "V", "B")))
        whole = getattr(problem, "arc", None) in (None, ARC) and getattr(problem, "angles", None) is None
        if here in points and whole and known in {arch.name for arch in sweep.archs}:
            found.append(sweep.name)
    return found


def _pair(printed: dict[str, Any]) -> list[str]:
    """The operator-aware and the dense network: every row of the paper's Table 2 has them in this order."""
    return list(next(iter(printed["calibration"].values())))


def _printed() -> dict[str, Any]:
    """What the paper prints; read here, since koct.report takes longer to import than a dry run has."""
    path = Path(koct.__file__).with_name("report") / "printed.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
