"""The two contracts: what a problem and an architecture say of themselves.

A problem is one file with one subclass of `Problem`, an architecture one file with one subclass of `Architecture`;
config.yaml names one that koct ships, or a Python file of yours (docs/your-own.md has an example of each). The
workflow imports these files to plan its jobs, so they import heavy packages (NumPy, torch) inside their methods.

Arrays are NumPy arrays on the CPU and torch tensors on a GPU. A batch of samples has shape (n, *shape) where a problem
makes or decodes it, and is flat, (n, size), where a network sees it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from koct.base import FRESH
from koct.contracts.options import Configured
from koct.contracts.options import option as option

Array = Any  # a NumPy array or a torch tensor
Part = Literal["train", "val", "test"]
PARTS: tuple[Part, ...] = ("train", "val", "test")
Chunk = tuple[Part, Array, Array]
# What a network learns from, and which halves of pairs it may read for that: N counts this kind, and no other is served
LEARNS_FROM: dict[str, tuple[str, ...]] = {"pairs": ("x", "y"), "scans": ("x",), "images": ("y",)}
# What chose λ, a window, iterations or a checkpoint: the N training samples, which are counted; validation pairs, which
# are not; the noise that the problem knows of, which needs no label.
TUNED_ON = (*(f"training {kind}" for kind in LEARNS_FROM), "validation pairs", "noise")
FOLDS = 4  # of cross-validation: a λ is judged by the samples of each fold, which a fit to the others has not seen;
MOST_FOLDED = 256  # of more samples than these, one fold is enough


class Sizes(Configured):
    """How many pairs a pool has; of a problem with groups, how many groups."""

    train: int = option("training pairs or groups; a cell uses the first N", minimum=1)
    val: int = option("validation pairs or groups, which choose λ", minimum=1)
    test: int = option("test pairs or groups, which give the error", minimum=1)

    @property
    def held_out(self) -> int:
        return self.val + self.test

    @property
    def total(self) -> int:
        return self.train + self.held_out


class Cost(NamedTuple):
    """What a job takes: the source of its memory, time limit and place in the queue.

    `operations` are counted so that one CPU core does 10¹⁰ of them in a second: a multiply-add in a large matrix
    product is one, a step of an interpolating loop about ten. `host_bytes` and `gpu_bytes` are what its arrays hold
    beyond Python, NumPy and torch themselves; on a CPU the host holds what a GPU would.
    """

    operations: float = 0.0
    host_bytes: float = 0.0
    gpu_bytes: float = 0.0


class Layer(NamedTuple):
    """A named layer of the known chain; `operator` is a `koct.operators.algebra.Operator`."""

    name: str
    operator: Any


class ChainLayer(NamedTuple):
    """A layer of a network, known or learned, as the bound of Theorem 1 sees it (`koct.study.norms.network`)."""

    name: str
    lipschitz: float | None  # the operator norm, for a linear layer; None: unknown
    p: int = 0  # how many numbers are learned; 0: the layer is known


def _overridden(method: str) -> Any:
    """A property: whether a problem defines this method itself."""
    return property(lambda problem: getattr(type(problem), method) is not getattr(Problem, method))


class Problem(Configured, ABC):
    """Where pairs (x, y) come from, and what is known of the way from x to y.

    Options are class attributes, and what an instance is made from.

    Examples
    --------
    >>> from koct.contracts import Problem, option
    >>> class Blur(Problem):
    ...     H: int = option("image height and width in pixels", minimum=2)
    ...     x_shape = y_shape = property(lambda self: (self.H, self.H))
    ...
    ...     def pairs(self, seed, sizes): ...
    >>> Blur(H=8).x_size
    64
    """

    name: ClassVar[str] = ""  # set when the file is loaded: its stem
    source: ClassVar[str] = ""  # set when the file is loaded: what config.yaml says
    numbers: ClassVar[int] = 1  # of koct's own: raised when its pairs or layers change (CONTRIBUTING.md)

    device: ClassVar[Literal["cpu", "auto"]] = "cpu"  # auto: its jobs take the GPU if there is one
    nonnegative: ClassVar[bool] = False  # networks then end in a ReLU
    nonnegative_images: ClassVar[bool] = False  # no image has a negative pixel, whatever networks end in
    endless: ClassVar[bool] = False  # whether every seed gives other training pairs, so that N may be fresh
    same_held_out: ClassVar[bool] = False  # validation and test pairs are the same for every seed
    validation_metric: ClassVar[str] = "mse"  # the error on the validation pairs that chooses λ: a file of koct/metrics
    interpolates: ClassVar[bool] = False  # whether the last known layer is a `Backprojector`, with two taps per view
    complex_samples: ClassVar[bool] = False  # whether the last axis of x is real and imaginary part of a measurement
    hounsfield: ClassVar[bool] = (
        False  # whether images are relative to water, 1 + HU / 1000, and drawn in a window of HU
    )
    pictured: ClassVar[bool] = True  # whether a study draws its reconstructions, where y is a two-dimensional image

    @property
    @abstractmethod
    def x_shape(self) -> tuple[int, ...]:
        """Shape of one measurement."""

    @property
    @abstractmethod
    def y_shape(self) -> tuple[int, ...]:
        """Shape of one image."""

    @abstractmethod
    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Yield (part, x, y) in chunks: first all `train` pairs, then `val`, then `test`, as many as `sizes` says.

        x is (n, *x_shape) and y is (n, *y_shape), or what `decode` turns into that; real, finite, and the same for the
        same seed on every machine. A cell with N samples uses the first N training pairs.
        """

    def groups(self, seed: int, sizes: Sizes) -> Mapping[Part, Sequence[int]] | None:
        """How many pairs every group of a pool has, such as the slices of a patient; None: each pair stands alone.

        If there are groups, `sizes` and N count them, and `pairs` yields their pairs in this order: a cell with N
        samples uses all pairs of the first N training groups. No group may be in two parts.
        """
        return None

    def decode(self, stored: Array) -> Array:
        """Images (n, *y_shape) from what `pairs` gave as y and the pool holds; override to store something smaller."""
        return stored

    def field_of_view(self) -> Array | None:
        """Which pixels of an image are compared with the truth, by every metric: (*y_shape), boolean; None: all."""
        return None

    @property
    def inside(self) -> Any:
        """Return the index of the pixels in the field of view, for flat images."""
        seen = self.field_of_view()
        return slice(None) if seen is None else seen.ravel()

    def files(self) -> Sequence[str]:
        """Files that `pairs`, `shared` or `layers` read; when one changes, what depends on it runs again."""
        return ()

    def understood(self) -> str:
        """What was made of files, such as their units, in words; it is printed before a run. Empty: nothing to say."""
        return ""

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        """What is wrong with the options, beyond their types: sentences that begin with the key and end in a fix."""
        return ()

    def shared(self) -> Mapping[str, Any]:
        """Arrays that are worth computing once per sweep, by name; `layers` is given them back."""
        return {}

    def layers(self, shared: Mapping[str, Any]) -> Sequence[Layer]:
        """The known way from x to y as a chain of linear layers, the first to be applied first; none by default.

        Where weights of the measurements come first, that layer is a `Diagonal`: known-operator learning starts there.
        A `ComplexDiagonal` has one weight for the real and the imaginary part of a measurement.
        """
        return ()

    def forward(self, shared: Mapping[str, Any]) -> Any:
        """The operator A with x ≈ A y, as far as it is known, a `koct.operators.algebra.Operator`; None: unknown.

        What needs no training samples is made of it: least squares and total variation.
        """
        return None

    def inverses(self, shared: Mapping[str, Any]) -> Mapping[float | None, Any]:
        """Operators that reconstruct without samples, by strength of their smoothing; None is without.

        The weakest comes first. The noise or the validation pairs choose one of them. By default the known layers one
        after the other, if there are any.
        """
        from koct.operators.algebra import product

        layers = self.layers(shared)
        return {None: product([layer.operator for layer in layers])} if layers else {}

    def noise_variance(self, x: Array) -> Any:
        """The variance of the noise of flat measurements x (n, size), estimated from x itself; None: unknown.

        It is one number, 0 where there is no noise, or an array like x. What needs no training samples is smoothed by
        it, without a look at any image.
        """
        return None

    def normal_matrix(self, shared: Mapping[str, Any]) -> Any:
        """RᵀR, dense, for the product R of all layers behind the weights; None: multiply R out, column by column.

        If it costs next to nothing, every fit that needs it computes it; else one job does so for all of them.
        """
        return None

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost | None:
        """Return the cost of a pool, `shared`, `normal_matrix`, or `layers` applied to one sample; None: unknown."""
        return None

    @property
    def label(self) -> str:
        """The problem in the words of a table."""
        return self.name

    @property
    def x_size(self) -> int:
        return math.prod(self.x_shape)

    @property
    def y_size(self) -> int:
        return math.prod(self.y_shape)

    has_layers = _overridden("layers")
    has_forward = _overridden("forward")
    has_noise_variance = _overridden("noise_variance")
    has_groups = _overridden("groups")
    has_shared = _overridden("shared")


