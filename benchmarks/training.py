"""How many steps a second does a training take, recorded as a CUDA graph and in plain eager torch? On a GPU.

    .venv/bin/python benchmarks/training.py

Both take the same steps of the networks that koct ships, on the fan beam at H = 128 with 64 pairs. `eager` calls the
step as it is written; `plain` is a loop as a tutorial would have it: no moving average, torch's default AdamW.
"""

import argparse
import tempfile
import time

import torch
from torch import nn

from koct.contracts import Sizes
from koct.contracts.registry import architecture, problem
from koct.contracts.spec import Cell
from koct.networks.training import Trainer
from koct.problems import pools
from koct.study import cells

NETWORKS = ("unet", "ko-unet", "lpd", "unrolled")
STEPS = 50


def trainer(scan, path, name):
    data = cells.Data(Cell("F128", scan, architecture(name)(), 64, 1, ()), {"pool": path})
    made = Trainer(data.cell.arch, data)
    made.module.train()
    return made


def plain(training):
    module, arch = training.module, training.arch
    optimiser = torch.optim.AdamW(module.parameters(), lr=arch.lr, weight_decay=arch.weight_decay)

    def step():
        rows = torch.randint(0, len(training.x), (arch.batch,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=arch.precision == "bfloat16"):
            out = module(training.x[rows])
        loss = (out.float() - training.y[rows]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), arch.clip)
        optimiser.step()

    return step


def rate(step, training):
    """Steps a second, the best of three measurements."""
    best = 0.0
    for _ in range(4):  # the first one warms up
        training.number.zero_()
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        best = max(best, STEPS / (time.perf_counter() - started))
    return best


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    scan = problem("fanbeam")(H=128, V=60, B=128, rays="analytic", photons=1e4)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, steps a second")
    print(f"{'network':10} {'parameters':>10} {'plain':>8} {'eager':>8} {'graph':>8} {'graph/plain':>12}")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/pool.npy"
        pools.make(scan, 1, Sizes(train=64, val=8, test=8), path)
        for name in NETWORKS:
            rates = []
            for kind in ("plain", "eager", "graph"):
                training = trainer(scan, path, name)
                step = {"plain": plain, "eager": lambda t: t.step, "graph": lambda t: t._recorded()}[kind](training)
                rates.append(rate(step, training))
            weights = training.network.parameters
            numbers = " ".join(f"{value:8.1f}" for value in rates)
            print(f"{name:10} {weights:10,} {numbers} {rates[2] / rates[0]:12.2f}", flush=True)


if __name__ == "__main__":
    main()
