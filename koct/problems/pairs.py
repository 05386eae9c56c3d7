"""Pairs of your own from files, with no code: NumPy, HDF5, or a folder of images (DICOM, PNG, NIfTI), projected.

Validation and test pairs are the same for all seeds; a seed draws the training pairs from the others. If pairs belong
to groups, such as patients, whole groups are drawn and counted. Of arrays nothing is known; behind projected images
there is the chain of filtered backprojection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from koct.base.messages import counted, cut, printable
from koct.contracts import PARTS, Chunk, Cost, Part, Sizes, option
from koct.errors import KoctError
from koct.problems.known_chain import KNOWN, MOST_BINS, SAMPLE, UNITS, ScanProblem

if TYPE_CHECKING:
    import numpy as np

    from koct.problems.slices import Slice

CHUNK = 32  # pairs that are read together
GEOMETRY = ("H", "V", "B")
LARGE = 10**6  # entries of a matrix


class Content(NamedTuple):
    """What the files hold: shapes, the number of pairs, and the group of each, if they have groups."""

    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    total: int
    labels: tuple[str, ...] | None
    slices: Sequence[Slice] = ()  # of a folder


class PairsProblem(ScanProblem):
    data: str | None = option(
        "an .npz archive, an HDF5 file (.h5, .hdf5), or a folder of images (DICOM, PNG, NIfTI), which are "
        "cropped, averaged to `H` × `H` pixels and projected; omit it if `x` and `y` are .npy files",
        default=None,
    )
    x: str = option("measurements, (pairs, ...): a .npy file, or an array in `data`", default="x")
    y: str = option("images, (pairs, ...): a .npy file, or an array in `data`", default="y")
    group: str | None = option(
        "group of every pair, such as its patient, which `N` and `pool` then count: a .npy file or an array "
        "in `data` of integers or strings; of DICOM a keyword, by default PatientID (SOPInstanceUID: every "
        "slice alone); PNG: the folder; NIfTI: the volume",
        default=None,
    )
    split: int = option("seed that chooses validation and test pairs or groups, for all `seeds`", default=0, minimum=0)
    nonnegative: bool = option(  # type: ignore[misc]
        "images cannot be negative; networks end in a ReLU", default=False
    )
    H: int | None = option("of images: height and width in pixels", default=None, minimum=2)
    V: int | None = option(
        "of images: fan-beam views, equally spaced over 180°, both ends included",
        default=None,
        minimum=1,
    )
    B: int | None = option("of images: detector bins", default=None, minimum=2)
    units: Literal["HU", "relative"] | None = option(f"of images: {UNITS}", default=None)
    known: Literal["exact", "printed"] = option(f"of images: {KNOWN}", default="exact", pairs=False)

    @property
    def x_shape(self) -> tuple[int, ...]:
        return (self.V, self.B) if self._is_folder and self.V and self.B else self._content().x_shape

    @property
    def y_shape(self) -> tuple[int, ...]:
        return (self.H, self.H) if self._is_folder and self.H else self._content().y_shape

    @property
    def device(self) -> Literal["cpu", "auto"]:  # type: ignore[override]
        """A GPU is worth asking for where a matrix from x to y is large."""
        return "auto" if self.x_size * self.y_size > LARGE else "cpu"

    @property
    def _is_folder(self) -> bool:
        return self.data is not None and os.path.isdir(self.data)

    has_layers = has_forward = has_noise_variance = interpolates = _is_folder  # type: ignore[assignment]

    @property
    def nonnegative_images(self) -> bool:  # type: ignore[override]
        return self._is_folder or self.nonnegative

    @property
    def hounsfield(self) -> bool:  # type: ignore[override]
        from koct.problems.slices import in_hu

        return self._is_folder and in_hu(self._content().slices[0], self.units)

    @property
    def label(self) -> str:
        return "images from files" if self._is_folder else "pairs from files"

    def files(self) -> Sequence[str]:
        if self._is_folder:
            from koct.problems.slices import find

            return find(str(self.data))
        named = [name for name in (self.x, self.y, self.group) if name and name.lower().endswith(".npy")]
        return [*([self.data] if self.data else []), *named]

    def _content(self) -> Content:
        """What the files hold, looked up again if one of them has changed."""
        there = filter(os.path.exists, self.files())
        return _look(self, tuple((path, os.path.getmtime(path), os.path.getsize(path)) for path in there))

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        of_images = {**dict.fromkeys((*GEOMETRY, "units")), "known": "exact"}
        defaults = {"x": "x", "y": "y"} if self._is_folder else of_images
        for key, default in defaults.items():
            if (value := getattr(self, key)) == default:
                continue
            if self._is_folder:
                yield f"{key} = {value!r} names an array, and data is a folder of images; remove {key}, or data"
            else:
                yield f"{key} = {value!r} is for a folder of images, and data is none; remove {key}"
        try:
            content = self._content()
        except KoctError as error:
            yield str(error)
            return
        names = None if content.labels is None else sorted(set(content.labels))
        have, what = (content.total, "pairs") if names is None else (len(names), "groups")
        if names and have < len(PARTS):
            few = " and ".join(cut(printable(name), 60) for name in names)
            yield (
                f"group: all pairs are of {few}, and training, validation and test need a group each; give pairs of "
                "more groups, such as patients"
            )
        elif have < sizes.total:
            asked = " + ".join(str(getattr(sizes, part)) for part in PARTS)
            yield f"pool asks for {asked} = {sizes.total} {what}, and there are {have}; lower pool.train or others"

    def groups(self, seed: int, sizes: Sizes) -> Mapping[Part, Sequence[int]] | None:
        if not self._is_folder and self.group is None:
            return None
        return {part: [len(pairs) for pairs in groups] for part, groups in self._drawn(seed, sizes).items()}

    def _drawn(self, seed: int, sizes: Sizes) -> dict[Part, list[np.ndarray]]:
        """Return the places of the pairs of every group in the files, by part."""
        import numpy as np

        content = self._content()
        labels = np.arange(content.total)
        if content.labels is not None:
            labels = np.unique(np.array(content.labels), return_inverse=True)[1]
        held_out = np.random.default_rng([self.split, 1]).permutation(labels.max() + 1)
        test, val, rest = np.split(held_out, [sizes.test, sizes.held_out])
        train = np.random.default_rng([seed, 2]).permutation(np.sort(rest))[: sizes.train]
        order = np.argsort(labels, kind="stable")
        places = np.split(order, np.cumsum(np.bincount(labels))[:-1])
        chosen: dict[Part, Any] = {"train": train, "val": val, "test": test}
        return {part: [places[group] for group in groups] for part, groups in chosen.items()}

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        import numpy as np

        read = self._reader()
        seen: dict[int, tuple[Part, int]] = {}  # by the hash of a measurement, where it came first
        for part, groups in self._drawn(seed, sizes).items():
            places = np.concatenate(groups)
            for first in range(0, len(places), CHUNK):
                some = places[first : first + CHUNK]
                x, y = read(some)
                for place, row in zip(some.tolist(), x, strict=True):
                    before = seen.setdefault(hash(row.tobytes()), (part, place))
                    if before[0] != part and row.min() < row.max():
                        same = f"{self._named(*sorted((before[1], place)))} are the same"
                        raise KoctError(f"{same}, and they came into {before[0]} and {part}; remove one")
                yield part, x, y
            print(f"{part}: {len(places)} pairs of {len(groups)} groups", flush=True)

    def _named(self, one: int, other: int) -> str:
        """Two pairs, by their files or by their numbers."""
        from koct.problems import arrayfiles

        if self._is_folder:
            slices = self._content().slices
            return f"data: {printable(slices[one].path)} and {printable(slices[other].path)}"
        return f"{arrayfiles.find('x', self.x, self.data).what}: pairs {one} and {other}, counted from 0,"

    def _reader(self) -> Callable[[np.ndarray], tuple[Any, Any]]:
        """A function from places in the files to measurements and images."""
        import numpy as np

        from koct.base import device
        from koct.base.arrays import to_numpy
        from koct.problems.arrayfiles import find, rows
        from koct.problems.slices import image

        if not self._is_folder:
            x, y = (find(key, getattr(self, key), self.data) for key in ("x", "y"))
            return lambda places: (rows(x, places), rows(y, places))
        place, slices = device.choose(), self._content().slices
        A, side = self.forward({}), min(each.side for each in slices)

        def projected(places: np.ndarray) -> tuple[Any, Any]:
            images = np.stack([image(slices[i], self.y_shape[0], side, self.units) for i in places])
            return to_numpy(A(place.put(images))), images

        return projected

    def geometry(self) -> Any:
        if self.H is None or self.V is None or self.B is None:
            raise KoctError("of arrays no layers are known; give data, a folder of images, with H, V and B")
        return super().geometry()

    def field_of_view(self) -> Any:
        """Of images: what every view sees."""
        return self.geometry().field_of_view if self._is_folder else None

    def understood(self) -> str:
        from koct.problems.slices import understood

        if not self._is_folder:
            return ""
        content = self._content()
        groups = counted(len(set(content.labels or ())), "group")
        return f"{content.total} images in {groups}, {understood(content.slices[0], self.units)}"

    def noise_variance(self, x: Any) -> Any:
        """Images are projected without noise; of measurements from files nothing is known."""
        return 0.0 if self._is_folder else None

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        if stage != "pool":
            return super().cost(stage, sizes) if self._is_folder else Cost()
        content = self._content()
        x, y, count = self.x_size, self.y_size, content.total
        if self._is_folder:
            return Cost(count * (1e8 + SAMPLE * x * 2 * content.y_shape[0]))
        whole = 8 * count * (x + y) if str(self.data).lower().endswith(".npz") else 0  # an archive is read whole
        return Cost(1e8 + 20 * count * (x + y), whole + 16 * CHUNK * (x + y))


@lru_cache(maxsize=16)
def _look(problem: PairsProblem, state: tuple[Any, ...]) -> Content:
    """What the files of a problem hold; a KoctError, which begins with a key, if that is no good."""
    from koct.problems import arrayfiles
    from koct.problems.slices import slices

    if problem._is_folder:
        for key in GEOMETRY:
            if getattr(problem, key) is None:
                raise KoctError(f"{key} is missing; a folder of images needs it: add it")
        H, V, B = problem.H or 0, problem.V or 0, problem.B or 0
        if B > MOST_BINS:
            raise KoctError(f"B = {B} makes the image so wide that the source lies in it; take at most {MOST_BINS}")
        found = slices(str(problem.data), problem.group)
        side = min(each.side for each in found)
        coarsest = min(found, key=lambda each: min(each.pixels(side)))
        pixels = int(min(coarsest.pixels(side)))
        if pixels < H:
            raise KoctError(
                f"H = {H} is more than the {pixels} pixels of {printable(coarsest.path)}; take at most {pixels}"
            )
        return Content((V, B), (H, H), len(found), tuple(each.group for each in found), found)
    x, y = (arrayfiles.find(key, getattr(problem, key), problem.data) for key in ("x", "y"))
    arrayfiles.check(x)
    arrayfiles.check(y)
    count = x.shape[0]
    if y.shape[0] != count:
        raise KoctError(f"{y.what} has {y.shape[0]} images and {x.what} {count} measurements; give as many")
    labels = None
    if problem.group is not None:
        group = arrayfiles.find("group", problem.group, problem.data)
        labels = tuple(arrayfiles.labels(group))
        if len(labels) != count:
            raise KoctError(f"{group.what} has {len(labels)} entries for {count} pairs; give one for every pair")
    return Content(x.shape[1:], y.shape[1:], count, labels)
