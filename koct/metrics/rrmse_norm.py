"""‖ŷ − y‖ / ‖y‖ of each image, averaged over images: what the paper's text defines."""

from collections.abc import Sequence

import numpy as np

from koct.metrics import relative
from koct.metrics.relative import not_empty

SYMBOL, SUBSCRIPT = "rRMSE", "norm"
UNIT = "1"
DESCRIPTION = "||y - prediction|| / ||y||, averaged over images"


def scale(y: np.ndarray) -> np.ndarray:
    """What the RMSE of every image is divided by."""
    return np.sqrt(np.mean(y**2, axis=1, dtype=float))


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    residual, y = not_empty(predicted, y)
    return float(np.mean(residual / np.linalg.norm(y, axis=1)))


def each(predicted: np.ndarray, y: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return relative.each(predicted, y, scale(y))
