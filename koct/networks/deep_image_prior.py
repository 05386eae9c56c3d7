"""Deep image prior with total variation: an untrained U-Net, fitted to one scan at a time; no sample is needed.

Baguer, Leuschner and Schmidt, Computed tomography reconstruction using deep image prior and learned reconstruction
methods, 2020. The noise of the problem says when to stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from koct.contracts import Cost, Network, Problem, Training, Workload, option
from koct.networks.baselines import BaselineArchitecture, Solver
from koct.networks.module import check_explained

BLOCK = 16  # scans whose networks a GPU fits together
FEW = 5  # conjugate gradients of least squares, after which images are as large as the true ones to a third


class DeepImagePrior(BaselineArchitecture):
    label = "deep image prior"
    colour = "#6d4c41"
    marker = "4"
    needs_torch = True

    steps: int = option("most steps of Adam per image", default=2000, minimum=1)
    lr: float = option("learning rate", default=2e-3, above=0)
    # of 3 to 150 the best on ellipses of both kinds and the fan beam with 10⁴ photons, H = 64
    tv: float = option(
        "weight of the total variation (mean length of the gradient), for images with a peak of about one and the "
        "residual in units of the noise",
        default=20.0,
        minimum=0,
    )
    channels: int = option("channels of the finest level, doubled at each coarser one", default=32, minimum=1)
    levels: int = option("levels, each half as fine as the one before", default=4, minimum=1, maximum=8)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from check_explained(problem)
        if self.validation == "labels":
            yield "validation = 'labels' chooses nothing here: the noise says when to stop; remove it"

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        for lam, network in super().fit(data):
            network.tuned_on = "noise"
            yield lam, network

    def solver(self, data: Training) -> Solver:
        return lambda x, _: self.reconstruct(data, x)

    def reconstruct(self, data: Training, x: Any) -> Any:
        """Return flat images (n, size), each from the same first weights."""
        import torch

        from koct.networks.torch_layers import UNet
        from koct.networks.unpaired_layers import Weighed, image_prior

        device, A = torch.device(data.device.name), data.forward
        cuda = device.type == "cuda"
        count, block = len(x), BLOCK if cuda else 1
        rows = [*range(count), *[count - 1] * (-count % block)]  # a block is full, or its bits would depend on that
        scans, noise = (
            torch.as_tensor(part, dtype=torch.float32, device=device)[rows]
            for part in (x, data.problem.noise_variance(x) + 0 * x)
        )
        exact = partial(torch.backends.cudnn.flags, enabled=True, benchmark=False, deterministic=True, allow_tf32=True)
        images = []
        for part, variance in zip(scans.split(block), noise.split(block), strict=True):
            start = torch.zeros(len(part), A.shape[1], device=device)
            peak = Weighed.of(A, part, variance).nearest(start, 0.0, FEW).abs().amax(1, keepdim=True)
            scale = torch.where(peak > 0, peak, 1)
            with torch.random.fork_rng(devices=["cuda"] if cuda else []), exact():
                torch.manual_seed(1)
                network = UNet(self.channels, self.levels).to(device)
                torch.nn.init.normal_(network.last.weight, std=0.1)
                term = Weighed.of(A, part / scale, variance / scale**2)
                images.append(scale * image_prior(term, data.y_shape, network, self.lr, self.tv, self.steps))
        found = torch.cat(images)[:count]
        return found.clip(min=0) if data.nonnegative_images else found

    def cost(self, work: Workload) -> Cost:
        each = 9.0 * work.y_size * self.channels**2 * (5.5 * self.levels - 4)
        return Cost(work.sizes.test * self.steps * (3 * each + 6 * work.layers.operations), 0, 0.1 * each)
