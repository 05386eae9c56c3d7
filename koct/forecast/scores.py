"""Scores, where higher is better, as errors and back.

A law is about an error that falls. The error of an accuracy is 1 − accuracy, whether that is written as 0.93 or as 93;
the error of a PSNR is the mean squared error.
"""

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.errors import KoctError
from koct.forecast.runs import MAX_ERROR, MIN_ERROR

ROUNDING = 1e-6  # relative: how far a score may lie above the best one by rounding alone
MOST_DECIMALS = 15

RATES = ("accuracy", "acc")  # 1 − score is a share of test samples
FROM_ZERO = (*RATES, "auc", "auroc", "roc_auc", "f1", "f1_score", "dice", "iou", "miou", "jaccard")  # never below zero
SHARES = (*FROM_ZERO, "r2", "r2_score", "r_squared", "ssim")  # with 1 as the best score
DECIBELS = ("psnr",)
KNOWN = SHARES + DECIBELS
DECIBEL = 10 / math.log(10)  # a decibel is this times a natural logarithm
MOST_LOG = 700.0  # of an error: no PSNR is without one


@dataclass(frozen=True)
class Score:
    """A score whose error is its distance from the best one, in units of the best one."""

    name: str  # of its column
    best: float = 1.0  # without any error

    @property
    def label(self) -> str:
        """What an axis says."""
        return self.name

    @property
    def scale(self) -> float:
        """The score that an error of 1 lies below the best one; so a share of failures is one in per cent, too."""
        return abs(self.best) or 1.0

    @property
    def lowest(self) -> float:
        """The lowest score that there is."""
        return 0.0 if plain(self.name) in FROM_ZERO and self.best > 0 else -math.inf

    def error(self, score: ArrayLike) -> NDArray[np.float64]:
        """The error of each score, in the same shape; negative for a score above the best one."""
        error = (self.best - np.asarray(score, dtype=float)) / self.scale
        return np.where((error < 0) & (error >= -ROUNDING), 0.0, error)

    def score(self, error: ArrayLike) -> NDArray[np.float64]:
        """The score of each error, in the same shape."""
        return np.maximum(self.best - self.scale * np.asarray(error, dtype=float), self.lowest)

    def goal(self, target: str) -> str:
        """In words, what the mean error over many runs is to reach; `target` is a score."""
        return f"a mean {self.name} of {target}"

    def decimals(self, error: float) -> int:
        """How many decimals of the score tell two digits of its error."""
        distance = error * self.scale
        if not 0 < distance < math.inf:
            return 2
        return min(max(0, 1 - math.floor(math.log10(distance))), MOST_DECIMALS)

    def target(self, score: float) -> float:
        """The error of a score that is to be reached."""
        if score >= self.best:
            raise KoctError(
                f"--target {score:g} is not below {self.best:g}, the best {self.name}, which no N reaches; "
                f"choose a lower one"
            )
        if score < self.lowest:
            raise KoctError(f"--target {score:g} is below {self.lowest:g}, and no {self.name} is; choose a higher one")
        with np.errstate(over="ignore", under="ignore"):
            error = float(self.error(score))
        if not MIN_ERROR <= error <= MAX_ERROR:
            raise KoctError(f"--target {score:g} is too small or too large to compute with; choose another {self.name}")
        return error


@dataclass(frozen=True)
class Decibels(Score):
    """The PSNR; its error is the mean squared one in units of the squared peak.

    The mean over runs is that of the squared errors: the score of a forecast is the PSNR of the mean squared error.
    """

    best: float = math.inf

    @property
    def label(self) -> str:
        return f"{self.name} of the mean squared error"

    def error(self, score: ArrayLike) -> NDArray[np.float64]:
        return np.exp(np.clip(-np.asarray(score, dtype=float) / DECIBEL, -MOST_LOG, MOST_LOG))

    @np.errstate(divide="ignore", invalid="ignore")
    def score(self, error: ArrayLike) -> NDArray[np.float64]:
        error = np.asarray(error, dtype=float)
        return np.where(error > 0, -DECIBEL * np.log(error), np.where(error == 0, math.inf, math.nan))

    def goal(self, target: str) -> str:
        return f"a {self.name} of {target} (that of the mean squared error)"

    def decimals(self, error: float) -> int:
        return 1


def named(metric: str | None, higher: float | None = None) -> Score | None:
    """The score in the column `metric`, or None if it is an error.

    It is a score if its name is known as one, or if `higher` is given: the best score there is.
    """
    kind = plain(metric or "")
    if higher is None:
        if kind in DECIBELS:
            return Decibels(metric or "")
        return Score(metric or "") if kind in SHARES else None
    if kind in DECIBELS:
        raise KoctError(f"--higher: {metric} has no best value, and is known to be better if higher; omit --higher")
    if not (math.isfinite(higher) and abs(higher) <= MAX_ERROR):
        raise KoctError(f"--higher {higher:g} is no best score; give a number, like 1 or 100")
    return Score(metric or "score", higher)


def plain(name: str) -> str:
    """`r2` for `R²`, `accuracy` for `test_accuracy`, `f1_score` for `F1-Score`."""
    name = name.strip().lower().replace("²", "2").replace("^2", "2")
    return re.sub(r"^(test|val|mean)_", "", re.sub(r"[\s-]", "_", name))
