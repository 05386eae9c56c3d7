"""A torch.nn.Module as an architecture: a subclass returns the module, and koct trains it.

class Small(ModuleArchitecture):
    takes = "reconstruction"

    def module(self, problem, layers):
        from torch import nn

        return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from koct.contracts import Architecture, Array, ChainLayer, Cost, Layer, Network, Problem, Training, Workload, option
from koct.contracts.options import Configured

if TYPE_CHECKING:
    import torch
    from torch import nn

    from koct.operators.algebra import Operator


STEPS = "training steps for every N; with `warmup-stable-decay` the most"
SPLIT_ALONE = (
    "weights to keep: `none`: the last; `split`: those with the least loss on a held-out fifth of the N "
    "training samples"
)
FEW = 8  # training pairs that choose among known reconstructions


class Layers(tuple[Layer, ...]):
    """The known layers of a problem, first to last, and the operators that it knows besides."""

    _data: Training
    _pairs: bool

    @classmethod
    def of(cls, data: Training, pairs: bool = True) -> Layers:
        made = cls(data.layers if data.problem.has_layers else ())
        made._data, made._pairs = data, pairs
        return made

    @property
    def problem(self) -> Problem:
        return self._data.problem

    @property
    def forward(self) -> Operator:
        """A with x ≈ A y."""
        operator: Operator = self._data.forward
        return operator

    @cached_property
    def reconstruction(self) -> Operator:
        """The known way from measurements to images; of several the best for the first training pairs.

        Where there are no pairs it is the weakest, which keeps what is in the measurements.
        """
        operators: Mapping[float | None, Operator] = self._data.inverses
        if not self._pairs:
            return self.weakest
        data = self._data.learned or self._data
        x, y = (data.read(name, "train", min(FEW, data.N)) for name in ("x", "y"))
        errors = {key: float(((each.flat(x) - y) ** 2).mean()) for key, each in data.inverses.items()}
        return operators[min(errors, key=errors.__getitem__)]

    @property
    def weakest(self) -> Operator:
        """The known way from measurements to images that smooths least."""
        operator: Operator = next(iter(self._data.inverses.values()))
        return operator


class ModuleArchitecture(Architecture, ABC):
    """An architecture that is a torch module, trained along the gradient of a squared error.

    `module` returns it; it maps (n, 1, *shape) to images (n, 1, *y_shape), from measurements or, with
    `takes = "reconstruction"`, from what the known layers make of them. Measurements and images are divided by one
    number, the mean peak of the training images, so that linear operators between them stay right.

    The loss is the squared error of an image over its squared peak. Training takes the same number of steps for every
    N, or with `schedule: warmup-stable-decay` as many as it needs. The last weights are kept or, if there are pairs to
    judge them, those with the smallest error of all evaluations. On a GPU a step is a recorded CUDA graph.
    """

    needs_torch = True
    uses_lambdas = False
    takes: ClassVar[str] = "measurements"  # or "reconstruction"

    steps: int = option(STEPS, default=3000, minimum=1)
    batch: int = option("training pairs per step, at most N", default=8, minimum=1)
    optimiser: Literal["adamw", "adam"] = option("optimiser", default="adamw")
    beta2: float = option(
        "decay of the optimiser's mean of squared gradients", default=0.999, above=0, maximum=1, later=True
    )
    lr: float = option("largest learning rate", default=2e-3, above=0)
    schedule: Literal["one-cycle", "cosine", "constant", "warmup-stable-decay"] = option(
        "learning rate: `one-cycle` rises for 30 % of the steps and falls to zero; `cosine` falls from the "
        "start; `warmup-stable-decay` doubles the steps from `first` on, each time with a decay in the last "
        "fifth, until doubling gains less than `gain`",
        default="one-cycle",
    )
    first: int = option("shortest training of `warmup-stable-decay`", default=1000, minimum=2, later=True)
    gain: float = option(
        "share of the validation loss that doubling must gain for `warmup-stable-decay` to continue",
        default=0.02,
        above=0,
        maximum=1,
        later=True,
    )
    loss: Literal["relative", "squared"] = option(
        "mean squared error; `relative`: over the squared peak of the image",
        default="relative",
        later=True,
    )
    weight_decay: float = option("weight decay", default=0.01, minimum=0)
    clip: float | None = option("largest norm of the gradient; null: no limit", default=1.0, above=0)
    averaging: float = option(
        "decay of the moving average of the weights; 0: no average",
        default=0.99,
        minimum=0,
        maximum=1,
    )
    precision: Literal["bfloat16", "float32"] = option(
        "on a GPU: `bfloat16` is autocast; with `float32` convolutions use TF32",
        default="bfloat16",
    )
    compiled: bool = option(
        "faster convolutions on a GPU: compiled, in half a minute, or in unrolled networks by kernels of their own",
        default=False,
        later=True,
    )
    validation: Literal["none", "split", "labels"] = option(  # type: ignore[assignment]
        "weights to keep: `none`: the last; `split`: the best on a held-out fifth of the N training pairs; "
        "`labels`: the best on the validation pairs, which N does not count",
        default="none",
    )
    evaluations: int = option(
        "evaluations of the weights, unless the last are kept",
        default=20,
        minimum=1,
    )
    starts_from: str | None = option(  # type: ignore[misc]
        "another sweep of the study: start from this network's weights there, of the same seed and the largest N; what "
        "judges weights judges these, too",
        default=None,
        later=True,
    )
    patience: int | None = option(
        "evaluations without improvement that end a training early; by default never",
        default=None,
        minimum=1,
    )

    @abstractmethod
    def module(self, problem: Problem, layers: Any) -> nn.Module:
        """Return an untrained module for a problem.

        `layers` has the known layers, `layers.forward` the operator A with x ≈ A y, and `layers.reconstruction` the
        known way from x to y: each a `koct.operators` Operator, or a module by its method `module()`.
        """

    def reconstructions(self, layers: Any) -> Sequence[Operator]:
        """Return what makes the channels that a module with `takes = "reconstruction"` is given."""
        return [layers.reconstruction]

    def samples(self, network: Any, x: Array, y: Array) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what a training is given of flat samples: inputs of the module, and what `losses` compares with.

        x is None for a network that learns from images, and y for scans without their images.
        """
        inputs = network.start(x)
        return inputs, inputs if y is None else network.tensor(y).reshape(-1, 1, *network.y_shape) / network.scale

    def losses(self, module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of every sample (n,), before its weight: the mean squared error."""
        return (module(inputs).float() - targets).square().flatten(1).mean(1)

    def scan_losses(self, module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of every scan without an image (n,), where a network learns from scans, alone or besides."""
        raise NotImplementedError

    def reconstruct(self, network: Any, x: Array) -> Array:
        """Return flat images of flat measurements: what the trained module gives."""
        return network.images(network.start(x))

    def lengths(self) -> tuple[int, ...]:
        """Return the lengths of trainings of `warmup-stable-decay`: first, and ever twice as many steps."""
        return tuple(self.first << k for k in range((self.steps // self.first).bit_length()))

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers"})

    def check(self, problem: Problem) -> Iterable[str]:
        if self.patience is not None and self.validation == "none":
            yield f"patience = {self.patience} needs pairs that judge the weights; set validation, or remove it"
        if self.schedule == "warmup-stable-decay":
            if self.validation == "none":
                yield "schedule = 'warmup-stable-decay' needs pairs that say when it ends; set validation to split"
            if self.patience is not None:
                yield f"patience = {self.patience} has no use with schedule = 'warmup-stable-decay'; remove it"
            if len(self.lengths()) < 2:
                yield f"steps = {self.steps} is less than twice first = {self.first}; raise it, or lower first"
        own_loss = type(self).scan_losses is not ModuleArchitecture.scan_losses
        if (self.more_scans or self.learns_from == "scans") and not own_loss:
            yield f"{self.name} learns from scans without images, and has no loss for them; write its scan_losses"
        if self.takes == "reconstruction" and not problem.has_layers:
            yield f"the problem {problem.name} has no known layers to reconstruct with; take another architecture"

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        import torch

        from koct.networks.training import Trainer, alone

        with alone(torch.device(data.device.name)):
            network = Trainer(self, data).run()
        yield None, network

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        from koct.networks.training import restored

        return restored(self, state, data)

    def multiplications(self, work: Workload) -> float | None:
        """Return how many multiply-adds one image takes, for the time limit of a job; None: unknown."""
        return None

    def cost(self, work: Workload) -> Cost | None:
        each = self.multiplications(work)
        if each is None:
            return None
        branches = 1.2 if self.schedule == "warmup-stable-decay" else 1  # their steps, and those of the constant rate
        images = 3 * branches * self.steps * self.batch + (self.evaluations + 1) * work.sizes.held_out
        pairs = 8.0 * work.N * (work.x_size + 2 * work.y_size)
        return Cost(2e10 + images * (each + work.layers.operations), pairs, pairs + 0.1 * self.batch * each)


class ScanArchitecture(Configured, ABC):
    """Mixed into the architecture of a module with `scan_losses`: that learns from scans alone.

    It has these options alone: those of a `ModuleArchitecture` would take the place of the module's own.
    """

    learns_from: ClassVar[Literal["pairs", "images", "scans"]] = "scans"

    validation: Literal["none", "split"] = option(SPLIT_ALONE, default="none")
    loss: Literal["squared"] = option("mean squared error, which needs no image", default="squared")


class UnrolledArchitecture(ModuleArchitecture, ABC):
    """Some iterations of a method with the known forward operator, between which something is learned."""

    steps: int = option(STEPS, default=2000, minimum=1)
    batch: int = option("training pairs per step, at most N", default=4, minimum=1)
    lr: float = option("largest learning rate", default=1e-3, above=0)
    iterations: int = option("iterations, each with weights of its own", default=8, minimum=1)
    channels: int = option("channels of the hidden convolutions", default=32, minimum=1)

    moves = True

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        """No chain, but a loop: the known operator and its adjoint by turns with what is learned."""
        import numpy as np

        from koct.networks.torch_layers import count
        from koct.operators.algebra import Diagonal

        A = Diagonal(np.ones(1))  # the number of parameters depends on no operator
        learned = count(lambda: self.iterated(A, A))
        return [ChainLayer("inverse", None), ChainLayer("A, Aᵀ", None), ChainLayer("learned steps", None, learned)]

    @abstractmethod
    def iterated(self, A: Operator, start: Operator) -> nn.Module:
        """Return the module for a forward operator and a known reconstruction."""

    def module(self, problem: Problem, layers: Any) -> nn.Module:
        return self.iterated(layers.forward, layers.reconstruction)

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from check_images(problem.name, problem.y_shape, "images")
        if not problem.has_forward:
            yield f"the problem {problem.name} has no known forward operator to iterate with; take another architecture"


class UNetArchitecture(ModuleArchitecture, ABC):
    """A U-Net, alone or in what a subclass returns as its module."""

    moves = True

    channels: int = option("channels of the finest level, doubled at each coarser one", default=32, minimum=1)
    levels: int = option("levels, each half as fine as the one before", default=4, minimum=1, maximum=8)

    mirrored: bool = option(
        "mirror and turn images at random in training, for images as likely as their mirror images",
        default=False,
    )

    @property
    def inside(self) -> int:
        """How many channels the U-Net sees."""
        return 1

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from check_images(problem.name, problem.y_shape, "images")

    def unet(self) -> nn.Module:
        from koct.networks.torch_layers import Mirrored, UNet

        network = UNet(self.channels, self.levels, self.inside)
        return Mirrored(network) if self.mirrored else network

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        return [*chain_layers.known(layers), self.learned(), *chain_layers.relu(problem)]

    def learned(self) -> ChainLayer:
        from koct.networks.torch_layers import count

        return ChainLayer("U-Net", None, count(self.unet))

    def multiplications(self, work: Workload) -> float:
        """Every level takes as many as the others."""
        return 9.0 * work.y_size * self.channels**2 * (5.5 * self.levels - 4)


def check_images(problem: str, shape: tuple[int, ...], what: str) -> Iterable[str]:
    """What keeps two-dimensional convolutions from a problem's images or measurements."""
    if len(shape) != 2:
        yield f"the problem {problem} needs two-dimensional {what} for convolutions; take another architecture"


def check_noise(problem: Problem) -> Iterable[str]:
    """What keeps a network from being told the noise of a problem's measurements."""
    if not problem.has_noise_variance:
        yield f"the problem {problem.name} does not say how noisy measurements are; write its noise_variance"


def check_explained(problem: Problem) -> Iterable[str]:
    """What keeps images of one row or more from explaining a problem's measurements up to their noise."""
    if len(problem.y_shape) > 2:
        yield f"the problem {problem.name} has images of {len(problem.y_shape)} axes; take one with one or two"
    if not problem.has_forward:
        yield f"the problem {problem.name} has no known forward operator; take another architecture"
    yield from check_noise(problem)
