"""What do pairs add to a pilot? Forecasts of ridge regression with and without the curve that pairs predict.

.venv/bin/python benchmarks/pairs.py

Four data sets of scikit-learn and a Gaussian one; from each, twelve times, pairs, and pilots of five seeds from the
other samples. Errors are those at the best ridge strength. The truth at an N is the mean over 25 training sets.
"""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from koct.forecast.budget import Forecast
from koct.forecast.runs import Pilot
from koct.prediction.curve import DECADES, Curve
from koct.prediction.spectral import Spectral

PILOTS = {"N = 20 and 24": (20, 24), "N = 16 and 32": (16, 32), "N = 8, 16 and 32": (8, 16, 32)}
PILOTS["N = 4 to 64"] = (4, 8, 16, 32, 64)
RATIOS = (2, 4, 8, 16)  # of the N that is forecast to the pilot's largest
POOLS, SEEDS, TRUE_RUNS, TEST = 12, 5, 25, 500


def gaussian(count=2000, features=24, outputs=6):
    """A noisy linear map, with a spectrum that decays."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((count, features)) * np.arange(1.0, features + 1) ** -0.7
    return x, x @ rng.standard_normal((features, outputs)) + 0.3 * rng.standard_normal((count, outputs))


def datasets():
    """{name: (x, y, number of pairs)}"""
    digits = load_digits()
    images = digits.images / 16
    found = {
        "digits": (images.reshape(-1, 64), np.eye(10)[digits.target], 400),
        "halves": (images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32), 400),
        "gaussian": (*gaussian(), 160),
    }
    for name, data, pairs in (("diabetes", load_diabetes(), 220), ("cancer", load_breast_cancer(), 280)):
        x, y = ((part - part.mean(axis=0)) / part.std(axis=0) for part in (data.data, data.target))
        found[name] = (x, y[:, None], pairs)
    return found


def ridge_error(x, y, N, order):
    """The test error of ridge regression on the first N samples of an order, at the best strength."""
    train, test = order[:N], order[N : N + TEST]
    values, vectors = np.linalg.eigh(x[train].T @ x[train])
    projected, new = vectors.T @ (x[train].T @ y[train]), x[test] @ vectors
    scale = np.mean(np.sum(x[train] ** 2, axis=1))
    ridges = (scale * 10.0**power for power in DECADES)
    return min(np.mean((new @ (projected / (values.clip(0) + lam)[:, None]) - y[test]) ** 2) for lam in ridges)


def judge(x, y, pairs, seed):
    """{pilot: (log miss, covered, half width) of every forecast, without and with pairs, shape (2, n, 3)}."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x))
    curve = Curve(Spectral().fit(x[order[:pairs]], y[order[:pairs]]))
    found = {}
    for name, sizes in PILOTS.items():
        wanted = [ratio * sizes[-1] for ratio in RATIOS if ratio * sizes[-1] <= pairs]
        runs = [rng.permutation(order[pairs:]) for _ in range(SEEDS)]
        errors = np.array([[ridge_error(x, y, N, run) for N in sizes] for run in runs])
        runs = [rng.permutation(len(x)) for _ in range(TRUE_RUNS)]
        truth = np.array([np.mean([ridge_error(x, y, N, run) for run in runs]) for N in wanted])
        rows = []
        for theory in (None, curve):
            error, low, high = Forecast(Pilot(np.array(sizes, dtype=float), errors), theory=theory).predict(wanted)
            rows.append(
                np.column_stack([np.log(error / truth), (low <= truth) & (truth <= high), np.log(high / low) / 2])
            )
        found[name] = np.array(rows)
    return found


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    found = {name: [] for name in PILOTS}
    for place, (x, y, pairs) in enumerate(datasets().values()):
        for pool in range(POOLS):
            for name, rows in judge(x, y, pairs, [place, pool]).items():
                found[name].append(rows)
    print("pilot | log error (rms), without and with pairs | in the 90 % interval | half width of its log")
    for name, parts in found.items():
        rows = np.concatenate(parts, axis=1)
        miss, covered, width = np.sqrt(np.mean(rows[..., 0] ** 2, axis=1)), *rows[..., 1:].mean(axis=1).T
        cells = (f"{a:{style}} → {b:{style}}" for (a, b), style in ((miss, ".2f"), (covered, ".0%"), (width, ".2f")))
        print(" | ".join([name, *cells]), flush=True)


if __name__ == "__main__":
    main()