class Workload(NamedTuple):
    """The sizes from which an architecture reckons its cost."""

    x_size: int
    y_size: int
    N: int  # pairs, also of a problem with groups
    sizes: Sizes  # in pairs
    lambdas: int  # how many
    layers: Cost  # of the known layers applied to one sample


class Training:
    """What a fit is given. Everything is read from disk or computed when it is first asked for."""

    problem: Problem
    x: Array  # (N, size), flat measurements on the device
    y: Array  # (N, size), flat images on the device
    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    N: int  # how many pairs; of a problem with groups, more than the N of the cell
    seed: int
    learned: Training | None = None  # what the network was fitted to, where it `moves` to another problem
    lambdas: tuple[float, ...]  # strengths to try; a search calls `fit` again with others
    nonnegative: bool  # whether networks end in a ReLU
    nonnegative_images: bool  # whether images cannot be negative
    layers: Sequence[Layer]  # the problem's known layers
    more_scans: Array  # (M, size), flat measurements of samples behind the N pairs, whose images no fit sees
    forward: Any  # the problem's operator A with x ≈ A y; `needs` names the layers for it
    inverses: Mapping[float | None, Any]  # the problem's own reconstructions, by strength; likewise
    normal: Array  # RᵀR of the layers behind the weights
    gram: Array | None  # the Gram matrix of x (N, N), float64; None where it is cheap to compute
    fresh: bool = False  # whether training pairs should never repeat; x and y are then all those of the pool
    required: Mapping[str, Any]  # what the fit that `requires_cell` names says of itself: lam, p, fit_seconds, device
    start: Mapping[str, Any] | None = None  # the state of the fit that it starts from, by the option `starts_from`
    device: Any  # `device.name` is "cpu" or "cuda", `device.put(array)` moves a NumPy array there
    identity: str  # what the fit depends on, for a checkpoint to say what it belongs to
    checkpoints: str | None  # a file that outlives an interrupted job, which `fit` may write and remove;
    ranks: Any  # for an architecture started by torchrun a folder, the processes, as `koct.networks.ranks.Ranks`,
    checkpoint_minutes: float  # and how often to write there

    def spectrum(self) -> tuple[Array, Array]:
        """Return eigenvalues and eigenvectors of the smaller of X Xᵀ and XᵀX, in float64: they serve every λ."""
        from koct.base.arrays import eigh, gram_matrix

        known = self.__dict__.get("_spectrum")
        if known is None or known[0] is not self.x:  # a copy may have got other pairs
            dual = self.x.shape[0] <= self.x.shape[1]
            matrix = self.gram if dual and self.gram is not None else gram_matrix(self.x if dual else self.x.T)
            known = self._spectrum = self.x, *eigh(matrix)
        return known[1:]

    def fresh_parts(self, count: int) -> Any:
        """Return an object whose `part(number)` gives `count` flat pairs that no pool has, until its `close()`.

        What the architecture does not learn from is None.
        """
        raise NotImplementedError

    def read(self, name: Literal["x", "y"], part: Part, count: int | None = None, first: int = 0) -> Any:
        """Some pairs as NumPy arrays (count, size): of the N training pairs, or of `val`; a fit sees no test pairs."""
        raise NotImplementedError


