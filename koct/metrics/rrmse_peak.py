"""RMSE / max|y| of each image, averaged over images: what the paper prints for the fan-beam sweeps."""

from collections.abc import Sequence

import numpy as np

from koct.metrics.rrmse_norm import not_empty, relative

SYMBOL, SUBSCRIPT = "rRMSE", "peak"
UNIT = "1"
DESCRIPTION = "RMSE / max|y|, averaged over images"


def scale(y: np.ndarray) -> np.ndarray:
    """What the RMSE of every image is divided by."""
    return np.maximum(y.max(axis=1), -y.min(axis=1)).astype(float)


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    residual, y = not_empty(predicted, y)
    return float(np.mean(residual / np.sqrt(y.shape[1]) / np.abs(y).max(axis=1)))


def each(predicted: np.ndarray, y: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return relative(predicted, y, scale(y))
