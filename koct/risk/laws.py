"""Laws of learning curves: how the error decreases with N. Each law fits many curves at once, for the bootstrap."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.risk.calibration import SMALLEST_N, rate, solve_rate

FloatArray = NDArray[np.float64]
Parameters = dict[str, FloatArray]  # by name; the first axis of each array is the curve


class Law(ABC):
    """A parametric form of learning curves; `text` is its formula for people to read."""

    text: str

    @abstractmethod
    def fit(self, N: FloatArray, mean: FloatArray, weights: FloatArray) -> Parameters:
        """Fit every curve.

        Parameters
        ----------
        N : increasing sample sizes, shape (n_sizes,)
        mean : positive mean errors, shape (n_curves, n_sizes)
        weights : inverse variances of the log mean errors, shape (n_sizes,)
        """

    @abstractmethod
    def predict(self, theta: Parameters, N: ArrayLike) -> FloatArray:
        """The error of every curve at each N of shape (n,), as an array of shape (n_curves, n)."""

    @abstractmethod
    def solve(self, theta: Parameters, target: float | FloatArray) -> FloatArray:
        """The real N at which each curve reaches its target, shape (n_curves,); inf where it never does.

        `target` is one number for all curves, or an array of shape (n_curves,).
        """

    def formula(self, theta: Parameters) -> str:
        """The law as fitted to the first curve, for people to read."""
        return self.text

    def remarks(self, theta: Parameters, N: float) -> list[str]:
        """What to know about its prediction at N for the first curve."""
        return []

    def doubt(self, N: FloatArray, largest: float) -> FloatArray:
        """Standard deviation of the log error, beyond a pilot's largest N, that the law itself knows of; shape (n,)."""
        return np.zeros(len(N))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Paper(Law):
    """floor + sigma·log N / N by the paper's rule: the floor is the smallest error of the pilot."""

    text = "floor + σ log N / N, floor = smallest error"

    def fit(self, N: FloatArray, mean: FloatArray, weights: FloatArray) -> Parameters:
        t = rate(N)
        floor = mean.min(axis=1)
        return {"floor": floor, "sigma": (mean - floor[:, None]) @ t / (t @ t)}

    def predict(self, theta: Parameters, N: ArrayLike) -> FloatArray:
        return theta["floor"][:, None] + theta["sigma"][:, None] * rate(N)

    def solve(self, theta: Parameters, target: float | FloatArray) -> FloatArray:
        gap = target - theta["floor"]
        with np.errstate(divide="ignore", invalid="ignore"):
            N = solve_rate(theta["sigma"] / gap)
        every = (gap > 0) & (theta["sigma"] <= np.e * gap)
        return np.where(every, SMALLEST_N, np.where(gap > 0, np.nan_to_num(N, nan=np.inf), np.inf))


class Rate(Paper):
    """floor + sigma·log N / N with both parameters fitted together, in log space."""

    text = "floor + σ log N / N"

    def fit(self, N: FloatArray, mean: FloatArray, weights: FloatArray) -> Parameters:
        t = rate(N) / rate(N[-1])
        scale, position = _fit_shape(lambda position: np.log(_ratio(position[0]) + t), (FLOOR_SHARES,), mean, weights)
        return {"floor": scale * _ratio(position[0])[:, 0], "sigma": scale / rate(N[-1])}


