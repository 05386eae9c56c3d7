"""What it costs to choose λ or weights without labels that N does not count: the table of docs/tuning.md.

    python benchmarks/validation.py [--seeds 3] [--steps 2000]

Fan beam of 32 × 32 pixels, 20 views, 10,000 photons, analytic rays; 100 validation and 200 test images. The U-Net
takes a GPU if there is one.
"""

import argparse
import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np

from koct import metrics
from koct.contracts import Sizes
from koct.contracts.registry import architecture, problem
from koct.contracts.spec import Cell
from koct.problems import pools
from koct.study import cells, fitting

SIZES = (4, 16, 64)
WAYS = {"none": "on the N pairs", "split": "on a fifth of them", "labels": "on 100 more"}
LAST = "last weights"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000, help="of the U-Net")
    arguments = parser.parse_args()
    scan = problem("fanbeam")(H=32, V=20, B=32, rays="analytic", photons=1e4)
    unet = {"channels": 16, "levels": 3, "sees": "best", "steps": arguments.steps, "batch": 4, "lr": 5e-3}
    print(f"| network | chosen | {' | '.join(f'N = {N}' for N in SIZES)} |\n|---|---|{'---|' * len(SIZES)}")
    with tempfile.TemporaryDirectory() as folder:
        places = [str(Path(folder) / f"{seed}.npy") for seed in range(1, arguments.seeds + 1)]
        for seed, place in enumerate(places, 1):
            with contextlib.redirect_stdout(io.StringIO()):
                pools.make(scan, seed, Sizes(train=max(SIZES), val=100, test=200), place)
        for source, options in {"fc": {}, "ko-ridge": {}, "filters": {}, "unet": unet}.items():
            for way in WAYS if source == "unet" else ("none", "labels"):
                arch = architecture(source)(validation=way, **options)
                found = [np.mean([error(scan, arch, N, *pool) for pool in enumerate(places, 1)]) for N in SIZES]
                words = LAST if (source, way) == ("unet", "none") else WAYS[way]
                print(f"| {arch.label} | {words} | {' | '.join(f'{1e4 * value:.2f}' for value in found)} |", flush=True)


def error(scan, arch, N, seed, place):
    """Return the rRMSE²_peak of one fit on the test images."""
    data = cells.Data(Cell("validation", scan, arch, N, seed, ()), {"pool": place})
    with contextlib.redirect_stdout(io.StringIO()):
        _, network = fitting.fit(data)
    return metrics.load("rrmse_peak").error(data.predict(network, "test"), data.pool.y("test")) ** 2


if __name__ == "__main__":
    main()
