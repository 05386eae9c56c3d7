"""Random ellipses and few parallel views, the data on which learned CT is usually compared (Adler and Öktem, 2018).

An image is a sum of 50 ellipses of either sign, shifted and scaled to [0, 1], which fills the whole square. It is drawn
on pixels a quarter as wide and projected there, so that what reconstructs has not made the data; white noise follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import PARTS, Chunk, Cost, Part, Sizes, option
from koct.problems.known_chain import SAMPLE, ScanProblem

if TYPE_CHECKING:
    import numpy as np

HELD_OUT: dict[Part, int] = {"val": 2**32 + 1, "test": 2**32 + 2}  # streams, the same for every training pool
NOISE = 2**33  # the streams of noise, from here on
FINER = 4  # pixels of the drawing for one of the image, in each direction
CHUNK = 16  # images drawn together
DRAWN = 1e7  # operations of one drawing at H = 128


class Ellipses50(ScanProblem):
    device = "auto"
    endless = True

    H: int = option("image height and width in pixels", default=128, minimum=4)
    V: int = option("number of views, equally spaced over 180°", default=30, minimum=1)
    B: int = option("number of detector bins, which together are as wide as the diagonal of the image", default=183)
    noise: float = option(
        "standard deviation of the noise, as a share of the mean absolute measurement of an image",
        default=0.05,
        minimum=0,
    )

    @property
    def label(self) -> str:
        return f"50 ellipses, {self.V} views, {100 * self.noise:g} % noise"

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        if self.B < self.H:
            yield f"B = {self.B} bins are wider than the pixels of an image with H = {self.H}; take at least {self.H}"

    def geometry(self, finer: int = 1) -> Any:
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

        place, A = device.choose(), Projector(self.geometry(FINER))
        for part in PARTS:
            stream, count = HELD_OUT.get(part, seed), getattr(sizes, part)
            for first in range(0, count, CHUNK):
                numbers = range(first, min(first + CHUNK, count))
                drawn = np.stack([drawing(ellipses(stream, number), FINER * self.H) for number in numbers])
                images = averages(drawn, FINER)
                low = images.min(axis=(1, 2), keepdims=True)
                width = np.maximum(images.max(axis=(1, 2), keepdims=True) - low, 1e-6)
                x = to_numpy(A(place.put(((drawn - low) / width).astype(np.float32)))).astype(float)
                size = self.noise * np.abs(x).mean(axis=(1, 2), keepdims=True)
                x += size * ndtri([uniforms(NOISE + stream, number, self.x_shape)[0] for number in numbers])
                yield part, x.astype(np.float32), ((images - low) / width).astype(np.float32)
            print(f"{part}: {count} phantoms", flush=True)

    def noise_variance(self, x: Any) -> Any:
        """Images lie between 0 and 1: the mean of their measurements is that of the absolute ones, noise or not."""
        return (self.noise * x.sum(axis=1, keepdims=True) / self.x_size) ** 2 + 0 * x

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes)
        projected = SAMPLE * 2 * FINER * self.H * self.x_size
        return Cost(sizes.total * (DRAWN * (self.H / 128) ** 2 + projected), 32 * CHUNK * (FINER * self.H) ** 2)


def ellipses(stream: int, number: int, count: int = 50) -> np.ndarray:
    """Return the ellipses of a pair, (6, count): values, x and y of the centres, two half axes, angles.

    Values are uniform(−0.5, 0.5) · exponential(0.4), half axes 0.2 · exponential(1), centres uniform in the square,
    angles uniform.
    """
    import numpy as np

    from koct.problems.noise import uniforms

    u = uniforms(stream, number, (7, count))[0]
    values = (u[0] - 0.5) * -0.4 * np.log(u[1])
    axes, centres = -0.2 * np.log(u[2:4]), 2 * u[4:6] - 1
    return np.array([values, *centres, *axes, 2 * np.pi * u[6]]).astype(np.float32)  # rounded alike on every machine


def drawing(ellipses: np.ndarray, size: int) -> np.ndarray:
    """Return the sum of ellipses at the centres of size × size pixels of the square [−1, 1]².

    An ellipse adds to a row of pixels from one column to another. A test of every pixel in its box took three times as
    long.
    """
    import numpy as np

    value, x, y, a, b, angle = ellipses.astype(float)[:, :, None]
    c, s = np.cos(angle), np.sin(angle)
    rows = (2 * np.arange(size) + 1) / size - 1 - y  # from the centre, (ellipses, rows)
    # across² · square + across · linear + constant ≤ 0
    square = (c / a) ** 2 + (s / b) ** 2
    linear = 2 * c * s * (a**-2 - b**-2) * rows
    constant = rows**2 * ((s / a) ** 2 + (c / b) ** 2) - 1
    root = linear**2 - 4 * square * constant
    met = root > 0
    half = np.sqrt(np.where(met, root, 0))
    first, last = ((x + (side * half - linear) / (2 * square) + 1) * size / 2 - 0.5 for side in (-1, 1))
    first = np.clip(np.ceil(first), 0, size)[met].astype(int)
    last = np.clip(np.floor(last) + 1, 0, size)[met].astype(int)
    place = np.broadcast_to(np.arange(size) * (size + 1), met.shape)[met]
    steps = np.broadcast_to(value, met.shape)[met]
    changes = np.bincount(np.r_[place + first, place + last], np.r_[steps, -steps], size * (size + 1))
    return np.cumsum(changes.reshape(size, size + 1)[:, :size], axis=1)


def averages(images: np.ndarray, size: int) -> np.ndarray:
    """Return the means over squares of `size` × `size` pixels."""
    n, height, width = images.shape
    means: np.ndarray = images.reshape(n, height // size, size, width // size, size).mean(axis=(2, 4))
    return means
