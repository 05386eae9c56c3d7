"""How well laws, fitted to the smaller N of a pilot, predict its larger ones."""

from collections.abc import Mapping

import numpy as np

from koct.risk.laws import LAWS, FloatArray, Law

MIN_SPREAD = 0.01  # of the log mean error: no point of a curve is taken as known to better than one per cent
MAX_SPLITS = 8  # of a pilot into smaller N and held-out larger ones

Misses = list[tuple[int, FloatArray]]  # (split, log prediction errors, shape (n_curves, n_sizes − split))


def held_out(
    N: FloatArray, curves: FloatArray, weights: FloatArray, laws: Mapping[str, Law]
) -> dict[str, Misses] | None:
    """By how much each law, fitted to the smaller N, misses the larger ones; None if there are only two N."""
    first = min(3, len(N) - 1)  # three points for a law's three parameters, if the pilot has enough
    if first < 2:
        return None
    splits = np.unique(np.linspace(first, len(N) - 1, min(MAX_SPLITS, len(N) - first)).astype(int)).tolist()
    misses: dict[str, Misses] = {}
    for name, law in laws.items():
        misses[name] = []
        for split in splits:
            theta = law.fit(N[:split], curves[:, :split], weights[:split])
            misses[name].append((split, np.log(law.predict(theta, N[split:]) / curves[:, split:])))
    return misses


def score(misses: Misses) -> FloatArray:
    """The mean squared log error of a law's predictions of the next N, for every curve; shape (n_curves,)."""
    return np.mean([miss[:, 0] ** 2 for _, miss in misses], axis=0)


def plausibility(misses: Mapping[str, Misses]) -> FloatArray:
    """The probability of each of LAWS: its likelihood of each next N given the smaller ones, over the whole pilot."""
    evidence = []
    for name in LAWS:
        next_miss = np.stack([miss[:, 0] for _, miss in misses[name]])
        variance = next_miss[:, 1:].var(axis=1) + MIN_SPREAD**2
        evidence.append(-0.5 * np.sum(next_miss[:, 0] ** 2 / variance + np.log(variance)))
    weight = np.exp(np.array(evidence) - np.max(evidence))
    return weight / weight.sum()


def drift(N: FloatArray, misses: Misses) -> float:
    """Standard deviation of a law's log error per doubling of N beyond its data, with the noise subtracted."""
    squares: list[float] = []
    for split, miss in misses:
        doublings = np.log2(N[split:] / N[split - 1])
        squares += list((miss[0] ** 2 - miss[1:].var(axis=0)) / doublings**2)
    return float(np.sqrt(max(0.0, float(np.mean(squares)))))
