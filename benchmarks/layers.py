"""Theorem 1 with measured layer errors, for networks of a ladder with one learned layer: benchmarks/layers.json.

    snakemake --config study=ladder
    python benchmarks/layers.py results H128-ladder

The network with the most samples stands for the true layers, and its own error is the residual. The theorem holds for
any choice of these, and all errors are those on the test pairs, as mean squares over pixels.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from koct.study import norms, paths
from koct.study.evaluation import load

ROOT = Path(__file__).resolve().parents[1]
ARCHS = ("ko", "ko-ridge", "filter", "filters")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="the folder with fits/ and pools/")
    parser.add_argument("sweep")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    at = arguments.results.resolve().parent
    inputs = {"pool": str(at / paths.pool(arguments.sweep, arguments.seed))}
    rows = []
    for arch in ARCHS:
        fits = at.glob(paths.fit(arguments.sweep, arch, "*", arguments.seed))
        fits = {int(path.stem.partition("_")[0][1:]): str(path) for path in fits}
        *sizes, most = sorted(fits)
        rows += [measured(arch, N, fits[N], fits[most], inputs) for N in sizes]
    about = {"sweep": arguments.sweep, "seed": arguments.seed, "rows": rows}
    (ROOT / "benchmarks/layers.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def measured(arch, N, path, true_path, inputs):
    """Return the errors of a network and of its learned layer, and what three bounds make of the latter."""
    _, network, data = load(path, inputs)
    learned, true = network(), load(true_path, inputs)[1]()
    x, y = (getattr(data.pool, kind)("test").astype(float) for kind in "xy")
    chain = norms.network(data.cell.arch.chain(data.problem, data.layers))
    (layer,) = (layer for layer in chain.layers if not layer.known)
    wrong, image = layer_error(learned, true, x)
    mean = {"residual": mean_square(true.predict(x) - y), "layer": mean_square(wrong), "image": mean_square(image)}
    error = {layer.name: mean["layer"]}
    # with an image per layer error, known layers behind the learned one are part of it, and only the ReLU is behind
    bounds = {
        "theorem": (mean["residual"] ** 0.5 + chain.bound_from_errors(error) ** 0.5) ** 2,
        "sharp": chain.sharp_bound(error, mean["residual"]),
        "grouped": (mean["residual"] ** 0.5 + mean["image"] ** 0.5) ** 2,
    }
    sums = {"measured": mean_square(learned.predict(x) - y), "trivial": mean_square(y), **mean, **bounds}
    print(arch, N, {key: f"{value / y.shape[1]:.3g}" for key, value in sums.items()}, flush=True)
    return {"arch": arch, "N": N, "p": layer.p, **{key: value / y.shape[1] for key, value in sums.items()}}


def layer_error(learned, true, x):
    """Return what the learned layer adds to the true one on the measurements x, and that behind the known layers."""
    known = learned.known
    if hasattr(learned, "w"):
        wrong = known.weighted(np.asarray(learned.learned["w"] - true.learned["w"]), x)
        return wrong, known.R(wrong.reshape(-1, *known.R.domain)).reshape(len(x), -1)
    coefficients = known.factors(learned.spectrum - true.spectrum) * known.coefficients(known.weights * x)
    return known.measurements(coefficients), known.behind(coefficients)


def mean_square(difference):
    """Return the mean over images of the sum of squares."""
    return float((np.asarray(difference, float) ** 2).sum(1).mean())


if __name__ == "__main__":
    main()
