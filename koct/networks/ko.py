"""KO, the operator-aware network: ŷ = R diag(w) x, with R known and one learned weight per measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import (
    Architecture,
    Array,
    ChainLayer,
    Cost,
    Layer,
    Network,
    Problem,
    Training,
    Workload,
    option,
)

if TYPE_CHECKING:
    from koct.networks.known import Known

LARGEST_RIDGE = 32768  # weights that are fitted in closed form: 8 GiB for their normal matrix
GRADIENT = ("lr", "iterations", "batch")  # options of the gradient solvers


class KO(Architecture):
    label = "KO"
    colour = "#0b6e4f"
    marker = "o"

    solver: Literal["ridge", "adagrad", "sgd", "adam"] = option(
        "`ridge` is the closed form with the best of `lambdas`; the others descend along the gradient from the "
        "analytic weights",
        default="ridge",
    )
    toward: Literal["zero", "analytic"] | None = option(
        "what the ridge pulls the weights to: zero (the default), or the analytic weights of the problem; for `ridge` "
        "alone",
        default=None,
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
    def predicted(self) -> Literal["subsets", "fixed point"] | None:
        if not self.ridge or type(self).fit is not KO.fit:
            return None
        return "fixed point" if self.toward == "analytic" else "subsets"

    @property
    def uses_lambdas(self) -> bool:
        return self.ridge

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers", "normal"} if self.ridge else {"layers"})

    def check(self, problem: Problem) -> Iterable[str]:
        if not problem.has_layers:
            yield f"the problem {problem.name} has no known layers to learn with; take another architecture"
        for key in GRADIENT:
            value = getattr(self, key)
            if self.ridge and value is not None:
                yield f"{key} = {value!r} means nothing to the solver ridge; remove it"
            if not self.ridge and value is None:
                yield f"{key} is missing; the solver {self.solver} needs it: add it"
        if not self.ridge and self.toward is not None:
            yield f"toward = {self.toward!r} means nothing to the solver {self.solver}; remove it"
        size = problem.x_size
        if self.ridge and size > LARGEST_RIDGE:
            yield (
                f"solver = 'ridge' needs a matrix of {size}² numbers ({size**2 * 8 / 2**30:.0f} GiB); "
                "take adagrad, or fewer measurements"
            )

    def contains(self, other: Architecture) -> bool:
        """The known chain alone, if it is what the weights are pulled to or start from."""
        return other.name == "untrained" and (not self.ridge or self.toward == "analytic")

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """One network for each λ by ridge, one alone by gradient descent."""
        from koct.networks.known import Known

        known = Known(data.layers, data.nonnegative)
        if self.ridge:
            from koct.networks.ridge import weights_by_ridge

            toward = known.analytic if self.toward == "analytic" else None
            for lam, w in weights_by_ridge(known, data.x, data.y, data.normal, data.lambdas, toward):
                yield lam, KONetwork(w, known)
        else:
            from koct.networks import gradient

            assert self.batch is not None
            assert self.iterations is not None
            chosen = gradient.batches(data.seed, data.N, self.batch, self.iterations)
            yield None, KONetwork(gradient.train(known, data.x, data.y, chosen, self.solver, self.lr), known)

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        import numpy as np

        from koct.networks.known import Known

        return KONetwork(data.device.put(np.array(state["w"])), Known(data.layers, data.nonnegative))

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        _, others = chain_layers.split(layers)
        return [chain_layers.learned_weights(layers, problem), *chain_layers.known(others), *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        """Measured on one core of a Neoverse N1: 5,000 steps at H = 512 take 600 s."""
        pairs, size = work.N * (work.x_size + work.y_size), work.x_size
        if self.ridge:
            operations = work.lambdas * size**3 / 3 + 2 * work.N * size**2
            return Cost(operations, 6 * pairs + 8 * work.N * size + 24 * size**2, 4 * pairs + 32 * size**2)
        steps = (self.iterations or 0) * (self.batch or 0)
        return Cost(steps * work.layers.operations, 6 * pairs, 4 * pairs)


class KONetwork(Network):
    """Weights w, flat, on the device of the data."""

    def __init__(self, w: Array, known: Known):
        self.w, self.known = w, known

    def predict(self, x: Array) -> Array:
        return self.known.reconstruct(self.known.weighted(self.w, x))

    def state(self) -> Mapping[str, Array]:
        return {"w": self.w}
