"""Peak signal-to-noise ratio: 20 log10(max|y| / RMSE) of each image in decibels, averaged over images."""

from collections.abc import Sequence

import numpy as np

from koct.metrics import rrmse_peak

SYMBOL = "PSNR"
UNIT = "dB"
DESCRIPTION = "peak signal-to-noise ratio 20 log10(max|y| / RMSE), averaged over images; null if all are empty"
SMALLEST = np.finfo(float).eps  # of RMSE / max|y|: images that are equal have 313 dB


def each(predicted: np.ndarray, y: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return -20 * np.log10(np.maximum(rrmse_peak.each(predicted, y, shape), SMALLEST))
