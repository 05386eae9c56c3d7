"""What needs no training samples: networks that are a solver and at most one number, which validation pairs choose.

No fit of a network with weights is in here or imported from here: an edit there computes no baseline again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from koct.contracts import Architecture, Array, ChainLayer, Cost, Layer, Network, Problem, Training, Workload

Solver = Callable[[Array, Any], Array]


class BaselineArchitecture(Architecture, ABC):
    """What reconstructs without training samples: a solver, and at most one number that the validation pairs choose."""

    trained = False
    uses_lambdas = False

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers"})

    @abstractmethod
    def solver(self, data: Training) -> Solver:
        """Return a function from flat measurements (n, size) and a strength to flat images (n, size)."""

    @abstractmethod
    def strengths(self, data: Training, solver: Solver) -> Sequence[float | None]:
        """Return the strengths of smoothing among which the validation pairs choose; None is without."""

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        solver = self.solver(data)
        for strength in self.strengths(data, solver):
            yield strength, Baseline(solver, strength)

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        chosen = state["strength"].tolist()
        return Baseline(self.solver(data), chosen[0] if chosen else None)


class ChainBaselineArchitecture(BaselineArchitecture, ABC):
    """A baseline that applies the known layers, or other operators in their place."""

    def check(self, problem: Problem) -> Iterable[str]:
        if not problem.has_layers:
            yield f"the problem {problem.name} has no known layers to reconstruct with; remove {self.name} from archs"

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        return [*chain_layers.known(layers), *chain_layers.relu(problem)]


class IterativeArchitecture(BaselineArchitecture, ABC):
    """A baseline that inverts the forward operator step by step."""

    def check(self, problem: Problem) -> Iterable[str]:
        if not problem.has_forward:
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


def cost_of_solver(work: Workload, strengths: int, iterations: int, products: float) -> Cost:
    """Return the cost of iterations for every validation pair and strength, and for held-out pairs with the chosen one.

    Where the operator is small, an image takes as long as so many `products` with a matrix of pixels by pixels.
    Measured on one core of a Xeon at 2.5 GHz: an iteration for an image of the fan beam takes 15 ms at H = 128.
    """
    images = strengths * work.sizes.val + work.sizes.held_out
    arrays = (10 * work.y_size + 4 * work.x_size) * min(work.sizes.held_out, 1 + 2**24 // work.y_size)
    if work.x_size * work.y_size <= 2**21:
        matrix = work.y_size**2
        return Cost(images * products * matrix, 8 * arrays + 24 * matrix, 8 * arrays + 24 * matrix)
    return Cost(images * iterations * 6 * work.layers.operations, 8 * arrays, 8 * arrays)


def applied(operator: Any, x: Array, nonnegative: bool) -> Array:
    """Return flat images (n, size) of an operator on flat measurements (n, size), cut off below zero if asked for."""
    images = operator.flat(x)
    return images.clip(min=0) if nonnegative else images
