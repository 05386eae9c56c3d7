"""Structural similarity of each image as scikit-image defines it by default, averaged over images.

Means, variances and covariance are those of all windows of seven pixels along each axis that lie within the image,
K1 = 0.01, K2 = 0.03, and the range of values is that of the true image. A last axis of fewer than seven entries are
channels, over which the similarity is averaged. An image that is smaller or constant has none. Of an image with a
field of view, the windows and values inside count.
"""

import math
from collections.abc import Sequence

import numpy as np

SYMBOL = "SSIM"
UNIT = "1"
DESCRIPTION = "structural similarity (7 x 7 windows), averaged over images; null if they are smaller or constant"
NEIGHBOURS = True  # it compares windows, so it is given whole images
WINDOW = 7
K1, K2 = 0.01, 0.03
BLOCK = 2**14  # pixels compared at once, so that they stay in the cache


def each(
    predicted: np.ndarray, y: np.ndarray, shape: Sequence[int], inside: np.ndarray | slice = slice(None)
) -> np.ndarray:
    channels = shape[-1] if len(shape) > 1 and shape[-1] < WINDOW else 1
    sides = tuple(shape) if channels == 1 else tuple(shape[:-1])
    values = np.full(len(y), np.nan)
    if min(sides) < WINDOW:
        return values
    counted = _windows_inside(inside, sides, channels)
    spread = (y[:, inside].max(axis=1) - y[:, inside].min(axis=1)).astype(float)
    seen = np.flatnonzero(spread > 0)
    images, rows = max(1, BLOCK // y.shape[1]), max(1, BLOCK * sides[0] // y.shape[1])
    for first in range(0, len(seen), images):
        chosen = seen[first : first + images]
        a, b = (part[chosen].reshape(-1, *sides, channels) for part in (predicted, y))
        unit = spread[chosen].reshape(-1, *[1] * a[0].ndim)  # the similarity does not depend on it
        total = np.zeros(len(chosen))
        for top in range(0, sides[0] - WINDOW + 1, rows):
            stripe = slice(top, top + rows + WINDOW - 1)
            parts = (np.moveaxis(part[:, stripe] / unit, -1, 1) for part in (a, b))
            flat = (part.reshape(len(chosen) * channels, -1, *sides[1:]) for part in parts)
            here = None if counted is None else counted[top : top + rows]
            total += _similarity(here, *flat).reshape(len(chosen), channels).sum(axis=1)
        windows = math.prod(side - WINDOW + 1 for side in sides) if counted is None else counted.sum()
        values[chosen] = total / (channels * windows) if windows else np.nan
    return values


def _windows_inside(inside: np.ndarray | slice, sides: tuple[int, ...], channels: int) -> np.ndarray | None:
    """Return which windows lie in the field of view as a whole, by their first pixel; None: all."""
    if isinstance(inside, slice):
        return None
    seen = inside.reshape(*sides, channels).all(axis=-1)
    windows = np.lib.stride_tricks.sliding_window_view(seen, (WINDOW,) * len(sides))
    return np.asarray(windows.all(axis=tuple(range(len(sides), 2 * len(sides)))))


def _similarity(counted: np.ndarray | None, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The similarity of images (n, *sides) in float64, whose values have a range of 1, summed over windows: (n,).

    In terms of a + b and a − b: 2 cov(a, b) is half the difference of their variances, var(a) + var(b) half the sum.
    """
    size = WINDOW ** (a.ndim - 1)
    means, variances = [], []
    for values in ((a + b).ravel(), (a - b).ravel()):
        mean = _window_sums(values, a.shape[1:])
        mean /= size
        mean *= mean
        variance = _window_sums(values * values, a.shape[1:])
        variance /= size
        variance -= mean
        variance *= size / (size - 1)
        means.append(mean)
        variances.append(variance)
    similarity = np.ones(a.size)
    windows = similarity[: len(means[0])]
    for (first, second), K in ((means, K1), (variances, K2)):
        first += 2 * K**2
        windows *= first - second
        first += second
        windows /= first
    inside = tuple(slice(side - WINDOW + 1) for side in a.shape[1:])
    found = similarity.reshape(a.shape)[:, *inside].reshape(len(a), -1)
    return (found if counted is None else found[:, counted.ravel()]).sum(axis=1)


def _window_sums(values: np.ndarray, sides: Sequence[int]) -> np.ndarray:
    """Sums over windows that begin at each pixel of flat images; those that begin near an end mix rows or images."""
    stride = 1
    for side in reversed(sides):
        two = values[:-stride] + values[stride:]
        seven = (two[: -2 * stride] + two[2 * stride :])[: -3 * stride]
        seven += two[4 * stride : -stride]
        seven += values[6 * stride :]
        values, stride = seven, stride * side
    return values