class Power(Law):
    """floor + a·N^(−b), fitted in log space with a weak prior on b around the usual statistical rates, 1/2 to 1."""

    text = "floor + a N^(−b)"

    def fit(self, N: FloatArray, mean: FloatArray, weights: FloatArray) -> Parameters:
        fraction = np.asarray(N, dtype=float) / N[-1]
        scale, position = _fit_shape(
            lambda position: np.log(_ratio(position[0]) + fraction ** -_exponent(position[1])),
            (FLOOR_SHARES, EXPONENTS),
            mean,
            weights,
            lambda position: np.log(_exponent(position[1])[..., 0] / TYPICAL_EXPONENT) / EXPONENT_SPREAD,
        )
        b = _exponent(position[1])[:, 0]
        return {"floor": scale * _ratio(position[0])[:, 0], "a": scale * float(N[-1]) ** b, "b": b}

    def predict(self, theta: Parameters, N: ArrayLike) -> FloatArray:
        N = np.asarray(N, dtype=float)
        return theta["floor"][:, None] + theta["a"][:, None] * N ** -theta["b"][:, None]

    def solve(self, theta: Parameters, target: float | FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            N = ((target - theta["floor"]) / theta["a"]) ** (-1 / theta["b"])
        return np.where(target > theta["floor"], np.maximum(N, 1.0), np.inf)


class Last(Law):
    """No law: linear interpolation between the pilot's points in log space, constant beyond the last one."""

    text = "the last error"

    def fit(self, N: FloatArray, mean: FloatArray, weights: FloatArray) -> Parameters:
        return {"mean": mean, "N": np.broadcast_to(np.asarray(N, dtype=float), mean.shape)}

    def predict(self, theta: Parameters, N: ArrayLike) -> FloatArray:
        curves = zip(np.log(theta["N"]), np.log(theta["mean"]), strict=True)
        return np.exp([np.interp(np.log(np.asarray(N, dtype=float)), log_N, log_mean) for log_N, log_mean in curves])

    def solve(self, theta: Parameters, target: float | FloatArray) -> FloatArray:
        targets = np.broadcast_to(target, len(theta["N"]))
        return np.array(
            [
                first_crossing(N, mean, target)
                for N, mean, target in zip(theta["N"], theta["mean"], targets, strict=True)
            ]
        )


def first_crossing(N: FloatArray, mean: FloatArray, target: float) -> float:
    """The smallest N at which the interpolated curve is at or below the target."""
    below = np.flatnonzero(mean <= target)
    if not len(below):
        return np.inf
    k = below[0]
    if k == 0:
        return N[0]
    part = np.log(mean[k - 1] / target) / np.log(mean[k - 1] / mean[k])
    return N[k - 1] * (N[k] / N[k - 1]) ** part


LAWS: dict[str, Law] = {"power": Power(), "rate": Rate(), "paper": Paper(), "last": Last()}

# A law is scale · (ratio + decreasing term), where the decreasing term is 1 at the largest N. There, `ratio` is the
# floor divided by the remainder, and ratio / (1 + ratio) is the floor's share of the error.
FLOOR_SHARES = np.concatenate([np.linspace(0, 0.95, 39), 1 - np.geomspace(0.04, 1e-5, 24)])
EXPONENTS = np.geomspace(0.05, 3.0, 42)
TYPICAL_EXPONENT, EXPONENT_SPREAD = np.sqrt(0.5), 0.5  # between N^(−1/2) and N^(−1); standard deviation of log b


def _ratio(position: FloatArray) -> FloatArray:
    """Floor over remainder at fractional indices into FLOOR_SHARES, with a new last axis."""
    share = np.interp(position, np.arange(len(FLOOR_SHARES)), FLOOR_SHARES)[..., None]
    return share / (1 - share)


def _exponent(position: FloatArray) -> FloatArray:
    """The exponent at fractional indices into EXPONENTS, with a new last axis."""
    return np.interp(position, np.arange(len(EXPONENTS)), EXPONENTS)[..., None]


def _no_prior(position: FloatArray) -> FloatArray:
    return np.zeros_like(position[0])


def _fit_shape(
    shape: Callable[[FloatArray], FloatArray],
    axes: tuple[FloatArray, ...],
    mean: FloatArray,
    weights: FloatArray,
    prior: Callable[[FloatArray], FloatArray] = _no_prior,
) -> tuple[FloatArray, FloatArray]:
    """The scale and the grid position of the best shape for each curve, by weighted least squares in log space.

    A position, shape (n_axes, n), holds fractional indices into `axes`. `shape(position)` is the log of the law,
    shape (n, n_sizes), and `prior(position)` one additional residual, shape (n,). The loss has several local minima,
    so the whole grid is searched first; Levenberg–Marquardt then refines the best position, for all curves at once.
    """
    log_mean, normalised, root = np.log(mean), weights / weights.sum(), np.sqrt(weights)
    centre = log_mean @ normalised
    curves = log_mean - centre[:, None]
    ends = np.array([[len(axis) - 1.0] for axis in axes])

    indices = np.meshgrid(*(np.arange(len(axis), dtype=float) for axis in axes), indexing="ij")
    grid = np.stack([index.ravel() for index in indices])
    shapes = shape(grid)
    shapes = shapes - (shapes @ normalised)[:, None]
    # |curve − shape|² is expanded to avoid an array of curves × shapes × N
    loss = shapes**2 @ weights + prior(grid) ** 2 - 2 * (curves * weights) @ shapes.T
    best = grid[:, np.argmin(loss, axis=1)]

    def residuals(position: FloatArray) -> FloatArray:
        shapes = shape(position)
        return np.column_stack([root * (curves - shapes + (shapes @ normalised)[:, None]), prior(position)])

    current = residuals(best)
    damping = np.full(len(mean), 1e-3)
    for _ in range(20):
        columns = []
        for i in range(len(axes)):
            delta = np.zeros_like(best)
            delta[i] = np.where(best[i] > ends[i] / 2, -1e-4, 1e-4)
            columns.append((residuals(best + delta) - current) / delta[i][:, None])
        jacobian = np.stack(columns, axis=2)
        hessian = jacobian.transpose(0, 2, 1) @ jacobian
        damped = damping[:, None] * np.einsum("cii->ci", hessian) + 1e-12
        gradient = np.einsum("cki,ck->ci", jacobian, current)
        step = np.linalg.solve(hessian + damped[:, :, None] * np.eye(len(axes)), gradient[:, :, None])[:, :, 0]
        trial = np.clip(best - step.T, 0, ends)
        proposed = residuals(trial)
        better = (proposed**2).sum(axis=1) < (current**2).sum(axis=1)
        best, current = np.where(better, trial, best), np.where(better[:, None], proposed, current)
        damping = np.where(better, 0.2 * damping, 5 * damping)
    return np.exp(centre - shape(best) @ normalised), best
