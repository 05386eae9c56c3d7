"""The learning curve of ridge regression from its data alone: no network is fitted, at any N.

For y ≈ M x with Σ_n ‖M x_n − y_n‖² + λ‖M‖², the error on new samples after training on N of them follows from one
eigendecomposition of the Gram matrix of a pool of pairs. The pool's own leave-one-out residuals, at a larger ridge that
imitates a smaller N, are split into what no sample size removes at that ridge and what the finite N adds; the second
part is then scaled from the pool's size to N. Only x xᵀ enters, so any kernel matrix will do.

docs/curve.md has the mathematics, the checks and the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.base.arrays import double, eigh, gram_matrix, index, joined, like, single, to_numpy
from koct.errors import KoctError
from koct.prediction.prediction import NORMAL, PER_OCTAVE, Prediction, checked_pairs, checked_ridge, checked_size, flat

SKETCH = 384  # random sums of outputs that stand for them all where there are more: about 1 % of the error, once
CUT_OUTPUTS = 128  # of which the effect of cutting predictions off at zero is estimated
CUT_SAMPLES = 256  # whose residuals make the noise there
DRAWS = 12  # training sets that tell how much the error depends on the draw
LARGEST_DRAW = 256  # samples in such a set
TESTED = 128  # samples to test it on
NEAR_RANK = 0.9
NO_RIDGE = 1e-15  # of the largest eigenvalue: with a smaller λ errors are the same, and could not be computed
ROUNDING = 1e-6  # relative, that a Gram matrix may have
STEP = 1e-3  # relative, of numerical derivatives
BISECTIONS = 10  # of a quarter of a decade, before a secant
FEWEST = 16  # pairs that may tell a spectrum


class Spectral:
    """Predicts the learning curve of ridge regression on samples like those of a pool.

    Parameters
    ----------
    nonnegative : whether predictions are cut off at zero, as by a ReLU
    seed : of the random draws, which give the interval and the effect of the cut

    Examples
    --------
    >>> from koct import Spectral
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((64, 8))
    >>> y = x[:, :3] + 0.1 * rng.standard_normal((64, 3))
    >>> theory = Spectral().fit(x, y)
    >>> point = theory.best(32, [1e-3, 1.0, 100.0])
    >>> point.lam, 0.01 < point.error < 0.02
    (0.001, True)
    """

    def __init__(self, nonnegative: bool = False, seed: int = 0):
        self.nonnegative, self.seed = nonnegative, seed

    # Fitting

    def fit(self, x: Any, y: Any) -> Spectral:
        """Fit to pairs, arrays of shape (samples, ...), NumPy's or torch's; return self."""
        x, y = checked_pairs(x, y)
        return self._fit(gram_matrix(flat(x)), flat(y))

    def fit_gram(self, gram: Any, y: Any) -> Spectral:
        """Fit to the Gram matrix x xᵀ, or a kernel matrix, of the samples and their targets y; return self."""
        gram, y = checked_pairs(gram, y)
        gram, y = double(gram), flat(y)
        if gram.shape != (len(y), len(y)):
            raise KoctError(f"the Gram matrix has shape {tuple(gram.shape)}; give samples × samples, {len(y)} of each")
        if float(abs(gram - gram.T).max()) > ROUNDING * float(abs(gram).max()):
            raise KoctError("the Gram matrix is not symmetric; give x xᵀ, or a kernel matrix")
        return self._fit(gram, y)

    def _fit(self, gram: Any, y: Any) -> Spectral:
        count = len(gram)
        if count < 2:
            raise KoctError(f"{count} pair tells nothing about others; give at least 2")
        if float(abs(gram - gram[:1, :1]).max()) <= 1e-12 * float(abs(gram[0, 0])):
            raise KoctError("x is the same in all pairs, so nothing can be learned from it; give x that vary")
        rng = np.random.default_rng(self.seed)
        columns = np.sort(rng.permutation(y.shape[1])[:CUT_OUTPUTS] if self.nonnegative else np.arange(0))
        self.M, self.outputs = count, y.shape[1]
        sketch, some = like(_sketch(y, rng), gram), like(y[:, index(columns, y)], gram)
        self.unit = float((sketch**2).mean()) ** 0.5 or 1.0  # of y, so that single precision will do
        self.gram, self.sketch, self.some = gram, sketch / self.unit, some / self.unit
        self.sources = rng.permutation(count)[:CUT_SAMPLES]
        self.draw = rng.standard_normal((count, len(self.sources)))
        values, vectors = eigh(gram)
        if float(values.min()) < -ROUNDING * float(values.max()):
            raise KoctError("the Gram matrix has negative eigenvalues; give x xᵀ, or a positive semidefinite kernel")
        self.values = values * (values > count * np.finfo(float).eps * values.max())  # others are but rounding
        self.vectors, self.squares = vectors, vectors**2
        self.vectors_single, self.some_single = single(vectors), single(self.some)
        self.targets = vectors.T @ joined(self.sketch, self.some)
        self.energies = (self.targets[:, : self.sketch.shape[1]] ** 2).sum(1)
        self._last: tuple[float, Any] = (0.0, None)
        self._spreads: dict[tuple[int, float], float] = {}
        return self

    # Predicting

    def predict(self, N: int, lam: float, tests: int | None = None) -> Prediction:
        """Return the error after N samples; with `tests`, the interval is for an error measured on so many others."""
        return self.curve([N], [lam], tests)[0]

    def curve(self, sizes: Iterable[int], lambdas: Sequence[float], tests: int | None = None) -> list[Prediction]:
        """Return predictions for every N and λ, in that order; a λ below rounding is raised to it."""
        lambdas = [max(checked_ridge(lam), NO_RIDGE * float(self.values.max())) for lam in lambdas]
        requested = [(checked_size(N), lam) for N in sizes for lam in lambdas]
        within = [(min(N, self.M), lam) for N, lam in requested]
        last_octave = [(max(1, self.M // 2), lam) for N, lam in requested if N > self.M]
        points = self._equivalents(list(dict.fromkeys(within + last_octave)))
        predictions = []
        for N, lam in requested:
            spread = self._draw_spread(min(N, self.M), lam, lambdas) * np.sqrt(min(1, self.M / N))
            predictions.append(self._prediction(N, lam, points, spread, tests))
        return [self._in_units_of_y(prediction) for prediction in predictions]

    def _equivalents(self, points: Sequence[tuple[int, float]]) -> dict[tuple[int, float], _Equivalent]:
        """Return the deterministic equivalent at every (N, λ), N up to the size of the pool."""
        ridges = self._pool_ridges(*np.array(points, float).T)[:, None] * np.array([1 - STEP, 1, 1 + STEP])
        h, a = (each.reshape(self.M, *ridges.shape) for each in self._leverages(ridges.ravel()))
        return {point: self._equivalent(*point, ridges[i], h[:, i], a[:, i]) for i, point in enumerate(points)}

    def _in_units_of_y(self, prediction: Prediction) -> Prediction:
        errors = ("error", "low", "high", "per_sample", "train_error")
        return prediction._replace(**{name: getattr(prediction, name) * self.unit**2 for name in errors})

    def best(self, N: int, lambdas: Sequence[float], tests: int | None = None) -> Prediction:
        """Return the prediction with the λ of the smallest error; beyond the pool, with that of the whole pool."""
        return self.best_curve([N], lambdas, tests)[0]

    def best_curve(self, sizes: Iterable[int], lambdas: Sequence[float], tests: int | None = None) -> list[Prediction]:
        """Return what `best` does for every N."""
        wanted = [checked_size(N) for N in sizes]
        inside = list(dict.fromkeys(min(N, self.M) for N in wanted))
        points = self.curve(inside, lambdas, tests)
        rows = [points[i : i + len(lambdas)] for i in range(0, len(points), len(lambdas))]
        best = {row[0].N: min(row, key=lambda point: point.error) for row in rows}
        return [best[N] if N <= self.M else self.predict(N, best[self.M].lam, tests) for N in wanted]

    def _generalised(self, ridge: float) -> float:
        scale = self.values.mean() / (self.values + ridge)
        return float((self.energies * scale**2).sum()) / self.M / self.outputs / float(scale.mean()) ** 2

    def _prediction(
        self, N: int, lam: float, points: dict[Any, Any], draw_spread: float, tests: int | None
    ) -> Prediction:
        there = points[min(N, self.M), lam]
        factor, reasons = 1.0, list(there.reasons)
        if N > self.M:
            before = points[max(1, self.M // 2), lam]
            slope = np.log(there.errors.mean() / before.errors.mean()) / np.log(self.M / max(1, self.M // 2))
            factor = float((N / self.M) ** np.clip(slope, -1, 0))  # no ridge learns faster than one over N
            reasons.append(f"N = {N} is beyond the {self.M} pairs: a line through the last octave")
        errors = factor * there.errors
        error = float(errors.mean())
        spread = float(errors.std() / error) if error > 0 else 0.0
        variance = draw_spread**2 + spread**2 / self.M
        variance += spread**2 / tests if tests else 0
        variance += (PER_OCTAVE * np.log2(max(1.0, N / self.M))) ** 2
        width = float(np.exp(NORMAL * np.sqrt(variance)))
        more = there.more if N <= self.M else ()
        return Prediction(N, lam, error, error / width, error * width, errors, not reasons, "; ".join(reasons), *more)

    # The deterministic equivalents

    def _pool_ridges(self, sizes: np.ndarray, ridges: np.ndarray) -> np.ndarray:
        """The largest ridge at which the whole pool has as many degrees of freedom as N samples with the given one."""
        top = float(self.values.max())
        grid = np.geomspace(1e6 * top, 1e-16 * top, 89)
        h, a = self._leverages(grid)
        excess = np.stack(
            [N * _mean_used(a * (grid / lam)) - h.sum(0) for N, lam in zip(sizes, ridges, strict=True)]
        )  # positive at the largest ridge
        first = np.where((excess <= 0).any(1), (excess <= 0).argmax(1), len(grid) - 1).clip(1)
        low, high = np.log(grid[first]), np.log(grid[first - 1])
        points = np.arange(len(sizes))
        at_low, at_high = excess[points, first], excess[points, first - 1]
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            ridge = np.exp(middle)
            h, a = self._leverages(ridge)
            here = sizes * _mean_used(a * (ridge / ridges)) - h.sum(0)
            above = here > 0
            low, at_low = np.where(above, low, middle), np.where(above, at_low, here)
            high, at_high = np.where(above, middle, high), np.where(above, here, at_high)
        share = at_low / np.where(at_low == at_high, 1, at_low - at_high)
        return np.exp(low + share.clip(0, 1) * (high - low))

    def _leverages(self, ridges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """h and h/(1 − h) of every sample of the pool (rows) for every ridge (columns)."""
        values, ridge = self.values[:, None], like(ridges, self.values)[None]
        both = to_numpy(self.squares @ joined(values / (values + ridge), ridge / (values + ridge)))
        h, rest = np.split(both, 2, axis=1)  # `rest` is 1 − h, without cancellation
        return h, h / rest.clip(1e-300)

    def _residuals(self, ridge: float) -> np.ndarray:
        """The squared leave-one-out residual of every sample of the pool, per output."""
        near = _rounded(ridge)
        squares = to_numpy((self._left_out(near)[0] ** 2).sum(1)).astype(float) / self.outputs
        return squares * (self._generalised(ridge) / max(self._generalised(near), 1e-300))

    def _left_out(self, ridge: float) -> tuple[Any, Any]:
        """The leave-one-out residuals of every sample of the pool, of the sketch and of some outputs.

        In single precision, and once for points with the same rounded ridge, as those of all small λ have: at
        M = 2,048 a curve of 30 points takes a quarter of the time.
        """
        if self._last[0] != ridge:
            scale = self.values.mean() / (self.values + ridge)
            residuals = self.vectors_single @ single(self.targets * scale[:, None])
            residuals = residuals / single(self.squares @ scale)[:, None]
            self._last = ridge, residuals
        residuals = self._last[1]
        width = self.sketch.shape[1]
        return residuals[:, :width], residuals[:, width:]

    def _equivalent(self, N: int, lam: float, ridges: np.ndarray, h: np.ndarray, a: np.ndarray) -> _Equivalent:
        """With the pool's ridge in the middle of three, for a derivative, and its leverages at these."""
        M, ridge = self.M, ridges[1]
        df, mean = h.sum(0), a.mean(0)
        k = np.log(ridges * mean / df)
        df2 = df[1] + (df[2] - df[0]) / (k[2] - k[0])
        tau = a[:, 1] / mean[1]
        used_M, used_N = 1 / (1 + tau * mean[1]), 1 / (1 + tau * mean[1] * ridge / lam)
        (load_M, t_M), (load_N, t_N) = (_load(n, df2, tau * used) for n, used in ((M, used_M), (N, used_N)))
        residuals = self._residuals(ridge)
        A_M = M * (used_M**2 * tau * residuals).mean() / (1 + M * t_M * ((used_M * tau) ** 2).mean())
        bias = residuals - tau * t_M * A_M
        A_N = N * (used_N**2 * tau * bias).mean()
        errors = bias + tau * t_N * A_N
        if self.nonnegative:
            errors = self._cut(ridge, used_N * np.sqrt(tau), tau * (t_N * A_N - t_M * A_M), errors)
        reasons = [f"{M} pairs are too few to tell"] if M < FEWEST else []
        if max(load_M, load_N) > NEAR_RANK:
            reasons.append(f"N = {N} is close to the rank of the data, where the error peaks")
        if errors.std() > np.sqrt(1 + 2 / self.outputs) * errors.mean():  # normal residuals have √(2/outputs)
            reasons.append("a few rare samples make the error")
        return _Equivalent(errors, tuple(reasons), (float((used_N**2 * errors).mean()), float(df[1])))

    def _cut(self, ridge: float, weights: np.ndarray, extra: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """What a cut at zero leaves of the errors of the samples.

        Of the pool's leave-one-out predictions, with noise of the size that N samples add to that of the pool. The
        noise of a prediction is a random combination of the residuals of training samples.
        """
        residuals = self._left_out(_rounded(ridge))[1]
        sources = self.sources
        noise = like(self.draw * weights[sources], residuals) @ residuals[index(sources, residuals)]
        size = np.sqrt(extra.clip(0) / to_numpy((noise**2).mean(1)).clip(1e-300))
        error = noise * like(size, noise)[:, None] - residuals
        cut = (error + self.some_single).clip(min=0) - self.some_single
        before, after = (to_numpy((each**2).sum(1)).astype(float) for each in (error, cut))
        left = errors * after / before.clip(1e-300)
        return left * (errors.mean() * after.mean() / max(before.mean() * left.mean(), 1e-300))

    # How much a single draw of training samples changes the error

    def _draw_spread(self, N: int, lam: float, lambdas: Sequence[float]) -> float:
        """Standard deviation of the logarithm of the error over training sets of N samples.

        From sets of up to a quarter of the pool, fitted for all λ at once; beyond, as one over √N.
        """
        size = min(N, max(1, min(self.M // 4, LARGEST_DRAW)))
        if (size, lam) not in self._spreads:
            rng = np.random.default_rng(self.seed)
            order = rng.permutation(self.M)
            tested, others = order[: min(self.M // 2, TESTED)], order[self.M // 2 :]
            errors = [self._subset_errors(rng.permutation(others)[:size], tested, lambdas) for _ in range(DRAWS)]
            least = 1e-3 * np.mean(errors, axis=0) + 1e-300  # no draw is as good as one without an error
            spreads = np.log(np.maximum(errors, least)).std(axis=0, ddof=1)
            self._spreads |= {(size, each): float(spread) for each, spread in zip(lambdas, spreads, strict=True)}
        return self._spreads[size, lam] * np.sqrt(size / N)

    def _subset_errors(self, trained: np.ndarray, tested: np.ndarray, lambdas: Sequence[float]) -> list[float]:
        """The test errors of ridges on some of the pool's samples."""
        rows, others = index(trained, self.gram), index(tested, self.gram)
        values, vectors = eigh(self.gram[rows][:, rows])
        cross, targets = self.gram[others][:, rows] @ vectors, vectors.T @ self.sketch[rows]
        left = (self.sketch[others] - (cross / (values.clip(min=0) + lam)) @ targets for lam in lambdas)
        return [float((residuals**2).sum()) / len(tested) / self.outputs for residuals in left]


class _Equivalent(NamedTuple):
    errors: np.ndarray
    reasons: tuple[str, ...]
    more: tuple[float, float]  # training error, degrees of freedom


def _rounded(ridge: float) -> float:
    """To one per mille: what is computed there is as good, once generalised cross-validation has scaled it."""
    return float(np.exp(np.round(np.log(ridge), 3)))


def _mean_used(ca: np.ndarray) -> np.ndarray:
    return (ca / (1 + ca)).mean(0)


def _load(n: int, df2: float, used: np.ndarray) -> tuple[float, float]:
    """How close n samples are to where their number equals the dimension that they fill, and what scales the noise."""
    filled, room = n * df2 * (used**2).mean(), (n * used.mean()) ** 2
    return float(filled / room), float(df2 / max(room - filled, 1e-300))


def _sketch(y: Any, rng: np.random.Generator) -> Any:
    """Sums of outputs with random signs: their squares have the same sum, up to chance. All outputs if they are few."""
    count, outputs = y.shape
    if outputs <= SKETCH:
        return y
    signs = like(rng.integers(0, 2, outputs) * 2 - 1, y)
    sums = like(np.zeros((count, SKETCH)), y)
    for first in range(0, outputs, SKETCH):
        part = slice(first, min(first + SKETCH, outputs))
        sums[:, : part.stop - first] += y[:, part] * signs[part]
    return sums
