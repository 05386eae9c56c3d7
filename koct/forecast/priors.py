"""What real learning curves look like: how probable laws, their shapes, misfit and drift are before a pilot.

And where nine of ten of them end up, as shares of the curves that a forecast draws.

`priors.json` is estimated by benchmarks/priors.py, from learning curves of others and from those of koct's studies.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Priors:
    """Prior probabilities; misfit and drift are {standard deviation of the log error: probability}."""

    laws: Mapping[str, float]  # of every law, by its name in `laws.LAWS`
    shapes: Mapping[str, Sequence[float]]  # of the bins of a law's shapes (`laws.GridLaw`)
    misfit: Mapping[float, float]  # per square root of an octave; no law is quite right
    drift: Mapping[float, float]  # per octave, two octaves beyond the pilot; it grows with their cube, up to four
    error_ends: Sequence[float]  # the shares of drawn curves below the two ends of an interval of the error
    n_ends: Sequence[float]  # the same for N


@cache
def learned() -> Priors:
    """Those that come with koct."""
    return from_json(files("koct.forecast").joinpath("priors.json").read_text(encoding="utf-8"))


def from_json(text: str) -> Priors:
    content = json.loads(text)
    sizes = {name: {float(size): share for size, share in content[name].items()} for name in ("misfit", "drift")}
    return Priors(**{field.name: content[field.name] for field in fields(Priors)} | sizes)
