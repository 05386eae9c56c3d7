"""The parallel-beam surrogate problem: noise-free sinograms of random ellipses, small enough for a laptop.

Its known chain is the Tikhonov inverse A⁺ = (AᵀA + tikhonov·I)⁻¹ Aᵀ of the projector A, behind weights of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import PARTS, Chunk, Cost, Layer, Problem, Sizes, option

if TYPE_CHECKING:
    import numpy as np

    from koct.problems.phantoms import Ellipse

TIKHONOV = (1e-4, 1e-3, 1e-2, 0.1, 1.0)  # strengths of inverses to choose from
SINGULAR = 1e-6  # share of the largest singular value: of smaller ones there is no inverse


class Surrogate(Problem):
    endless = True
    nonnegative_images = True

    H: int = option("image height and width in pixels", minimum=2)
    V: int = option("views, equally spaced over 180°", minimum=1)
    B: int = option("detector bins, equal to `H`", minimum=2)
    tikhonov: float = option("strength t of the known operator (AᵀA + tI)⁻¹Aᵀ, such as 0.1", above=0, pairs=False)

    @property
    def pictured(self) -> bool:  # type: ignore[override]
        return self.H >= 32  # fewer pixels are no picture

    @property
    def x_shape(self) -> tuple[int, int]:
        return self.V, self.B

    @property
    def y_shape(self) -> tuple[int, int]:
        return self.H, self.H

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        if self.B != self.H:
            yield f"B = {self.B} must equal H = {self.H} for this problem; set B to it"

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """All parts from one random stream."""
        import numpy as np

        from koct.operators.parallel import projector
        from koct.problems.phantoms import rasterise

        rng = np.random.default_rng(seed)
        A = projector(self.H, self.V)
        for part in PARTS:
            count = getattr(sizes, part)
            phantoms = np.stack([rasterise(draw(rng), self.H) for _ in range(count)])
            yield part, A(phantoms), phantoms

    def noise_variance(self, x: Any) -> Any:
        return 0.0

    def shared(self) -> Mapping[str, Any]:
        from koct.operators.parallel import projector, tikhonov_inverse

        R = tikhonov_inverse(projector(self.H, self.V), self.tikhonov).values
        return {"inverse": R, "normal": R.T @ R}

    def layers(self, shared: Mapping[str, Any]) -> Sequence[Layer]:
        import numpy as np

        from koct.operators.algebra import Diagonal, Matrix

        inverse = Matrix(shared["inverse"], self.x_shape, self.y_shape)
        return Layer("weights", Diagonal(np.ones(self.x_shape))), Layer("Tikhonov inverse", inverse)

    def forward(self, shared: Mapping[str, Any]) -> Any:
        from koct.operators.parallel import projector

        return projector(self.H, self.V)

    def inverses(self, shared: Mapping[str, Any]) -> Mapping[float | None, Any]:
        """The pseudo-inverse, and Tikhonov inverses by their strength: that of the known chain, and powers of ten."""
        import numpy as np

        from koct.operators.algebra import Matrix
        from koct.operators.parallel import projector, tikhonov_inverse

        A, (_, known) = projector(self.H, self.V), self.layers(shared)
        found: dict[float | None, Any] = {
            None: Matrix(np.linalg.pinv(A.matrix(), rcond=SINGULAR), self.x_shape, self.y_shape)
        }
        for each in sorted({self.tikhonov, *TIKHONOV}):
            found[each] = known.operator if each == self.tikhonov else tikhonov_inverse(A, each)
        return found

    def normal_matrix(self, shared: Mapping[str, Any]) -> Any:
        return shared["normal"]

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        x, y = self.x_size, self.y_size
        return {
            "pool": Cost(sizes.total * (1e6 + 20 * self.V * y), 16 * sizes.total * (x + y)),
            "shared": Cost(y**3 + 2 * x * y**2 + x * x * y, 3 * 8 * y * (x + y)),
            "normal": Cost(),
            "layers": Cost(x * y, 8 * x * y),
        }[stage]


def draw(rng: np.random.Generator) -> list[Ellipse]:
    """One to four ellipses, in the order that made the printed numbers."""
    from koct.problems.phantoms import random_ellipse

    return [random_ellipse(rng, (0.2, 1), 0.5, (0.08, 0.4)) for _ in range(rng.integers(1, 5))]
