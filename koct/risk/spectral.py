"""The learning curve of ridge regression from its data alone: no network is fitted, at any N.

For y ≈ M x with Σ_n ‖M x_n − y_n‖² + λ‖M‖², the error on new samples after training on N of them follows from one
eigendecomposition of the Gram matrix of a pool of pairs. The pool's own leave-one-out residuals, at a larger ridge that
imitates a smaller N, are split into what no sample size removes at that ridge and what the finite N adds; the second
part is then scaled from the pool's size to N. Only x xᵀ enters, so any kernel matrix will do.

    theory = Spectral().fit(x, y)
    theory.predict(64, lam=1.0).error          # mean squared error on new samples, over outputs
    theory.best(64, [1e-2, 1, 100]).lam        # the ridge that N = 64 wants

docs/curve.md has the mathematics, the checks and the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from koct.arrays import blocks, double, eigh, gram_matrix, is_torch, like
from koct.errors import KoctError

OUTPUTS = 512  # of which the effect of cutting predictions off at zero is estimated
DRAWS = 16  # training sets that tell how much the error depends on the draw
LARGEST_DRAW = 256  # samples in such a set
NORMAL = 1.6448536269514722  # standard deviations on either side of a 90 % interval
NEAR_RANK = 0.9
PER_OCTAVE = 0.05  # relative error that every octave beyond the pool adds to the interval
STEP = 1e-3  # relative, of numerical derivatives


class Prediction(NamedTuple):
    """The error after training on N samples with a ridge; `low` and `high` are for a single draw of them (90 %)."""

    N: int
    lam: float
    error: float  # mean squared error on new samples, over outputs
    low: float
    high: float
    train_error: float
    df: float  # degrees of freedom of the fit
    per_sample: np.ndarray  # expected errors of the pool's samples, as if they were new
    trusted: bool
    reason: str  # why not, if not


class Spectral:
    """Predicts the learning curve of ridge regression on samples like those of a pool.

    `nonnegative`: predictions are cut off at zero, as by a ReLU. `seed` is that of the random draws, which give the
    interval and the effect of the cut.
    """

    def __init__(self, nonnegative: bool = False, seed: int = 0):
        self.nonnegative, self.seed = nonnegative, seed

    # Fitting

    def fit(self, x: Any, y: Any) -> Spectral:
        """From pairs: arrays of shape (samples, ...), NumPy's or torch's."""
        x, y = _flat("x", x), _flat("y", y)
        if len(x) != len(y):
            raise KoctError(f"x has {len(x)} samples and y has {len(y)}; give as many of one as of the other")
        return self.fit_gram(gram_matrix(x, precise=False), y)

    def fit_gram(self, gram: Any, y: Any) -> Spectral:
        """From the Gram matrix x xᵀ, or a kernel matrix, of the samples and their targets y."""
        y = _flat("y", y)
        _check_finite("y", y)
        columns = np.sort(np.random.default_rng(self.seed).permutation(y.shape[1])[:OUTPUTS])
        return self.fit_grams(
            gram, gram_matrix(y, precise=False), y.shape[1], y[:, columns] if self.nonnegative else None
        )

    def fit_grams(self, gram: Any, target_gram: Any, outputs: int, some_targets: Any = None) -> Spectral:
        """From the Gram matrices of x and of y, the number of outputs and, for `nonnegative`, a few of them."""
        gram, target_gram = double(gram), double(target_gram)
        count = len(gram)
        if gram.shape != (count, count) or target_gram.shape != gram.shape:
            raise KoctError(
                f"the Gram matrices have shapes {tuple(gram.shape)} and {tuple(target_gram.shape)}; "
                "both must be samples × samples"
            )
        if count < 2:
            raise KoctError(f"{count} pair tells nothing about others; give at least 2")
        _check_finite("the Gram matrix of x", gram)
        _check_finite("the Gram matrix of y", target_gram)
        if float(abs(gram - gram[:1, :1]).max()) <= 1e-12 * float(abs(gram[0, 0])):
            raise KoctError("x is the same in all pairs, so nothing can be learned from it; give x that vary")
        values, vectors = eigh(gram)
        self.M, self.outputs = count, outputs
        self.values = values.clip(min=0)  # rounding leaves tiny negative ones
        self.vectors, self.squares = vectors, vectors**2
        self.targets = vectors.T @ target_gram @ vectors  # y yᵀ in the basis of eigenvectors
        self.gram, self.target_gram = gram, target_gram
        self.some = None if some_targets is None else double(some_targets)
        self._spreads: dict[tuple[int, float], float] = {}
        return self

    # Predicting

    def predict(self, N: int, lam: float, tests: int | None = None) -> Prediction:
        """The error after training on N samples; `tests`: the interval is for an error measured on so many others."""
        return self.curve([N], [lam], tests)[0]

    def curve(self, sizes: Iterable[int], lambdas: Sequence[float], tests: int | None = None) -> list[Prediction]:
        """Predictions for every N and λ, in that order."""
        wanted = [(_size(N), _ridge(lam)) for N in sizes for lam in lambdas]
        inside = [(min(N, self.M), lam) for N, lam in wanted]
        last_octave = [(max(1, self.M // 2), lam) for N, lam in wanted if N > self.M]
        asked = list(dict.fromkeys(inside + last_octave))
        found = dict(zip(asked, self._equivalents(asked), strict=True))
        return [self._prediction(N, lam, found, tests) for N, lam in wanted]

    def best(self, N: int, lambdas: Sequence[float], tests: int | None = None) -> Prediction:
        """With the λ of the smallest predicted error; beyond the pool, with that of the whole pool."""
        return self.best_curve([N], lambdas, tests)[0]

    def best_curve(self, sizes: Iterable[int], lambdas: Sequence[float], tests: int | None = None) -> list[Prediction]:
        """The same for every N."""
        wanted = [_size(N) for N in sizes]
        inside = list(dict.fromkeys(min(N, self.M) for N in wanted))
        found = self.curve(inside, lambdas, tests)
        rows = [found[i : i + len(lambdas)] for i in range(0, len(found), len(lambdas))]
        best = {row[0].N: min(row, key=lambda point: point.error) for row in rows}
        return [best[N] if N <= self.M else self.predict(N, best[self.M].lam, tests) for N in wanted]

    def leave_one_out(self, lam: float) -> float:
        """The mean squared leave-one-out error of the pool itself."""
        return float(self._residuals(_ridge(lam)).mean())

    def cross_validation(self, lam: float) -> float:
        """The generalised cross-validation error of the pool itself."""
        scale = 1 / (self.values + _ridge(lam))
        trace = float((self.targets.diagonal() * scale**2).sum())
        return trace / self.M / self.outputs / float(scale.mean()) ** 2

    def _prediction(self, N: int, lam: float, found: dict[Any, Any], tests: int | None) -> Prediction:
        there = found[min(N, self.M), lam]
        factor, reasons = 1.0, list(there.reasons)
        if N > self.M:
            before = found[max(1, self.M // 2), lam]
            slope = np.log(there.errors.mean() / before.errors.mean()) / np.log(self.M / max(1, self.M // 2))
            factor = float((N / self.M) ** np.clip(slope, -1, 0))  # no ridge learns faster than one over N
            reasons.append(f"N = {N} is beyond the {self.M} pairs: a line through the last octave")
        errors = factor * there.errors
        error = float(errors.mean())
        spread = float(errors.std() / error) if error > 0 else 0.0
        variance = self._draw_spread(min(N, self.M), lam) ** 2 * min(1.0, self.M / N) + spread**2 / self.M
        variance += spread**2 / tests if tests else 0
        variance += (PER_OCTAVE * np.log2(max(1.0, N / self.M))) ** 2
        width = float(np.exp(NORMAL * np.sqrt(variance)))
        interval = error / width, error * width
        return Prediction(
            N, lam, error, *interval, factor * there.train, there.df, errors, not reasons, "; ".join(reasons)
        )

    # The deterministic equivalents

    def _equivalents(self, asked: Sequence[tuple[int, float]]) -> list[_Equivalent]:
        sizes, ridges = np.array([N for N, _ in asked], float), np.array([lam for _, lam in asked])
        return [
            self._equivalent(N, lam, ridge)
            for (N, lam), ridge in zip(asked, self._pool_ridges(sizes, ridges), strict=True)
        ]

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
        for _ in range(40):
            middle = (low + high) / 2
            ridge = np.exp(middle)
            h, a = self._leverages(ridge)
            above = sizes * _mean_used(a * (ridge / ridges)) > h.sum(0)
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.exp((low + high) / 2)

    def _leverages(self, ridges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """h and h/(1 − h) of every sample of the pool (rows) for every ridge (columns)."""
        values, ridge = self.values[:, None], like(ridges, self.values)[None]
        h = _numpy(self.squares @ (values / (values + ridge)))
        rest = _numpy(self.squares @ (ridge / (values + ridge)))  # 1 − h, without cancellation
        return h, h / rest.clip(1e-300)

    def _residuals(self, ridge: float) -> np.ndarray:
        """The squared leave-one-out residual of every sample of the pool, per output."""
        scale = 1 / (self.values + ridge)
        dual = self.vectors * scale
        return _numpy(((dual @ self.targets) * dual).sum(1) / (self.squares @ scale) ** 2) / self.outputs

    def _equivalent(self, N: int, lam: float, ridge: float) -> _Equivalent:
        M = self.M
        ridges = ridge * np.array([1 - STEP, 1, 1 + STEP])
        h, a = self._leverages(ridges)
        df, mean = h.sum(0), a.mean(0)
        k = np.log(ridges * mean / df)
        df2 = df[1] + (df[2] - df[0]) / (k[2] - k[0])
        tau = a[:, 1] / mean[1]
        used_M, used_N = 1 / (1 + tau * mean[1]), 1 / (1 + tau * mean[1] * ridge / lam)
        load_M, load_N = (_load(n, df2, tau * used) for n, used in ((M, used_M), (N, used_N)))
        t_M, t_N = (_scale(n, df2, tau * used) for n, used in ((M, used_M), (N, used_N)))
        residuals = self._residuals(ridge)
        A_M = M * (used_M**2 * tau * residuals).mean() / (1 + M * t_M * ((used_M * tau) ** 2).mean())
        bias = residuals - tau * t_M * A_M
        A_N = N * (used_N**2 * tau * bias).mean()
        errors = bias + tau * t_N * A_N
        if self.nonnegative and self.some is not None:
            errors = errors * self._cut(ridge, used_N * np.sqrt(tau), tau * (t_N * A_N - t_M * A_M))
        reasons = []
        if max(load_M, load_N) > NEAR_RANK:
            reasons.append(f"N = {N} is close to the rank of the data, where the error peaks")
        if errors.std() > np.sqrt(1 + 2 / self.outputs) * errors.mean():  # normal residuals have √(2/outputs)
            reasons.append("a few rare samples make the error")
        return _Equivalent(errors, float((used_N**2 * errors).mean()), float(df[1]), tuple(reasons))

    def _cut(self, ridge: float, weights: np.ndarray, extra: np.ndarray) -> float:
        """What a cut at zero leaves of the error.

        Of the pool's leave-one-out predictions, with noise of the size that N samples add to that of the pool. The
        noise of a prediction is a random combination of the residuals of training samples.
        """
        scale = 1 / (self.values + ridge)
        residuals = (self.vectors * scale) @ (self.vectors.T @ self.some) / (self.squares @ scale)[:, None]
        draw = np.random.default_rng(self.seed).standard_normal((self.M, self.M))
        noise = like(draw * weights, residuals) @ residuals
        size = np.sqrt(extra.clip(0) / _numpy((noise**2).mean(1)).clip(1e-300))
        predicted = self.some - residuals + noise * like(size, noise)[:, None]
        whole = float(((predicted - self.some) ** 2).sum())
        return float(((predicted.clip(min=0) - self.some) ** 2).sum()) / whole if whole > 0 else 1.0

    # How much a single draw of training samples changes the error

    def _draw_spread(self, N: int, lam: float) -> float:
        """Standard deviation of the logarithm of the error over training sets of N samples.

        From sets of up to a quarter of the pool, each fitted and tested on one half of it; beyond, as one over √N.
        """
        largest = max(1, min(self.M // 4, LARGEST_DRAW))
        size = min(N, largest)
        if (size, lam) not in self._spreads:
            rng = np.random.default_rng(self.seed)
            order = rng.permutation(self.M)
            tested, others = order[: self.M // 2], order[self.M // 2 :]
            errors = [self._subset_error(rng.permutation(others)[:size], tested, lam) for _ in range(DRAWS)]
            logs = np.log(np.maximum(errors, 1e-300))
            self._spreads[size, lam] = float(logs.std(ddof=1))
        return self._spreads[size, lam] * np.sqrt(size / N)

    def _subset_error(self, trained: np.ndarray, tested: np.ndarray, lam: float) -> float:
        """The test error of a ridge on some of the pool's samples, from the Gram matrices alone."""
        rows = _index(trained, self.gram)
        K, k = self.gram[rows][:, rows], self.gram[rows][:, _index(tested, self.gram)]
        dual = _solve(K, k, lam)
        T = self.target_gram
        cross = T[rows][:, _index(tested, T)]
        own = T.diagonal()[_index(tested, T)]
        squared = own - 2 * (dual * cross).sum(0) + (dual * (T[rows][:, rows] @ dual)).sum(0)
        return float(squared.clip(min=0).mean()) / self.outputs


