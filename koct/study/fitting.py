"""Fit one cell and choose its λ: from a list or by search, by cross-validation or on validation pairs."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from koct import metrics
from koct.base.arrays import index, to_numpy
from koct.contracts import FOLDS, MOST_FOLDED, TUNED_ON, Network
from koct.contracts.blame import line_of
from koct.errors import KoctError
from koct.study.cells import Data

FIRST = range(-8, 9, 4)  # half powers of ten that a search begins with: every second power from 1e-4 to 1e4
STEPS = (4, 2, 1)  # between the best and its neighbours, from the first round to the last
FARTHEST = 24  # half powers of ten: no λ is below 1e-12 or above 1e12
UNFITTED = tuple(10.0**power for power in range(-6, 7, 2))  # λ of predictions, which come before any search
FLAT = 1e-3  # share of an error that is no difference: beyond, the curve is taken for level
ROUNDING = 1e-5  # relative difference of what is the same
MOST_LEFT_OUT = 1024  # samples whose errors judge a λ


class Search:
    """Strengths λ to try, in rounds: those of a list, or a bracket that grows until the best λ is inside, then refined.

    The next round depends on `errors`, to be filled by λ. A curve that is level at one end has its best λ there.
    Some also try `none` at all, which lies beyond the first that they try after it.
    """

    def __init__(self, listed: tuple[float, ...] = ()):
        self.listed, self.errors, self.none = listed, dict[float, float](), False

    def rounds(self) -> Iterator[tuple[float, ...]]:
        if self.listed:
            yield self.listed
            return
        yield tuple(map(_strength, FIRST))
        for step in STEPS:
            while new := self._beside(step):
                yield new

    def _beside(self, step: int) -> tuple[float, ...]:
        """Return the strengths on both sides of the best that have not been tried, if they may be better."""
        tried = sorted(self.errors)
        best = min(tried, key=self.errors.__getitem__)
        place = round(2 * math.log10(best))
        beside = [_strength(place + way) for way in (-step, step) if abs(place + way) <= FARTHEST]
        if not self.at_edge(best):  # beyond what was tried the curve is level
            beside = [lam for lam in beside if tried[0] < lam < tried[-1]]
        return tuple(lam for lam in beside if lam not in self.errors)

    def at_edge(self, lam: float | None) -> bool:
        """Return whether λ is the first or the last that was tried, and its error still falls there."""
        tried = sorted(self.errors)
        if len(tried) < 2 or lam not in (tried[0], tried[-1]) or (self.none and lam == next(iter(self.errors))):
            return False
        beside = tried[1] if lam == tried[0] else tried[-2]
        return self.errors[beside] > (1 + FLAT) * self.errors[lam]


def _strength(place: int) -> float:
    return float(f"{10 ** (place / 2):.3g}")


def fit(data: Data) -> tuple[dict[str, Any], Network]:
    """(about, network): fit a cell and keep the network with the best λ."""
    started = time.perf_counter()
    lam, network = _validated(data) if data.cell.arch.validation == "labels" else _cross_validated(data)
    if _is_own(data):
        _check_lasting(data, network)
    return describe(data, lam, network, time.perf_counter() - started), network


def _check_lasting(data: Data, network: Network) -> None:
    """Refuse a network whose predictions change its later ones: the fit on disk would be another than its row's."""
    x = data.device.put(data.pool.x("val", 1))
    first, second = (data.images(network, x).copy() for _ in range(2))
    if not np.allclose(first, second, rtol=ROUNDING, atol=ROUNDING * float(abs(first).max()), equal_nan=True):
        where = line_of(data.cell.arch, "fit")
        raise KoctError(f"{where}: the network's predict gives something else each time; let it change nothing")


def _validated(data: Data) -> tuple[float | None, Network]:
    """Choose λ by the error on the validation pairs."""
    error, y, search = _error(data), data.read("y", "val"), Search(data.cell.lambdas)
    best: tuple[float, float | None, Network, np.ndarray] | None = None
    for lambdas in search.rounds() if data.cell.arch.uses_lambdas else [()]:
        data.lambdas = lambdas
        for lam, network in fits(data):
            images = data.predict(network, "val")
            score = _judged(data, search, lam, error(images, y))
            if math.isfinite(score) and (best is None or score < best[0]):
                best = score, lam, network, images
    if best is None:
        raise _nothing_finite(data, search)
    score, lam, network, data.validated = best
    if _is_own(data):
        data.validated = data.predict(network, "val")
        if not math.isclose(error(data.validated, y), score, rel_tol=ROUNDING):
            where = line_of(data.cell.arch, "fit")
            raise KoctError(f"{where}: a network changed after fit had yielded it; yield a new one for every lambda")
    return _tuned(network, lam, search, "validation pairs")


