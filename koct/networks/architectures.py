"""What trained networks share: the options of two kinds of solvers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import Any, Literal

from koct.contracts import (
    Architecture,
    Array,
    Problem,
    Training,
    option,
)

LARGEST_NORMAL = 32768  # measurements for which there is a closed form: 8 GiB for each matrix between them
GRADIENT = ("lr", "iterations", "batch")  # options of the gradient solvers


class SolverArchitecture(Architecture, ABC):
    """A network behind known layers, fitted in closed form or along the gradient."""

    solver: Literal["ridge", "adagrad", "sgd", "adam"] = option(
        "`ridge` is the closed form with the best of `lambdas`; the others descend along the gradient from the "
        "analytic weights",
        default="ridge",
    )
    lr: float | None = option("learning rate of a gradient solver", default=None, above=0)
    iterations: int | None = option("steps of a gradient solver", default=None, minimum=1)
    batch: int | None = option(
        "samples per step, at most N; they are drawn from a generator seeded 1 + 1000·seed", default=None, minimum=1
    )

    @property
    def ridge(self) -> bool:
        return self.solver == "ridge"

    @property
    def uses_lambdas(self) -> bool:
        return self.ridge

    @property
    def steps(self) -> int:
        """Samples that a gradient solver sees, one after the other."""
        return (self.iterations or 0) * (self.batch or 0)

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers", "normal"} if self.ridge else {"layers"})

    def check(self, problem: Problem) -> Iterable[str]:
        for key in GRADIENT:
            value = getattr(self, key)
            if self.ridge and value is not None:
                yield f"{key} = {value!r} means nothing to the solver ridge; remove it"
            if not self.ridge and value is None:
                yield f"{key} is missing; the solver {self.solver} needs it: add it"
        if self.ridge:
            yield from check_size(problem, "adagrad")

    def descend(self, known: Any, data: Training, **settings: Any) -> Array:
        """Return what is learned along the gradient, from what theory gives."""
        from koct.networks import gradient

        chosen = gradient.batches(data.seed, data.N, self.batch, self.iterations)
        return gradient.train(known, data.x, data.y, chosen, self.solver, self.lr, **settings)


def check_layers(problem: Problem) -> Iterable[str]:
    if not problem.has_layers:
        yield f"the problem {problem.name} has no known layers to learn with; take another architecture"


def check_size(problem: Problem, instead: str = "") -> Iterable[str]:
    size = problem.x_size
    if size > LARGEST_NORMAL:
        what, fix = (
            ("solver = 'ridge'", f"{instead}, or fewer measurements") if instead else ("it", "fewer measurements")
        )
        yield f"{what} needs matrices of {size}² numbers ({size**2 * 8 / 2**30:.0f} GiB each); take {fix}"
