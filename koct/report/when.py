"""What a study has, as products ask for it: those that compare the networks of the paper need both, for example."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from koct.config.sweep import Sweep, claimed, compared

__all__ = ["always", "claimed", "compared", "held_out", "ladder", "metrics", "normed", "on_request", "paired"]
__all__ += ["pictured", "predicted"]

LEAST_HELD_OUT = 3  # N of a sweep: two to calibrate on, and one to predict
LEAST_OF_LADDER = 3  # networks of a sweep between known and learned
ARC = 180  # degrees, of every operating point of the paper
PRINTED: dict[str, Any] = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))


def always(study: Iterable[Sweep]) -> bool:
    return True


def on_request(study: Iterable[Sweep]) -> bool:
    """Return False: `snakemake FILE` makes it."""
    return False


def predicted(study: Iterable[Sweep]) -> bool:
    """Return whether a curve is predicted before any fit."""
    return any(sweep.predicted for sweep in study)


def pictured(study: Iterable[Sweep]) -> list[str]:
    """Return the sweeps whose reconstructions are images to look at."""
    return [sweep.name for sweep in study if sweep.pictured]


def ladder(study: Iterable[Sweep]) -> list[str]:
    """Return the sweeps with networks enough between known and learned."""
    return [sweep.name for sweep in study if len(sweep.networks) >= LEAST_OF_LADDER]


def held_out(study: Iterable[Sweep]) -> bool:
    """Return whether there are errors to predict from those at smaller N."""
    return any(len(sweep.N) >= LEAST_HELD_OUT for sweep in study)


def paired(study: Iterable[Sweep]) -> bool:
    """Return whether a sweep has both networks of the paper."""
    return any(set(_pair()) <= {arch.name for arch in sweep.archs} for sweep in study)


def metrics(study: Iterable[Sweep]) -> dict[str, str]:
    """Return the metric of every sweep."""
    return {sweep.name: sweep.metric for sweep in study}


def normed(study: Iterable[Sweep]) -> list[str]:
    """Return the sweeps at an operating point of the paper that have its known network: those whose norms are known."""
    known, _ = _pair()
    points = [
        (PRINTED["problems"][point["beam"]], *(point[key] for key in ("H", "V", "B")))
        for point in PRINTED["operating_points"]
    ]
    names = []
    for sweep in study:
        problem = sweep.problem
        here = (problem.source, *(getattr(problem, key, None) for key in ("H", "V", "B")))
        whole = getattr(problem, "arc", None) in (None, ARC) and getattr(problem, "angles", None) is None
        if here in points and whole and known in {arch.name for arch in sweep.archs}:
            names.append(sweep.name)
    return names


def _pair() -> list[str]:
    """Return the operator-aware and the dense network: every row of the paper's Table 2 has them in this order."""
    return list(next(iter(PRINTED["calibration"].values())))
