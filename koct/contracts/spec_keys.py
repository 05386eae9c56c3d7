"""What a job is told in JSON, with its keys and types checked: a mistake is one sentence with the key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from koct.errors import KoctError

LARGEST = 2**31 - 1  # of a seed, and of what a column of the results holds


class Told(dict[str, Any]):
    """An object of a spec; a key that it lacks is a KoctError."""

    def __init__(self, content: Mapping[str, Any], where: str):
        super().__init__(content)
        self.where = where

    def __missing__(self, key: str) -> Any:
        raise KoctError(f"{self.where} lacks the key {key!r}")


class Kind:
    """What a value has to be: its name, and a test."""

    def __init__(self, name: str, fits: Callable[[Any], bool]):
        self.name, self.fits = name, fits


class Each(NamedTuple):
    """An object with any keys, and values of one kind."""

    kind: Any


class Exactly(NamedTuple):
    """An object with these keys and no others."""

    kinds: dict[str, Any]


def _fits(value: Any) -> bool:
    if isinstance(value, Mapping | list | tuple):
        return all(map(_fits, value.values() if isinstance(value, Mapping) else value))
    return not isinstance(value, int) or abs(value) < 2**63


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value) and len(set(value)) == len(value)


def _is_metric(value: Any) -> bool:
    from koct.metrics import curve_metrics

    return isinstance(value, str) and value in curve_metrics()


TEXT = Kind("text", lambda value: isinstance(value, str))
TEXT_OR_NULL = Kind("text or null", lambda value: isinstance(value, str | None))
OPTIONS = Kind("an object, with no number beyond 64 bits", lambda value: isinstance(value, Mapping) and _fits(value))
COUNT = Kind("a whole number of at least 1", lambda value: type(value) is int and 1 <= value <= LARGEST)
WHOLE = Kind("a whole number of at least 0", lambda value: type(value) is int and 0 <= value <= LARGEST)
POSITIVE = Kind(
    "a finite number above 0", lambda value: type(value) in (int, float) and 0 < value < math.inf and value < 1e308
)
METRIC = Kind("a metric", _is_metric)
INPUTS = Kind("a list of texts, with 'pool' among them", lambda value: _are_texts(value) and "pool" in value)
ARCH = {"name": TEXT, "label": TEXT, "colour": TEXT, "marker": TEXT, "spec": TEXT, "N": [WHOLE], "seeds": [WHOLE]}
COMPONENT = {"source": TEXT, "options": OPTIONS}
KINDS = {
    "sweep": TEXT,
    "problem": COMPONENT,
    "arch": COMPONENT,
    "archs": [TEXT],
    "chained": [COMPONENT],
    "N": WHOLE,  # 0 for what needs no sample
    "seed": WHOLE,
    "lambdas": [POSITIVE],
    "sizes": Exactly({"train": COUNT, "val": COUNT, "test": COUNT}),
    "inputs": INPUTS,
    "metrics": Each(METRIC),
    "contained": Each([[TEXT]]),
    "wanted": Each({"metric": METRIC, "targets": [POSITIVE]}),
    "sweeps": [
        {
            "name": TEXT,
            "label": TEXT,
            "metric": METRIC,
            "archs": [ARCH],
        }
    ],
    "study": TEXT,
    "parameters": Each(TEXT),
    "files": Each(TEXT),
    "pool": TEXT,
    "at": [COUNT],
    "tests": COUNT,
    "metric": METRIC,
    "config": TEXT,
    "code": TEXT,
    "evaluation": TEXT_OR_NULL,
}


def told(spec: Any, where: str) -> Told:
    """The spec of a job; `where` is what messages call it. Keys that nothing is known of are left as they are."""
    if isinstance(spec, Told):
        return spec
    if not isinstance(spec, Mapping):
        raise KoctError(f"{where} is {_short(spec)}, and must be an object with keys")
    return Told({key: _checked(value, KINDS.get(key), f"{where}: {key}") for key, value in spec.items()}, where)


def _checked(value: Any, kind: Any, where: str) -> Any:
    """The value, if it is of that kind."""
    if kind is None:
        return value
    if isinstance(kind, Kind):
        if not kind.fits(value):
            raise KoctError(f"{where} = {_short(value)} must be {kind.name}")
        return value
    if isinstance(kind, list):
        if not isinstance(value, list | tuple):
            raise KoctError(f"{where} = {_short(value)} must be a list")
        return [_checked(item, kind[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, Mapping):
        raise KoctError(f"{where} = {_short(value)} must be an object with keys")
    if isinstance(kind, Exactly) and set(value) != set(kind.kinds):
        raise KoctError(
            f"{where} has the keys {_short(sorted(map(str, value)))}, and must have {', '.join(kind.kinds)}"
        )
    kinds = dict.fromkeys(value, kind.kind) if isinstance(kind, Each) else getattr(kind, "kinds", kind)
    return Told({key: _checked(item, kinds.get(key), f"{where}.{key}") for key, item in value.items()}, where)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "something deeply nested"
    return text if len(text) <= 60 else f"{text[:60]}…"
