"""How many images a second does a training take, in eager torch, as a CUDA graph, and compiled? On a GPU.

    .venv/bin/python benchmarks/training_speed.py [--H 128] [--batch 5] [--processes 3]

All take the steps of the networks that koct ships, on the fan beam with 64 pairs, in one process. `plain` is a loop as
a tutorial has it: no moving average, torch's default AdamW. `eager` calls koct's step as it is written, `graph` replays
it as a CUDA graph, which is how koct trains, and `compiled` does so with `compiled: true`. Both are taken in bfloat16
and in TF32 (`float32`). With `--processes` so many of them measure at once, and the rates are those of each: by turns,
or side by side if NVIDIA's Multi-Process Service runs (`nvidia-cuda-mps-control -d`).
"""

import argparse
import subprocess
import sys
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
VARIANTS = {
    "plain": {},
    "eager": {},
    "graph": {},
    "compiled": {"compiled": True},
    "graph, float32": {"precision": "float32"},
    "compiled, float32": {"compiled": True, "precision": "float32"},
}
STEPS = 50
CUDA = torch.cuda.is_available()


def trainer(scan, path, name, **options):
    data = cells.Data(Cell("F", scan, architecture(name)(**options), 64, 1, ()), {"pool": path})
    made = Trainer(data.cell.arch, data)
    made.module.train()
    return made


def plain(training):
    module, arch = training.module, training.arch
    optimiser = torch.optim.AdamW(module.parameters(), lr=arch.lr, weight_decay=arch.weight_decay)

    def step():
        rows = torch.randint(0, len(training.x), (arch.batch,), device=training.device)
        with torch.autocast(training.device.type, torch.bfloat16, enabled=CUDA and arch.precision == "bfloat16"):
            out = module(training.x[rows])
        loss = (out.float() - training.y[rows]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), arch.clip)
        optimiser.step()

    return step


def step_of(variant, training):
    """Return a function that takes a step."""
    if variant == "plain":
        return plain(training)
    return training._recorded() if CUDA and variant != "eager" else training.step


def wait():
    if CUDA:
        torch.cuda.synchronize()


def rate(step, training, count):
    """Images a second, the best of three measurements."""
    best = 0.0
    for _ in range(4):  # the first one warms up
        training.number.zero_()
        wait()
        started = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        best = max(best, count * training.arch.batch / (time.perf_counter() - started))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--H", type=int, default=128, help="pixels of an image in each direction")
    parser.add_argument("--batch", type=int, default=None, help="images of a step (default: those of the network)")
    parser.add_argument("--processes", type=int, default=1, help="that measure at once")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of a measurement")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    given = parser.parse_args()
    if given.processes > 1:
        command = [sys.executable, *sys.argv, "--processes", "1"]
        for process in [subprocess.Popen(command) for _ in range(given.processes)]:
            process.wait()
        return
    scan = problem("fanbeam")(H=given.H, V=given.H * 15 // 32, B=given.H, rays="analytic", photons=1e4)
    print(f"{torch.cuda.get_device_name() if CUDA else 'CPU'}, torch {torch.__version__}, images a second (over graph)")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/pool.npy"
        pools.make(scan, 1, Sizes(train=64, val=8, test=8), path)
        for name in given.networks:
            rates = {}
            for variant in given.variants:
                options = {} if given.batch is None else {"batch": given.batch}
                try:
                    training = trainer(scan, path, name, **options, **VARIANTS[variant])
                    rates[variant] = rate(step_of(variant, training), training, given.steps)
                except RuntimeError as error:  # what a compiler or a recording refuses is a result, too
                    print(f"{name:10} {variant:24} {str(error).splitlines()[0][:80]}", flush=True)
                    continue
                over = rates[variant] / rates["graph"] if "graph" in rates else float("nan")
                print(f"{name:10} {variant:24} {rates[variant]:10.1f} {over:8.2f}", flush=True)


if __name__ == "__main__":
    main()
