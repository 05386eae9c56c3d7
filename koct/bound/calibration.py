"""The calibrated bound, error ≈ floor + sigma · log N / N (Eq. calibrated-bound), and its inverse."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.errors import KoctError

SMALLEST_N = 3  # log N / N decreases for N ≥ e


def rate(N: ArrayLike) -> NDArray[np.float64]:
    """Return log N / N (natural logarithm), in the shape of `N`."""
    N = np.asarray(N, dtype=float)
    return np.log(N) / N


def solve_rate(c: ArrayLike) -> NDArray[np.float64]:
    """Return the N ≥ e with N / log N = c, N = −c·W₋₁(−1/c), in the shape of `c`; NaN where c < e, which has none."""
    from scipy.special import lambertw

    c = np.asarray(c, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        log_N = np.where(c > np.e, -lambertw(-1 / c, k=-1).real, np.where(c == np.e, 1.0, np.nan))
        for _ in range(2):  # Newton steps on log N − log log N = log c restore the digits lost where 1/c is tiny
            step = (log_N - np.log(log_N) - np.log(c)) * log_N / (log_N - 1)
            log_N = np.where(log_N > 1.001, log_N - step, log_N)
        return np.exp(log_N)


@dataclass(frozen=True)
class BoundAnswer:
    """How many samples a target requires."""

    target: float  # the error to reach
    n: float | None  # the solution of bound(n) = target; None if there is none
    samples: int | None  # to draw; None if the target is out of reach
    reason: str = ""  # why there is no solution: the target is out of reach, or every N reaches it

    @property
    def reachable(self) -> bool:
        return self.samples is not None


@dataclass(frozen=True)
class Calibration:
    """The two numbers that turn the theorem into a predictor, error ≈ floor + sigma · log N / N.

    Parameters
    ----------
    floor : the error that remains however large N is
    sigma : the slope on log N / N

    Examples
    --------
    >>> from koct import Calibration
    >>> calibration = Calibration(floor=0.01, sigma=0.5)
    >>> calibration.predict([100, 1000]).round(4)
    array([0.033 , 0.0135])
    >>> calibration.required(0.02).samples
    283
    """

    floor: float
    sigma: float

    def predict(self, N: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated bound, in the shape of `N`."""
        return self.floor + self.sigma * rate(N)

    def required(self, target: float) -> BoundAnswer:
        """Return the number of samples that brings the calibrated bound down to `target`."""
        if not target > self.floor:
            reason = f"the target {target:g} is not above the floor {self.floor:g}: no N reaches it on this curve"
            return BoundAnswer(target, None, None, reason)
        if self.sigma <= np.e * (target - self.floor):  # c ≤ e
            return BoundAnswer(target, None, SMALLEST_N, "the bound is below the target at every N")
        n = float(solve_rate(self.sigma / (target - self.floor)))
        if not np.isfinite(n):
            return BoundAnswer(target, None, None, f"the target {target:g} is too close to the floor {self.floor:g}")
        return BoundAnswer(target, n, max(SMALLEST_N, int(np.ceil(n))))


def calibrate(N: ArrayLike, error: ArrayLike) -> Calibration:
    """Return the calibration of a learning curve by the paper's rule.

    The floor is the smallest mean error; sigma is the no-intercept slope of the remainder on log N / N.

    Parameters
    ----------
    N : sample sizes, shape (n_sizes,)
    error : mean error at each of them, shape (n_sizes,)

    Returns
    -------
    calibration : floor and sigma

    Examples
    --------
    >>> from koct import calibrate
    >>> calibrate([16, 64, 256], [0.3, 0.2, 0.15]).floor
    0.15
    """
    t, error = rate(N), np.asarray(error, dtype=float)
    if len(t) < 2:
        raise ValueError(f"N has length {len(t)}; a calibration needs at least two sizes")
    floor = error.min()
    return Calibration(float(floor), float(t @ (error - floor) / (t @ t)))


@dataclass(frozen=True)
class Factors:
    """The two factors of Prop. 1 for one target; their product is (N_FC / log N_FC) / (N_KO / log N_KO)."""

    structural: float  # structural sparsity, sigma_FC / sigma_KO
    approximation: float  # approximation budget, (target − floor_KO) / (target − floor_FC)

    @property
    def product(self) -> float:
        return self.structural * self.approximation


def two_factors(
    known: Calibration, dense: Calibration, target: float, names: tuple[str, str] = ("operator-aware", "dense")
) -> Factors:
    """Return the two factors of Prop. 1, of the dense network relative to the operator-aware one.

    Parameters
    ----------
    known : calibration of the operator-aware network
    dense : calibration of the dense network
    target : an error above both floors
    names : what messages call the two networks

    Returns
    -------
    factors : `structural`, `approximation` and their `product`

    Examples
    --------
    >>> from koct import Calibration, two_factors
    >>> two_factors(Calibration(0.01, 0.2), Calibration(0.02, 0.8), target=0.03).product
    8.0
    """
    for name, curve in zip(names, (known, dense), strict=True):
        if not target > curve.floor:
            raise KoctError(
                f"target = {target:g} is not above the {name} network's floor {curve.floor:g}; choose a larger target"
            )
    if known.sigma <= 0:
        raise KoctError(
            f"sigma = {known.sigma:g} of the {names[0]} network must be above 0 for the structural factor; "
            f"use a pilot whose error decreases with N"
        )
    return Factors(dense.sigma / known.sigma, (target - known.floor) / (target - dense.floor))
