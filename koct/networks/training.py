"""The training of a torch module: batches, schedule, averaged weights, evaluations, checkpoints, and a CUDA graph.

A step reads everything that changes from tensors (its number, its rows, its learning rate), so that a GPU can repeat
it as a recorded graph: the host launches one thing per step instead of hundreds.
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
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from koct import metrics
from koct.base.arrays import to_numpy
from koct.base.files import atomic_write
from koct.base.locks import open_lock
from koct.contracts import Array, Network, Training
from koct.contracts.blame import line_of
from koct.errors import KoctError
from koct.networks.module import Layers

if TYPE_CHECKING:
    from koct.networks.module import ModuleArchitecture

SAVED = 20.0  # seconds between checkpoints
SAID = 5.0  # seconds between lines of progress
TOGETHER = 32  # images that pass through a module at once where nothing is learned
WAITED = 20  # steps that a GPU may lag behind
WARM = 3  # steps before a graph is recorded: libraries allocate what they need
SPLIT = 5  # of so many training pairs one judges the weights, if training pairs do
LEAST_PEAK = 0.1  # of an image, as a share of the largest: an empty image would count for all others


@contextlib.contextmanager
def alone(device: torch.device) -> Iterator[None]:
    """Keep one's other trainings off a GPU, if files can lock: one keeps it busy, and twelve at a time took longer."""
    with contextlib.ExitStack() as opened:
        if device.type == "cuda":
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


def batches(seed: int, N: int, batch: int, steps: int) -> np.ndarray:
    """Return the rows (steps, batch) of every step: each passage through all N pairs has an order of its own."""
    rng, batch = np.random.default_rng([seed, 2]), min(batch, N)
    passages = math.ceil(steps * batch / N)
    return np.concatenate([rng.permutation(N) for _ in range(passages)])[: steps * batch].reshape(steps, batch)


class ModuleNetwork(Network):
    """A module with what goes before it and behind it; `scale` is what one stands for."""

    def __init__(self, arch: ModuleArchitecture, data: Training) -> None:
        self.layers = Layers.of(data)
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
            return self._tensor(x)[:, None] / self.scale
        known = self.layers.reconstruction
        images = [self._tensor(known(x[first : first + TOGETHER])) for first in range(0, len(x), TOGETHER)]
        return torch.cat(images)[:, None] / self.scale

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.as_tensor(array, dtype=torch.float32, device=self.device)

    def images(self, start: torch.Tensor) -> torch.Tensor:
        """Flat images of what `start` gave."""
        self.module.eval()
        with torch.no_grad():
            out = torch.cat([self.module(part).float() for part in start.split(TOGETHER)]) * self.scale
        out = out.reshape(len(start), -1)
        return out.clip(min=0) if self.nonnegative else out

    def predict(self, x: Array) -> Array:
        return self.images(self.start(x))

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
    network.module.load_state_dict(own)
    return network


