"""The learning curve of a network with one weight per measurement, from its data: y ≈ R diag(w) x, R known.

The ridge is Σ_n ‖R diag(x_n) w − y_n‖² + λ‖w − w₀‖². With D = R diag(x), r = y − D w₀ and means E over a pool of pairs,
the weights that N samples give are w₀ + v on average and have the covariance C:

    Q⁻¹ = λI + N E[DᵀD],  v = N Q E[Dᵀr],  g = Dᵀ(r − D v),  C = N Q E[g gᵀ] Q,  error = E‖r − D v‖² + E tr(D C Dᵀ).

One eigendecomposition of E[DᵀD] serves every N and λ. It takes the sum over N samples for N times its mean, which holds
where a sample has little leverage: many samples, or weights that are pulled to good ones. R itself is not needed, only
RᵀR and Rᵀy, since DᵀD = RᵀR ∘ x xᵀ.

Two terms are added: the optimism of v, which comes from the samples that judge it, to first order in N/M; and what
measurements cost that are zero in all of N samples and keep their weight w₀, which no mean over samples knows of.
A few fits on N samples give the interval, and tell where the equations do not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from koct.base.arrays import blocks, double, eigh, library, like, to_numpy, zeros_like
from koct.errors import KoctError
from koct.prediction.prediction import PER_OCTAVE, Prediction, checked_pairs, checked_ridge, checked_size
from koct.prediction.subsets import interval, rare, rows_of, training_sets

DRAWS, FEW_DRAWS = 12, 6  # training sets that tell how much the error depends on the draw; few where fits are dear:
DEAR = 1000  # weights
LARGEST_DRAW = 64  # samples in such a set; beyond, the spread goes as one over √N
SHOWN = 32  # samples that tell what the network's last layer does to the error
UNSEEN = 0.1  # share of the error that unseen measurements may make
OFF, ERRORS = 0.1, 2.5  # how far the fits may be from the fixed point: a share of it, and standard errors


class FixedPoint:
    """Predicts the learning curve of R diag(w) x with weights by ridge, on samples like those of a pool.

    Parameters
    ----------
    normal : RᵀR, (weights, weights)
    adjoint : gives Rᵀ y, (n, weights), of flat images (n, outputs)
    toward : the weights w₀, shape (weights,); zero by default
    reconstruct : gives the network's flat images of weighted measurements, such as those cut off at zero: the error
        then changes as it does for a few samples. Without it nothing is cut.
    seed : of the random draws

    Examples
    --------
    >>> from koct.prediction.fixed_point import FixedPoint
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((64, 8))
    >>> theory = FixedPoint(np.eye(8), adjoint=lambda y: y).fit(x, 2 * x + 0.1 * rng.standard_normal(x.shape))
    >>> 0.009 < theory.predict(32, lam=1e-3).error < 0.012
    True
    """

    def __init__(
        self,
        normal: Any,
        adjoint: Callable[[Any], Any],
        toward: Any = None,
        reconstruct: Callable[[Any], Any] | None = None,
        seed: int = 0,
    ):
        self.normal, self.adjoint, self.toward, self.reconstruct = normal, adjoint, toward, reconstruct
        self.seed = seed

    def fit(self, x: Any, y: Any) -> FixedPoint:
        """Fit to flat pairs, (samples, weights) and (samples, outputs), NumPy's or torch's; return self."""
        x, y = checked_pairs(x, y)
        if x.ndim != 2 or y.ndim != 2:
            raise KoctError(f"x has {x.ndim} dimensions and y has {y.ndim}; give flat pairs, (samples, numbers)")
        (self.M, self.p), self.outputs = x.shape, y.shape[1]
        if self.M < 4:
            raise KoctError(f"{self.M} pairs tell nothing about others; give at least 4")
        self.x = double(x)
        self.RtR = like(self.normal, self.x)
        self.w0 = zeros_like(self.x[0]) if self.toward is None else like(self.toward, self.x)
        adjoint, self.r2 = zeros_like(self.x), zeros_like(self.x[:, 0])
        for rows in blocks(self.M, self.outputs):
            adjoint[rows], self.r2[rows] = double(self.adjoint(y[rows])), (double(y[rows]) ** 2).sum(1)
        weighted = self.x * self.w0
        projected = weighted @ self.RtR
        self.adjoint_r = adjoint - projected
        self.r2 = self.r2 - (weighted * (2 * adjoint - projected)).sum(1)
        self.J = self.RtR * (self.x.T @ self.x) / self.M
        values, self.vectors = eigh(self.J)
        self.values = values.clip(min=0)  # rounding leaves tiny negative ones
        self.right = (self.x * self.adjoint_r).mean(0)
        zero = like(self.x == 0, self.x)
        self.both_zero = zero.T @ zero / self.M  # how often two measurements are zero together
        self.shown = np.random.default_rng(self.seed).permutation(self.M)[:SHOWN]
        self.y = double(rows_of(y, self.shown)) if self.reconstruct else None
        return self

    # Predicting

    def predict(self, N: int, lam: float, tests: int | None = None) -> Prediction:
        """Return the error after N samples; with `tests`, the interval is for an error measured on so many others."""
        return self.curve([N], [lam], tests)[0]

    def curve(self, sizes: Iterable[int], lambdas: Sequence[float], tests: int | None = None) -> list[Prediction]:
        """Return predictions for every N and λ, in that order."""
        wanted, ridges = [checked_size(N) for N in sizes], [checked_ridge(lam) for lam in lambdas]
        drawn = {N: min(N, self.M // 2, LARGEST_DRAW) for N in wanted}
        by_size = {size: self._draws(size, ridges) for size in dict.fromkeys(drawn.values())}
        return [
            self._prediction(N, lam, drawn[N], errors, tests)
            for N in wanted
            for lam, errors in zip(ridges, by_size[drawn[N]], strict=True)
        ]

    def _prediction(self, N: int, lam: float, size: int, fits: np.ndarray, tests: int | None) -> Prediction:
        """`fits` are the errors of fits on random sets of `size` samples."""
        scale = 1 / (lam + N * self.values)
        v = N * (self.vectors @ (scale * (self.vectors.T @ self.right)))
        left, gradient = self._residual(self.x, self.adjoint_r, self.r2, v)
        pulls = ((gradient @ self.vectors) * scale) @ self.vectors.T  # (M, weights): how a training sample moves them
        optimism = (gradient * pulls).sum(1)
        noise = self._spent(pulls.T @ pulls * (N / self.M))
        unseen = self._spent(self.both_zero**N * v[:, None] * v)
        share = N / self.M
        errors = to_numpy(left + 2 * share * optimism + (1 - share) * noise + unseen).clip(min=0) / self.outputs
        error = float(errors.mean())
        reasons = []
        missing = float(unseen.mean()) / self.outputs
        if missing > UNSEEN * error:
            reasons.append(f"measurements that are zero in all {N} samples make {missing / error:.0%} of the error")
        mean, standard = fits.mean(), fits.std(ddof=1) / np.sqrt(len(fits))
        if size == N and abs(mean - error) > max(OFF * mean, ERRORS * standard):
            reasons.append(f"fits on {N} samples gave {mean / error:.2f} times this error")
        if N > self.M:
            reasons.append(f"N = {N} is beyond the {self.M} pairs")
        if rare(errors):
            reasons.append("a few rare samples make the error")
        factor = self._last_layer(N, v, pulls, float(noise.mean()))
        errors, error = factor * errors, factor * error
        of_samples = (errors.std() / error) ** 2 if error > 0 else 0.0
        of_tests = of_samples / self.M + (of_samples / tests if tests else 0.0)
        of_tests += (PER_OCTAVE * np.log2(max(1.0, share))) ** 2
        low, high = interval(error, fits, N, size, self.M, of_tests)
        return Prediction(N, lam, error, low, high, errors, not reasons, "; ".join(reasons))

    def _residual(self, x: Any, adjoint_r: Any, r2: Any, u: Any) -> tuple[Any, Any]:
        """‖r − D u‖² and Dᵀ(r − D u) of some samples, with weights u for all of them or for each."""
        weighted = x * u
        projected = weighted @ self.RtR
        return (r2 - (weighted * (2 * adjoint_r - projected)).sum(1)).clip(min=0), x * (adjoint_r - projected)

    def _spent(self, C: Any) -> Any:
        """tr(D C Dᵀ) of every sample: what weights with these second moments add to its squared error."""
        return ((self.x @ (self.RtR * C)) * self.x).sum(1)

    def _last_layer(self, N: int, v: Any, pulls: Any, noise: float) -> float:
        """What the network's own images, such as those without negative parts, leave of the error.

        The weights get noise of the predicted size: a random combination of what training samples pull at.
        """
        if self.reconstruct is None:
            return 1.0
        random = np.random.default_rng([self.seed, N]).standard_normal((len(self.shown), self.M))
        pulled = like(random, self.x) @ pulls
        x, adjoint_r, r2 = (rows_of(array, self.shown) for array in (self.x, self.adjoint_r, self.r2))
        of_pulls = float(((pulled @ self.J) * pulled).sum(1).mean())
        u = v + pulled * np.sqrt(noise / max(of_pulls, 1e-300))
        whole, _ = self._residual(x, adjoint_r, r2, u)
        images = double(self.reconstruct(x * (self.w0 + u)))
        return float(((images - self.y) ** 2).sum()) / max(float(whole.sum()), 1e-300)

    # Fits

    def _draws(self, size: int, lambdas: Sequence[float]) -> np.ndarray:
        """Return the errors of fits on random samples, on all others: (lambdas, draws)."""
        draws = DRAWS if self.p <= DEAR else FEW_DRAWS
        identity = like(np.eye(self.p), self.x)
        errors = np.empty((len(lambdas), draws))
        for draw, (rows, _) in enumerate(training_sets(self.M, size, draws, self.seed)):
            x, adjoint_r = rows_of(self.x, rows), rows_of(self.adjoint_r, rows)
            normal, right = self.RtR * (x.T @ x), (x * adjoint_r).sum(0)
            own_r2 = float(rows_of(self.r2, rows).sum())
            for i, lam in enumerate(lambdas):
                u = library(x).linalg.solve(normal + lam * identity, right[:, None])[:, 0]
                own = own_r2 - float(u @ (2 * right - normal @ u))
                every = float(self.r2.sum()) - self.M * float(u @ (2 * self.right - self.J @ u))
                errors[i, draw] = (every - own) / (self.M - size)
        return errors.clip(min=0) / self.outputs  # rounding leaves tiny negative ones
