"""What a known operator explains of given pairs, what would repair it, and from which N on learning everything pays.

    knowing = Knowing(problem, x, y)
    knowing.repairs()     # the error of the operator as it is, and after each repair, on samples that no fit has seen
    knowing.crossing()    # from which N on a dense matrix is predicted to be better than a weight per measurement

Repairs act on the measurements, in front of the known operator: one factor, a shift along the last axis, a factor per
view, a weight per measurement, a filter per view. Each is fitted to two thirds of the pairs and tested on the others,
three times, so that every pair is tested once. The ridge of a third is the best of the two others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.base.device import CPU, Device
from koct.base.loglog import below_from
from koct.contracts import Array, Problem, Training
from koct.errors import KoctError
from koct.networks.fc import FC
from koct.networks.filters import Filters
from koct.networks.ko import KO
from koct.networks.solvers import Known
from koct.operators.algebra import normal_matrix
from koct.prediction.curve import Curve
from koct.prediction.prediction import NORMAL, Prediction, checked_pairs
from koct.prediction.spectral import Spectral
from koct.prediction.subsets import Subsets

FOLDS = 3
DECADES = range(-8, 3)  # of λ, relative to the mean of the normal matrix's diagonal
DRAWS = 6  # training sets for every N of the weights' curve
DENSE_DRAWS = 24  # of the dense matrix's, where rare samples make its error
FINER = 4  # points of the dense matrix's curve around the crossing
STEPS = 4  # of Gauss and Newton for the shift


class Repair(NamedTuple):
    """What a repair learns, and the mean squared error that it leaves on samples that its fit has not seen."""

    name: str
    learned: int
    error: float
    train_error: float
    found: Mapping[str, float]  # the values learned, where there are few

    @property
    def floor(self) -> float:
        """What no values of what is learned can repair: the mean of both errors, as in linear regression."""
        return (self.error + self.train_error) / 2

    def at(self, ratio: float) -> float:
        """The error with so many times the samples: the floor, and an estimation error that goes as one over N."""
        return self.floor + (self.error - self.floor) / ratio


class Crossing(NamedTuple):
    """From which N on the dense matrix is better, with its 90 % interval; None: not up to `upto`."""

    N: int | None
    N_low: int | None
    N_high: int | None
    upto: int
    weights: Sequence[Prediction]  # both curves, at the same N
    dense: Sequence[Prediction]


class Given(Training):
    """Pairs in memory as what a fit is given."""

    gram, seed = None, 1

    def __init__(self, problem: Problem, device: Device, x: Array, y: Array):
        shared = problem.shared()
        self.problem, self.device, self.x, self.y, self.N = problem, device, x, y, len(x)
        self.x_shape, self.y_shape, self.layers = problem.x_shape, problem.y_shape, tuple(problem.layers(shared))
        self.nonnegative, self.nonnegative_images = problem.nonnegative, problem.nonnegative_images
        self.known, normal = Known(self.layers, problem.nonnegative), problem.normal_matrix(shared)
        self.normal = device.put(normal_matrix(self.known.R) if normal is None else normal)

    def of(self, x: Array, y: Array, lambdas: Sequence[float] = ()) -> Given:
        """The same with other pairs."""
        part = copy.copy(self)
        part.x, part.y, part.N, part.lambdas = x, y, len(x), tuple(lambdas)
        return part


class Knowing:
    """Pairs (x, y), and a problem whose known layers lead from x to y.

    `weights` is how the weights are fitted, toward the known ones by default. Its λ, and those of the dense matrix, are
    the best of `lambdas`, or of a wide grid. `draws` is how many training sets of every N the weights are fitted to.
    """

    def __init__(
        self,
        problem: Problem,
        x: Any,
        y: Any,
        weights: KO | None = None,
        lambdas: Sequence[float] | None = None,
        draws: int = DRAWS,
        device: Device = CPU,
    ):
        x, y = checked_pairs(x, y)
        for name, array, shape in (("x", x, problem.x_shape), ("y", y, problem.y_shape)):
            if array.shape[1:] != shape and array[0].size != np.prod(shape):
                raise KoctError(f"{name} has samples of shape {array.shape[1:]}, and the problem's have {shape}")
        if not problem.has_layers:
            raise KoctError(f"the problem {problem.name} has no known layers; write its method layers")
        if len(x) < 2 * FOLDS:
            raise KoctError(f"{len(x)} pairs are too few to fit some and test others; give at least {2 * FOLDS}")
        x = np.asarray(x, float if device is CPU else np.float32).reshape(len(x), -1)
        self.data = Given(problem, device, device.put(x), device.put(y.reshape(len(y), -1)))
        self.known, self.draws = self.data.known, draws
        self.weights, self.lambdas = weights or KO(solver="ridge", toward="analytic"), lambdas

    # Repairs

    def repairs(self) -> list[Repair]:
        """Return the operator as it is, and every repair that makes sense for the problem."""
        as_it_is = self._tried("nothing", lambda data: iter([(lambda x: self._cut(self._image(x)), 0, {})]))
        found = [as_it_is, self._tried("one factor", self._factor)]
        views = len(self.data.x_shape) > 1 and self.known.each == 1
        if views:
            found.append(self._tried("a shift along the detector", self._shift))
            found.append(self._tried("a factor per view", self._gains))
        found.append(self._tried("a weight per measurement", self._by(self.weights, self._strengths())))
        if views and not list(Filters().check(self.data.problem)):
            strengths = [10.0**power for power in DECADES]
            found.append(self._tried("a filter per view", self._by(Filters(), strengths)))
        return found

    def _tried(self, name: str, fit: Callable[[Given], Iterator[Any]]) -> Repair:
        """Fit thirds, and test the others; the ridge of each third is the best on the two others."""
        data, tests, trains, values = self.data, [], [], {}
        order = np.random.default_rng(0).permutation(data.N)
        for fold in range(FOLDS):
            tested = np.sort(order[fold::FOLDS])
            fitted = np.setdiff1d(order, tested)
            fits = list(fit(data.of(data.x[fitted], data.y[fitted])))
            tests.append([_error(predict(data.x[tested]), data.y[tested]) for predict, *_ in fits])
            trains.append([_error(predict(data.x[fitted]), data.y[fitted]) for predict, *_ in fits])
            values, learned = fits[0][2], fits[0][1]
        errors = np.array(tests)  # (folds, λ)
        best = [int(np.delete(errors, fold, 0).mean(0).argmin()) for fold in range(FOLDS)]
        test, train = (float(np.array(of)[np.arange(FOLDS), best].mean()) for of in (tests, trains))
        return Repair(name, learned, test, train, values)

    def _image(self, x: Array) -> Array:
        """What the operator as it is makes of measurements, before anything is cut off."""
        known = self.known
        weighted = known.weighted(known.analytic, x)
        return known.R(weighted.reshape(-1, *known.R.domain)).reshape(len(x), -1)

    def _cut(self, images: Array) -> Array:
        return images.clip(min=0) if self.known.nonnegative else images

    def _factor(self, data: Given) -> Iterator[Any]:
        image = self._image(data.x)
        factor = float((image * data.y).sum() / max(float((image * image).sum()), 1e-300))
        yield (lambda x: self._cut(factor * self._image(x))), 1, {"factor": factor}

    def _shift(self, data: Given) -> Iterator[Any]:
        """A factor and a shift in bins, by Gauss and Newton: the derivative of the shifted measurements is known."""
        shift, factor = 0.0, 1.0
        for _ in range(STEPS):
            moved = self._moved(data.x, shift)
            derivative = self._spectrally(moved, lambda frequency: frequency)
            columns = [self._image(moved).ravel(), self._image(derivative).ravel()]
            (factor, slope), *_ = np.linalg.lstsq(np.stack(columns, 1), data.y.ravel(), rcond=None)
            if factor == 0:
                break
            shift += float(np.clip(slope / factor, -1, 1))
        found = {"factor": float(factor), "bins": shift}
        yield (lambda x: self._cut(factor * self._image(self._moved(x, shift)))), 2, found

    def _moved(self, x: Array, shift: float) -> Array:
        """Measurements at places that lie `shift` further along the last axis; zero outside."""
        return self._spectrally(x, lambda frequency: np.exp(frequency * shift))

    def _spectrally(self, x: Array, factor: Callable[[np.ndarray], np.ndarray]) -> Array:
        """Multiply the spectrum of every view, padded by zeros, by a function of 2πi times its frequencies."""
        bins = self.data.x_shape[-1]
        frequency = 2j * np.pi * np.fft.rfftfreq(2 * bins)
        padded = np.fft.rfft(x.reshape(-1, bins), 2 * bins, axis=1) * factor(frequency)
        return np.fft.irfft(padded, 2 * bins, axis=1)[:, :bins].reshape(x.shape)

    def _gains(self, data: Given) -> Iterator[Any]:
        """One factor for every view: that of its weights, so the matrix of all weights is summed over views."""
        views = int(np.prod(data.x_shape[:-1]))
        owner = np.repeat(np.arange(views), data.x_shape[-1])
        weighted = self.known.weighted(self.known.analytic, data.x)
        tie = (owner == np.arange(views)[:, None]).astype(float)
        matrix = tie @ ((weighted.T @ weighted) * data.normal) @ tie.T
        right = tie @ (weighted * self.known.adjoint(data.y)).sum(0)
        gains = np.linalg.lstsq(matrix, right, rcond=1e-10)[0]
        yield (lambda x: self._cut(self._image(gains[owner] * x))), views, {}

    def _by(self, arch: Any, lambdas: Sequence[float]) -> Callable[[Given], Iterator[Any]]:
        return lambda data: (
            (network.predict, network.parameters, {}) for _, network in arch.fit(data.of(data.x, data.y, lambdas))
        )

    def _strengths(self) -> list[float]:
        """λ for the weights, around the mean of their normal matrix's diagonal if none are given."""
        if self.lambdas:
            return list(self.lambdas)
        data = self.data
        mean = float(((data.x**2).sum(0) * np.diag(data.normal)).mean())
        return [mean * 10.0**power for power in DECADES]

    # The crossing

    def crossing(self) -> Crossing:
        """Compare the predicted curves of weights and of a dense matrix, up to eight times the pairs.

        Where the theory of the dense matrix is not to be trusted, it is fitted to subsets of the pairs as well.
        """
        theory = Curve(Spectral(self.data.nonnegative).fit(self.data.x, self.data.y), self.lambdas)
        subsets = self._subsets(FC(), theory.lambdas, DENSE_DRAWS)
        dense = _with_fits(theory.octaves, subsets)
        weights = self._weights_curve([point.N for point in dense])
        dense = [point for point in dense if point.N in weights]
        rough = crossing([weights[point.N] for point in dense], dense)
        if rough.N is None or rough.N <= dense[0].N:
            return rough
        finer = [round(rough.N * 2 ** (k / FINER)) for k in range(-FINER, FINER + 1)]
        finer = [N for N in finer if dense[0].N < N < rough.upto]
        by_size = {point.N: point for point in [*dense, *_with_fits(theory.at(finer), subsets)]}
        sizes = sorted(by_size)
        return crossing([_between(weights, N) for N in sizes], [by_size[N] for N in sizes])

    def _weights_curve(self, sizes: Sequence[int]) -> dict[int, Prediction]:
        """Return the predicted curve of the weights by N, for the sizes of four samples and more.

        Beyond what can be fitted it is floor and estimation error, of which a line through the last octave knows
        nothing.
        """
        subsets = self._subsets(self.weights, self.lambdas or self._strengths()[2::2], self.draws)
        curve = {point.N: point for point in subsets.best_curve([N for N in sizes if 4 <= N <= subsets.largest])}
        last = curve[max(curve)]
        repair = self._tried("weights", self._by(self.weights, self._strengths()))
        fitted = self.data.N - self.data.N // FOLDS
        for N in sizes:
            if N > last.N:
                error = repair.at(N / fitted)
                low, high = error * last.low / last.error, error * last.high / last.error
                curve[N] = last._replace(N=N, error=error, low=low, high=high)
        return curve

    def _subsets(self, arch: Any, lambdas: Sequence[float], draws: int) -> Subsets:
        """Fits of an architecture to some of the pairs, for every λ."""
        data = self.data

        def fitting(x: Array, y: Array) -> Iterator[tuple[float | None, Callable[[Array], Array]]]:
            return ((lam, network.predict) for lam, network in arch.fit(data.of(x, y, lambdas)))

        return Subsets(fitting, draws).fit(data.x, data.y)


