"""A scan of images of your own, or of random ellipses: fan or parallel beam, at the scale of the body, with photons.

Images are projected from finer pixels than those that are reconstructed, and compared with the truth in the field of
view alone. Pairs are slices. No patient is in two parts; where there are fewer than three, the parts are slabs of
neighbouring slices with gaps between them.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from koct.base.messages import printable
from koct.contracts import PARTS, Chunk, Cost, Part, Sizes, option
from koct.errors import KoctError
from koct.problems.ct import CHUNK, HELD_OUT, NOISE, CTProblem
from koct.problems.known_chain import DETECTOR, SAMPLE, SOURCE, UNITS

if TYPE_CHECKING:
    import numpy as np

    from koct.problems.slices import Slice

ELLIPSES = "ellipses"
BELOW_AIR, METAL = -0.5, 100.0  # beyond these no value is relative to water
FEW_HU = 50.0  # a smaller range is none of Hounsfield units
BELOW_ZERO = 0.05  # share of the largest value that other images may be below 0, as by interpolation
ARRAYS = (".npy", ".npz", ".h5", ".hdf5", ".hdf")


class ScannedImages(CTProblem):
    data: str = option(
        "folder or file of CT slices (DICOM, PNG, NIfTI, .inv3 of InVesalius), array of slices (.npy, .npz, .h5), or "
        f"`{ELLIPSES}`, random phantoms"
    )
    array: str = option("array (slices, rows, columns) in .npz and HDF5 files", default="images")
    group: str | None = option(
        "patient of every slice: of DICOM a keyword, by default PatientID; of an array another array, or a "
        ".npy file; PNG: the folder; else the volume",
        default=None,
    )
    units: Literal["HU", "relative"] | None = option(UNITS, default=None)
    field: float | None = option(
        "side of the scanned square in mm; required if the files have no pixel size, and otherwise at most "
        "the side of their images",
        default=None,
        above=0,
        maximum=SOURCE,
    )
    beam: Literal["fan", "parallel"] = option(
        f"`fan`: source {SOURCE:g} mm from the isocentre and {DETECTOR:g} mm from the detector; bins cover the field",
        default="fan",
    )
    finer: int = option(
        "projected pixels per reconstructed one, in each direction; 1 uses the operator that reconstructs to "
        "make the data",
        default=2,
        minimum=1,
    )
    slabs: int = option("with fewer than three patients: slabs of test slices", default=2, minimum=1)
    gap: int = option("with fewer than three patients: unused slices between slabs", default=2, minimum=0)
    split: int = option(
        "with three patients or more: seed that chooses validation and test patients, for all `seeds`",
        default=0,
        minimum=0,
    )
    truncation, bin_rays, rays = 0.0, 1, "exact"

    @property
    def label(self) -> str:
        words = f"scan of {os.path.basename(os.path.normpath(self.data))}", self._patients(), f"{self.beam} beam"
        return ", ".join(filter(None, words)) + self.conditions

    def _patients(self) -> str:
        """Return of how many patients the images are; nothing of ellipses, and of what cannot be read."""
        with contextlib.suppress(KoctError):
            slices = [] if self.data == ELLIPSES else self._slices()
            count, keyword = len({each.group for each in slices}), slices and slices[0].kind in ("CT", "MR")
            others = f"groups by {self.group}" if keyword and self.group not in (None, "PatientID") else "patients"
            return "one patient" if count == 1 else f"{count} {others}" if count else ""
        return ""

    @property
    def endless(self) -> bool:  # type: ignore[override]
        return self.data == ELLIPSES

    @property
    def hounsfield(self) -> bool:  # type: ignore[override]
        from koct.problems.slices import in_hu

        return self.data != ELLIPSES and in_hu(self._slices()[0], self.units)

    def files(self) -> Sequence[str]:
        from koct.problems.slices import find

        if self.data == ELLIPSES:
            return []
        own = self.group is not None and self.group.lower().endswith(".npy")
        return [*find(self.data), *([str(self.group)] if own else [])]

    def _slices(self) -> list[Slice]:
        """Return all slices, those of a patient one after the other; looked up again if a file has changed."""
        there = filter(os.path.exists, self.files())
        return _look(self.data, self.array, self.group, tuple((path, os.path.getmtime(path)) for path in there))

    @property
    def side(self) -> float:
        """The side of the square that is scanned, in mm."""
        if self.field is not None:
            return self.field
        slices = [] if self.data == ELLIPSES else self._slices()
        if not slices or slices[0].spacing is None:
            raise KoctError("field is missing: nothing says how large a pixel is; give the side of the images in mm")
        return min(SOURCE, *(each.side for each in slices))

    def understood(self) -> str:
        from koct.problems.slices import understood

        if self.data == ELLIPSES:
            return ""
        slices, (rows, columns) = self._slices(), self._slices()[0].shape
        words = f"{len(slices)} slices of {self._patients()}, {understood(slices[0], self.units)}; "
        if slices[0].spacing is None and rows != columns:
            side = min(rows, columns)
            words += f"of {rows} × {columns} pixels the central {side} × {side}, "
        names = f"; from {os.path.basename(slices[0].path)} to {os.path.basename(slices[-1].path)}"
        return f"{words}{self.side:.4g} mm wide" + names * (slices[0].kind == "PNG")

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        yield from super().check(seeds, sizes)
        try:
            side = self.side
            if self.data == ELLIPSES:
                return
            slices = self._slices()
            kinds, smallest = {each.kind for each in slices}, min(slices, key=lambda each: each.side)
            if "array" in kinds and self.units is None:
                yield "units is missing: an array does not say what its values are; give HU or relative (to water)"
            elif kinds & {"array", "NIfTI"} and (wrong := self._wrong_units(slices[0])):
                yield wrong
            if self.units == "HU" and kinds & {"PNG", "MR"}:
                yield f"units = 'HU': {kinds.pop()} images have none; remove it"
            if smallest.spacing is not None and side > smallest.side:
                most_mm = f"the {smallest.side:.4g} mm of {printable(smallest.path)}"
                yield f"field = {side:g} is more than {most_mm}; take less, or leave it out"
            if (most := min(round(min(each.pixels(_part(each, side)))) for each in slices)) < self.H:
                yield f"H = {self.H} is more than the {most} pixels of {printable(smallest.path)}; take at most {most}"
            self._drawn(seeds[0], sizes)
        except KoctError as error:
            yield str(error)

    def _wrong_units(self, first: Slice) -> str:
        """Return what is wrong with `units` by the values of an array or of the first volume."""
        from koct.problems.slices import SURELY_HU, extremes

        low, high = extremes(first)
        values = f"values of {printable(first.path)} go from {low:g} to {high:g}"
        if self.units is None:
            unclear = SURELY_HU <= low < -BELOW_ZERO * high
            return f"units is missing: {values}, which may be Hounsfield units; give HU or relative" * unclear
        if self.units == "HU":
            return f"units = 'HU': {values}, too narrow for Hounsfield units; give relative" * (high - low < FEW_HU)
        beyond = first.kind == "array" and (low < BELOW_AIR or high > METAL)
        return f"units = 'relative': {values}, and water is 1; give HU, or divide by the value of water" * beyond

    def _drawn(self, seed: int, sizes: Sizes) -> dict[Part, np.ndarray]:
        """Return the numbers of the slices of every part; training slices in the order of the seed."""
        import numpy as np

        labels = np.unique([each.group for each in self._slices()], return_inverse=True)[1]
        by_slabs = bool(labels.max() + 1 < len(PARTS))
        if by_slabs:
            if several := _several_series(self._slices()):
                raise KoctError(several)
            parts = _slabs(len(labels), sizes, self.slabs, self.gap)
        else:
            parts = _by_patient(labels, sizes, self.split)
        for part, found in parts.items():
            if len(found) < getattr(sizes, part):
                kind, fix = self._slices()[0].kind, "ask for less" + ", or lower slabs or gap" * by_slabs
                where = "in their slabs, without gaps," if by_slabs else "of their patients"
                middle = " (the middle half of each volume)" * (kind == "NIfTI")
                asked = f"pool.{part} asks for {getattr(sizes, part)} of {len(labels)} slices{middle}"
                raise KoctError(f"{asked}, and {len(found)} {where} are left; {fix}")
        orders = {part: np.random.default_rng([HELD_OUT.get(part, seed), 2]) for part in PARTS}
        return {part: orders[part].permutation(parts[part])[: getattr(sizes, part)] for part in PARTS}

    def geometry(self, finer: int = 1) -> Any:
        """Return the scan of images with `finer` times the pixels in each direction.

        The outermost rays touch the circle in the square that is scanned.
        """
        from koct.operators.geometry import FanBeam, ParallelBeam

        side, H = self.side, finer * self.H
        scan: dict[str, Any] = {"image": side * (1 - 1 / H), "arc": self.arc, "degrees": self.angles}
        if self.beam == "parallel":
            return ParallelBeam(H, self.V, self.B, bin=side / self.B, **scan)
        bin = 2 * DETECTOR * math.tan(math.asin(side / 2 / SOURCE)) / self.B
        return FanBeam(H, self.V, self.B, SOURCE, DETECTOR, bin, **scan)

    def field_of_view(self) -> Any:
        return self.geometry().field_of_view

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Validation and test pairs are the same for all seeds, noise included."""
        import numpy as np

        from koct.base import device
        from koct.base.arrays import to_numpy
        from koct.operators.fanbeam import Projector

        if words := self.understood():
            print(words, flush=True)
        place, A = device.choose(), Projector(self.geometry(self.finer))
        seen: dict[int, tuple[Part, int]] = {}  # by the hash of an image, where it came first
        for part in PARTS:
            stream, count, draw = HELD_OUT.get(part, 1 + seed), getattr(sizes, part), self._drawing(part, seed, sizes)
            for first in range(0, count, CHUNK):
                fine = np.stack([draw(number) for number in range(first, min(first + CHUNK, count))])
                for number, image in enumerate(fine, first):
                    other, before = seen.setdefault(hash(image.tobytes()), (part, number))
                    if other != part and image.any():
                        paths = [self._path(other, before, seed, sizes), self._path(part, number, seed, sizes)]
                        raise KoctError(f"data: {paths[0]} and {paths[1]} are the same image; remove one")
                x = to_numpy(A(place.put(fine)))
                y = fine.reshape(len(fine), self.H, self.finer, self.H, self.finer).mean(axis=(2, 4))
                yield part, self.measured(x, stream, first), y
            print(f"{part}: {count} slices", flush=True)

    def _path(self, part: Part, number: int, seed: int, sizes: Sizes) -> str:
        """Return where an image of a part comes from."""
        each = self._slices()[self._drawn(seed, sizes)[part][number]]
        return printable(each.path) + ("" if each.kind in ("CT", "MR", "PNG") else f", slice {each.number}")

    def _drawing(self, part: Part, seed: int, sizes: Sizes) -> Callable[[int], np.ndarray]:
        """Return what gives the images of a part by their numbers, in order, on fine pixels."""
        import numpy as np

        from koct.problems import slices
        from koct.problems.ct import draw
        from koct.problems.phantoms import rasterise

        H = self.finer * self.H
        if self.data == ELLIPSES:
            from koct.base.streams import TorchStream

            stream, inside = TorchStream(HELD_OUT.get(part, 1 + seed)), self.geometry(self.finer).field_of_view
            return lambda number: (rasterise(draw(stream), H) * inside).astype(np.float32)
        places, every, side = self._drawn(seed, sizes)[part], self._slices(), self.side
        words = slices.understood(every[0], self.units).split(" (")[0]

        def read(number: int) -> np.ndarray:
            each = every[places[number]]
            if slices.understood(each, self.units).split(" (")[0] != words:
                raise KoctError(f"units: {printable(each.path)} has others than {printable(every[0].path)}; say which")
            image: np.ndarray = slices.image(each, H, _part(each, side), self.units)
            return image

        return read

    def decode(self, stored: Any) -> Any:
        return stored

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes)
        each = self.x_size * (SAMPLE * 2 * self.finer * self.H + (0 if self.photons is None else NOISE))
        return Cost(sizes.total * (1e8 + each), 32 * CHUNK * (self.finer * self.H) ** 2)


