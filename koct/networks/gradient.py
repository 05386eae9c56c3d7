"""Learning the weights of the operator-aware network by gradient descent, on NumPy arrays or CUDA tensors."""

import time
from functools import partial

import numpy as np

from koct.arrays import copy, is_torch, like, zeros_like
from koct.errors import KoctError
from koct.streams import TorchStream

REPORTS = 10  # lines of progress


class SGD:
    """w ← w − lr·g."""

    def __init__(self, w, lr):
        self.lr = lr

    def step(self, w, g):
        w -= self.lr * g


class Adagrad:
    """Steps over the root of the sum of all squared gradients so far."""

    def __init__(self, w, lr, eps=1e-10):
        self.lr, self.eps, self.squares = lr, eps, zeros_like(w)

    def step(self, w, g):
        self.squares += g * g
        w -= self.lr * (g / (self.squares**0.5 + self.eps))


class Adam:
    """Steps along the running mean of the gradient over the root of that of its square, both unbiased."""

    def __init__(self, w, lr, betas=(0.9, 0.999), eps=1e-8):
        self.lr, self.betas, self.eps = lr, betas, eps
        self.mean, self.square = zeros_like(w), zeros_like(w)
        # β₁ᵗ and β₂ᵗ, kept beside the weights so that a CUDA graph can replay the step
        self.powers = [zeros_like(w[:1]) + 1, zeros_like(w[:1]) + 1]

    def step(self, w, g):
        for beta, power, running, new in zip(
            self.betas, self.powers, (self.mean, self.square), (g, g * g), strict=True
        ):
            power *= beta
            running *= beta
            running += (1 - beta) * new
        mean, square = (
            running / (1 - power) for running, power in zip((self.mean, self.square), self.powers, strict=True)
        )
        w -= self.lr * (mean / (square**0.5 + self.eps))


SOLVERS = {"sgd": SGD, "adagrad": Adagrad, "adam": Adam}


def batches(seed, N, batch, iterations):
    """Which samples each iteration sees (iterations, min(batch, N)): the stated random stream of the study."""
    stream = TorchStream(1 + 1000 * seed)
    size = min(batch, N)
    return np.array([stream.randint(0, N) for _ in range(iterations * size)]).reshape(iterations, size)


def loss_and_gradient(known, w, x, y):
    """Mean squared error of a batch, and its gradient with respect to w."""
    image = known.reconstruct(known.weighted(w, x))
    residual = image - y
    loss = (residual * residual).mean()
    if known.nonnegative:
        residual = residual * (image > 0)
    return loss, known.per_weight(x * known.adjoint(residual)).sum(0) * (2 / (y.shape[0] * y.shape[1]))


def train(known, x, y, chosen, solver, lr, loss_and_gradient=loss_and_gradient):
    """Weights after one step for every row of `chosen`, from the weights that theory gives.

    Ends with an error as soon as a loss is not finite. Prints the mean loss since the last line, and the time left.
    Other parameters than weights can be learned with a `loss_and_gradient` of their own.
    """
    w = copy(like(known.analytic, x))
    optimiser = SOLVERS[solver](w, lr)
    report = max(1, len(chosen) // REPORTS)
    run = _run_on_cuda if is_torch(x) else _run_on_cpu
    started = time.perf_counter()
    for done, losses in run(partial(loss_and_gradient, known, w), w, x, y, chosen, optimiser, report):
        if not np.isfinite(losses).all():
            bad = done - len(losses) + int(np.argmin(np.isfinite(losses))) + 1
            raise KoctError(f"the fit diverged: the loss of iteration {bad} is not finite; lower lr = {lr:g}")
        left = (time.perf_counter() - started) * (len(chosen) / done - 1)
        print(f"iteration {done} of {len(chosen)}: loss {losses.mean():.6g}, {left:.1f} s left", flush=True)
    return w


def _run_on_cpu(of_batch, w, x, y, chosen, optimiser, report):
    losses = []
    for done, rows in enumerate(chosen, 1):
        loss, g = of_batch(x[rows], y[rows])
        optimiser.step(w, g)
        losses.append(loss)
        if done % report == 0 or done == len(chosen):
            yield done, np.array(losses)
            losses = []


def _run_on_cuda(of_batch, w, x, y, chosen, optimiser, report):
    """Record a few iterations as a CUDA graph and replay it: launching kernels one by one would take most of the time.

    Which samples an iteration sees, and where its loss goes, is looked up by a counter that lives on the GPU.
    """
    import torch

    rows = torch.as_tensor(chosen, device=w.device)
    losses = w.new_empty(len(chosen))
    counter = torch.zeros(1, dtype=torch.int64, device=w.device)
    ones = torch.ones(1, dtype=torch.int64, device=w.device)

    def iterate():
        batch = rows.index_select(0, counter)[0]
        loss, g = of_batch(x.index_select(0, batch), y.index_select(0, batch))
        optimiser.step(w, g)
        losses.index_copy_(0, counter, loss.reshape(1))
        counter.add_(ones)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    done, length = 0, 1
    with torch.no_grad(), torch.cuda.stream(stream):
        warm = min(3, len(chosen))  # kernels are compiled here, which cannot be recorded
        for _ in range(warm):
            iterate()
        done = warm
        length = max(1, min(50, len(chosen) - done))
        graph = torch.cuda.CUDAGraph()
        if done < len(chosen):
            before = counter.clone()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(length):
                    iterate()
            assert torch.equal(before, counter)  # recording runs nothing
        reported = 0
        while done < len(chosen):
            if len(chosen) - done >= length:
                graph.replay()
                done += length
            else:
                iterate()
                done += 1
            if done - reported >= report or done == len(chosen):
                yield done, losses[reported:done].cpu().numpy()
                reported = done
        if reported < done:
            yield done, losses[reported:done].cpu().numpy()
    torch.cuda.current_stream().wait_stream(stream)
