"""Deep image prior with total variation: an untrained U-Net, fitted to one scan at a time; no sample is needed.

The objective is that of total variation with the λ that the noise chooses for it, over what a network can give (Baguer,
Leuschner and Schmidt, Computed tomography reconstruction using deep image prior and learned reconstruction methods,
2020). The network sees a known reconstruction instead of noise (Barbano et al., An educated warm start for deep image
prior-based micro CT reconstruction, 2022): edges that are there need not be found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from koct.contracts import Cost, Problem, Training, Workload, option
from koct.networks.baselines import IterativeArchitecture, Scans, Solver
from koct.networks.tv import STEPS, TV

BLOCK = 16  # scans whose networks a GPU fits together


class DeepImagePrior(IterativeArchitecture):
    label = "deep image prior"
    colour = "#6d4c41"
    marker = "4"
    needs_torch = True
    numbers = 2

    steps: int = option("steps of Adam per image", default=1000, minimum=1)
    lr: float = option("learning rate at the start; it falls to zero", default=3e-3, above=0)
    channels: int = option("channels of the finest level, doubled at each coarser one", default=32, minimum=1)
    levels: int = option("levels, each half as fine as the one before", default=4, minimum=1, maximum=8)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        if len(problem.y_shape) > 2:
            yield f"the problem {problem.name} has images of {len(problem.y_shape)} axes; take one with one or two"
        if self.validation == "labels":
            yield "validation = 'labels' would fit a network to every validation scan for every λ; remove it"

    def chosen(self, data: Training, solver: Any, scans: Scans) -> tuple[float | None, bool]:
        tv = TV(noise=self.noise)
        return tv.chosen(data, tv.solver(data), scans)

    def strengths(self, data: Training, solver: Any) -> Sequence[float | None]:
        return ()  # refused by `check`

    def solver(self, data: Training) -> Solver:
        return lambda x, lam: self.reconstruct(data, x, lam)

    def reconstruct(self, data: Training, x: Any, lam: float) -> Any:
        """Return flat images (n, size), each from the same first weights."""
        import torch

        from koct.networks.torch_layers import UNet
        from koct.networks.unpaired_layers import image_prior
        from koct.networks.variational import EarlyStopping

        device = torch.device(data.device.name)
        cuda = device.type == "cuda"
        count, block = len(x), BLOCK if cuda else 1
        rows = [*range(count), *[count - 1] * (-count % block)]  # a block is full, or its bits would depend on that
        scans = torch.as_tensor(x, dtype=torch.float32, device=device)[rows]
        nearly = EarlyStopping(data.forward, data.nonnegative_images)
        exact = partial(torch.backends.cudnn.flags, enabled=True, benchmark=False, deterministic=True, allow_tf32=True)
        images = []
        for scan in scans.split(block):
            with torch.random.fork_rng(devices=["cuda"] if cuda else []), exact():
                torch.manual_seed(1)
                network = UNet(self.channels, self.levels).to(device)
                prior = image_prior(
                    data.forward, scan, nearly(scan, STEPS), data.y_shape, network, lam, self.lr, self.steps
                )
                images.append(prior)
        found = torch.cat(images)[:count]
        return found.clip(min=0) if data.nonnegative_images else found

    def cost(self, work: Workload) -> Cost:
        each = 9.0 * work.y_size * self.channels**2 * (5.5 * self.levels - 4)
        chosen, fitted = TV().cost(work), work.sizes.test * self.steps * (3 * each + 6 * work.layers.operations)
        return chosen._replace(operations=chosen.operations + fitted, gpu_bytes=chosen.gpu_bytes + 0.1 * each)
