"""What real learning curves look like: how probable laws, floors, misfit and drift are before a pilot.

`priors.json` is estimated by benchmarks/priors.py from 195 curves of LCDB 1.0, each as error rate and as log-loss.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Priors:
    """Prior probabilities.

    Parameters
    ----------
    laws : of every law, by its name in `laws.LAWS`
    no_floor : that a law has no floor, by its name; the other values of `laws.FLOORS` are equally probable
    misfit : {standard deviation of the log error per square root of an octave: probability}; no law is quite right
    drift : {standard deviation of the log error per octave, two octaves beyond the pilot: probability}; it grows with
        the cube of the octaves, up to four of them
    """

    laws: Mapping[str, float]
    no_floor: Mapping[str, float]
    misfit: Mapping[float, float]
    drift: Mapping[float, float]


@cache
def learned() -> Priors:
    """Those that come with koct."""
    return from_json(files("koct.forecast").joinpath("priors.json").read_text(encoding="utf-8"))


def from_json(text: str) -> Priors:
    found = json.loads(text)
    sizes = {name: {float(size): share for size, share in found[name].items()} for name in ("misfit", "drift")}
    return Priors(found["laws"], found["no_floor"], **sizes)


def to_json(priors: Priors, **about: object) -> str:
    """Text for `from_json`; `about` says where the numbers come from."""
    sizes = {name: {str(size): share for size, share in getattr(priors, name).items()} for name in ("misfit", "drift")}
    return json.dumps({**about, "laws": priors.laws, "no_floor": priors.no_floor, **sizes}, indent=1) + "\n"
