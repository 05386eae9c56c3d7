"""How many images a second does a training take, in eager torch, as a CUDA graph, and in other ways? On a GPU.

    .venv/bin/python benchmarks/training_speed.py [--H 128] [--batch 5] [--together 3]

All take the steps of the networks that koct ships, on the fan beam with 64 pairs, in one process. `plain` is a loop as
a tutorial has it: no moving average, torch's default AdamW. `eager` calls koct's step as it is written, `graph` replays
it as a CUDA graph, which is how koct trains; `channels-last` and `compiled` do that with another layout in memory and
behind torch.compile. `together` is how several trainings do that replay their graphs by turns, each on a stream of its
own: images of all of them. Without a GPU there are neither graphs nor streams, and the numbers say nothing.
"""

import argparse
import tempfile
import time
from functools import partial

import torch
from torch import nn

from koct.contracts import Sizes
from koct.contracts.registry import architecture, problem
from koct.contracts.spec import Cell
from koct.networks.training import Trainer
from koct.problems import pools
from koct.study import cells

NETWORKS = ("unet", "ko-unet", "lpd", "unrolled")
VARIANTS = ("plain", "eager", "graph", "float32", "channels-last", "compiled", "compiled channels-last", "together")
STEPS = 50
CUDA = torch.cuda.is_available()


def trainer(scan, path, name, seed=1, **options):
    data = cells.Data(Cell("F", scan, architecture(name)(**options), 64, 1, ()), {"pool": path})
    data.seed = seed
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


def recorded(training, variant=""):
    """Return a step as koct takes it, with the module changed as the variant says."""
    if "channels-last" in variant:
        training.module.to(memory_format=torch.channels_last)
        training.x = training.x.contiguous(memory_format=torch.channels_last)
    if "compiled" in variant:
        training.module = torch.compile(training.module)
    return training._recorded() if CUDA else training.step


def steps_of(variant, make, together):
    """Return (a function that takes a step, the trainings that take it)."""
    if variant == "together":
        trainings = [make(seed) for seed in range(1, together + 1)]
        steps = [recorded(training) for training in trainings]
        streams = [torch.cuda.Stream() if CUDA else None for _ in steps]

        def step():
            for each, stream in zip(steps, streams, strict=True):
                with torch.cuda.stream(stream):
                    each()

        return step, trainings
    training = make(1, **({"precision": "float32"} if variant == "float32" else {}))
    made = {"plain": plain, "eager": lambda each: each.step}.get(variant, lambda each: recorded(each, variant))
    return made(training), [training]


def wait():
    if CUDA:
        torch.cuda.synchronize()


def rate(step, trainings, count):
    """Images a second, the best of three measurements."""
    best = 0.0
    for _ in range(4):  # the first one warms up
        for training in trainings:
            training.number.zero_()
        wait()
        started = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        best = max(best, count * len(trainings) * trainings[0].arch.batch / (time.perf_counter() - started))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--H", type=int, default=128, help="pixels of an image in each direction")
    parser.add_argument("--batch", type=int, default=None, help="images of a step (default: those of the network)")
    parser.add_argument("--together", type=int, default=3, help="trainings that share the GPU in the last column")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of a measurement")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    given = parser.parse_args()
    scan = problem("fanbeam")(H=given.H, V=given.H * 15 // 32, B=given.H, rays="analytic", photons=1e4)
    print(f"{torch.cuda.get_device_name() if CUDA else 'CPU'}, torch {torch.__version__}, images a second (over graph)")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/pool.npy"
        pools.make(scan, 1, Sizes(train=64, val=8, test=8), path)
        for name in given.networks:
            rates = {}
            for variant in given.variants:
                options = {} if given.batch is None else {"batch": given.batch}
                make = partial(trainer, scan, path, name, **options)
                try:
                    rates[variant] = rate(*steps_of(variant, make, given.together), given.steps)
                except RuntimeError as error:  # what a compiler or a recording refuses is a result, too
                    print(f"{name:10} {variant:24} {str(error).splitlines()[0][:80]}", flush=True)
                    continue
                over = rates[variant] / rates["graph"] if "graph" in rates else float("nan")
                print(f"{name:10} {variant:24} {rates[variant]:10.1f} {over:8.2f}", flush=True)


if __name__ == "__main__":
    main()
