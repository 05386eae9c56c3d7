"""Laws of learning curves: how the error falls with N. Each fits many curves at once, for the bootstrap.

A law has `fit(N, mean, weights)`, where `mean` is (curves, len(N)) and positive and `weights` are the inverse
variances of log mean; `predict(theta, N)` gives (curves, len(N)); `solve(theta, target)` gives the real N of each
curve, inf where no N reaches the target (one for all curves, or one for each). `theta` is a dictionary of arrays, one
entry a curve.
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
        scale, place = _fit_shape(lambda place: np.log(_ratio(place[0]) + t), (FLOOR_SHARES,), mean, weights)
        return {"floor": scale * _ratio(place[0])[:, 0], "sigma": scale / rate(N[-1])}


class Power:
    """floor + a·N^(−b), fitted in log space, with a weak preference for the rates of statistics, b from 1/2 to 1."""

    text = "floor + a N^(−b)"

    def fit(self, N, mean, weights):
        fraction = np.asarray(N, dtype=float) / N[-1]
        scale, place = _fit_shape(
            lambda place: np.log(_ratio(place[0]) + fraction ** -_exponent(place[1])),
            (FLOOR_SHARES, EXPONENTS),
            mean,
            weights,
            lambda place: np.log(_exponent(place[1])[..., 0] / TYPICAL_EXPONENT) / EXPONENT_SPREAD,
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
        targets = np.broadcast_to(target, len(theta["N"]))
        return np.array(
            [
                _first_crossing(N, mean, target)
                for N, mean, target in zip(theta["N"], theta["mean"], targets, strict=True)
            ]
        )


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

# A law is scale·(ratio + falling part); the falling part is 1 at the largest N, so ratio is floor over the rest there
# and ratio / (1 + ratio) the floor's share of the error.
FLOOR_SHARES = np.concatenate([np.linspace(0, 0.95, 39), 1 - np.geomspace(0.04, 1e-5, 24)])
EXPONENTS = np.geomspace(0.05, 3.0, 42)
TYPICAL_EXPONENT, EXPONENT_SPREAD = np.sqrt(0.5), 0.5  # between N^(−1/2) and N^(−1); spread of log b


def _ratio(place):
    share = np.interp(place, np.arange(len(FLOOR_SHARES)), FLOOR_SHARES)[..., None]
    return share / (1 - share)


def _exponent(place):
    return np.interp(place, np.arange(len(EXPONENTS)), EXPONENTS)[..., None]


def _fit_shape(shape, axes, mean, weights, prior=lambda place: np.zeros_like(place[0])):
    """For each curve the scale and the place of the best shape, by weighted least squares in log space.

    `shape(place)` is the log of the law for arrays of places on `axes` (fractions of their grids), `prior(place)` one
    more residual. All of the grid is tried first, since the loss has several minima; then Levenberg and Marquardt go
    down from the best place, for all curves at once.
    """
    log_mean, share, root = np.log(mean), weights / weights.sum(), np.sqrt(weights)
    centre = log_mean @ share
    curves = log_mean - centre[:, None]
    ends = np.array([[len(axis) - 1.0] for axis in axes])

    place = np.stack([axis.ravel() for axis in np.meshgrid(*(np.arange(len(axis)) for axis in axes), indexing="ij")])
    shapes = shape(place)
    shapes = shapes - (shapes @ share)[:, None]
    # |curve − shape|² expanded, so that no array is curves × shapes × N
    loss = shapes**2 @ weights + prior(place) ** 2 - 2 * (curves * weights) @ shapes.T
    best = place[:, np.argmin(loss, axis=1)].astype(float)

    def residuals(place):
        shapes = shape(place)
        return np.column_stack([root * (curves - shapes + (shapes @ share)[:, None]), prior(place)])

    now = residuals(best)
    damping = np.full(len(mean), 1e-3)
    for _ in range(20):
        slopes = []
        for i in range(len(axes)):
            nudge = np.zeros_like(best)
            nudge[i] = np.where(best[i] > ends[i] / 2, -1e-4, 1e-4)
            slopes.append((residuals(best + nudge) - now) / nudge[i][:, None])
        slopes = np.stack(slopes, axis=2)
        curvature = slopes.transpose(0, 2, 1) @ slopes
        lift = damping[:, None] * np.einsum("cii->ci", curvature) + 1e-12
        gradient = np.einsum("cki,ck->ci", slopes, now)
        step = np.linalg.solve(curvature + lift[:, :, None] * np.eye(len(axes)), gradient[:, :, None])[:, :, 0]
        trial = np.clip(best - step.T, 0, ends)
        then = residuals(trial)
        better = (then**2).sum(axis=1) < (now**2).sum(axis=1)
        best, now = np.where(better, trial, best), np.where(better[:, None], then, now)
        damping = np.where(better, 0.2 * damping, 5 * damping)
    return np.exp(centre - shape(best) @ share), best
