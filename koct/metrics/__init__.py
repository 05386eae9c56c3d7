"""How far reconstructions are from the phantoms."""

import numpy as np

from koct.errors import KoctError


def mse(predicted, y):
    """Mean squared error over all pixels of all phantoms."""
    return float(np.mean((predicted - y.astype(float)) ** 2))


def metrics(predicted, y):
    """Three errors of a batch of flat images, by the names they have in every result file.

    mse         mean squared error over all pixels
    rrmse_peak  RMSE / max|y| of each phantom, averaged (what the paper prints for the fan-beam sweeps)
    rrmse_norm  ‖ŷ − y‖ / ‖y‖ of each phantom, averaged (what the paper's text defines)

    A phantom without any bright pixel has no relative error and is left out of the two averages.
    """
    y = y.astype(float)  # sums of float32 would lose digits
    error = np.linalg.norm(predicted - y, axis=1)
    seen = np.any(y != 0, axis=1)
    if not seen.any():
        raise KoctError("every phantom is empty, so relative errors are undefined: make the pool larger")
    relative_to_peak = error[seen] / np.sqrt(y.shape[1]) / np.abs(y[seen]).max(axis=1)
    relative_to_norm = error[seen] / np.linalg.norm(y[seen], axis=1)
    return {
        "mse": mse(predicted, y),
        "rrmse_peak": float(np.mean(relative_to_peak)),
        "rrmse_norm": float(np.mean(relative_to_norm)),
    }
