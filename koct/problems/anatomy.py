"""Slices of a brain instead of ellipses, or ellipses that are scanned in the same way.

The brain is the MNI152 T1 template, an average over MR images of 152 people, in the wheel of nilearn. Its axial slices,
turned, scaled and shifted at random, are projected by the fan beam: anatomical images that come from MRI, and no CT.
Ellipses are those of the CT problems. Training, validation and test slices lie in different slabs of 6 mm, 2 mm apart,
of the one brain.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import Chunk, Cost, Part, Sizes, option
from koct.problems.ct import HELD_OUT
from koct.problems.known_chain import MOST_BINS, SAMPLE, ScanProblem

if TYPE_CHECKING:
    import numpy as np

TEMPLATE = "datasets/data/mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"  # in nilearn
FIELD = 220.0  # mm, the side of an image
FIRST, SLABS, THICK = 32, 12, 8  # the slices are from 32 mm to 128 mm
SLAB_OF: dict[Part, tuple[int, ...]] = {"train": (0, 2), "val": (1,), "test": (3,)}  # of every four
FINER = 4  # points for one pixel, in each direction, over which the template is averaged
CHUNK = 32  # images projected together


class Anatomy(ScanProblem):
    validation_metric = "rrmse_norm"

    H: int = option("image height and width in pixels", minimum=8)
    V: int = option("fan-beam views, equally spaced over 180°, both ends included", minimum=1)
    B: int = option("detector bins", minimum=2, maximum=MOST_BINS)
    images: Literal["anatomy", "ellipses"] = option("slices of a brain, or ellipses")

    @property
    def label(self) -> str:
        return self.images

    def files(self) -> Sequence[str]:
        return [path for path in [template()] if path and self.images == "anatomy"]

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        if self.images == "anatomy" and not (template() and find_spec("nibabel")):
            yield "problem: the images are in the package nilearn, which is not installed; pip install 'koct[anatomy]'"

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Validation and test pairs are the same for all seeds."""
        import numpy as np

        from koct.base.streams import TorchStream
        from koct.problems.ct import draw
        from koct.problems.phantoms import rasterise

        A = self.forward({})
        for part in SLAB_OF:
            number, held = HELD_OUT.get(part, 1 + seed), getattr(sizes, part)
            stream, rng = TorchStream(number), np.random.default_rng(number)
            for first in range(0, held, CHUNK):
                count = range(min(CHUNK, held - first))
                if self.images == "anatomy":
                    y = np.array([brain(rng, part, self.H) for _ in count], np.float32)
                else:
                    y = np.array([rasterise(draw(stream), self.H) for _ in count], np.float32)
                yield part, A(y), y
            print(f"{part}: {held} images", flush=True)

    def noise_variance(self, x: Any) -> Any:
        return 0.0

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes)
        return Cost(1e10 + sizes.total * (SAMPLE * 2 * self.H * self.x_size + 1e3 * FINER**2 * self.y_size), 1e8)


def template() -> str | None:
    """Where the brain is; None if nilearn is not installed."""
    package = find_spec("nilearn")
    path = package and os.path.join(next(iter(package.submodule_search_locations or [""])), TEMPLATE)
    return path if path and os.path.isfile(path) else None


@lru_cache(maxsize=1)
def volume() -> np.ndarray:
    """The brain on pixels of 1 mm, from left to right, from back to front, and up; values from 0 to 1."""
    import nibabel
    import numpy as np

    values = np.asarray(nibabel.load(str(template())).dataobj, np.float32)  # type: ignore[attr-defined]
    return values / values.max()


def brain(rng: np.random.Generator, part: Part, H: int) -> np.ndarray:
    """(H, H): a slice of one of the slabs of a part, turned by any angle, scaled by ±10 % and shifted by ±5 %."""
    import numpy as np
    from scipy.ndimage import map_coordinates

    slab = 4 * rng.integers(SLABS // 4) + rng.choice(SLAB_OF[part])
    z = FIRST + THICK * slab + rng.integers(1, THICK - 1)
    angle, scale, shift = rng.uniform(0, 2 * np.pi), rng.uniform(0.9, 1.1), rng.uniform(-0.05, 0.05, 2)
    place = ((np.arange(FINER * H) + 0.5) / (FINER * H) - 0.5) * FIELD
    x, y = place[None, :] - shift[0] * FIELD, place[:, None] - shift[1] * FIELD
    c, s = np.cos(angle) / scale, np.sin(angle) / scale
    middle = np.array(volume().shape[:2]) / 2 - 0.5
    points = [c * x + s * y + middle[0], c * y - s * x + middle[1]]
    fine = map_coordinates(volume()[:, :, z].astype(float), points, order=1)
    means: np.ndarray = fine.reshape(H, FINER, H, FINER).mean(axis=(1, 3))
    return means
