"""The calibrated bound, error ≈ floor + sigma · log N / N (Eq. calibrated-bound), and its inverse."""

from dataclasses import dataclass

import numpy as np

from koct.errors import KoctError

SMALLEST_N = 3  # log N / N falls from N = e on


def rate(N):
    """log N / N, natural logarithm."""
    N = np.asarray(N, dtype=float)
    return np.log(N) / N


def solve_rate(c):
    """The N ≥ e with N / log N = c, in closed form N = −c·W₋₁(−1/c); NaN where c < e, which no N solves."""
    from scipy.special import lambertw

    c = np.asarray(c, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        log_N = np.where(c > np.e, -lambertw(-1 / c, k=-1).real, np.where(c == np.e, 1.0, np.nan))
        for _ in range(2):  # Newton on log N − log log N = log c: for c so large that 1/c has few digits left
            step = (log_N - np.log(log_N) - np.log(c)) * log_N / (log_N - 1)
            log_N = np.where(log_N > 1.001, log_N - step, log_N)
        return np.exp(log_N)


@dataclass(frozen=True)
class Required:
    """How many samples a target takes: `n` solves bound(n) = target, `samples` is the whole number to draw.

    Without a solution `n` is None and `reason` says why: the target is out of reach (`samples` is None too), or every
    N reaches it.
    """

    target: float
    n: float | None
    samples: int | None
    reason: str = ""

    @property
    def reachable(self):
        return self.samples is not None


@dataclass(frozen=True)
class Calibration:
    """Two numbers that turn the theorem into a predictor: `floor` and `sigma`."""

    floor: float
    sigma: float

    def predict(self, N):
        return self.floor + self.sigma * rate(N)

    def required(self, target):
        """The samples that bring the calibrated bound down to `target`."""
        if not target > self.floor:
            reason = f"the target {target:g} is not above the floor {self.floor:g}: no N reaches it on this curve"
            return Required(target, None, None, reason)
        if self.sigma <= np.e * (target - self.floor):  # c ≤ e
            return Required(target, None, SMALLEST_N, "the bound is below the target at every N")
        n = float(solve_rate(self.sigma / (target - self.floor)))
        if not np.isfinite(n):
            return Required(target, None, None, f"the target {target:g} is too close to the floor {self.floor:g}")
        return Required(target, n, max(SMALLEST_N, int(np.ceil(n))))


def calibrate(N, error):
    """The paper's rule: floor is the smallest mean error, sigma the no-intercept slope of the rest on log N / N."""
    t, error = rate(N), np.asarray(error, dtype=float)
    if len(t) < 2:
        raise ValueError("a calibration needs at least two N")
    floor = error.min()
    return Calibration(float(floor), float(t @ (error - floor) / (t @ t)))


@dataclass(frozen=True)
class Factors:
    """The two factors of Prop. 1 for a target, and their product (N_FC / log N_FC) / (N_KO / log N_KO)."""

    structural: float
    approximation: float

    @property
    def product(self):
        return self.structural * self.approximation


def two_factors(known, dense, target, names=("operator-aware", "dense")):
    """Structural-sparsity and approximation-budget factor of the dense network against the operator-aware one."""
    for name, curve in zip(names, (known, dense), strict=True):
        if not target > curve.floor:
            raise KoctError(f"target = {target:g} is not above the {name} network's floor {curve.floor:g}; raise it")
    if known.sigma <= 0:
        raise KoctError(f"the {names[0]} network's curve is flat (sigma = 0): the structural factor is not defined")
    return Factors(dense.sigma / known.sigma, (target - known.floor) / (target - dense.floor))
