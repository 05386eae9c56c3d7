"""Learning the weights of the operator-aware network by gradient descent, on NumPy arrays or CUDA tensors."""

import time
from functools import partial

import numpy as np

from koct.base.arrays import copy, is_torch, like, zeros_like
from koct.base.streams import TorchStream
from koct.errors import KoctError

REPORTS = 10  # lines of progress
RECORDED = 50  # steps of a CUDA graph


SOLVERS = ("sgd", "adagrad", "adam")


class Optimiser:
    """Steps w ← w − lr·g of a solver.

    `adagrad` divides g by the root of the sum of all squared gradients so far; `adam` takes its running mean in place
    of it, over the root of that of its square, both unbiased.
    """

    def __init__(self, solver, w, lr):
        self.solver, self.lr = solver, lr
        self.eps = {"sgd": 0.0, "adagrad": 1e-10, "adam": 1e-8}[solver]
        self.betas = (0.9, 0.999) if solver == "adam" else (0.0, 0.0)
        moments = {"sgd": 0, "adagrad": 1, "adam": 2}[solver]
        self.kept = [zeros_like(w) for _ in range(moments)]
        # β₁ᵗ and β₂ᵗ, kept beside the weights so that a CUDA graph can replay the step
        self.powers = [zeros_like(w[:1]) + 1 for _ in self.betas]

    def step(self, w, g):
        if self.solver == "adagrad":
            (squares,) = self.kept
            squares += g * g
            g = g / (squares**0.5 + self.eps)
        if self.solver == "adam":
            for beta, power, running, new in zip(self.betas, self.powers, self.kept, (g, g * g), strict=True):
                power *= beta
                running *= beta
                running += (1 - beta) * new
            mean, square = (running / (1 - power) for running, power in zip(self.kept, self.powers, strict=True))
            g = mean / (square**0.5 + self.eps)
        w -= self.lr * g


def batches(seed, N, batch, iterations):
    """Which samples each iteration sees (iterations, min(batch, N)): the stated random stream of the study."""
    stream = TorchStream(1 + 1000 * seed)
    size = min(batch, N)
    return np.array([stream.randint(0, N) for _ in range(iterations * size)]).reshape(iterations, size)


def train(known, x, y, chosen, solver, lr):
    """What is learned by one step for every row of `chosen`, from `known.analytic`, along `known.loss_and_gradient`.

    Ends with an error as soon as a loss is not finite. Prints the mean loss since the last line, and the time left.
    """
    w = copy(like(known.analytic, x))
    optimiser = Optimiser(solver, w, lr)
    report = max(1, len(chosen) // REPORTS)
    of_batch = partial(known.loss_and_gradient, w)
    if is_torch(x):  # steps in four kernels where there are such, and otherwise in the thirty or so of torch
        steps = _TorchSteps(w, x, y, chosen, optimiser, of_batch)
        if hasattr(known, "R"):
            from koct.networks import steps_cuda

            if steps_cuda.possible(known, x):
                steps = steps_cuda.Steps(known, w, x, y, chosen, optimiser)
        runs = _run_on_cuda(steps, len(chosen), report)
    else:
        runs = _run_on_cpu(of_batch, w, x, y, chosen, optimiser, report)
    started = time.perf_counter()
    for done, losses in runs:
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


class _TorchSteps:
    """Steps on the GPU, one torch function after the other; `steps_cuda.Steps` has the same methods."""

    def __init__(self, w, x, y, chosen, optimiser, of_batch):
        import torch

        self.w, self.x, self.y, self.optimiser, self.of_batch = w, x, y, optimiser, of_batch
        self.chosen = torch.as_tensor(chosen, device=w.device)
        self.counter = torch.zeros(1, dtype=torch.int64, device=w.device)

    def parts_of_losses(self, steps):
        return self.w.new_empty(steps, 1)

    def run(self, step, losses):
        rows = self.chosen.index_select(0, self.counter + step)[0]
        loss, g = self.of_batch(self.x.index_select(0, rows), self.y.index_select(0, rows))
        self.optimiser.step(self.w, g)
        losses[step] = loss


def _run_on_cuda(steps, total, report):
    """Record steps as a CUDA graph and replay it: launching kernels one by one would take most of the time.

    Which samples a step sees is looked up by a counter that lives on the GPU.
    """
    import torch

    w, counter = steps.w, steps.counter
    losses = w.new_empty(total)
    parts = steps.parts_of_losses(min(RECORDED, total))
    numbers = torch.arange(RECORDED, device=w.device)

    def iterate(count):
        for step in range(count):
            steps.run(step, parts)
        losses.index_copy_(0, counter + numbers[:count], parts[:count].sum(1))
        counter.add_(count)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        done = total % RECORDED or min(RECORDED, total)  # without a graph: kernels are compiled here
        iterate(done)
        graph = torch.cuda.CUDAGraph()
        if done < total:
            before = counter.clone()
            with torch.cuda.graph(graph, stream=stream):
                iterate(RECORDED)
            assert torch.equal(before, counter)  # recording runs nothing
        reported = 0
        while True:
            if done - reported >= report or done == total:
                yield done, losses[reported:done].cpu().numpy()
                reported = done
            if done == total:
                break
            graph.replay()
            done += RECORDED
    torch.cuda.current_stream().wait_stream(stream)
