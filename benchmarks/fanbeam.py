"""How fast is the training of the operator-aware network? Times koct and a plain implementation in one run.

    .venv/bin/python benchmarks/fanbeam.py            # on the GPU if there is one
    KOCT_DEVICE=cpu .venv/bin/python benchmarks/fanbeam.py

The plain one is what one would write in torch: for every view a grid of places on the detector, `grid_sample`, and
automatic differentiation. Both run on one CPU thread or on one GPU. Start-up (imports, compiling) is not counted.
"""

import contextlib
import math
import os
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F

from koct.device import choose
from koct.networks import gradient
from koct.networks.known import Known
from koct.problems.fanbeam import FanBeamProblem

SIZES = {128: (60, 4), 256: (90, 1), 512: (180, 1)}  # H: views, batch
PAIRS = 64


def plain(H, V, B, device):
    """A function from weights and sinograms to images, view by view."""
    SI, SD = 1000.0, 1500.0
    r = 0.5 * B * SI / SD
    y, x = torch.meshgrid(*[torch.linspace(-r, r, H, device=device)] * 2, indexing="ij")
    ramp = torch.fft.fftfreq(B, device=device).abs()

    def network(w, sinograms):
        filtered = torch.fft.ifft(torch.fft.fft(w * sinograms) * ramp).real
        image = 0
        for v, beta in enumerate(torch.linspace(0, math.pi, V).tolist()):
            c, s = math.cos(beta), math.sin(beta)
            U = SI + x * s - y * c
            place = SD * (x * c + y * s) / U / ((B - 1) / 2)
            grid = torch.stack([place, torch.zeros_like(place)], -1).expand(len(sinograms), -1, -1, -1)
            view = F.grid_sample(filtered[:, None, v : v + 1], grid, align_corners=True)[:, 0]
            image = image + view * (SI / U) ** 2 * (math.pi / V)
        return F.relu(image)

    return network


def seconds_per_iteration_plain(network, x, y, w, batch, repeats):
    w = torch.as_tensor(w, device=x.device).clone().requires_grad_()
    optimiser = torch.optim.Adagrad([w], lr=2e-2)
    times = []
    for k in range(repeats + 2):
        started = clock(x.device)
        rows = torch.arange(k, k + batch, device=x.device) % len(x)
        optimiser.zero_grad()
        ((network(w, x[rows]) - y[rows]) ** 2).mean().backward()
        optimiser.step()
        times.append(clock(x.device) - started)
    return statistics.median(times[2:])


def clock(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def copy_bandwidth():
    """Bytes per second, read and written, of a large copy on the GPU."""
    source = torch.rand(2**30, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(10):
        started = clock(source.device)
        target.copy_(source)
        times.append(clock(source.device) - started)
    return 2 * 4 * len(source) / statistics.median(times)


def main():
    torch.set_num_threads(1)
    where = choose()
    cuda = where.name == "cuda"
    bandwidth = copy_bandwidth() if cuda else None
    if cuda:
        print(f"copy on the GPU: {bandwidth / 1e12:.2f} TB/s read and written")
    rng = np.random.default_rng(0)
    for H, (V, batch) in SIZES.items():
        if H > 256 and not cuda:
            continue
        B, iterations = H, 5000 if cuda else 200
        x = rng.random((PAIRS, V * B), dtype=np.float32)
        y = rng.random((PAIRS, H * H), dtype=np.float32)
        known = Known(FanBeamProblem(H=H, V=V, B=B, rays="printed").layers({}), nonnegative=True)
        chosen = gradient.batches(1, PAIRS, batch, iterations)
        pairs = where.put(x), where.put(y)
        times = []
        for rows in (chosen[:60], chosen, chosen, chosen):  # the first compiles
            with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
                started = time.perf_counter()
                gradient.train(known, *pairs, rows, "adagrad", 2e-2)
                times.append((time.perf_counter() - started) / len(rows))
        ours = statistics.median(times[1:])
        tensors = [torch.as_tensor(array).reshape(PAIRS, *shape) for array, shape in ((x, (V, B)), (y, (H, H)))]
        tensors = [tensor.to("cuda" if cuda else "cpu") for tensor in tensors]
        network = plain(H, V, B, tensors[0].device)
        theirs = seconds_per_iteration_plain(network, *tensors, np.ones((V, B), np.float32), batch, 20 if cuda else 5)
        print(f"H = {H}, batch {batch}: {1 / ours:,.0f} iterations per second, plain {1 / theirs:,.1f}: ", end="")
        print(f"{theirs / ours:.0f} times faster; 5,000 iterations take {5000 * ours:.2f} s", flush=True)
        if cuda:
            once = 4 * (batch * (V * B + H * H) + 4 * V * B)  # a batch, and weights and squares read and written
            matrix = 2 * 8 * 2 * V * H * H  # the two taps of every pixel and view, there and back, value and index
            print(f"  must move {once / 1e6:.2f} MB: {1e6 * once / bandwidth:.1f} µs of {1e6 * ours:.0f} µs", end="; ")
            print(f"a stored matrix {matrix / 1e6:.0f} MB: {1e6 * matrix / bandwidth:.0f} µs,", end=" ")
            print(f"{matrix / bandwidth / ours:.2f} times what koct takes")
            print(f"  {2 * batch * V * H * H / ours / 1e9:.0f} billion interpolations per second")


if __name__ == "__main__":
    main()
