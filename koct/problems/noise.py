"""Noise of a CT detector: counted photons (Poisson) and electronics (normal), the same on every machine.

Every pair has a random stream of its own, so its noise does not depend on which pairs are made together. Every bin has
one uniform number for the photons and one for the electronics, and the count is the quantile of its distribution: a
sinogram that differs by rounding, as on a GPU, then has noise that differs by rounding, too.
"""

from __future__ import annotations

import numpy as np

FLOOR = 1.0  # counts: less is taken for one, since the logarithm needs a positive number
MANY = 200.0  # expected counts from which the quantile is taken from its expansion


def uniforms(stream: int, pair: int, shape: tuple[int, ...]) -> np.ndarray:
    """Two arrays (2, *shape) of numbers above 0 and below 1, for photons and electronics of a pair."""
    raw = np.random.Philox(key=np.array([stream, pair], np.uint64)).random_raw(2 * int(np.prod(shape)))
    return ((raw >> np.uint64(12)).astype(float) + 0.5).reshape(2, *shape) / 2**52


def poisson_quantile(mean: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The smallest count k with P(count ≤ k) ≥ u.

    For many counts by its expansion in 1/√mean (Giles, Algorithm 955 of the ACM, 2016), wrong by one count once in 10⁴.
    """
    from scipy.special import ndtri, pdtr, pdtrik

    z, root = ndtri(u), np.sqrt(np.maximum(mean, MANY))
    counts = np.floor(mean + root * z + 1 / 3 + z**2 / 6 - (z / 36 + z**3 / 72) / root)
    few = mean < MANY
    if few.any():
        m, q = mean[few], u[few]
        k = np.ceil(np.maximum(pdtrik(q, m), 0))  # the root of a smooth function, which may be off by rounding
        k = np.where((k > 0) & (pdtr(np.maximum(k - 1, 0), m) >= q), k - 1, k)
        counts[few] = np.where(np.exp(-m) >= q, 0, k)
    return counts


def noisy(attenuation: np.ndarray, photons: float, electronic: float, stream: int, first: int = 0) -> np.ndarray:
    """What a detector measures of the line integrals (n, V, B) of attenuation, which have no unit.

    A bin counts Poisson(photons · exp(−p)) photons, to which electronics add a normal number of the standard deviation
    `electronic`; the result is −log(counts / photons), with counts of at least `FLOOR`. The pairs have the numbers
    `first`, `first` + 1, ... of the stream.
    """
    from scipy.special import ndtri

    measured = np.empty(attenuation.shape)
    for i, p in enumerate(np.asarray(attenuation, float)):
        u, v = uniforms(stream, first + i, p.shape)
        counts = poisson_quantile(photons * np.exp(-p), u)
        if electronic:
            counts += electronic * ndtri(v)
        measured[i] = np.log(photons / np.maximum(counts, FLOOR))
    return measured
