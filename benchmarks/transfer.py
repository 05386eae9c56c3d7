"""How do networks that were trained on ellipses do on real CT slices? Fits KO and FC, and tests them on both.

    KOCT_DEVICE=cpu .venv/bin/python benchmarks/transfer.py

The slices are those of three patients that pydicom's wheel ships as test files (nothing is downloaded). Like the
problem `pairs` does it, each is cropped, averaged to H × H pixels and projected; no network sees one in training, and λ
is chosen on the N ellipses. Errors are ‖ŷ − y‖ / ‖y‖, their mean over images and seeds. Takes half a minute on a core.
"""

import argparse
import contextlib
import io
import os
import tempfile

import numpy as np
from pydicom.data import get_testdata_file

from koct import metrics
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.operators.fanbeam import Projector, fbp
from koct.problems import pools
from koct.problems.slices import dicom, image
from koct.study import cells, fitting

FILES = ("CT_small.dcm", "693_J2KI.dcm", "J2K_pixelrep_mismatch.dcm")  # a spine, two heads
GEOMETRY = {"H": 32, "V": 20, "B": 32}
N = (4, 16, 64, 256)
SEEDS = (1, 2, 3)
SIZES = Sizes(train=max(N), val=50, test=50)
ARCHS = {"KO": ("ko", {"toward": "analytic"}), "FC": ("fc", {})}


def real_slices(H):
    """(3, H, H): the slices as attenuation relative to water."""
    return np.stack([image(dicom(get_testdata_file(name, download=False)), H) for name in FILES])


def errors(N=N, seeds=SEEDS, sizes=SIZES):
    """{(network, N): (error on ellipses, errors on each slice)}; the network FBP has learned nothing, and N = 0."""
    problem = registry.problem("fanbeam")(**GEOMETRY, rays="exact")
    A = Projector(problem.geometry(), "exact")
    slices = real_slices(problem.H)
    x, y = A(slices).reshape(len(slices), -1), slices.reshape(len(slices), -1)
    relative = metrics.load("rrmse_norm").error

    def each(predicted):
        return [relative(predicted[i : i + 1], y[i : i + 1]) for i in range(len(y))]

    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        for seed in seeds:
            pool = os.path.join(folder, f"{seed}.npy")
            pools.make(problem, seed, sizes, pool)
            for label, (name, options) in ARCHS.items():
                arch = registry.architecture(name)(**options)
                for n in N:
                    data = cells.Data(Cell("transfer", problem, arch, n, seed, ()), {"pool": pool})
                    _, network = fitting.fit(data)
                    own = relative(data.predict(network, "test"), data.pool.y("test"))
                    found.setdefault((label, n), []).append([own, *each(network.predict(x))])
        known, tests = fbp(problem.geometry()), pools.Pool(pool, problem)
        shape = problem.x_shape
        of_ellipses = known(tests.x("test").reshape(-1, *shape)).clip(min=0).reshape(sizes.test, -1)
        of_slices = known(x.reshape(-1, *shape)).clip(min=0).reshape(len(x), -1)
        found["FBP", 0] = [[relative(of_ellipses, tests.y("test")), *each(of_slices)]]
    means = {key: np.mean(rows, axis=0) for key, rows in found.items()}
    return {key: (float(row[0]), row[1:].tolist()) for key, row in means.items()}


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    print("| network | N | ellipses | " + " | ".join(f"`{name}`" for name in FILES) + " | slices / ellipses |")
    print("|---|---|---|" + "---|" * len(FILES) + "---|")
    for (label, n), (own, real) in sorted(errors().items(), key=lambda item: (item[0][0] != "FBP", *item[0][::-1])):
        values = " | ".join(f"{value:.3f}" for value in (own, *real))
        print(f"| {label} | {n or '–'} | {values} | {np.mean(real) / own:.2f} |")


if __name__ == "__main__":
    main()
