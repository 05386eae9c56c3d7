"""One learned filter for all views, between known weights and a known backprojection: ŷ = B F(s) W x."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from koct.contracts import Architecture, Array, ChainLayer, Cost, Layer, Network, Problem, Training, Workload, option
from koct.networks.architectures import check_layers, check_size

if TYPE_CHECKING:
    from koct.networks.filtering import Filtered


class Filter(Architecture):
    label = "filter"
    colour = "#e69f00"
    marker = "v"

    per_view: ClassVar[bool] = False  # whether there is a filter for each view, or one for all

    solver: Literal["ridge", "cg"] = option(
        "`ridge` is the closed form; `cg` are conjugate gradients, which need no matrix between all measurements; both "
        "take the best of `lambdas`",
        default="ridge",
    )
    toward: Literal["zero", "analytic"] = option(
        "what the ridge pulls the filter to: the known filter of the problem, or zero", default="analytic"
    )

    @property
    def predicted(self) -> Literal["subsets"] | None:
        return "subsets" if self.solver == "ridge" else None

    def needs(self) -> frozenset[Literal["layers", "normal", "gram"]]:
        return frozenset({"layers", "normal"} if self.solver == "ridge" else {"layers"})

    def check(self, problem: Problem) -> Iterable[str]:
        yield from check_problem(problem)
        if self.solver == "ridge":
            yield from check_size(problem, "cg")

    def contains(self, other: Architecture) -> bool:
        """One filter for all views, if there is one for each; and the known filter, if they are pulled to it."""
        if isinstance(other, Filter):
            same = (self.solver, self.toward) == (other.solver, other.toward)
            return same and self.per_view and not other.per_view
        return other.name == "untrained" and self.toward == "analytic"

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """One network for each λ: argmin_s Σ_n ‖B F(s) W x_n − y_n‖² + λ‖s − s₀‖²."""
        import numpy as np

        from koct.base.arrays import double, like
        from koct.networks.filtering import FilterDesign, Filtered, Moments
        from koct.networks.solvers import by_cholesky

        known = Filtered(data.layers, data.nonnegative)
        start = np.tile(known.spectrum, known.views if self.per_view else 1)
        prior = start if self.toward == "analytic" else np.zeros_like(start)
        if self.solver == "ridge":
            moments = Moments(known, data.x, data.y, data.normal)
            matrix, right = moments.of_filter(like(known.weights, moments.mixed), self.per_view)
            spectra = by_cholesky(matrix, right, like(prior, right), data.lambdas)
        else:
            design = FilterDesign(known, data.x, self.per_view, prior)
            spectra = design.by_conjugate_gradients(double(data.y), data.lambdas)
        for lam, spectrum in spectra:
            yield lam, FilterNetwork(like(spectrum, data.x), known)

    def restore(self, state: Mapping[str, Any], data: Training) -> Network:
        import numpy as np

        from koct.networks.filtering import Filtered

        return FilterNetwork(data.device.put(np.array(state["spectrum"])), Filtered(data.layers, data.nonnegative))

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        weights, _ = chain_layers.split(layers)
        views = problem.x_size // problem.x_shape[-1] if self.per_view else 1
        behind = chain_layers.learned_filters(layers, problem, views)
        return [*chain_layers.known([weights] if weights else []), *behind, *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        learned = work.x_size if self.per_view else work.y_size**0.5  # about, with as many bins as rows
        if self.solver == "ridge":
            return cost_with_moments(work, Cost(work.lambdas * learned**3 / 3, 8 * learned**2, 8 * learned**2))
        pairs = work.N * (work.x_size + work.y_size)
        iterations = 2 * min(10 * learned, 2000)
        held = 16 * work.N * work.x_size  # as many coefficients again as the padding adds
        return Cost(iterations * work.N * work.layers.operations, 32 * pairs + held, 28 * pairs + held)


class FilterNetwork(Network):
    """The spectrum of a filter, or those of one filter for each view, flat, on the device of the data."""

    def __init__(self, spectrum: Array, known: Filtered):
        from koct.base.arrays import like

        self.spectrum, self.known = spectrum, known
        self.weights = like(known.weights, spectrum)

    def predict(self, x: Array) -> Array:
        return self.known.reconstruct(x, self.weights, self.spectrum)

    def state(self) -> Mapping[str, Array]:
        return {"spectrum": self.spectrum}


def check_problem(problem: Problem) -> Iterable[str]:
    yield from check_layers(problem)
    if problem.complex_samples:
        yield (
            f"the measurements of the problem {problem.name} are complex, and learned filters are for real ones; take "
            "another architecture"
        )


def cost_with_moments(work: Workload, solved: Cost) -> Cost:
    """Return the cost of solving and of the matrices between all measurements, with their Fourier coefficients."""
    size, pairs = work.x_size, work.N * (work.x_size + work.y_size)
    matrices = 8 * 4 * size**2
    operations = (work.N + 18 * work.y_size**0.5 + 40) * size**2 + work.N * work.layers.operations
    host, gpu = 6 * pairs + matrices + 5e8, 4 * pairs + 1.25 * matrices + 5e8
    return Cost(operations + solved.operations, host + solved.host_bytes, gpu + solved.gpu_bytes)
