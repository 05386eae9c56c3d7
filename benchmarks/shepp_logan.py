"""The networks of the sweep ellipses50 on the modified Shepp–Logan phantom, as Adler and Öktem (2018) test theirs.

    .venv/bin/python benchmarks/shepp_logan.py [results]

For every fit: the mean peak signal-to-noise ratio over 20 draws of the noise, in decibels, averaged over seeds. None of
the networks has seen such a phantom.
"""

import argparse
import re
from pathlib import Path

import numpy as np

from koct import metrics
from koct.base.arrays import to_numpy
from koct.operators.fanbeam import Projector
from koct.problems.ellipses50 import FINER, averages, drawing
from koct.study import evaluation

PHANTOM = np.array(  # value, centre, half axes, angle in degrees
    [
        (1.0, 0.0, 0.0, 0.69, 0.92, 0),
        (-0.8, 0.0, -0.0184, 0.6624, 0.874, 0),
        (-0.2, 0.22, 0.0, 0.11, 0.31, -18),
        (-0.2, -0.22, 0.0, 0.16, 0.41, 18),
        (0.1, 0.0, 0.35, 0.21, 0.25, 0),
        (0.1, 0.0, 0.1, 0.046, 0.046, 0),
        (0.1, 0.0, -0.1, 0.046, 0.046, 0),
        (0.1, -0.08, -0.605, 0.046, 0.023, 0),
        (0.1, 0.0, -0.606, 0.023, 0.023, 0),
        (0.1, 0.06, -0.605, 0.023, 0.046, 0),
    ]
)
DRAWS = 20


def pairs(problem):
    """Flat measurements (DRAWS, V·B) and the flat image as often, made as those of the sweep are."""
    ellipses = PHANTOM.T.copy()
    ellipses[5] = np.radians(ellipses[5])
    fine = drawing(ellipses, FINER * problem.H)
    clean = Projector(problem.geometry(FINER))(fine)
    noise = np.random.default_rng(0).standard_normal((DRAWS, *clean.shape))
    x = clean + problem.noise * np.abs(clean).mean() * noise
    y = np.repeat(averages(fine[None], FINER), DRAWS, axis=0)
    return (part.reshape(DRAWS, -1).astype(np.float32) for part in (x, y))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", default="results")
    folder = Path(parser.parse_args().results)
    found = {}
    for path in sorted(folder.glob("fits/ellipses50/*/N*_seed*.npy")):
        N, seed = map(int, re.findall(r"\d+", path.stem))
        _, network, data = evaluation.load(str(path), {"pool": str(folder / f"pools/ellipses50/seed{seed}.npy")})
        x, y = pairs(data.cell.problem)
        predicted = to_numpy(network().predict(data.device.put(x)))
        psnr = float(np.mean(metrics.load("psnr").each(predicted, y, data.y_shape)))
        found.setdefault(path.parent.name, {}).setdefault(N, []).append(psnr)
    sizes = sorted({N for curve in found.values() for N in curve})
    print(f"{'PSNR in dB, N =':16}" + "".join(f"{N:>8,}" for N in sizes))
    for arch, curve in found.items():
        print(f"{arch:16}" + "".join(f"{np.mean(curve[N]):8.2f}" if N in curve else " " * 8 for N in sizes))


if __name__ == "__main__":
    main()