class Trainer:
    """Trains `network`; `kept`, which is evaluated and returned, has the average of its weights, or is the same."""

    def __init__(self, arch: ModuleArchitecture, data: Training) -> None:
        self.arch, self.data = arch, data
        self.network = ModuleNetwork(arch, data)
        self.kept = copy.copy(self.network)
        device = self.device = self.network.device
        self.cuda = device.type == "cuda"
        images = torch.as_tensor(data.y, dtype=torch.float32, device=device).reshape(-1, *data.y_shape)
        peaks = images.flatten(1).abs().amax(1)
        scale = float(peaks.double().mean()) or 1.0
        self.network.scale = self.kept.scale = scale
        self.y = images[:, None] / scale
        # Pairs that judge the weights: none, some of the training pairs, or the validation pairs
        judging = max(1, data.N // SPLIT) if arch.validation == "split" else 0
        self.count = data.N - judging  # training pairs
        self.weights = (peaks / scale).clip(min=LEAST_PEAK * float(peaks.max()) / scale or 1.0) ** -2
        self.x = self.network.start(data.x)
        if arch.validation == "split":
            self.val_x, self.val_y = self.x[self.count :], to_numpy(data.y[self.count :])
        if arch.validation == "labels":
            self.val_x, self.val_y = self.kept.start(data.device.put(data.read("x", "val"))), data.read("y", "val")
        self.error = metrics.error_of(data.problem.validation_metric, data.problem.inside)
        self.module, self.averaged = self.network.module, bool(arch.averaging)
        if self.averaged:
            try:
                self.kept.module = copy.deepcopy(self.module)
            except (RuntimeError, TypeError) as error:
                where = line_of(arch, "module")
                raise KoctError(f"{where}: the module cannot be copied ({error}); set averaging: 0") from None
        trained = {name: value for name, value in self.module.named_parameters() if value.requires_grad}
        if not trained:
            raise KoctError(f"{line_of(arch, 'module')}: the module has no parameters to train")
        self.trained = list(trained.values())
        self.means = [dict(self.kept.module.named_parameters())[name] for name in trained]
        kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[arch.optimiser]
        self.rate = torch.zeros((), device=device)
        how = {"lr": self.rate if self.cuda else arch.lr, "capturable": self.cuda, "fused": self.cuda}
        self.optimiser = kind(self.trained, weight_decay=arch.weight_decay, **how)
        share = 1 - np.minimum(arch.averaging, (1 + np.arange(arch.steps)) / (10 + np.arange(arch.steps)))
        self.rows = torch.as_tensor(batches(self.data.seed, self.count, arch.batch, arch.steps), device=device)
        self.rates = torch.as_tensor(rates(arch.schedule, arch.lr, arch.steps), dtype=torch.float32, device=device)
        self.shares = torch.as_tensor(share, dtype=torch.float32, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)  # of the step
        self.loss = torch.zeros((), device=device)

    def step(self) -> None:
        """Take one step; nothing here may depend on a value that the host would have to wait for."""
        self.optimiser.zero_grad()
        rows = self.rows.index_select(0, self.number)[0]
        half = self.cuda and self.arch.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            out = self.module(self.x.index_select(0, rows))
        squared = (out.float() - self.y.index_select(0, rows)).square().flatten(1).mean(1)
        loss = (squared * self.weights.index_select(0, rows)).mean()
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
            share = self.shares.index_select(0, self.number)[0]
            for mean, value in zip(self.means, self.trained, strict=True):
                mean.data.lerp_(value.data, share)
        self.loss.copy_(loss.detach())
        self.number += 1

    def run(self) -> ModuleNetwork:
        """Return the network with its last weights or, if they are judged, with the best of all evaluations."""
        arch, cuda = self.arch, self.cuda
        judged = arch.validation != "none"
        flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=True)
        with torch.random.fork_rng(devices=["cuda"] if cuda else []), flags if cuda else contextlib.nullcontext():
            torch.manual_seed(1000 * self.data.seed + 8)
            self.module.train()
            self._check_output()
            take = self._recorded() if cuda else self.step
            self.best, self.best_state, self.worse, self.seconds = math.inf, self._copy(self.kept), 0, 0.0
            done = self._resume()
            self.began, self.said, self.saved = time.perf_counter(), 0.0, time.perf_counter()
            self.first = done
            count = arch.evaluations if judged else 0
            ends = {math.ceil(arch.steps * (k + 1) / count) for k in range(count)}
            while done < arch.steps and not (arch.patience and self.worse >= arch.patience):
                take()
                done += 1
                if cuda and done % WAITED == 0:
                    torch.cuda.synchronize()
                if done in ends:
                    self._evaluate()
                self._say(done)
                self._save()
        if judged:
            self.kept.module.load_state_dict(self.best_state)
            self.kept.tuned_on = "validation pairs" if arch.validation == "labels" else "training pairs"
        else:
            self._copy_buffers()
        if not (math.isfinite(self.best) if judged else math.isfinite(float(self.loss))):
            raise KoctError(f"the training of {arch.name} gave no finite error; lower lr = {arch.lr:g}")
        self.kept.fit_seconds = self.seconds + time.perf_counter() - self.began
        if self.data.checkpoints and os.path.exists(self.data.checkpoints):
            os.remove(self.data.checkpoints)
        return self.kept

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
        yield self.number

    def _recorded(self) -> Callable[[], None]:
        """Return a step as a CUDA graph. Recording takes a few steps, all of which are undone."""
        before = [self._copy(network) for network in (self.network, self.kept)]
        random = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(min(WARM, self.arch.steps)):
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
        self._copy_buffers()
        score = self.error(to_numpy(self.kept.images(self.val_x)), self.val_y)
        self.module.train()
        self.worse += 1
        if score < self.best:
            self.best, self.best_state, self.worse = score, self._copy(self.kept), 0

    def _copy_buffers(self) -> None:
        """Give the averaged module the buffers, such as the means of a batch norm, of the trained one."""
        if self.averaged:
            for mean, value in zip(self.kept.module.buffers(), self.module.buffers(), strict=True):
                mean.copy_(value)

    def _say(self, done: int) -> None:
        now = time.perf_counter()
        if now - self.said < SAID and done < self.arch.steps:
            return
        self.said = now
        speed = (done - self.first) / (now - self.began)
        best = "" if math.isinf(self.best) else f", validation {self.data.problem.validation_metric} {self.best:.4g}"
        left = (self.arch.steps - done) / speed
        about = f"loss {float(self.loss):.4g}{best}, {speed:.3g} steps/s, {left:.0f} s left"
        print(f"step {done:,} of {self.arch.steps:,}: {about}", flush=True)

    def _fitted(self) -> str:
        """What a checkpoint belongs to; elsewhere it would go on with other bits."""
        return f"{self.data.identity}, {self.data.device.label}, torch {torch.__version__}"

    def _save(self) -> None:
        now = time.perf_counter()
        if not self.data.checkpoints or now - self.saved < SAVED:
            return
        self.saved = now
        about = {"fitted": self._fitted(), "tensors": list(self._tensors()), "seconds": self.seconds + now - self.began}
        about |= {name: getattr(self, name) for name in ("best", "best_state", "worse")}
        about["random"] = (torch.cuda if self.cuda else torch).get_rng_state()
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
        (torch.cuda if self.cuda else torch).set_rng_state(about["random"].cpu())
        for name in ("best", "best_state", "worse", "seconds"):
            setattr(self, name, about[name])
        done = int(self.number)
        print(f"resumed after step {done:,}", flush=True)
        return done
