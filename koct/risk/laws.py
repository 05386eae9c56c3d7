"""Laws of learning curves: how the error falls with N. Each fits many curves at once, for the bootstrap.

A law has `fit(N, mean, weights)`, where `mean` is (curves, len(N)) and positive and `weights` are the inverse
variances of log mean; `predict(theta, N)` gives (curves, len(N)); `solve(theta, target)` gives the real N of each
curve, inf where no N reaches the target. `theta` is a dictionary of arrays, one entry a curve.
"""

import numpy as np

from koct.risk.calibration import SMALLEST_N, rate, solve_rate


class Paper:
    """floor + sigma·log N / N by the paper's rule: the floor is the smallest error of the pilot."""

    text = "floor + σ log N / N, floor = smallest error"

    def fit(self, N, mean, weights):
        t = rate(N)
        floor = mean.min(axis=1)
        return {"floor": floor, "sigma": (mean - floor[:, None]) @ t / (t @ t)}

    def predict(self, theta, N):
        return theta["floor"][:, None] + theta["sigma"][:, None] * rate(N)

    def solve(self, theta, target):
        gap = target - theta["floor"]
        with np.errstate(divide="ignore", invalid="ignore"):
            N = solve_rate(theta["sigma"] / gap)
        every = (gap > 0) & (theta["sigma"] <= np.e * gap)
        return np.where(every, SMALLEST_N, np.where(gap > 0, np.nan_to_num(N, nan=np.inf), np.inf))


class Rate(Paper):
    """floor + sigma·log N / N with both fitted together, in log space."""

    text = "floor + σ log N / N"

    def fit(self, N, mean, weights):
        t = rate(N) / rate(N[-1])
        scale, place = _fit_shape(lambda place: np.log(_ratio(place[0]) + t), (RATIOS,), mean, weights)
        return {"floor": scale * _ratio(place[0])[:, 0], "sigma": scale / rate(N[-1])}


class Power:
    """floor + a·N^(−b), fitted in log space, with a weak preference for the rates of statistics, b from 1/2 to 1."""

    text = "floor + a N^(−b)"

    def fit(self, N, mean, weights):
        fraction = np.asarray(N, dtype=float) / N[-1]
        scale, place = _fit_shape(
            lambda place: np.log(_ratio(place[0]) + fraction ** -_exponent(place[1])),
            (RATIOS, EXPONENTS),
            mean,
            weights,
            lambda place: (np.log(_exponent(place[1])[..., 0] / TYPICAL_EXPONENT) / EXPONENT_SPREAD) ** 2,
        )
        b = _exponent(place[1])[:, 0]
        return {"floor": scale * _ratio(place[0])[:, 0], "a": scale * float(N[-1]) ** b, "b": b}

    def predict(self, theta, N):
        N = np.asarray(N, dtype=float)
        return theta["floor"][:, None] + theta["a"][:, None] * N ** -theta["b"][:, None]

    def solve(self, theta, target):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            N = ((target - theta["floor"]) / theta["a"]) ** (-1 / theta["b"])
        return np.where(target > theta["floor"], np.maximum(N, 1.0), np.inf)


class Last:
    """No law: the pilot's own points, joined by lines in log space, and beyond them the last one."""

    text = "the last error"

    def fit(self, N, mean, weights):
        return {"mean": mean, "N": np.broadcast_to(np.asarray(N, dtype=float), mean.shape)}

    def predict(self, theta, N):
        curves = zip(np.log(theta["N"]), np.log(theta["mean"]), strict=True)
        return np.exp([np.interp(np.log(np.asarray(N, dtype=float)), log_N, log_mean) for log_N, log_mean in curves])

    def solve(self, theta, target):
        return np.array([_first_crossing(N, mean, target) for N, mean in zip(theta["N"], theta["mean"], strict=True)])


def _first_crossing(N, mean, target):
    """The smallest N at which the line through the points is at or below the target."""
    below = np.flatnonzero(mean <= target)
    if not len(below):
        return np.inf
    k = below[0]
    if k == 0:
        return N[0]
    part = np.log(mean[k - 1] / target) / np.log(mean[k - 1] / mean[k])
    return N[k - 1] * (N[k] / N[k - 1]) ** part


LAWS = {"power": Power(), "rate": Rate(), "paper": Paper(), "last": Last()}

# A law is scale·(ratio + falling part); the falling part is 1 at the largest N, so ratio is floor over the rest there.
RATIOS = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 61)])
EXPONENTS = np.geomspace(0.05, 3.0, 42)
TYPICAL_EXPONENT, EXPONENT_SPREAD = np.sqrt(0.5), 0.5  # between N^(−1/2) and N^(−1); spread of log b


def _ratio(place):
    return np.interp(place, np.arange(len(RATIOS)), RATIOS)[..., None]


def _exponent(place):
    return np.interp(place, np.arange(len(EXPONENTS)), EXPONENTS)[..., None]


def _fit_shape(shape, axes, mean, weights, penalty=lambda place: 0.0):
    """For each curve the scale and the place of the best shape, by weighted least squares in log space.

    `shape(place)` is the log of the law for arrays of places on `axes` (fractions of their grids). All of the grid is
    tried first, since the loss has several minima; then the neighbourhood of the best place, ever more finely.
    """
    log_mean, share = np.log(mean), weights / weights.sum()
    centre = log_mean @ share
    curves = log_mean - centre[:, None]
    place = np.stack([axis.ravel() for axis in np.meshgrid(*(np.arange(len(axis)) for axis in axes), indexing="ij")])
    shapes = shape(place)
    shapes = shapes - (shapes @ share)[:, None]
    # |curve − shape|² expanded, so that no array is curves × shapes × N
    loss = shapes**2 @ weights + penalty(place) - 2 * (curves * weights) @ shapes.T
    best = place[:, np.argmin(loss, axis=1)].astype(float)

    step = np.stack([axis.ravel() for axis in np.meshgrid(*[[-1, -0.5, 0, 0.5, 1]] * len(axes))])
    for width in 0.5 ** np.arange(9):
        place = best[:, :, None] + width * step[:, None, :]
        place = np.clip(place, 0, np.array([len(axis) - 1 for axis in axes])[:, None, None])
        shapes = shape(place)
        shapes = shapes - (shapes @ share)[..., None]
        loss = (curves[:, None, :] - shapes) ** 2 @ weights + penalty(place)
        best = np.take_along_axis(place, np.argmin(loss, axis=1)[None, :, None], axis=2)[:, :, 0]
    return np.exp(centre - shape(best) @ share), best