def _with_fits(points: Sequence[Prediction], subsets: Subsets) -> list[Prediction]:
    """Return the points, from fits to subsets where the theory is not to be trusted.

    Points without an interval are left out: so close to the rank of the data, no error can be predicted.
    """
    doubtful = [point.N for point in points if not point.trusted and 4 <= point.N <= subsets.largest]
    fits = {point.N: point for point in subsets.best_curve(doubtful)}
    best = (fits.get(point.N, point) for point in points)
    return [point for point in best if 0 < point.low < point.high and point.error > 0]


def _between(curve: Mapping[int, Prediction], N: int) -> Prediction:
    """The point of a curve at N, between others by a line in logarithms."""
    if N in curve:
        return curve[N]
    ends = [[getattr(point, name) for point in curve.values()] for name in ("error", "low", "high")]
    error, low, high = (float(np.exp(np.interp(np.log(N), np.log(list(curve)), np.log(values)))) for values in ends)
    return curve[max(size for size in curve if size < N)]._replace(N=N, error=error, low=low, high=high)


def crossing(weights: Sequence[Prediction], dense: Sequence[Prediction]) -> Crossing:
    """Return where the second of two curves gets below the first for good, between points by a line in logarithms."""
    N = np.array([point.N for point in dense], float)
    ratio = np.log([b.error / a.error for a, b in zip(weights, dense, strict=True)])
    spread = np.hypot(_spread(weights), _spread(dense))
    places = (below_from(N, ratio + shift * spread) for shift in (0, -NORMAL, NORMAL))
    middle, low, high = (int(np.ceil(n)) if np.isfinite(n) else None for n in places)
    return Crossing(middle, low, high, int(N[-1]), weights, dense)


def _spread(points: Sequence[Prediction]) -> np.ndarray:
    """The standard deviation of the logarithm of every error."""
    return np.array([np.log(point.high / point.low) / (2 * NORMAL) for point in points])


def _error(predicted: Array, y: Array) -> float:
    return float(((predicted - y) ** 2).mean())