def _natural(path: str) -> list[str | int]:
    """Return a key that sorts 2.png before 10.png."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path)]


def _several_series(slices: Sequence[Slice]) -> str:
    """Return what is wrong if a patient has several DICOM series, whose slices are of the same places."""
    series: dict[str, set[str]] = {}
    for each in slices:
        series.setdefault(each.patient or each.group, set()).add(each.series)
    return next(
        (
            f"data: {printable(patient)} has {len(found)} DICOM series, and slices of one place could be in two parts; "
            "keep one series"
            for patient, found in series.items()
            if len(found) > 1
        ),
        "",
    )


def _part(each: Slice, side: float) -> float:
    """The side of the square that is scanned in the unit of a slice: mm, or pixels where their size is unknown."""
    return each.side if each.spacing is None else side


def _by_patient(labels: np.ndarray, sizes: Sizes, split: int) -> dict[Part, np.ndarray]:
    """Return the slices of whole patients for every part: as many patients as their slices take, the rest to train."""
    import numpy as np

    order = list(np.random.default_rng([split, 1]).permutation(labels.max() + 1))
    parts: dict[Part, np.ndarray] = {}
    for part in ("test", "val"):
        chosen = [order.pop()]
        while np.isin(labels, chosen).sum() < getattr(sizes, part) and len(order) > 1:
            chosen.append(order.pop())
        parts[part] = np.flatnonzero(np.isin(labels, chosen))  # type: ignore[index]
    return {"train": np.flatnonzero(np.isin(labels, order)), **parts}


def _slabs(count: int, sizes: Sizes, slabs: int, gap: int) -> dict[Part, np.ndarray]:
    """Return the slices of every part: a test, a validation and a training slab in turn, with a gap behind each."""
    import numpy as np

    parts: dict[Part, list[int]] = {part: [] for part in PARTS}
    for period in np.array_split(np.arange(count), slabs):
        test, val = (-(-getattr(sizes, part) // slabs) for part in ("test", "val"))
        parts["test"] += period[:test].tolist()
        parts["val"] += period[test + gap :][:val].tolist()
        parts["train"] += period[test + val + 2 * gap : len(period) - gap].tolist()
    return {part: np.array(found, int) for part, found in parts.items()}


@lru_cache(maxsize=16)
def _look(data: str, array: str, group: str | None, state: tuple[Any, ...]) -> list[Slice]:
    """Return the slices of files; a KoctError, which begins with a key, if they are no good."""
    from koct.problems import arrayfiles
    from koct.problems.slices import Slice, slices

    if not data.lower().endswith(ARRAYS):
        if not os.path.exists(data):
            raise KoctError(f"data = {data!r} does not exist; correct the path")
        found = slices(data, group)
        if found[0].kind == "PNG":
            found = [each._replace(group=os.path.dirname(each.path)) for each in found]
        return sorted(found, key=lambda each: (each.group, each.number, _natural(each.path)))
    name = data if data.lower().endswith(".npy") else array
    stored = arrayfiles.find("data" if name == data else "array", name, data)
    arrayfiles.check(stored)
    if len(stored.shape) != 3:
        raise KoctError(f"{stored.what} has the shape {stored.shape}; give (slices, rows, columns)")
    labels = ["patient"] * stored.shape[0]
    if group is not None:
        labels = arrayfiles.labels(arrayfiles.find("group", group, None if name == data else data))
        if len(labels) != stored.shape[0]:
            raise KoctError(
                f"group = {group!r} has {len(labels)} entries for {stored.shape[0]} slices; give one for each"
            )
    size: Any = stored.shape[1:]
    found = [Slice(data, "array", size, None, label, number, name) for number, label in enumerate(labels)]
    return sorted(found, key=lambda each: (each.group, each.number))