class Network(ABC):
    """A fitted network."""

    fit_seconds: float | None = None  # time of the fit, if it knows better than the clock: one that was resumed
    tuned_on: str | None = None  # what chose its strength, if its fit has chosen it: see `TUNED_ON`
    edge: bool = False  # whether that took the first or the last strength it tried, and might have gone on;
    steps: int | None = None  # of a network that is trained by steps: how many of them,
    losses: Sequence[float] | None = None  # the validation losses of ever twice as many, if it was tried, up to these,
    gain: float | None = None  # what share the last doubling gained; `edge`: it should have gone on
    pairs: int | None = None  # that it was trained on, where the N of its cell is fresh

    @abstractmethod
    def predict(self, x: Array) -> Array:
        """Flat images (n, size) from flat measurements (n, size) on the same device."""

    def left_out(self, rows: slice) -> Array:
        """Flat images of some training pairs, each by the network that is fitted without that pair.

        Only networks of an architecture that `leaves_one_out` have it.
        """
        raise NotImplementedError

    @abstractmethod
    def state(self) -> Mapping[str, Array]:
        """What was learned, as arrays by name: all that `Architecture.restore` needs besides the training data."""

    @property
    def parameters(self) -> int:
        """How many numbers were learned: all entries of `state`, unless a subclass counts otherwise."""
        return sum(math.prod(value.shape) for value in self.state().values())


