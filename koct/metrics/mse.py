"""Mean squared error over all pixels of all images."""

import numpy as np

SYMBOL = "MSE"
UNIT = "intensity^2"
DESCRIPTION = "mean squared error over all pixels"


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((predicted - y.astype(float)) ** 2))