class _Equivalent(NamedTuple):
    errors: np.ndarray
    train: float
    df: float
    reasons: tuple[str, ...]


def _mean_used(ca: np.ndarray) -> np.ndarray:
    return (ca / (1 + ca)).mean(0)


def _load(n: int, df2: float, used: np.ndarray) -> float:
    """How close n samples are to where their number equals the dimension that they fill."""
    return float(n * df2 * (used**2).mean() / (n * used.mean()) ** 2)


def _scale(n: int, df2: float, used: np.ndarray) -> float:
    left = (n * used.mean()) ** 2 - n * df2 * (used**2).mean()
    return float(df2 / max(left, 1e-300))


# Arrays


def _flat(name: str, array: Any) -> Any:
    """(samples, everything else) of real numbers."""
    if not is_torch(array):
        array = np.asarray(array)
        if array.dtype.kind not in "fiub":
            raise KoctError(f"{name} holds {array.dtype}; give real numbers")
    if array.ndim == 0 or len(array) == 0:
        raise KoctError(f"{name} has no samples; give an array of shape (samples, ...)")
    array = array.reshape(len(array), -1)
    single = str(array.dtype).rpartition(".")[2] == "float32"
    return array if single else double(array)


def _check_finite(name: str, array: Any) -> None:
    for rows in blocks(len(array), array.shape[1]):
        if not np.isfinite(float(array[rows].sum())):
            raise KoctError(f"{name} has entries that are no finite numbers; remove these pairs")


def _size(N: int) -> int:
    if N < 1 or int(N) != N:
        raise KoctError(f"N = {N}: give a whole number of samples, 1 or more")
    return int(N)


def _ridge(lam: float) -> float:
    if not (np.isfinite(lam) and lam > 0):
        raise KoctError(f"lambda = {lam}: give a number above 0; for no ridge, one far below the smallest eigenvalue")
    return float(lam)


def _solve(K: Any, right: Any, lam: float) -> Any:
    values, vectors = eigh(K)
    return (vectors / (values.clip(min=0) + lam)) @ (vectors.T @ right)


def _numpy(array: Any) -> np.ndarray:
    return array.cpu().numpy() if is_torch(array) else array


def _index(numbers: np.ndarray, other: Any) -> Any:
    if is_torch(other):
        import torch

        return torch.as_tensor(numbers, device=other.device)
    return numbers