def _cross_validated(data: Data) -> tuple[float | None, Network]:
    """Choose λ by the errors of networks on training pairs that they were not fitted to."""
    arch, search = data.cell.arch, Search(data.cell.lambdas)
    data.lambdas = search.listed[:1] or (1.0,)
    first = next(fits(data), None)
    if first is None:
        raise KoctError(f"{line_of(arch, 'fit')}: fit yielded nothing; yield (lambda or None, a Network)")
    if first[0] is None or not arch.uses_lambdas:
        return first
    networks: dict[float | None, Network] = {}
    score = _leave_one_out(data, networks) if arch.leaves_one_out and not data.problem.has_groups else _folded(data)
    for lambdas in search.rounds():
        for lam, value in score(lambdas):
            _judged(data, search, lam, value)
    finite = {lam: value for lam, value in search.errors.items() if math.isfinite(value)}
    if not finite:
        raise _nothing_finite(data, search)
    lam = min(finite, key=finite.__getitem__)
    if lam not in networks:
        data.lambdas = (lam,)
        ((_, networks[lam]),) = fits(data)
    return _tuned(networks[lam], lam, search, "training pairs")


def _leave_one_out(data: Data, networks: dict[float | None, Network]) -> Any:
    """Return what gives the leave-one-out error of every λ, by the closed form of the networks, which are kept."""
    error, rows = _error(data), slice(0, MOST_LEFT_OUT)
    y = data.read("y", "train", min(data.N, MOST_LEFT_OUT))

    def score(lambdas: tuple[float, ...]) -> Iterator[tuple[float | None, float]]:
        data.lambdas = lambdas
        for lam, network in fits(data):
            if not _is_own(data):  # theirs may change after it was yielded, and is fitted again
                networks[lam] = network
            yield lam, error(to_numpy(network.left_out(rows)), y)

    return score


