"""The training of a torch module: batches, schedule, averaged weights, evaluations, checkpoints, and a CUDA graph.

A step reads everything that changes from tensors (its number, its rows, its learning rate), so that a GPU can repeat
it as a recorded graph: the host launches one thing per step instead of hundreds.

With the schedule `warmup-stable-decay` one run tells what trainings of T, 2T, 4T, ... steps give. The learning rate is
constant; for each length the last fifth of its steps is taken on a branch, along which the rate falls to zero, and the
constant rate goes on from where the branch began (Hu et al., 2024; Hägele et al., 2024).
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import math
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn

from koct import metrics
from koct.base.arrays import to_numpy
from koct.base.files import atomic_write
from koct.base.locks import open_lock
from koct.contracts import LEARNS_FROM, Array, Network, Training
from koct.contracts.blame import line_of
from koct.errors import KoctError
from koct.networks.module import Layers
from koct.networks.torch_layers import compile_blocks

if TYPE_CHECKING:
    from koct.networks.module import ModuleArchitecture

SAVED = 20.0  # seconds between checkpoints
SAID = 5.0  # seconds between lines of progress
TOGETHER = 32  # images that pass through a module at once where nothing is learned
WAITED = 20  # steps that a GPU may lag behind
WARM = 3  # steps before a graph is recorded: libraries allocate what they need
SPLIT = 5  # of so many training pairs one judges the weights, if training pairs do
LEAST_PEAK = 0.1  # of an image, as a share of the largest: an empty image would count for all others
DECAY = 5  # one of so many steps of a length is taken while the rate falls
WARM_UP = 10  # one of so many steps of the first length is taken while the rate rises
DRAWN = 32  # steps whose fresh pairs are drawn together
AVERAGED = 10  # of the first length, one over the share of the steps over which the training loss is averaged
JUMP = 0.5  # of the training loss, by how much a longer training must not exceed one of half its length


@contextlib.contextmanager
def alone(device: torch.device) -> Iterator[None]:
    """Keep one's other trainings off a GPU, if files can lock: by turns, twelve took longer than one after the other.

    With NVIDIA's Multi-Process Service (MPS) they run side by side instead of by turns, and nobody waits.
    """
    service = os.path.join(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control")
    with contextlib.ExitStack() as opened:
        if device.type == "cuda" and not os.path.exists(service):
            name = f"koct-{os.getuid()}-{torch.cuda.get_device_properties(device).uuid}.lock"
            with contextlib.suppress(OSError):
                file = opened.enter_context(open_lock(os.path.join(tempfile.gettempdir(), name)))
                if os.fstat(file.fileno()).st_uid != os.getuid():
                    raise PermissionError  # another user's, who might never let go of it
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    print("waiting for the GPU, which another training has", flush=True)
                    fcntl.flock(file, fcntl.LOCK_EX)
        yield


def rates(schedule: str, lr: float, steps: int) -> np.ndarray:
    """Return the learning rate of every step."""
    done = (np.arange(steps) + 0.5) / steps
    if schedule == "constant":
        return np.full(steps, lr)
    rise = 0.3 if schedule == "one-cycle" else 0.0
    falling = (1 + np.cos(np.pi * (done - rise) / (1 - rise))) / 2
    return lr * np.where(done < rise, (1 - np.cos(np.pi * done / 0.3)) / 2, falling)


class Plan(NamedTuple):
    """The steps of a run. A branch repeats steps that the constant rate takes as well, behind it."""

    step: np.ndarray  # which step of a training each one is: that chooses its pairs
    rate: np.ndarray
    branches: Mapping[int, int]  # where each branch begins and ends
    lengths: tuple[int, ...]  # of the trainings whose ends they are


def plan(arch: ModuleArchitecture) -> Plan:
    """Return the steps that an architecture's schedule asks for, all of them."""
    if arch.schedule != "warmup-stable-decay":
        return Plan(np.arange(arch.steps), rates(arch.schedule, arch.lr, arch.steps), {}, ())
    lengths, steps, rising, branches = arch.lengths(), [np.zeros(0, int)], max(1, arch.first // WARM_UP), {}
    shares, last = [np.zeros(0)], 0
    for length in lengths:
        decay = math.ceil(length / DECAY)
        constant, falling = np.arange(last, length - decay), np.arange(length - decay, length)
        last = length - decay
        steps += [constant, falling]
        shares += [np.minimum((constant + 1) / rising, 1), 1 - np.sqrt((np.arange(decay) + 0.5) / decay)]
        end = sum(map(len, steps))
        branches[end - decay] = end
    return Plan(np.concatenate(steps), arch.lr * np.concatenate(shares), branches, lengths)


def batches(seed: int, N: int, batch: int, steps: int, stream: int = 2) -> np.ndarray:
    """Return the rows (steps, batch) of every step: each passage through all N samples has an order of its own."""
    rng, batch = np.random.default_rng([seed, stream]), min(batch, N)
    passages = math.ceil(steps * batch / N)
    return np.concatenate([rng.permutation(N) for _ in range(passages)])[: steps * batch].reshape(steps, batch)


KEPT = ("best", "best_state", "worse", "losses", "levels", "before")  # of a trainer, in a checkpoint


class ModuleNetwork(Network):
    """A module with what goes before it and behind it; `scale` is what one stands for."""

    def __init__(self, arch: ModuleArchitecture, data: Training) -> None:
        self.arch, self.layers = arch, Layers.of(data, arch.learns_from == "pairs")
        self.x_shape, self.y_shape, self.nonnegative = data.x_shape, data.y_shape, data.nonnegative
        self.reconstructs, self.device = arch.takes == "reconstruction", torch.device(data.device.name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * data.seed + 7)
            module = arch.module(data.problem, self.layers)
        if not isinstance(module, nn.Module):
            where = line_of(arch, "module")
            raise KoctError(f"{where}: module returned {type(module).__name__}; return a torch.nn.Module")
        self.module, self.scale = module.to(self.device, torch.float32), 1.0

    def start(self, x: Array) -> torch.Tensor:
        """What the module is called on, (n, 1, *shape), from flat measurements; operators get them as they are."""
        x = x.reshape(-1, *self.x_shape)
        if not self.reconstructs:
            return self.tensor(x)[:, None] / self.scale
        known, parts = self.arch.reconstructions(self.layers), range(0, len(x), TOGETHER)
        channels = [torch.cat([self.tensor(each(x[part : part + TOGETHER])) for part in parts]) for each in known]
        return torch.stack(channels, 1) / self.scale

    def tensor(self, array: Array) -> torch.Tensor:
        return torch.as_tensor(array, dtype=torch.float32, device=self.device)

    def images(self, start: torch.Tensor) -> torch.Tensor:
        """Flat images of what `start` gave."""
        self.module.eval()
        with torch.no_grad():
            out = torch.cat([self.module(part).float() for part in start.split(TOGETHER)]) * self.scale
        out = out.reshape(len(start), -1)
        return out.clip(min=0) if self.nonnegative else out

    def predict(self, x: Array) -> Array:
        return self.arch.reconstruct(self, x)

    def state(self) -> Mapping[str, Array]:
        scale = torch.tensor([self.scale], dtype=torch.float64)
        return {"scale": scale, **{f"module.{name}": value for name, value in self.module.state_dict().items()}}

    @property
    def parameters(self) -> int:
        return sum(value.numel() for value in self.module.parameters())


def restored(arch: ModuleArchitecture, state: Mapping[str, Any], data: Training) -> ModuleNetwork:
    """Return the network that gave this `state`."""
    network = ModuleNetwork(arch, data)
    network.scale = float(np.array(state["scale"])[0])
    own = {name.removeprefix("module."): torch.as_tensor(np.array(state[name])) for name in state if name != "scale"}
    try:
        network.module.load_state_dict(own)
    except RuntimeError:
        raise KoctError(f"the weights to start from do not fit {arch.name}; give it the same options there") from None
    return network


class Trainer:
    """Trains `network`; `kept`, which is evaluated and returned, has the average of its weights, or is the same."""

    def __init__(self, arch: ModuleArchitecture, data: Training) -> None:
        self.arch, self.data = arch, data
        self.network = ModuleNetwork(arch, data) if data.start is None else restored(arch, data.start, data)
        self.kept = copy.copy(self.network)
        device = self.device = self.network.device
        self.cuda = device.type == "cuda"
        self.plan = plan(arch)
        self.fresh = data.fresh_parts(DRAWN * arch.batch) if data.fresh else None
        judges: tuple[Array, Array] = None, None
        x: Array
        y: Array
        if self.fresh:
            judges, (x, y) = (self._on_device(*self.fresh.part(number)) for number in (0, 1))
        else:
            x, y = (getattr(data, name) if name in LEARNS_FROM[arch.learns_from] else None for name in ("x", "y"))
        # the size of images: where none are known, of what is known to come near them
        images = self.network.tensor(self.network.layers.reconstruction.flat(x) if y is None else y)
        if data.start is None:
            self.network.scale = self.kept.scale = float(images.abs().amax(1).double().mean()) or 1.0
        (self.x, self.y), self.weights = arch.samples(self.network, x, y), self._weights(images)
        self.scans = arch.samples(self.network, data.more_scans, None) if arch.more_scans else None
        self.losses_of = arch.scan_losses if arch.learns_from == "scans" else arch.losses
        # Samples that judge the weights: none, some of the training samples, or the validation pairs
        judging = max(1, data.N // SPLIT) if arch.validation == "split" and not data.fresh else 0
        self.count = data.N - judging  # training samples
        if judging:
            self.val_x, self.val_targets = self.x[self.count :], self.y[self.count :]
            self.val_y = None if y is None else to_numpy(y[self.count :])
        elif arch.validation != "none":
            if arch.validation == "labels":
                judges = self._on_device(data.read("x", "val"), data.read("y", "val"))
            self.val_y = judges[1]
            self.val_x, self.val_targets = arch.samples(self.kept, *judges)
        self.error = metrics.error_of(data.problem.validation_metric, data.problem.inside)
        self.module, self.averaged = self.network.module, bool(arch.averaging)
        compiled = self.cuda and arch.compiled
        if compiled:
            self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.averaged or compiled:
            try:
                self.kept.module = copy.deepcopy(self.module)
            except (RuntimeError, TypeError) as error:
                where = line_of(arch, "module")
                raise KoctError(f"{where}: the module cannot be copied ({error}); set averaging: 0") from None
        if compiled:
            compile_blocks(self.module)
        trained = {name: value for name, value in self.module.named_parameters() if value.requires_grad}
        if not trained:
            raise KoctError(f"{line_of(arch, 'module')}: the module has no parameters to train")
        self.trained: list[torch.Tensor] = list(trained.values())
        self.means: list[torch.Tensor] = [dict(self.kept.module.named_parameters())[name] for name in trained]
        kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[arch.optimiser]
        self.rate = torch.zeros((), device=device)
        how = {"lr": self.rate if self.cuda else arch.lr, "capturable": self.cuda, "fused": self.cuda}
        self.optimiser = kind(self.trained, weight_decay=arch.weight_decay, betas=(0.9, arch.beta2), **how)
        step = self.plan.step
        share = 1 - np.minimum(arch.averaging, (1 + step) / (10 + step))
        if self.fresh:
            rows = step[:, None] % DRAWN * arch.batch + np.arange(arch.batch)
        else:
            rows = batches(self.data.seed, self.count, arch.batch, int(step.max()) + 1)[step]
        self.rows = torch.as_tensor(rows, device=device)
        if self.scans is not None:
            rows = batches(self.data.seed, len(self.scans[0]), arch.batch, int(step.max()) + 1, stream=3)[step]
            self.scan_rows = torch.as_tensor(rows, device=device)
        self.rates = torch.as_tensor(self.plan.rate, dtype=torch.float32, device=device)
        self.shares = torch.as_tensor(share, dtype=torch.float32, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)  # of the step
        self.loss = torch.zeros((), device=device)
        self.level = torch.zeros((), device=device)  # the mean loss of the last steps

    def _on_device(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return samples with measurements, if they have some, where operators compute."""
        return None if x is None else self.data.device.put(x), y

    def _weights(self, images: torch.Tensor) -> torch.Tensor:
        """Return the weight of every image (n, size) in the loss: one over its squared peak, or one."""
        if self.arch.loss == "squared":
            return torch.ones(len(images), device=images.device)
        peaks, scale = images.abs().amax(1), self.network.scale
        return (peaks / scale).clip(min=LEAST_PEAK * float(peaks.max()) / scale or 1.0) ** -2

    def step(self) -> None:
        """Take one step; nothing here may depend on a value that the host would have to wait for."""
        self.optimiser.zero_grad()
        rows = self.rows.index_select(0, self.number)[0]
        half = self.cuda and self.arch.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            losses = self.losses_of(self.module, self.x.index_select(0, rows), self.y.index_select(0, rows))
            loss = (losses * self.weights.index_select(0, rows)).mean()
            if self.scans is not None:
                rows = self.scan_rows.index_select(0, self.number)[0]
                scans = (part.index_select(0, rows) for part in self.scans)
                loss = loss + self.arch.scan_losses(self.module, *scans).mean()
        loss.backward()
        if self.arch.clip is not None:
            nn.utils.clip_grad_norm_(self.trained, self.arch.clip)
        rate = self.rates.index_select(0, self.number)[0]
        if self.cuda:
            self.rate.copy_(rate)
        else:
            self.optimiser.param_groups[0]["lr"] = float(rate)
        self.optimiser.step()
        if self.averaged:
            with torch.no_grad():  # in three kernels instead of one for each tensor
                moves = torch._foreach_sub(self.trained, self.means)
                torch._foreach_mul_(moves, self.shares.index_select(0, self.number)[0])
                torch._foreach_add_(self.means, moves)
        self.loss.copy_(loss.detach())
        self.level.lerp_(self.loss, min(1.0, AVERAGED / self.arch.first))
        self.number += 1

    def run(self) -> ModuleNetwork:
        """Return the network with its last weights or, if they are judged, with the best of all evaluations."""
        flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=True)
        with contextlib.ExitStack() as opened:
            opened.enter_context(torch.random.fork_rng(devices=["cuda"] if self.cuda else []))
            if self.cuda:
                opened.enter_context(flags)
            if self.fresh:
                opened.callback(self.fresh.close)
            self._train()
        return self._finish()

    def _train(self) -> None:
        arch, steps = self.arch, len(self.plan.step)
        torch.manual_seed(1000 * self.data.seed + 8)
        self.module.train()
        self._check_output()
        take = self._recorded() if self.cuda else self.step
        self.best, self.best_state, self.worse, self.seconds = math.inf, self._copy(self.kept), 0, 0.0
        self.losses: list[float] = []  # of trainings of each length
        self.levels: list[float] = []  # of their training loss
        self.before: tuple[list[torch.Tensor], torch.Tensor] | None = None  # what a branch began with
        self.part = 0  # of the fresh pairs
        done = self.first = self._resume()
        if not done and self.data.start is not None and arch.validation != "none":  # it may be the best
            self._evaluate()
            self.losses.clear()
        self.began, self.said, self.saved = time.perf_counter(), 0.0, time.perf_counter()
        count = arch.evaluations if arch.validation != "none" and not self.plan.lengths else 0
        evaluated = {math.ceil(steps * (k + 1) / count) for k in range(count)}
        ends = dict(zip(self.plan.branches.values(), self.plan.lengths, strict=True))
        while done < steps and not self.ended:
            if done in self.plan.branches:
                self.before = [value.clone() for value in self._tensors()], self._random.get_rng_state()
            if self.fresh:
                self._draw(int(self.plan.step[done]) // DRAWN)
            take()
            done += 1
            if self.cuda and done % WAITED == 0:
                torch.cuda.synchronize()
            if done in evaluated:
                self._evaluate()
            if done in ends:
                self._end_branch(ends[done], done)
            self._say(done)
            self._save()

    @property
    def ended(self) -> bool:
        """Whether more steps would not help, as far as the schedule knows."""
        if self.arch.patience and self.worse >= self.arch.patience:
            return True
        return self.gain is not None and self.gain < self.arch.gain and not self.jumped

    @property
    def jumped(self) -> bool:
        """Whether the last doubling ended above the training loss before it: it was lost on the way, not learned."""
        before, last = self.levels[-2:]
        return last > before + JUMP * abs(before)

    @property
    def gain(self) -> float | None:
        """The share of the validation loss that the last doubling of the length has taken away."""
        if len(self.losses) < 2:
            return None
        before, last = self.losses[-2:]  # a risk that is estimated may be negative
        return (before - last) / (abs(before) or 1.0)

    def _finish(self) -> ModuleNetwork:
        """Return the trained network."""
        arch, kept, judged = self.arch, self.kept, self.arch.validation != "none"
        if judged:
            kept.module.load_state_dict(self.best_state)
            kept.tuned_on = "validation pairs" if arch.validation == "labels" else f"training {arch.learns_from}"
        else:
            self._update_kept()
        if not (math.isfinite(self.best) if judged else math.isfinite(float(self.loss))):
            raise KoctError(f"the training of {arch.name} gave no finite error; lower lr = {arch.lr:g}")
        kept.steps = int(self.plan.step[int(self.number) - 1]) + 1
        if self.plan.lengths:
            kept.losses, kept.gain, kept.edge = tuple(self.losses), self.gain, not self.ended
        kept.pairs = kept.steps * arch.batch if self.fresh else None
        kept.fit_seconds = self.seconds + time.perf_counter() - self.began
        if self.data.checkpoints and os.path.exists(self.data.checkpoints):
            os.remove(self.data.checkpoints)
        return kept

    @property
    def _random(self) -> Any:
        return torch.cuda if self.cuda else torch

    def _draw(self, part: int) -> None:
        """Put the fresh pairs of some steps where a step looks for them."""
        if part == self.part or self.fresh is None:
            return
        x, y = self._on_device(*self.fresh.part(part + 1))  # part 0 judges
        inputs, targets = self.arch.samples(self.network, x, y)
        self.x.copy_(inputs)
        self.y.copy_(targets)
        if y is not None:
            self.weights.copy_(self._weights(self.network.tensor(y)))
        self.part = part

    def _end_branch(self, length: int, done: int) -> None:
        """Judge a training of this length, and go back to where its rate began to fall."""
        self.levels.append(float(self.level))
        self._evaluate()
        about = "" if self.gain is None else f", {100 * self.gain:.2g} % less than half of them"
        about += ", since the training loss jumped" if self.gain is not None and self.jumped else ""
        print(f"{length:,} steps: validation loss {self.losses[-1]:.6g}{about}", flush=True)
        assert self.before is not None
        tensors, random = self.before
        if self.ended or done == len(self.plan.step):
            return
        for value, saved in zip(self._tensors(), tensors, strict=True):
            value.copy_(saved)
        self._random.set_rng_state(random)
        self.number.fill_(done)
        self.before = None

    def _check_output(self) -> None:
        with torch.no_grad(), torch.random.fork_rng(devices=["cuda"] if self.cuda else []):
            out = self.module.eval()(self.x[:1])
            self.module.train()
        wanted, got = (1, 1, *self.data.y_shape), tuple(getattr(out, "shape", [type(out).__name__]))
        if got != wanted:
            raise KoctError(
                f"{line_of(self.arch, 'module')}: the module gave {got} for an input of shape "
                f"{tuple(self.x[:1].shape)}; it must give images {wanted}"
            )

    # On a GPU

    def _tensors(self) -> Iterator[torch.Tensor]:
        """Everything that a step changes, except for random numbers."""
        yield from self.module.state_dict().values()
        if self.averaged:
            yield from self.kept.module.state_dict().values()
        for state in self.optimiser.state.values():
            yield from (value for value in state.values() if isinstance(value, torch.Tensor))
        yield from (self.number, self.level)

    def _recorded(self) -> Callable[[], None]:
        """Return a step as a CUDA graph. Recording takes a few steps, all of which are undone."""
        before = [self._copy(network) for network in (self.network, self.kept)]
        random = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(min(WARM, len(self.plan.step))):
                self.step()
            graph = torch.cuda.CUDAGraph()
            self.number.zero_()
            with torch.cuda.graph(graph, stream=stream):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        for value in self._tensors():
            value.zero_()
        for network, state in zip((self.network, self.kept), before, strict=True):
            network.module.load_state_dict(state)
        torch.cuda.set_rng_state(random)
        return graph.replay

    # Evaluations, progress, checkpoints

    @staticmethod
    def _copy(network: ModuleNetwork) -> dict[str, torch.Tensor]:
        return {name: value.detach().clone() for name, value in network.module.state_dict().items()}

    def _evaluate(self) -> None:
        self._update_kept()
        if self.arch.learns_from != "pairs":
            score = self._own_loss()
            if self.plan.lengths:
                self.losses.append(score)
        elif self.plan.lengths:  # the loss, so that the rule is the same for every problem
            found, y = self.kept.images(self.val_x), self.network.tensor(self.val_y)
            squared = ((found - y) / self.network.scale).double().square().mean(1)
            score = float((squared * self._weights(y)).mean())
            self.losses.append(score)
        else:
            score = self.error(to_numpy(self.kept.images(self.val_x)), self.val_y)
        self.module.train()
        self.worse += 1
        if score < self.best:
            self.best, self.best_state, self.worse = score, self._copy(self.kept), 0

    def _own_loss(self) -> float:
        """Return the mean loss of the samples that judge, few of them several times, always with the same numbers."""
        module, found, times = self.kept.module.eval(), [], math.ceil(TOGETHER / len(self.val_x))
        with torch.no_grad(), torch.random.fork_rng(devices=["cuda"] if self.cuda else []):
            torch.manual_seed(0)
            for _ in range(times):
                for part in zip(self.val_x.split(TOGETHER), self.val_targets.split(TOGETHER), strict=True):
                    found.append(self.losses_of(module, *part).double())
        return float(torch.cat(found).mean())

    def _update_kept(self) -> None:
        """Give the module that is kept what its average does not have: buffers, such as the means of a batch norm."""
        if self.averaged:
            for mean, value in zip(self.kept.module.buffers(), self.module.buffers(), strict=True):
                mean.copy_(value)
        elif self.kept.module is not self.module:
            self.kept.module.load_state_dict(self.module.state_dict())

    def _say(self, done: int) -> None:
        now, steps = time.perf_counter(), len(self.plan.step)
        if now - self.said < SAID and done < steps:
            return
        self.said = now
        speed = (done - self.first) / (now - self.began)
        metric = "loss" if self.plan.lengths else self.data.problem.validation_metric
        best = "" if math.isinf(self.best) else f", validation {metric} {self.best:.4g}"
        left = f"{(steps - done) / speed:.0f} s left" + (" at most" if self.plan.lengths else "")
        print(f"step {done:,} of {steps:,}: loss {float(self.loss):.4g}{best}, {speed:.3g} steps/s, {left}", flush=True)

    def _fitted(self) -> str:
        """What a checkpoint belongs to; elsewhere it would go on with other bits."""
        return f"{self.data.identity}, {self.data.device.label}, torch {torch.__version__}"

    def _save(self) -> None:
        now = time.perf_counter()
        if not self.data.checkpoints or now - self.saved < SAVED:
            return
        self.saved = now
        about = {"fitted": self._fitted(), "tensors": list(self._tensors()), "seconds": self.seconds + now - self.began}
        about |= {name: getattr(self, name) for name in KEPT}
        about["random"] = self._random.get_rng_state()
        with atomic_write(self.data.checkpoints) as temporary:
            torch.save(about, temporary)

    def _resume(self) -> int:
        """Go on from the checkpoint of this fit, if there is one; return how many steps have been taken."""
        path = self.data.checkpoints
        if not path or not os.path.exists(path):
            return 0
        try:
            about = torch.load(path, map_location=self.device, weights_only=True)
            fitted = about["fitted"]
        except (OSError, RuntimeError, ValueError, KeyError, EOFError, TypeError, pickle.UnpicklingError):
            print(f"the checkpoint {path} is damaged and is not used", flush=True)
            return 0
        if fitted != self._fitted():
            print(f"the checkpoint {path} is of another fit and is not used", flush=True)
            return 0
        if not self.optimiser.state:  # on a CPU nothing has been recorded, and Adam makes its state in a first step
            self.step()
        for value, saved in zip(self._tensors(), about["tensors"], strict=True):
            value.copy_(saved)
        self._random.set_rng_state(about["random"].cpu())
        for name in (*KEPT, "seconds"):
            setattr(self, name, about[name])
        if self.before is not None:
            self.before = self.before[0], self.before[1].cpu()
        done = int(self.number)
        print(f"resumed after step {done:,}", flush=True)
        return done
