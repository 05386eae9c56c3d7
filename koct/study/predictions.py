"""The curve that a pool predicts for a network, before any fit of the study: a row for every N and λ."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from koct import metrics
from koct.base.arrays import blocks, to_numpy
from koct.base.files import write_json
from koct.base.stamps import Stamp, made_from
from koct.contracts import Array, Part
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.networks.solvers import Known
from koct.prediction.fixed_point import FixedPoint
from koct.prediction.prediction import Prediction
from koct.prediction.spectral import Spectral
from koct.prediction.subsets import Subsets
from koct.problems.pools import PARTS
from koct.study import cells
from koct.study.fitting import UNFITTED, fits

# Training sets for every N, where curves are predicted by fits to subsets; few where fits are dear.
DRAWS, FEW_DRAWS, DEAR = 12, 6, 1000


class PoolPairs(cells.Data):
    """The first pairs of a pool, whatever part they belong to: a prediction tests nothing."""

    def read(self, name: str, part: Part, count: int | None = None, first: int = 0) -> np.ndarray:
        """All of them; in blocks, so that memory holds them once."""
        read = getattr(self.pool, name)
        one = read("train", 1)
        pairs, filled = np.empty((self.N, one.shape[1]), one.dtype), 0
        for held in PARTS:
            left = min(self.pool.count[held], self.N - filled)
            for rows in blocks(left, one.shape[1]):
                chunk = read(held, min(rows.stop, left) - rows.start, rows.start)
                pairs[filled : filled + len(chunk)] = chunk
                filled += len(chunk)
        return pairs


def predict(spec: Mapping[str, Any], inputs: Mapping[str, str], out: str) -> None:
    """Write the predicted curve of one architecture; `spec` is that of its fits with `at`, `tests` and `metric`."""
    pairs = PoolPairs(Cell.decode(spec), inputs)
    pairs.lambdas = pairs.lambdas or UNFITTED
    in_metric = _metric(CurveMetric(spec["metric"]), pairs)
    method, rows, started = pairs.cell.arch.predicted, [], time.perf_counter()
    if method == "fixed point" and Known(pairs.layers, pairs.nonnegative).each > 1:
        method = "subsets"  # weights that measurements share have no fixed point here yet
    points = _points(method, pairs, spec["at"], spec["tests"])
    print(f"predicted in {time.perf_counter() - started:.1f} s from {pairs.N} pairs", flush=True)
    for point in points:
        errors = _scaled(point.per_sample.clip(0), point.error)
        low, high = (in_metric(_scaled(errors, end)) for end in (point.low, point.high))
        rows.append(
            {
                **pairs.cell.about(),
                "N": point.N,
                "lam": point.lam if np.isfinite(point.lam) else None,
                "method": method,
                "predicted": point.error,
                "low": point.low,
                "high": point.high,
                "metric": spec["metric"],
                "error": in_metric(errors),
                "error_low": low,
                "error_high": high,
                "pairs": pairs.N,
                "trusted": point.trusted,
                "reason": point.reason,
            }
        )
        print(f"N = {point.N}, lambda {point.lam}: {point.error:.4g}, {point.reason or 'trusted'}", flush=True)
    write_json(out, {"rows": rows}, Stamp(spec, made_from(*inputs.values())))


def _scaled(errors: np.ndarray, mean: float) -> np.ndarray:
    """With this mean."""
    return errors * (mean / max(errors.mean(), 1e-300))


def _metric(metric: CurveMetric, pairs: PoolPairs) -> Callable[[np.ndarray], float | None]:
    """What turns the mean squared errors of the samples into the metric; None where it cannot be told from them."""
    module = metrics.load(metric.column)
    if metric.column != "mse" and not hasattr(module, "scale"):
        return lambda errors: None
    scale = np.ones(pairs.N) if metric.column == "mse" else module.scale(to_numpy(pairs.y))
    power = 1 if metric.column == "mse" else 0.5

    def of(errors: np.ndarray) -> float:
        mean = float(np.mean(errors[scale > 0] ** power / scale[scale > 0]))
        return mean**2 if metric.squared else mean

    return of


def _points(method: str | None, pairs: PoolPairs, at: Sequence[int], tests: int) -> list[Prediction]:
    """The curve by a method that architectures name."""
    if method == "spectral":
        return Spectral(pairs.nonnegative).fit(pairs.x, pairs.y).curve(at, pairs.lambdas, tests)
    if method == "fixed point":
        known = Known(pairs.layers, pairs.nonnegative)
        theory = FixedPoint(pairs.normal, known.adjoint, known.analytic, known.reconstruct)
        return theory.fit(pairs.x, pairs.y).curve(at, pairs.lambdas, tests)
    for need in {"layers", "normal"}.intersection(pairs.cell.arch.needs()):
        getattr(pairs, need)  # once, for all fits

    def fitting(x: Array, y: Array) -> Iterator[tuple[float | None, Callable[[Array], Array]]]:
        part = copy.copy(pairs)
        part.x, part.y, part.N, part.gram, part.read = x, y, len(x), None, _refuse  # type: ignore[method-assign]
        for lam, network in fits(part):
            yield lam, network.predict

    draws = DRAWS if pairs.x.shape[1] <= DEAR else FEW_DRAWS
    return Subsets(fitting, draws).fit(pairs.x, pairs.y).curve(at, tests)


def _refuse(name: str, part: str, count: int | None = None, first: int = 0) -> np.ndarray:
    raise KoctError(
        f"a fit that is predicted by subsets uses data.x and data.y alone, and not data.read({name!r}, {part!r}): "
        "these pairs may test it; set predicted to None"
    )
