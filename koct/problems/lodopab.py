"""LoDoPaB-CT as it is downloaded: low-dose parallel-beam scans of 812 chests (Leuschner et al., 2021).

A part (train, validation, test) is files of 128 pairs and a list with the patient of every pair; no patient is in two
parts. Images are 26 cm wide, in units of 81.35858/m, and measurements are −log(counts / 4,096) in the same unit.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from koct.base.messages import printable
from koct.contracts import PARTS, Chunk, Cost, Part, Sizes, option
from koct.errors import KoctError
from koct.problems.known_chain import ScanProblem

if TYPE_CHECKING:
    from koct.problems.arrayfiles import Stored

NAMES: dict[Part, str] = {"train": "train", "val": "validation", "test": "test"}
PHOTONS, UNIT = 4096.0, 81.35858e-3  # photons of a ray, and 1/mm of the image value 1
WIDTH, VIEWS, BINS, PIXELS = 260.0, 1000, 513, 362  # mm, and the shapes of the files
CHUNK = 16  # pairs that are read together
AGAIN = "download it again"


class Files(NamedTuple):
    """The files of a part, in order, and the patient of every pair."""

    images: list[str]
    scans: list[str]
    patients: list[int]


class LoDoPaBProblem(ScanProblem):
    device = "auto"

    data: str = option("folder with the unpacked files, such as ground_truth_train_000.hdf5, in it or below it")
    H: int = option("image height and width in pixels", default=PIXELS, minimum=2)
    V: int = option("equally spaced views to use; a divisor of `views`", default=VIEWS, minimum=1)
    B: int = option("bins, together as wide as the diagonal of an image", default=BINS, minimum=2)
    views: int = option("views in the files", default=VIEWS, minimum=1)

    @property
    def label(self) -> str:
        return f"LoDoPaB-CT, {self.V} views"

    def files(self) -> Sequence[str]:
        there = [_part(self.data, part) for part in PARTS]
        lists = [path for part in PARTS for path in [_list(self.data, part)] if path]
        return sorted([*lists, *(path for files in there for path in (*files.images, *files.scans))])

    def understood(self) -> str:
        found = {NAMES[part]: _part(self.data, part).patients for part in PARTS}
        return "; ".join(f"{name}: {len(ids)} slices of {len(set(ids))} patients" for name, ids in found.items())

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        from koct.problems.arrayfiles import require

        if self.views % self.V:
            yield f"V = {self.V} is no divisor of {self.views}; take one, such as {self.views // 10}"
        try:
            require("h5py", f"data = {self.data!r}")
            patients: dict[int, Part] = {}
            for part in PARTS:
                files = _part(self.data, part)
                self._check_counts(files, part)
                if shared := sorted(each for each in set(files.patients) if patients.setdefault(each, part) != part):
                    other = NAMES[patients[shared[0]]]
                    yield f"data: patient {shared[0]} is in {other} and in {NAMES[part]}; {AGAIN}"
                if len(files.patients) < getattr(sizes, part):
                    have = f"{NAMES[part]} has {len(files.patients)} pairs"
                    yield f"pool.{part} asks for {getattr(sizes, part)}, and {have}; lower it, or download more"
        except KoctError as error:
            yield str(error)

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Validation and test pairs are the same for all seeds; a seed draws the training pairs."""
        import numpy as np

        from koct.problems.arrayfiles import rows

        for part in PARTS:
            files, wanted = _part(self.data, part), getattr(sizes, part)
            rng = np.random.default_rng([seed if part == "train" else 0, 2])
            chosen = rng.permutation(len(files.patients))[:wanted]
            every = self._arrays(files, 0)[0].shape[0]
            for first in range(0, wanted, CHUNK):
                x, y = [], []
                for number in chosen[first : first + CHUNK]:
                    place, row = divmod(int(number), every)
                    image, scan = (rows(array, np.array([row]))[0] for array in self._arrays(files, place))
                    x.append(scan[:: self.views // self.V] * 1000)  # mm
                    y.append(image.T)  # its first axis is x
                yield part, np.stack(x).astype(np.float32), np.stack(y).astype(np.float32)
            patients = len({files.patients[number] for number in chosen})
            print(f"{part}: {wanted} slices of {patients} patients", flush=True)

    def _arrays(self, files: Files, place: int) -> tuple[Stored, Stored]:
        """Return the images and the scans of a file."""
        return _array(files.images[place], (self.H, self.H)), _array(files.scans[place], (self.views, self.B))

    def _check_counts(self, files: Files, part: Part) -> None:
        """Refuse files and a list of patients that do not belong together: all files but the last are full."""
        count = 0
        for place, path in enumerate(files.scans):
            images, scans = (array.shape[0] for array in self._arrays(files, place))
            if images != scans:
                raise KoctError(f"data: {printable(path)} has {scans} scans of {images} images; {AGAIN}")
            count, before = count + images, count
        if not before < len(files.patients) <= count:  # the last file may be filled up
            raise KoctError(
                f"data: patient_ids_rand_{NAMES[part]}.csv has {len(files.patients)} lines, and the {len(files.scans)} "
                f"files of its part have {count} pairs; {AGAIN}"
            )

    def geometry(self) -> Any:
        from koct.operators.geometry import ParallelBeam

        angles = tuple(180 * view / self.V + 90 / self.views for view in range(self.V))
        bin = math.sqrt(2) * WIDTH / self.B
        return ParallelBeam(self.H, self.V, self.B, bin=bin, image=WIDTH * (1 - 1 / self.H), degrees=angles)

    def noise_variance(self, x: Any) -> Any:
        """That of −log(counts / photons), with the counts that were measured for those expected."""
        from koct.base.arrays import double, library

        counts = (PHOTONS * library(x).exp(-UNIT * double(x))).clip(min=1)
        return 1 / (counts * UNIT**2)

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes)
        return Cost(sizes.total * 1e8, 16 * CHUNK * self.views * self.B)


def _below(data: str, pattern: str) -> list[str]:
    """Return the files in a folder or below it whose names match, by name."""
    if not os.path.isdir(data):
        raise KoctError(f"data = {data!r} is no folder; give the one that LoDoPaB-CT was unpacked into")
    found = [os.path.join(place, name) for place, _, names in os.walk(data) for name in names]
    return sorted((path for path in found if re.fullmatch(pattern, os.path.basename(path))), key=os.path.basename)


def _list(data: str, part: Part) -> str | None:
    return next(iter(_below(data, rf"patient_ids_rand_{NAMES[part]}\.csv")), None)


def _part(data: str, part: Part) -> Files:
    """Return the files of a part; a KoctError names one that is missing."""
    name = NAMES[part]
    images, scans = (_below(data, rf"{kind}_{name}_\d{{3}}\.hdf5") for kind in ("ground_truth", "observation"))
    for kind, paths, others in (("ground_truth", images, scans), ("observation", scans, images)):
        numbers = {os.path.basename(path)[-8:-5] for path in paths}
        wanted = {f"{number:03}" for number in range(max(len(paths), len(others), 1))}
        wanted |= {os.path.basename(path)[-8:-5] for path in others}
        if missing := sorted(wanted - numbers):
            raise KoctError(f"data: {kind}_{name}_{missing[0]}.hdf5 is missing in {printable(data)}; {AGAIN}")
    listed = _list(data, part)
    if listed is None:
        raise KoctError(f"data: patient_ids_rand_{name}.csv is missing in {printable(data)}; {AGAIN}")
    return Files(images, scans, _patients(listed, os.path.getmtime(listed)))


@lru_cache(maxsize=8)
def _patients(path: str, changed: float) -> list[int]:
    from koct.problems.arrayfiles import opened

    opened(f"data: {printable(path)}", path)
    with open(path, encoding="utf-8", errors="replace") as file:
        try:
            return [int(line) for line in file if line.strip()]
        except ValueError:
            raise KoctError(f"data: {printable(path)} has lines that are no number of a patient; {AGAIN}") from None


def _array(path: str, shape: tuple[int, ...]) -> Stored:
    """Return the array of a file, (pairs, *shape)."""
    return _looked_up(path, shape, os.path.getmtime(path))


@lru_cache(maxsize=2048)
def _looked_up(path: str, shape: tuple[int, ...], changed: float) -> Stored:
    from koct.problems.arrayfiles import find

    array = find("data", "data", path)
    if array.shape[1:] != shape:
        raise KoctError(
            f"data: {printable(path)} has arrays of the shape {array.shape[1:]}, and LoDoPaB-CT {shape}; {AGAIN}"
        )
    return array