def _folded(data: Data) -> Any:
    """Return what gives the error of every λ on samples that are left out of its fit."""
    error, y = _error(data), data.read("y", "train", data.N)
    held = _folds(data)

    def score(lambdas: tuple[float, ...]) -> Iterator[tuple[float | None, float]]:
        total = dict[float | None, float]()
        for rows in held:
            part, tested = without(data, rows, lambdas), np.flatnonzero(rows)[: MOST_LEFT_OUT // len(held)]
            x = data.x[index(tested, data.x)]
            for lam, network in fits(part):
                total[lam] = total.get(lam, 0.0) + error(data.images(network, x), y[tested]) / len(held)
        yield from total.items()

    return score


def _folds(data: Data) -> list[np.ndarray]:
    """Return which training pairs (N,) each fold leaves out; a group, such as a patient, is left out as a whole."""
    sizes = data.pool.groups["train"][: data.cell.N] if data.pool.groups else [1] * data.N
    groups = np.repeat(np.arange(len(sizes)), sizes)
    count = min(FOLDS, len(sizes))
    folds = [groups % count == fold for fold in range(count)]
    return folds if len(sizes) <= MOST_FOLDED else folds[:1]


def without(data: Data, left_out: np.ndarray, lambdas: tuple[float, ...]) -> Data:
    """Return the data of a fit that does not see some of the training pairs (N,)."""
    part, kept = copy.copy(data), np.flatnonzero(~left_out)
    rows = index(kept, data.x)
    part.x, part.y, part.N, part.lambdas = data.x[rows], data.y[rows], len(kept), lambdas
    if "gram" in data.cell.arch.needs():
        part.gram = None if data.gram is None else data.gram[rows][:, rows]
    part.training_rows = kept
    return part


def _is_own(data: Data) -> bool:
    """Return whether the architecture is a user's own; koct's are tested with koct."""
    return data.cell.arch.source.endswith(".py")


def _error(data: Data) -> Any:
    return metrics.error_of(data.problem.validation_metric, data.problem.inside)


def _judged(data: Data, search: Search, lam: float | None, score: float) -> float:
    """Note the error of a λ, and return it."""
    if lam is None:
        search.none = True
    else:
        search.errors[lam] = score if math.isfinite(score) else math.inf
        print(f"lambda {lam:g}: {data.problem.validation_metric} {score:.6g}", flush=True)
    return score


def _tuned(network: Network, lam: float | None, search: Search, tuned_on: str) -> tuple[float | None, Network]:
    if search.errors:
        network.tuned_on, network.edge = tuned_on, search.at_edge(lam)
    return lam, network


def _nothing_finite(data: Data, search: Search) -> KoctError:
    tried = f"; lambdas are {sorted(search.errors)}" if search.errors else ""
    return KoctError(f"{line_of(data.cell.arch, 'fit')}: no fit gave a finite validation error{tried}")


def fits(data: Data) -> Iterator[tuple[float | None, Network]]:
    """What the architecture yields, if it is what the contract says."""
    seen = set[float | None]()
    for fitted in _given(data) if _is_own(data) else data.cell.arch.fit(data):
        if not (isinstance(fitted, tuple) and len(fitted) == 2 and isinstance(fitted[1], Network)):
            raise KoctError(
                f"{line_of(data.cell.arch, 'fit')}: fit yielded {type(fitted).__name__}; "
                "yield (lambda or None, a koct.contracts.Network)"
            )
        lam = fitted[0]
        among = lam is None or (lam in data.lambdas if data.cell.arch.uses_lambdas else math.isfinite(lam))
        if not among or lam in seen:
            where = line_of(data.cell.arch, "fit")
            raise KoctError(f"{where}: fit yielded lambda {lam}; yield one of data.lambdas, each once, or None once")
        seen.add(lam)
        yield fitted


def _given(data: Data) -> Iterator[Any]:
    """What a user's architecture yields; while it works, its data stay as they are."""
    data.given = True
    try:
        networks = data.cell.arch.fit(data)
        if not isinstance(networks, Iterable):
            raise KoctError(f"{line_of(data.cell.arch, 'fit')}: fit returned {type(networks).__name__}; yield instead")
        for fitted in networks:
            data.given = False
            yield fitted
            data.given = True
    finally:
        data.given = False


def _count(network: Network) -> int:
    """How many numbers a network learned; torch's modules have a method of the same name, which does not count them."""
    counted: Any = network.parameters
    counted = Network.parameters.fget(network) if callable(counted) else counted  # type: ignore[attr-defined]
    if not (isinstance(counted, int | np.integer) and 0 <= counted < 2**63):
        raise KoctError(f"the network's parameters is {counted}; give a whole number, how many numbers were learned")
    return int(counted)


def _check_described(network: Network) -> None:
    """Refuse what a network says of its fit, if it cannot stand in a row."""
    for name in ("fit_seconds", "steps", "gain", "losses", "pairs"):
        value = getattr(network, name)
        numbers = value if name == "losses" and isinstance(value, list | tuple) else [value]
        real = all(isinstance(one, int | float | np.number) and math.isfinite(one) for one in numbers)
        if value is not None and not (real and (name in ("gain", "losses") or numbers[0] >= 0)):
            raise KoctError(f"the network's {name} is {value!r}; give a number, for losses a list of them, or None")
    if network.tuned_on not in (None, *TUNED_ON):
        raise KoctError(f"the network's tuned_on is {network.tuned_on!r}; give None or one of {', '.join(TUNED_ON)}")


def describe(data: Data, lam: float | None, network: Network, seconds: float) -> dict[str, Any]:
    """What a fit file says about its fit."""
    _check_described(network)
    return {
        "lam": None if lam is None else float(lam),
        "tuned_on": network.tuned_on,
        "edge": network.edge,
        "steps": network.steps,
        "gain": network.gain,
        "losses": None if network.losses is None else list(network.losses),
        "drawn": (network.pairs or data.N) if data.fresh else None,
        "p": _count(network) if data.cell.arch.trained else 0,
        "fit_seconds": seconds if network.fit_seconds is None else network.fit_seconds,
        "device": data.device.label,
        "pool": data.pool.stamp.content,
    }
