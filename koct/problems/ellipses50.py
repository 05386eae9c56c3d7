"""Random ellipses and few parallel views, the data on which learned CT is usually compared (Adler and Öktem, 2018).

An image is a sum of 50 ellipses of either sign, shifted and scaled to [0, 1], which fills the whole square. It is drawn
on pixels a quarter as wide and projected there, so that what reconstructs has not made the data; white noise follows.
These are the images of dival (Leuschner et al., 2019). Those that were printed are an option: Poisson(50) ellipses, not
scaled, drawn at the centres of pixels and projected by what reconstructs.
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
MOST = 120  # ellipses: Poisson(50) gives more once in 10¹⁷ images
SHEPP_LOGAN = (  # the modified phantom: value, centre, half axes, angle in degrees
    (1.0, 0.0, 0.0, 0.69, 0.92, 0),
    (-0.8, 0.0, -0.0184, 0.6624, 0.874, 0),
    (-0.2, 0.22, 0.0, 0.11, 0.31, -18),
    (-0.2, -0.22, 0.0, 0.16, 0.41, 18),
    (0.1, 0.0, 0.35, 0.21, 0.25, 0),
    (0.1, 0.0, 0.1, 0.046, 0.046, 0),
    (0.1, 0.0, -0.1, 0.046, 0.046, 0),
    (0.1, -0.08, -0.605, 0.046, 0.023, 0),
    (0.1, 0.0, -0.606, 0.023, 0.023, 0),
    (0.1, 0.06, -0.605, 0.023, 0.046, 0),
)


class Ellipses50(ScanProblem):
    device = "auto"
    endless = True

    H: int = option("image height and width in pixels", default=128, minimum=4)
    V: int = option("views, equally spaced over 180°", default=30, minimum=1)
    B: int = option("detector bins, together as wide as the diagonal of the image", default=183)
    noise: float = option(
        "standard deviation of the noise, as a share of the mean absolute measurement",
        default=0.05,
        minimum=0,
    )
    images: Literal["scaled", "printed"] = option(
        "`scaled`: 50 ellipses, scaled to [0, 1], projected from finer pixels; `printed`: Poisson(50) of "
        "them, not scaled, on the pixels of the image, as in Adler and Öktem (2018)",
        default="scaled",
        later=True,
    )
    held_out: Literal["ellipses", "shepp-logan"] = option(
        "validation and test images: ellipses, or the modified Shepp–Logan phantom with different noise",
        default="ellipses",
        later=True,
    )

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.images == "scaled"

    @property
    def finer(self) -> int:
        """Pixels of the drawing for one of the image, in each direction."""
        return FINER if self.images == "scaled" else 1

    @property
    def label(self) -> str:
        tested = "" if self.held_out == "ellipses" else ", tested on Shepp–Logan"
        count = "50" if self.images == "scaled" else "Poisson(50)"
        return f"{count} ellipses, {self.V} views, {100 * self.noise:g} % noise{tested}"

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

        place, A = device.choose(), Projector(self.geometry(self.finer))
        for part in PARTS:
            stream, count = HELD_OUT.get(part, seed), getattr(sizes, part)
            for first in range(0, count, CHUNK):
                numbers = range(first, min(first + CHUNK, count))
                drawn = np.stack([drawing(self._ellipses(part, stream, i), self.finer * self.H) for i in numbers])
                images = averages(drawn, self.finer)
                low, width = np.float64(0), np.float64(1)
                if self.images == "scaled":
                    low = images.min(axis=(1, 2), keepdims=True)
                    width = np.maximum(images.max(axis=(1, 2), keepdims=True) - low, 1e-6)
                x = to_numpy(A(place.put(((drawn - low) / width).astype(np.float32)))).astype(float)
                size = self.noise * np.abs(x).mean(axis=(1, 2), keepdims=True)
                x += size * ndtri([uniforms(NOISE + stream, number, self.x_shape)[0] for number in numbers])
                yield part, x.astype(np.float32), ((images - low) / width).astype(np.float32)
            print(f"{part}: {count} phantoms", flush=True)

    def _ellipses(self, part: Part, stream: int, number: int) -> np.ndarray:
        """Return the ellipses of an image, (6, count)."""
        import numpy as np

        if part != "train" and self.held_out == "shepp-logan":
            phantom = np.array(SHEPP_LOGAN).T
            return np.array([*phantom[:5], np.radians(phantom[5])])
        return ellipses(stream, number) if self.images == "scaled" else printed_ellipses(stream, number)

    def noise_variance(self, x: Any) -> Any:
        """Images between 0 and 1 have measurements whose mean is that of the absolute ones, noise or not."""
        mean = (x if self.images == "scaled" else abs(x)).sum(axis=1, keepdims=True) / self.x_size
        return (self.noise * mean) ** 2 + 0 * x

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes)
        projected = SAMPLE * 2 * self.finer * self.H * self.x_size
        return Cost(sizes.total * (DRAWN * (self.H / 128) ** 2 + projected), 32 * CHUNK * (self.finer * self.H) ** 2)


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


def printed_ellipses(stream: int, number: int) -> np.ndarray:
    """Return the same, but Poisson(50) of them."""
    from scipy.special import pdtrik

    from koct.problems.noise import uniforms

    chance = uniforms(stream, number, (7, MOST))[1, 0, 0]
    return ellipses(stream, number, MOST)[:, : math.ceil(pdtrik(chance, 50.0))]


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
