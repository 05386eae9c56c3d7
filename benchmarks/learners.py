"""Learning curves of five scikit-learn learners on scikit-learn's data sets: makes benchmarks/curves/sklearn.parquet.

.venv/bin/python benchmarks/learners.py

A photograph is denoised: the input is a 5 × 5 patch with noise, the output its centre without.
"""

import argparse
import warnings
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn import datasets as source
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

FILE = Path(__file__).with_name("curves") / "sklearn.parquet"
SPLITS, SAMPLES = 5, 3  # of the data into training and test data, and of the training data
SIZES = 2 ** np.arange(4, 11)
MOST = 2000  # samples of a data set
PATCH, NOISE = 5, 0.1

LEARNERS = {  # for classes, for numbers
    "linear": (LogisticRegression, Ridge),
    "neighbours": (KNeighborsClassifier, KNeighborsRegressor),
    "forest": (RandomForestClassifier, RandomForestRegressor),
    "kernel": (SVC, SVR),
    "network": (MLPClassifier, MLPRegressor),
}
SEEDED = ("forest", "network")


def patches(name):
    image = source.load_sample_image(name).mean(axis=2) / 255
    rng = np.random.default_rng(0)
    noisy = image + NOISE * rng.standard_normal(image.shape)
    corners = zip(*(rng.integers(0, size - PATCH, MOST) for size in image.shape), strict=True)
    x = [(noisy[i : i + PATCH, j : j + PATCH].ravel(), image[i + PATCH // 2, j + PATCH // 2]) for i, j in corners]
    return tuple(map(np.array, zip(*x, strict=True)))


CLASSES = {
    "digits": lambda: source.load_digits(return_X_y=True),
    "breast_cancer": lambda: source.load_breast_cancer(return_X_y=True),
    "hastie": lambda: source.make_hastie_10_2(MOST, random_state=0),
    "moons": lambda: source.make_moons(MOST, noise=0.3, random_state=0),
}
NUMBERS = {
    "diabetes": lambda: source.load_diabetes(return_X_y=True),
    "friedman1": lambda: source.make_friedman1(MOST, noise=1.0, random_state=0),
    "swiss_roll": lambda: source.make_swiss_roll(MOST, noise=0.3, random_state=0),
    "china": lambda: patches("china.jpg"),
}


def runs(curve):
    """Rows of all runs: the error is the share of wrong labels, or the squared error in units of the variance."""
    name, learner = curve.split("-")
    numbers = name in NUMBERS
    x, y = (NUMBERS if numbers else CLASSES)[name]()
    y = (y - y.mean()) / y.std() if numbers else y
    rows = []
    for split in range(SPLITS):
        test, rest = np.split(np.random.default_rng(split).permutation(len(y)), [len(y) // 4])
        for sample in range(SAMPLES):
            drawn = np.random.default_rng([split, sample]).permutation(rest)
            for N in SIZES[len(rest) >= SIZES]:
                seed = 100 * split + sample
                settings = {"random_state": seed} if learner in SEEDED else {}
                model = make_pipeline(StandardScaler(), LEARNERS[learner][numbers](**settings))
                model.fit(x[drawn[:N]], y[drawn[:N]])
                off = model.predict(x[test]) - y[test]
                error = np.mean(off**2) if numbers else np.mean(off != 0)
                rows.append(("mse" if numbers else "error", curve, int(N), seed, float(f"{error:.4g}")))
    return rows


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    warnings.simplefilter("ignore")  # networks that are not done after 200 epochs; a constant pixel
    with Pool() as pool:
        found = pool.imap_unordered(runs, [f"{name}-{learner}" for name in CLASSES | NUMBERS for learner in LEARNERS])
        rows = sorted(row for each in found for row in each)
    columns = dict(zip(("metric", "curve", "N", "seed", "error"), zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), FILE, compression="zstd", compression_level=22)


if __name__ == "__main__":
    main()
