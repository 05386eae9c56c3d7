"""Mean squared error over all pixels of all images."""

from collections.abc import Sequence

import numpy as np

SYMBOL = "MSE"
UNIT = "intensity^2"
DESCRIPTION = "mean squared error over all pixels"


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((predicted - y.astype(float)) ** 2))


def each(predicted: np.ndarray, y: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    residual = predicted - y.astype(float)
    return np.einsum("ij,ij->i", residual, residual) / y.shape[1]
