"""What networks around known layers share: the network itself, and fits by a ridge or along the gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from koct.contracts import Architecture, Array, Network, Problem, Training, option

LARGEST_NORMAL = 32768  # measurements for which there is a closed form: 8 GiB for each matrix between them
GRADIENT = ("lr", "iterations", "batch")  # options of the gradient solvers


class KnownNetwork(Network):
    """What was learned, by name, and `known`, whose `images(x, **learned)` are its flat images."""

    def __init__(self, known: Any, **learned: Array):
        self.known, self.learned = known, learned

    @property
    def parameters(self) -> int:
        """How many numbers the network has, or how many `known` says that it uses of them."""
        used: int | None = getattr(self.known, "parameters", None)
        return super().parameters if used is None else used

    def predict(self, x: Array) -> Array:
        return self.known.images(x, **self.learned)

    def state(self) -> Mapping[str, Array]:
        return self.learned


class KnownArchitecture(Architecture, ABC):
    """A network whose fits are a `KnownNetwork` each, by default for a problem with known layers."""

    real_alone: ClassVar[bool] = False  # whether it is for real measurements, and not for complex ones

    @abstractmethod
    def known(self, data: Training) -> Any:
        """Return what all fits share; its `images(x, **learned)` is the network."""

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers", "normal"})

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        import numpy as np

        learned = {name: data.device.put(np.array(value)) for name, value in state.items()}
        return KnownNetwork(self.known(data), **learned)

    def check(self, problem: Problem) -> Iterable[str]:
        if not problem.has_layers:
            yield f"the problem {problem.name} has no known layers to learn with; take another architecture"
        if self.real_alone and problem.complex_samples:
            yield (
                f"the measurements of the problem {problem.name} are complex, and learned filters are for real ones; "
                "take another architecture"
            )

    def check_size(self, problem: Problem, what: str, fix: str) -> Iterable[str]:
        size = problem.x_size
        if size > LARGEST_NORMAL:
            yield f"{what} needs matrices of {size}² numbers ({size**2 * 8 / 2**30:.0f} GiB each); take {fix}"


class SolverArchitecture(KnownArchitecture, ABC):
    """A network behind known layers, fitted in closed form or along the gradient."""

    solver: Literal["ridge", "adagrad", "sgd", "adam"] = option(
        "`ridge`: closed form with the best λ; others: gradient descent from the analytic weights",
        default="ridge",
    )
    lr: float | None = option("learning rate of a gradient solver", default=None, above=0)
    iterations: int | None = option("steps of a gradient solver", default=None, minimum=1)
    batch: int | None = option(
        "samples per step, at most N, drawn by a generator seeded 1 + 1000·seed", default=None, minimum=1
    )

    @property
    def ridge(self) -> bool:
        return self.solver == "ridge"

    @property
    def uses_lambdas(self) -> bool:  # type: ignore[override]
        return self.ridge

    @property
    def steps(self) -> int:
        """Samples that a gradient solver sees, one after the other."""
        return (self.iterations or 0) * (self.batch or 0)

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers", "normal"} if self.ridge else {"layers"})

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        for key in GRADIENT:
            value = getattr(self, key)
            if self.ridge and value is not None:
                yield f"{key} = {value!r} means nothing to the solver ridge; remove it"
            if not self.ridge and value is None:
                yield f"{key} is missing; the solver {self.solver} needs it: add it"
        if self.ridge:
            yield from self.check_size(problem, "solver = 'ridge'", "adagrad, or fewer measurements")

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """One network for each λ by ridge, one alone by gradient descent from what theory gives."""
        known = self.known(data)
        if self.ridge:
            for lam, learned in self.by_ridge(known, data):
                yield lam, KnownNetwork(known, **learned)
        else:
            from koct.networks import gradient

            chosen = gradient.batches(data.seed, data.N, self.batch, self.iterations)
            learned = gradient.train(known, data.x, data.y, chosen, self.solver, self.lr)
            yield None, KnownNetwork(known, **known.named(learned))

    @abstractmethod
    def by_ridge(self, known: Any, data: Training) -> Iterator[tuple[float, dict[str, Array]]]:
        """Yield (λ, what was learned, by name)."""
