"""2DeteCT as it is downloaded: fan-beam scans of a laboratory, 3,600 views of the full circle (Kiss et al., 2023).

A folder slice00001/mode1 has sinogram.tif, dark.tif, flat1.tif and flat2.tif; slice00001/mode2/reconstruction.tif, in
the same folder or another, is the truth: iterative, from the scan with a high dose. Its unit is one over its pixel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.base.messages import printable
from koct.contracts import PARTS, Chunk, Cost, Sizes, option
from koct.errors import KoctError
from koct.problems.known_chain import ScanProblem

if TYPE_CHECKING:
    import numpy as np

SOURCE_OBJECT, SOURCE_DETECTOR, PIXEL = 431.019989, 529.000488, 0.0748  # mm
VIEWS, BINS, WIDTH = 3600, 956, 1024  # of a scan, whose last view is the first again; pairs of pixels; of the truth
SHIFTED = (range(1, 2831), range(5521, 5871))  # slices before the detector was changed: it was a bin off
FILES = ("sinogram.tif", "dark.tif", "flat1.tif", "flat2.tif")
DARKEST = 1e-6  # share of the flat field: less is taken for that, since the logarithm needs a positive number
CHUNK = 8  # pairs that are read together
AGAIN = "download it again"


class DetectProblem(ScanProblem):
    device = "auto"

    data: str = option("folder with slice00001, slice00002, ..., in it or below it")
    truth: str | None = option("folder with the reconstructions, if it is another", default=None)
    mode: Literal["1", "2", "3"] = option("scans: `1` low dose, `2` high dose, `3` beam hardening", default="1")
    H: int = option("image height and width in pixels; a divisor of `width`", default=WIDTH, minimum=2)
    V: int = option("equally spaced views to use; a divisor of `views`", default=360, minimum=1)
    B: int = option("bins: pairs of detector pixels", default=BINS, minimum=2)
    views: int = option("views in the files, without the last", default=VIEWS, minimum=1)
    width: int = option("height and width of the reconstructions", default=WIDTH, minimum=2)
    split: int = option("seed that chooses validation and test slices, for all `seeds`", default=0, minimum=0)

    @property
    def label(self) -> str:
        return f"2DeteCT, mode {self.mode}, {self.V} views"

    def files(self) -> Sequence[str]:
        return [path for paths in self._slices().values() for path in paths]

    def _slices(self) -> dict[int, list[str]]:
        """Return sinogram, dark field, two flat fields and truth of every slice; a KoctError names a missing one."""
        folders, truths = _folders(self.data), _folders(self.truth or self.data)
        found = {}
        for number, folder in folders.items():
            paths = [os.path.join(folder, f"mode{self.mode}", name) for name in FILES]
            paths.append(os.path.join(truths.get(number, folder), "mode2", "reconstruction.tif"))
            if missing := next((path for path in paths if not os.path.isfile(path)), None):
                raise KoctError(f"data: {printable(missing)} is missing; {AGAIN}, or remove its slice")
            found[number] = paths
        return found

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        for key, whole in (("V", "views"), ("H", "width")):
            if getattr(self, whole) % getattr(self, key):
                yield f"{key} = {getattr(self, key)} is no divisor of {whole} = {getattr(self, whole)}; take one"
        try:
            slices = self._slices()
            for paths in slices.values():
                for path, shape in zip(paths, self._shapes(), strict=True):
                    _read(path, shape, header=True)
            if len(slices) < sizes.total:
                yield f"pool asks for {sizes.total} slices, and there are {len(slices)}; lower it, or download more"
        except KoctError as error:
            yield str(error)

    def _shapes(self) -> list[tuple[int, int]]:
        return [(self.views + 1, 2 * self.B), *[(1, 2 * self.B)] * 3, (self.width, self.width)]

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Validation and test slices are the same for all seeds; a seed draws the training slices from the others."""
        import numpy as np

        slices = self._slices()
        order = np.random.default_rng([self.split, 1]).permutation(sorted(slices))
        test, val, rest = np.split(order, [sizes.test, sizes.held_out])
        train = np.random.default_rng([seed, 2]).permutation(np.sort(rest))[: sizes.train]
        for part, numbers in zip(PARTS, (train, val, test), strict=True):
            for first in range(0, len(numbers), CHUNK):
                pairs = [self._pair(number, slices[number]) for number in numbers[first : first + CHUNK].tolist()]
                x, y = (np.stack(each).astype(np.float32) for each in zip(*pairs, strict=True))
                yield part, x, y
            print(f"{part}: {len(numbers)} slices", flush=True)

    def _pair(self, number: int, paths: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the line integrals of a slice, in pixels of the truth times mm, and the truth."""
        import numpy as np

        files = [_read(path, shape) for path, shape in zip(paths, self._shapes(), strict=True)]
        scan, dark, flat, other = (file[:, ::2] + file[:, 1::2] for file in files[:4])
        share = (scan[: self.views : self.views // self.V] - dark) / ((flat + other) / 2 - dark)
        if any(number in numbers for numbers in SHIFTED):
            share = np.concatenate([share[:, 1:], 2 * share[:, -1:] - share[:, -2:-1]], axis=1)
        image = np.pad(files[4][1:, 1:], (0, 1))  # it was cut out one pixel beside the centre
        steps = self.width // self.H
        y = image.reshape(self.H, steps, self.H, steps).mean(axis=(1, 3))
        return -np.log(share.clip(min=DARKEST)) * self._side / self.width, y

    @property
    def _side(self) -> float:
        """The side of an image, which is what the detector sees at the isocentre, in mm."""
        return 2 * PIXEL * self.B * SOURCE_OBJECT / SOURCE_DETECTOR

    def geometry(self) -> Any:
        from koct.operators.geometry import FanBeam

        angles, image = tuple(-360 * view / self.V for view in range(self.V)), self._side * (1 - 1 / self.H)
        distances = {"source_isocentre": SOURCE_OBJECT, "source_detector": SOURCE_DETECTOR}
        return FanBeam(self.H, self.V, self.B, **distances, bin=2 * PIXEL, image=image, degrees=angles)

    def field_of_view(self) -> Any:
        return self.geometry().field_of_view

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes)
        return Cost(sizes.total * 200 * self.views * self.B, 100 * self.views * self.B)


def _folders(data: str) -> dict[int, str]:
    """Return the folders of slices by their number."""
    if not os.path.isdir(data):
        raise KoctError(f"data = {data!r} is no folder; give the one that 2DeteCT was unpacked into")
    found: dict[int, str] = {}
    for place, folders, _ in os.walk(data):
        numbers = {name: int(name[5:]) for name in folders if re.fullmatch(r"slice\d{5}", name)}
        found |= {number: os.path.join(place, name) for name, number in numbers.items()}
        folders[:] = [name for name in folders if name not in numbers]
    if not found:
        raise KoctError(f"data = {data!r} has no folders like slice00001; correct the path")
    return dict(sorted(found.items()))


def _read(path: str, shape: tuple[int, int], header: bool = False) -> np.ndarray:
    """Return a TIFF image of this shape, or with `header` nothing but its shape looked at."""
    import numpy as np
    from PIL import Image

    from koct.problems.arrayfiles import opened

    what = f"data: {printable(path)}"
    opened(what, path)
    try:
        with Image.open(path, formats=["TIFF"]) as file:
            size = file.size[::-1]
            values = np.zeros(0) if header or size != shape else np.array(file, np.float64)
    except Exception:  # whatever a damaged file makes of its reader
        raise KoctError(f"{what} is not a complete TIFF file; {AGAIN}") from None
    if size != shape:
        raise KoctError(f"{what} has {size[0]} × {size[1]} pixels, and 2DeteCT {shape[0]} × {shape[1]}; {AGAIN}")
    return values
