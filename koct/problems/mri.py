"""The MRI problem: radial k-space samples of smooth phantoms with few spokes, and the image they came from.

Its known chain is gridding reconstruction: density compensation, one weight per complex sample, and the adjoint
non-uniform Fourier transform; theory gives weights proportional to |k|.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from koct.contracts import Cost, Layer, Sizes, option
from koct.problems.known_chain import SmoothProblem

if TYPE_CHECKING:
    import numpy as np

    from koct.operators.nufft import NonUniformFourier, RadialTrajectory

EDGE = 2.0  # pixels over which tissue borders fall off
TAPS = 144  # points of the grid that a sample is interpolated from


class MRI(SmoothProblem):
    complex_samples = True

    H: int = option("image height and width in pixels", minimum=4)
    spokes: int = option("radial spokes, equally spaced over 180°", minimum=1)
    samples: int = option(
        "samples along a spoke, from −H/2 to H/2 cycles per field of view; fewer than `H` alias",
        minimum=2,
    )
    noise: float = option(
        "standard deviation of the Gaussian noise on real and imaginary parts, in the unit of the image (0 to"
        " 1.5): the transform is orthonormal",
        default=0.0,
        minimum=0,
        maximum=1,
    )
    phase: float = option(
        "largest phase in radians, smooth and random; 0 makes real images (H, H), anything else complex ones (H, H, 2)",
        default=0.0,
        minimum=0,
    )
    delay: float = option(
        "samples by which true samples lie farther along their spoke than known ones",
        default=0.0,
    )
    coil_phase: float = option(
        "radians of coil phase at the middle of each edge, quadratic in the distance from the centre, unknown"
        " to the transform",
        default=0.0,
    )

    wrong: ClassVar[Mapping[str, str]] = {"delay": "delay {:g}", "coil_phase": "coil phase {:g}"}

    @property
    def x_shape(self) -> tuple[int, int, int]:
        return self.spokes, self.samples, 2

    @property
    def y_shape(self) -> tuple[int, ...]:
        return (self.H, self.H, 2) if self.phase else (self.H, self.H)

    @property
    def nonnegative_images(self) -> bool:  # type: ignore[override]
        return not self.phase

    @property
    def label(self) -> str:
        return ", ".join(["radial MRI", *(["complex images"] if self.phase else []), *self.said])

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        if self.samples < self.H:
            yield f"samples = {self.samples} are too few for H = {self.H}: images fold over; take at least {self.H}"

    def trajectory(self) -> RadialTrajectory:
        from koct.operators.nufft import RadialTrajectory

        return RadialTrajectory(self.spokes, self.samples, self.H / 2)

    def transform(self) -> NonUniformFourier:
        from koct.operators.nufft import NonUniformFourier

        return NonUniformFourier(self.H, self.trajectory(), complex_images=self.phase > 0)

    def measure(self, y: np.ndarray) -> np.ndarray:
        """The samples of images (n, *y_shape) that the scanner takes, without noise: `transform` with `differences`."""
        import numpy as np

        from koct.operators.nufft import NonUniformFourier
        from koct.problems.phantoms import grid

        if not self.differences:
            return self.transform()(y)
        square = grid(self.H) ** 2
        turned = np.exp(1j * self.coil_phase * (square[:, None] + square)) * (y @ [1, 1j] if self.phase else y)
        k = self.trajectory().k
        k = k + self.delay * (k[:, 1:2] - k[:, :1])
        return NonUniformFourier(self.H, k, complex_images=True)(np.stack([turned.real, turned.imag], axis=-1))

    def image(self, rng: np.random.Generator) -> np.ndarray:
        """A body and three to six regions in it, brighter or darker than the body."""
        import numpy as np

        from koct.problems.phantoms import grid, random_ellipse, soft

        body = random_ellipse(rng, (0.3, 0.7), 0.08, (0.6, 0.8))
        regions = [random_ellipse(rng, (-0.3, 0.6), 0.4, (0.06, 0.3)) for _ in range(rng.integers(3, 7))]
        magnitude = soft([body, *regions], self.H, EDGE)
        # a random polynomial of second degree, between −1 and 1, as a field that is not quite uniform makes it; it is
        # drawn in any case: magnitudes are then the same
        x, y = grid(self.H)[None, :], grid(self.H)[:, None]
        terms = [np.ones((self.H, self.H)), x + 0 * y, y + 0 * x, x * y, x**2 - y**2]
        turned = self.phase * (np.tensordot(rng.uniform(-1, 1, len(terms)), np.stack(terms), 1) / len(terms))
        parts = [magnitude * np.cos(turned), magnitude * np.sin(turned)]
        return np.stack(parts, axis=-1) if self.phase else magnitude

    def layers(self, shared: Mapping[str, Any]) -> Sequence[Layer]:
        from koct.operators.algebra import ComplexDiagonal

        weights = ComplexDiagonal(self.trajectory().density_compensation())
        return Layer("density compensation", weights), Layer("adjoint Fourier transform", self.transform().T)

    def forward(self, shared: Mapping[str, Any]) -> Any:
        return self.transform()

    def normal_matrix(self, shared: Mapping[str, Any]) -> Any:
        from koct.operators.nufft import normal_of_adjoint

        return normal_of_adjoint(self.H, self.trajectory(), complex_images=self.phase > 0)

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        points, grid = self.spokes * self.samples, 4 * self.H**2
        transform = 500.0 * grid + 2 * TAPS * 10 * points
        return {
            "pool": Cost(sizes.total * (transform + 2e3 * self.y_size), 1e8),
            "shared": Cost(),
            "normal": Cost(100.0 * points**2 + 8 * self.H * points**2, 100 * points**2),
            "layers": Cost(transform, 16 * TAPS * points + 100 * grid),
        }[stage]
