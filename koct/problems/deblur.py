"""The deblurring problem: images of small objects, blurred by known optics and seen through an uneven sensitivity.

Its known chain is a Wiener filter behind weights of one: the blur is known, and the sensitivity of the pixels is not.
The convolution is circular; objects stay so far from the border that hardly anything wraps around.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from koct.contracts import Cost, Layer, Sizes, option
from koct.problems.known_chain import SmoothProblem

if TYPE_CHECKING:
    import numpy as np

    from koct.operators.filters import SpectralFilter

EDGE = 1.0  # pixels over which objects fall off
RATIOS = tuple(10 ** (k / 2) for k in range(-8, 1))  # of noise to signal, of Wiener filters to choose from


class Deblur(SmoothProblem):
    nonnegative_images = True

    H: int = option("image height and width in pixels", minimum=8)
    blur: float = option("standard deviation of the Gaussian blur in pixels", above=0)
    noise: float = option(
        "standard deviation of the Gaussian noise; images lie between 0 and 1.5",
        default=0.0,
        minimum=0,
        maximum=1,
    )
    vignetting: float = option(
        "share of light lost in the corners, quadratic in the distance from the centre, unknown to the filter",
        default=0.0,
        minimum=0,
        maximum=0.9,
    )
    wiener: float = option(
        "noise-to-signal ratio of the known Wiener filter",
        default=0.01,
        above=0,
        pairs=False,
    )

    widened: float = option(
        "percent by which the known filter overestimates the blur", default=0.0, above=-100, pairs=False
    )

    wrong: ClassVar[Mapping[str, str]] = {"widened": "blur {:+g} %"}  # beside the sensitivity

    @property
    def x_shape(self) -> tuple[int, int]:
        return self.H, self.H

    @property
    def label(self) -> str:
        return ", ".join(["deblurring", *self.said])

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        if self.blur > self.H / 16:
            yield (
                f"blur = {self.blur:g} pixels reaches across the border of images of {self.H} pixels; "
                f"take at most {self.H / 16:g}, or a larger H"
            )

    def blurring(self, known: bool = False) -> SpectralFilter:
        from koct.operators.filters import SpectralFilter, gaussian_spectrum

        factor = 1 + self.widened / 100 if known else 1
        return SpectralFilter(gaussian_spectrum(self.H, factor * self.blur))

    def inverse(self, ratio: float | None = None) -> SpectralFilter:
        """The Wiener filter: b / (b² + ratio) for the spectrum b of the blur; the ratio is `wiener` by default."""
        from koct.operators.filters import SpectralFilter

        b = self.blurring(known=True).spectrum
        return SpectralFilter(b / (b**2 + (self.wiener if ratio is None else ratio)))

    def image(self, rng: np.random.Generator) -> np.ndarray:
        """Four to ten objects, from specks to long fibres."""
        from koct.problems.phantoms import random_ellipse, soft

        objects = [random_ellipse(rng, (0.2, 1), 0.4, (0.05, 0.25)) for _ in range(rng.integers(4, 11))]
        return soft(objects, self.H, EDGE)

    def measure(self, y: np.ndarray) -> np.ndarray:
        """Images, blurred, times the sensitivity of the pixels: 1 in the centre, 1 − vignetting in the first corner."""
        from koct.problems.phantoms import grid

        square = grid(self.H) ** 2
        return (1 - self.vignetting * (square[:, None] + square) / 2) * self.blurring()(y)

    def layers(self, shared: Mapping[str, Any]) -> Sequence[Layer]:
        import numpy as np

        from koct.operators.algebra import Diagonal

        return Layer("weights", Diagonal(np.ones(self.x_shape))), Layer("Wiener filter", self.inverse())

    def forward(self, shared: Mapping[str, Any]) -> Any:
        """The blur: of the sensitivity of the pixels nothing is known."""
        return self.blurring(known=True)

    def inverses(self, shared: Mapping[str, Any]) -> Mapping[float | None, Any]:
        """Wiener filters, by their ratio."""
        return {ratio: self.inverse(ratio) for ratio in sorted({self.wiener, *RATIOS})}

    def normal_matrix(self, shared: Mapping[str, Any]) -> Any:
        return self.inverse().normal_matrix()

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        pixels = self.y_size
        return {
            "pool": Cost(sizes.total * 2e3 * pixels, 1e8),
            "shared": Cost(),
            "normal": Cost(50.0 * pixels**2, 32 * pixels**2),
            "layers": Cost(200.0 * pixels, 100 * pixels),
        }[stage]
