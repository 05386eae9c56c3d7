"""Random ellipses and few parallel views, the data on which learned CT is usually compared (Adler and Öktem, 2018).

An image is a sum of 50 ellipses of either sign, shifted and scaled to [0, 1], which fills the whole square. It is drawn
on pixels a quarter as wide and projected there, so that what reconstructs has not made the data; white noise follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import Chunk, Cost, Part, Sizes, option
from koct.problems.known_chain import SAMPLE, ScanProblem

if TYPE_CHECKING:
    import numpy as np

HELD_OUT: dict[Part, int] = {"val": 2**32 + 1, "test": 2**32 + 2}  # streams, the same for every training pool
NOISE = 2**33  # the streams of noise, from here on
FINER = 4  # pixels of the drawing for one of the image, in each direction
CHUNK = 16  # images drawn together
DRAWN = 4e7  # operations of one drawing at H = 128


class Ellipses50(ScanProblem):
    device = "auto"
    nonnegative = True
    same_held_out = True
    interpolates = True
    known = "exact"

    H: int = option("image height and width in pixels", default=128, minimum=4)
    V: int = option("number of views, equally spaced over 180°", default=30, minimum=1)
    B: int = option("number of detector bins, which together are as wide as the diagonal of the image", default=183)
    noise: float = option(
        "standard deviation of the noise, as a share of the mean absolute measurement of an image",
        default=0.05,
        minimum=0,
    )

    @property
    def x_shape(self) -> tuple[int, int]:
        return self.V, self.B

    @property
    def y_shape(self) -> tuple[int, int]:
        return self.H, self.H

    @property
    def label(self) -> str:
        return f"50 ellipses, {self.V} views, {100 * self.noise:g} % noise"

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        if self.B < self.H:
            yield f"B = {self.B} bins are wider than the pixels of an image with H = {self.H}; take at least {self.H}"

    def geometry(self) -> Any:
        return self._geometry(1)

    def _geometry(self, finer: int) -> Any:
        """Return the scan of images with `finer` times the pixels in each direction; a pixel of the image is 1 mm."""
        from koct.operators.geometry import ParallelBeam

        return ParallelBeam(
            finer * self.H, self.V, self.B, bin=math.sqrt(2) * self.H / self.B, image=self.H - 1 / finer
        )

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Every pair has a random stream of its own; validation and test pairs are the same for all seeds."""
        import numpy as np
        from scipy.special import ndtri

        from koct.base import device
        from koct.base.arrays import to_numpy
        from koct.operators.fanbeam import Projector
        from koct.problems.noise import uniforms

        place, A = device.choose(), Projector(self._geometry(FINER))
        parts: tuple[Part, ...] = ("train", "val", "test")
        for part in parts:
            stream, count = HELD_OUT.get(part, seed), getattr(sizes, part)
            for first in range(0, count, CHUNK):
                numbers = range(first, min(first + CHUNK, count))
                drawn = np.stack([self._draw(stream, number) for number in numbers])
                images = averages(drawn, FINER)
                low = images.min(axis=(1, 2), keepdims=True)
                width = np.maximum(images.max(axis=(1, 2), keepdims=True) - low, 1e-6)
                x = to_numpy(A(place.put(((drawn - low) / width).astype(np.float32)))).astype(float)
                size = self.noise * np.abs(x).mean(axis=(1, 2), keepdims=True)
                x += size * ndtri([uniforms(NOISE + stream, number, self.x_shape)[0] for number in numbers])
                yield part, x.astype(np.float32), ((images - low) / width).astype(np.float32)
            print(f"{part}: {count} phantoms", flush=True)

    def _draw(self, stream: int, number: int) -> np.ndarray:
        """Return the sum of the ellipses of a pair on fine pixels, (4H, 4H)."""
        import numpy as np

        from koct.problems.phantoms import add_ellipse

        size = FINER * self.H
        grid = (2 * np.arange(size) + 1) / size - 1
        image = np.zeros((size, size))
        for ellipse in ellipses(stream, number):
            add_ellipse(image, ellipse, grid)
        return image

    def forward(self, shared: Mapping[str, Any]) -> Any:
        from koct.operators.fanbeam import Projector

        return Projector(self.geometry())

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes)
        projected = SAMPLE * 2 * FINER * self.H * self.x_size
        return Cost(sizes.total * (DRAWN * (self.H / 128) ** 2 + projected), 32 * CHUNK * (FINER * self.H) ** 2)


def ellipses(stream: int, number: int, count: int = 50) -> list[Any]:
    """Return the ellipses of a pair.

    Values are uniform(−0.5, 0.5) · exponential(0.4), half axes 0.2 · exponential(1), centres uniform in the square,
    angles uniform.
    """
    import numpy as np

    from koct.problems.noise import uniforms
    from koct.problems.phantoms import Ellipse

    u = uniforms(stream, number, (7, count))[0]
    values = (u[0] - 0.5) * -0.4 * np.log(u[1])
    axes, centres = -0.2 * np.log(u[2:4]), 2 * u[4:6] - 1
    columns = np.array([values, *centres, *axes, 2 * np.pi * u[6]])
    rows = columns.T.astype(np.float32).tolist()  # rounded alike on every machine
    return [Ellipse(value, (x, y), (a, b), angle) for value, x, y, a, b, angle in rows]


def averages(images: np.ndarray, size: int) -> np.ndarray:
    """Return the means over squares of `size` × `size` pixels."""
    n, height, width = images.shape
    means: np.ndarray = images.reshape(n, height // size, size, width // size, size).mean(axis=(2, 4))
    return means
