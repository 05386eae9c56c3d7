"""One learned filter for all views, between known weights and a known backprojection: ŷ = B F(s) W x."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

from koct.contracts import Architecture, ChainLayer, Cost, Layer, Network, Problem, Training, Workload, option
from koct.networks.architectures import KnownArchitecture, KnownNetwork


class Filter(KnownArchitecture):
    label = "filter"
    colour = "#e69f00"
    marker = "v"
    real_alone = True

    per_view: ClassVar[bool] = False  # whether there is a filter for each view, or one for all

    solver: ClassVar[str] = "ridge"  # the closed form, with the best of `lambdas`
    toward: Literal["zero", "analytic"] = option("target of the ridge: the known filter, or zero", default="analytic")

    @property
    def predicted(self) -> Literal["subsets"]:
        return "subsets"

    def check(self, problem: Problem) -> Iterable[str]:
        yield from super().check(problem)
        yield from self.check_size(problem, "it", "fewer measurements")

    def contains(self, other: Architecture) -> bool:
        """One filter for all views, if there is one for each; and the known filter, if they are pulled to it."""
        if isinstance(other, Filter):
            return self.toward == other.toward and self.per_view and not other.per_view
        return other.name == "untrained" and self.toward == "analytic"

    def known(self, data: Training) -> Any:
        from koct.networks.filtering import Filtered

        return Filtered(data.layers, data.nonnegative)

    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:
        """One network for each λ: argmin_s Σ_n ‖B F(s) W x_n − y_n‖² + λ‖s − s₀‖²."""
        import numpy as np

        from koct.base.arrays import like
        from koct.networks.filtering import Moments
        from koct.networks.solvers import by_cholesky

        known = self.known(data)
        start = np.tile(known.spectrum, known.views if self.per_view else 1)
        prior = start if self.toward == "analytic" else np.zeros_like(start)
        moments = Moments(known, data.x, data.y, data.normal)
        matrix, right = moments.of_filter(like(known.weights, moments.mixed), self.per_view)
        for lam, spectrum in by_cholesky(matrix, right, like(prior, right), data.lambdas):
            yield lam, KnownNetwork(known, spectrum=like(spectrum, data.x))

    def chain(self, problem: Problem, layers: Sequence[Layer]) -> Sequence[ChainLayer]:
        from koct.networks import chain_layers

        weights, _ = chain_layers.split(layers)
        views = problem.x_size // problem.x_shape[-1] if self.per_view else 1
        behind = chain_layers.learned_filters(layers, problem, views)
        return [*chain_layers.known([weights] if weights else []), *behind, *chain_layers.relu(problem)]

    def cost(self, work: Workload) -> Cost:
        learned = work.x_size if self.per_view else work.y_size**0.5  # about, with as many bins as rows
        return cost_with_moments(work, Cost(work.lambdas * learned**3 / 3, 8 * learned**2, 8 * learned**2))


def cost_with_moments(work: Workload, solved: Cost) -> Cost:
    """Return the cost of solving and of the matrices between all measurements, with their Fourier coefficients."""
    size, pairs = work.x_size, work.N * (work.x_size + work.y_size)
    matrices = 8 * 4 * size**2
    operations = (work.N + 18 * work.y_size**0.5 + 40) * size**2 + work.N * work.layers.operations
    host, gpu = 6 * pairs + matrices + 5e8, 4 * pairs + 1.25 * matrices + 5e8
    return Cost(operations + solved.operations, host + solved.host_bytes, gpu + solved.gpu_bytes)