class Architecture(Configured, ABC):
    """A kind of network and how it is fitted. Options are class attributes, as for a problem.

    In a sweep of config.yaml they stand under the architecture's name: `cnn: {channels: 8}`.

    Parameters
    ----------
    N : its N, at least two of those of the sweep; all of them by default
    validation : what chooses the strength: "none", the training pairs or the noise; "labels", the validation pairs
    """

    name: ClassVar[str] = ""  # set when the file is loaded: its stem
    source: ClassVar[str] = ""  # set when the file is loaded: what config.yaml says
    numbers: ClassVar[int] = 1  # of koct's own: raised when its fits change (CONTRIBUTING.md)
    section: ClassVar[str] = ""  # the key of its options in a sweep, if not its name
    label: ClassVar[str] = ""  # what figures and tables call it; its name if empty
    colour: ClassVar[str] = ""  # of its curve; the next of a palette if empty
    marker: ClassVar[str] = ""

    N: tuple[int, ...] | None = option(
        "two or more of the sweep's N; by default all",
        default=None,
        items=2,
        minimum=2,
        words={"fresh": FRESH},
        result=False,
    )

    validation: Literal["none", "labels"] = option(
        "what chooses the strength: `none`: cross-validation on the N training pairs or, for baselines, the "
        "noise; `labels`: the validation pairs, which N does not count",
        default="none",
    )

    learns_from: ClassVar[Literal["pairs", "images", "scans"]] = "pairs"  # what N counts, and all that a fit can read
    more_scans: ClassVar[int] = 0  # samples behind the N pairs whose scans a fit reads too, if that is an option
    moves: ClassVar[bool] = False  # whether `restore` also serves other operators than those of the fit
    trained: ClassVar[bool] = True  # False: a baseline that needs no sample; its only N is 0, and p is 0
    uses_lambdas: ClassVar[bool] = True  # whether a fit depends on the sweep's `lambdas`
    leaves_one_out: ClassVar[bool] = (
        False  # whether its networks have `left_out`; else cross-validation fits them again
    )
    launch: ClassVar[Literal["process", "torchrun"]] = "process"
    needs_torch: ClassVar[bool] = False  # also without a GPU
    requires_cell: ClassVar[str] = ""  # another architecture whose fit of the same sweep, N and seed it reads
    starts_from: ClassVar[str | None] = None  # a sweep whose fit it starts from, if that is an option

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        """What a fit uses besides the pairs: the known layers, their normal matrix, the Gram matrix of x."""
        return frozenset()

    @property
    def predicted(self) -> Literal["spectral", "subsets", "fixed point"] | None:
        """How its curve can be predicted from a pool of pairs, before any fit of the study; None: not at all.

        `spectral` is for the ridge of one dense matrix, `subsets` for any network that is quick to fit, and
        `fixed point` for a ridge of the weights in front of the known layers.
        """
        return None

    def check(self, problem: Problem) -> Iterable[str]:
        """What is wrong with the options for this problem: sentences that begin with the option and end in a fix."""
        return ()

    def moved(self, problem: Problem, other: Problem) -> bool:
        """Whether its network of a problem, tested on pairs of another, takes the operators of the other.

        It does where it could not compute otherwise, and where it has learned from images, which are of no problem.
        """
        return self.moves and (self.learns_from == "images" or problem.x_shape != other.x_shape)

    def contains(self, other: Architecture) -> bool:
        """Whether each network of `other` is one of this architecture, under the same objective and the same solver.

        Verdicts compare such pairs alone: they differ in what is learned, and in nothing else. `other.name` and its
        options tell what it is. What needs no training, such as the known layers by themselves, has no objective.
        """
        return False

    @abstractmethod
    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """Yield (λ, network) for each λ of `data.lambdas`, or one (None, network)."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        """The network that gave this `state`; its arrays are mapped from the file, and on no GPU yet."""

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        """The network's layers, the first to be applied first, for the bound; none: the bound does not apply to it.

        `layers` are the problem's known ones. A learned layer has the norm of what it starts from or is pulled to; of
        the first layer's no term of the bound depends.
        """
        return ()

    def cost(self, work: Workload) -> Cost | None:
        """Return the cost of one fit; None if unknown."""
        return None


class TorchrunArchitecture(Architecture):
    """An architecture that several processes fit together, started by torchrun: each rank runs `fit`.

    Rank 0 prints and writes. `state` may hold `koct.base.files.Blocks`, which all ranks go through and rank 0 writes.
    """

    launch = "torchrun"
    needs_torch = True

    ranks: int = option("processes, one per GPU or core; a change refits nothing", minimum=1, result=False)
    nodes: int = option("cluster nodes that share the ranks equally", default=1, minimum=1, result=False)
    checkpoint_minutes: int = option("time between checkpoints", default=5, minimum=1, result=False)

    def check(self, problem: Problem) -> Iterable[str]:
        if self.ranks % self.nodes:
            yield (
                f"ranks = {self.ranks} cannot be shared equally by nodes = {self.nodes}; make ranks a multiple of nodes"
            )
