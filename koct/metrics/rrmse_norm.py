"""‖ŷ − y‖ / ‖y‖ of each image, averaged over images: what the paper's text defines."""

from collections.abc import Sequence

import numpy as np

from koct.errors import KoctError

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
    return relative(predicted, y, scale(y))


# What relative errors share: an empty image has none, and is left out of their averages


def not_empty(predicted: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(norms of the residuals, images) of the images that have a pixel other than zero; (n,) and (n, size), float64."""
    y = y.astype(float)  # sums of float32 would lose digits
    residual = np.linalg.norm(predicted - y, axis=1)
    seen = np.any(y != 0, axis=1)
    if not seen.any():
        raise KoctError("every image is empty, so relative errors are undefined: make the pool larger")
    return residual[seen], y[seen]


def relative(predicted: np.ndarray, y: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """RMSE / scale of every image (n,), NaN where the scale (n,) is zero."""
    residual = predicted - y.astype(float)
    rmse = np.sqrt(np.einsum("ij,ij->i", residual, residual) / y.shape[1])
    return np.divide(rmse, scale, out=np.full(len(y), np.nan), where=scale > 0)
