"""What needs no training samples: networks that are a solver and at most one number, which the noise chooses.

No fit of a network with weights is in here or imported from here: an edit there computes no baseline again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from koct.contracts import Architecture, Array, ChainLayer, Cost, Layer, Network, Problem, Training, Workload, option
from koct.errors import KoctError

Solver = Callable[[Array, Any], Array]
FEW, ENOUGH = 8, 2**15  # scans, and measurements in them, that are enough to choose a strength by


class BaselineArchitecture(Architecture, ABC):
    """What reconstructs without training samples: a solver, and at most one number."""

    trained = False
    uses_lambdas = False

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers"})

    @abstractmethod
    def solver(self, data: Training) -> Solver:
        """Return a function from flat measurements (n, size) and a strength to flat images (n, size)."""

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        yield None, Baseline(self.solver(data), None)

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        chosen = state["strength"].tolist()
        return Baseline(self.solver(data), chosen[0] if chosen else None)


class Scans(NamedTuple):
    """Measurements (n, size) on the device, of which no image is known, and the variance of their noise, likewise."""

    x: Array
    variance: Array


class TunedArchitecture(BaselineArchitecture, ABC):
    """A baseline with one number, which is chosen without images by the noise, or on validation pairs."""

    noise: float | None = option(
        "standard deviation of the measurement noise, which chooses the strength; by default the problem's",
        default=None,
        minimum=0,
    )

    @abstractmethod
    def strengths(self, data: Training, solver: Any) -> Sequence[float | None]:
        """Return the strengths of smoothing among which validation pairs choose; None is without."""

    @abstractmethod
    def chosen(self, data: Training, solver: Any, scans: Scans) -> tuple[float | None, bool]:
        """Return the strength that fits the noise of some scans, and whether others might have been tried beyond it."""

    def check(self, problem: Problem) -> Iterable[str]:
        wrong = list(super().check(problem))
        yield from wrong
        if self.validation == "labels" and self.noise is not None:
            yield f"noise = {self.noise:g} chooses nothing with validation = 'labels'; remove one of them"
        if not wrong and self.validation == "none" and self.noise is None and not problem.has_noise_variance:
            yield self._unknown(problem)

    def _unknown(self, problem: Problem) -> str:
        return (
            f"noise is missing: the problem {problem.name} does not say how noisy measurements are; state the standard "
            "deviation, such as 0.01, or set validation to labels, which uses validation pairs that N does not count"
        )

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        solver = self.solver(data)
        if self.validation == "none":
            strength, edge = self.chosen(data, solver, self.scans(data))
            network = Baseline(solver, strength)
            network.tuned_on, network.edge = "noise", edge
            yield strength, network
            return
        for strength in self.strengths(data, solver):
            yield strength, Baseline(solver, strength)

    def scans(self, data: Training) -> Scans:
        """Return some validation measurements; their images are not read."""
        x = some_measurements(data)
        variance = data.problem.noise_variance(x) if self.noise is None else self.noise**2
        if variance is None:
            raise KoctError(f"{self.name}.{self._unknown(data.problem)}")
        scans = Scans(x, variance + 0 * x)
        return scans if scans.variance.any() else Scans(*(part[:FEW] for part in scans))


def some_measurements(data: Training) -> Array:
    """Return the first validation measurements (n, size) on the device."""
    x = data.read("x", "val")
    return data.device.put(x[: scans_of(x.shape[1])])


def scans_of(size: int) -> int:
    """Return how many scans of so many measurements are enough to choose a strength by."""
    return max(FEW, ENOUGH // size)


class ChainBaselineArchitecture(BaselineArchitecture, ABC):
    """A baseline that applies the known layers, or other operators in their place."""

    def check(self, problem: Problem) -> Iterable[str]:
        if not problem.has_layers:
            yield f"the problem {problem.name} has no known layers to reconstruct with; remove {self.name} from archs"

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        return [*chain_layers.known(layers), *chain_layers.relu(problem)]


class IterativeArchitecture(TunedArchitecture, ABC):
    """A baseline that inverts the forward operator step by step."""

    def check(self, problem: Problem) -> Iterable[str]:
        if problem.has_forward:
            yield from super().check(problem)
        else:
            yield f"the problem {problem.name} has no known forward operator; remove {self.name} from archs"


class Baseline(Network):
    """A solver and the strength that was chosen for it."""

    def __init__(self, solver: Solver, strength: float | None):
        self.solver, self.strength = solver, strength

    @property
    def parameters(self) -> int:
        return 0

    def predict(self, x: Array) -> Array:
        return self.solver(x, self.strength)

    def state(self) -> Mapping[str, Array]:
        import numpy as np

        return {"strength": np.array([] if self.strength is None else [self.strength], float)}


def cost_of_solver(work: Workload, tried: int, iterations: int, products: float) -> Cost:
    """Return the cost of iterations for so many images that are tried, and for held-out pairs.

    Where the operator is small, an image takes as long as so many `products` with a matrix of pixels by pixels.
    Measured on one core of a Xeon at 2.5 GHz: an iteration for an image of the fan beam takes 15 ms at H = 128.
    """
    images = tried + work.sizes.held_out
    arrays = (10 * work.y_size + 4 * work.x_size) * min(work.sizes.held_out, 1 + 2**24 // work.y_size)
    if work.x_size * work.y_size <= 2**21:
        matrix = work.y_size**2
        return Cost(images * products * matrix, 8 * arrays + 24 * matrix, 8 * arrays + 24 * matrix)
    return Cost(images * iterations * 6 * work.layers.operations, 8 * arrays, 8 * arrays)


def applied(operator: Any, x: Array, nonnegative: bool) -> Array:
    """Return flat images (n, size) of an operator on flat measurements (n, size), cut off below zero if asked for."""
    images = operator.flat(x)
    return images.clip(min=0) if nonnegative else images
