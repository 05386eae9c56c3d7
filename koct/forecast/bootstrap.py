"""Intervals over training seeds and test images together: a two-way bootstrap.

Errors are arrays (seeds, images): every seed has a network of its own, and all are tested on the same images. Where
each seed has its own images, give the mean of each seed, (seeds, 1): their spread then holds both.

A draw gives every seed and every image a weight. Those of images are how often they are drawn with replacement. With
three seeds that would say too little: drawing n values with replacement has a variance of (n − 1) / n times what it
should be, and takes the spread of three values for exact. The weights of seeds are therefore normal, with the right
variance, over the root of a χ² of n − 1 degrees of freedom, so that a mean over seeds alone has Student's interval.

Seeds and images are drawn apart, and their deviations added. Each contains what only the pair of both explains, which
would count twice: the sum is scaled to the variance of seeds plus that of images less that of their interaction, which
drawing both together tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koct.base.loglog import below_from

Floats = NDArray[np.float64]
DRAWS = 2000
LEVEL = 0.9
TINY = 1e-12  # the share of a mean error below which no draw of it goes: extreme weights would make it negative


class Weights(NamedTuple):
    """Weights of seeds (draws, seeds) and of images (draws, images); each draw of either sums to one."""

    seeds: Floats
    images: Floats


def resample(seeds: int, images: int, groups: ArrayLike | None = None, draws: int = DRAWS, seed: int = 0) -> Weights:
    """Return random weights, the same for the same arguments; of images that belong to one group, one weight for all.

    `groups` has shape (images,).
    """
    rng = np.random.default_rng([seed, 0])
    normal = rng.standard_normal((draws, seeds))
    spread = np.sqrt(rng.chisquare(max(seeds - 1, 1), (draws, 1)) / max(seeds - 1, 1))
    normal -= normal.mean(axis=1, keepdims=True)
    of_seeds = 1 / seeds + normal / (spread * np.sqrt(seeds * max(seeds - 1, 1)))
    if groups is None:
        return Weights(of_seeds, _with_replacement(images, draws, seed))
    _, member = np.unique(np.asarray(groups), return_inverse=True)
    of_images = _with_replacement(int(member.max()) + 1, draws, seed)[:, member]
    return Weights(of_seeds, of_images / of_images.sum(axis=1, keepdims=True))


@lru_cache(maxsize=2)  # the networks of a sweep are tested on the same images
def _with_replacement(count: int, draws: int, seed: int) -> Floats:
    """How often each of `count` things is drawn, over `count`: (draws, count)."""
    chosen = np.random.default_rng([seed, 1]).integers(0, count, (draws, count))
    chosen += count * np.arange(draws)[:, None]
    return np.bincount(chosen.ravel(), minlength=draws * count).reshape(draws, count) / count


def drawn(errors: Sequence[Floats], weights: Weights, statistic: Callable[..., Floats]) -> Floats:
    """Draws (draws,) of a statistic of mean errors, a function of as many arrays as there are `errors`.

    All of the errors, (seeds, images), are given the same weights: seeds and images are paired.
    """
    centres, parts = [float(values.mean()) for values in errors], []
    for values, centre in zip(errors, centres, strict=True):
        of_images = weights.images @ values.T  # (draws, seeds)
        both = np.einsum("ds,ds->d", weights.seeds, of_images)
        means = (weights.seeds @ values.mean(axis=1), of_images.mean(axis=1), both)
        parts.append([np.maximum(mean, TINY * centre) for mean in means])
    centre = float(statistic(*map(np.array, centres)))
    by_seeds, by_images, by_both = (statistic(*draws) - centre for draws in zip(*parts, strict=True))
    # a draw of seeds has heavy tails, so the spread is that between the quartiles, which is 1.35 standard deviations
    seeds, images, both = (
        float(np.subtract(*np.quantile(values, [0.75, 0.25]))) ** 2
        for values in (by_seeds, by_images, by_both - by_seeds - by_images)
    )
    total = seeds + images
    kept = max(total - both, seeds, images) / total if total > 0 else 1.0
    return centre + np.sqrt(kept) * (by_seeds + by_images)


def mean_interval(errors: ArrayLike, groups: ArrayLike | None = None, power: int = 1) -> tuple[float, float] | None:
    """(low, high) of the mean error, or of its `power`; None for one seed, which says nothing of others.

    `errors` has shape (seeds, images).
    """
    values = np.asarray(errors, float)
    if len(values) < 2:
        return None
    low, high = _interval(drawn([values], resample(len(values), values.shape[1], groups), lambda mean: mean))
    return max(low, 0.0) ** power, max(high, 0.0) ** power


def ratio_interval(
    errors: ArrayLike, others: ArrayLike, groups: ArrayLike | None = None, power: int = 1
) -> tuple[float, float] | None:
    """(low, high) of the mean of `errors` over that of `others`, or of its `power`; None for one seed, or if one is 0.

    Both have shape (seeds, images), with the same seeds and images in the same order.
    """
    values, reference = np.asarray(errors, float), np.asarray(others, float)
    if len(values) < 2 or values.mean() <= 0 or reference.mean() <= 0:
        return None
    low, high = _interval(drawn([values, reference], resample(len(values), values.shape[1], groups), _log_ratio))
    return float(np.exp(power * low)), float(np.exp(power * high))


def _log_ratio(errors: Floats, others: Floats) -> Floats:
    """Return log(errors / others); an error of zero is the smallest number above it."""
    least = np.finfo(float).tiny
    return np.asarray(np.log(np.maximum(errors, least)) - np.log(np.maximum(others, least)))


def crossing_interval(
    N: Sequence[int], errors: Sequence[Floats], others: Sequence[Floats], groups: ArrayLike | None = None
) -> tuple[float | None, float | None] | None:
    """(low, high) of the N from which on the curve of `others` is below that of `errors`, as `crossing.overtaken` says.

    Each is a list of arrays (seeds, images), one for every N, which ascend. Seeds and images are the same, in the same
    order. An end is None where the curves of so many draws do not cross within N that there is none; the smallest N
    stands for that N or less. None instead of a pair for one seed.
    """
    seeds, images = errors[0].shape
    if seeds < 2:
        return None
    weights = resample(seeds, images, groups)
    ratios = np.array([drawn(pair, weights, _log_ratio) for _, *pair in zip(N, others, errors, strict=True)])
    crossings = np.array([below_from(N, draw) for draw in ratios.T])
    low, high = (None if np.isinf(end) else end for end in _interval(crossings, "inverted_cdf"))
    return low, high


def _interval(draws: Floats, method: Literal["linear", "inverted_cdf"] = "linear") -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, 1 - (1 - LEVEL) / 2], method=method)
    return float(low), float(high)
