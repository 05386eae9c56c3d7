"""Pools on disk: one NumPy file per seed, one record per pair, so that any prefix is read alone.

A record is x and y, y as its problem stores it; the training pairs come first, then those for validation and for the
test. Every record also says how many there are of each, so that nobody has to look through the file. It is written as
it is drawn and mapped when it is read: neither takes it into memory.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from koct.blame import line_of
from koct.contracts import Part, Problem, Sizes
from koct.errors import KoctError
from koct.files import map_array, record_writer

PARTS: tuple[Part, ...] = ("train", "val", "test")


def make(problem: Problem, seed: int, sizes: Sizes, path: str) -> None:
    """Draw the pool of one seed, checking every pair."""
    counts = np.array([getattr(sizes, part) for part in PARTS], np.int32)
    chunks = _checked(problem, seed, sizes)
    first = next(chunks)
    kinds = {name: (value.dtype, value.shape[1:]) for name, value in zip("xy", first, strict=True)}
    with record_writer(path, int(counts.sum()), **kinds, counts=(counts.dtype, counts.shape)) as (file, dtype):
        for x, y in itertools.chain([first], chunks):
            records = np.empty(len(x), dtype)
            records["x"], records["y"], records["counts"] = x, y, counts
            file.write(records.tobytes())


def _checked(problem: Problem, seed: int, sizes: Sizes) -> Iterator[tuple[Any, Any]]:
    """The chunks of a problem as NumPy arrays (x, stored y), or an error that names the line to fix."""
    where = line_of(problem, "pairs")
    part, seen = PARTS[0], 0

    def ended() -> None:
        held = getattr(sizes, part)
        if seen != held:
            raise KoctError(f"{where}: pairs gave {seen} {part} pairs and sizes.{part} asks for {held}")

    kinds = None
    given = problem.pairs(seed, sizes)
    if not isinstance(given, Iterable):
        raise KoctError(f"{where}: pairs returned {type(given).__name__}; yield (part, x, y)")
    for chunk in given:
        if not isinstance(chunk, tuple) or len(chunk) != 3:
            raise KoctError(f"{where}: pairs yielded {type(chunk).__name__}; yield (part, x, y)")
        name, x, y = chunk
        if name not in PARTS[PARTS.index(part) :]:
            raise KoctError(
                f"{where}: pairs gave {name!r} after {part!r}; the parts are train, val, test, in this order"
            )
        while name != part:
            ended()
            part, seen = PARTS[PARTS.index(part) + 1], 0
        x, y = _real(x, f"{where}: x"), _real(y, f"{where}: y")
        images = problem.decode(y[:1]) if len(y) else y
        for what, array, shape in (("x", x, problem.x_shape), ("y", images, problem.y_shape)):
            if array.shape[1:] != shape:
                raise KoctError(f"{where}: {what} has shape {array.shape[1:]}, and {what}_shape says {shape}")
        if len(x) != len(y):
            raise KoctError(f"{where}: {len(x)} x and {len(y)} y came together; give one y for every x")
        for what, array in (("x", x), ("y", y)):
            bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            if bad.any():
                pair = seen + int(np.argmax(bad))
                raise KoctError(f"{where}: {what} of {part} pair {pair} (seed {seed}) is not finite")
        now = [(array.dtype, array.shape[1:]) for array in (x, y)]
        kinds = kinds or now
        if now != kinds:
            raise KoctError(f"{where}: a chunk of {now} came after chunks of {kinds}; all must be of one kind")
        seen += len(x)
        if seen > getattr(sizes, part):
            ended()  # at once: pairs that never end would fill the disk
        if len(x):
            yield x, y
    for _ in PARTS[PARTS.index(part) :]:
        ended()
        if part != PARTS[-1]:
            part, seen = PARTS[PARTS.index(part) + 1], 0


def _real(array: Any, what: str) -> np.ndarray:
    """As float32 or float64; neither objects nor complex numbers become pairs."""
    array = np.asarray(array)
    if array.dtype.kind == "c":
        raise KoctError(f"{what} is complex; give real and imaginary part as two real channels")
    if array.dtype.kind not in "fiub":
        raise KoctError(f"{what} has the type {array.dtype}; give real numbers")
    if array.ndim < 1:
        raise KoctError(f"{what} is one number; give an array (samples, ...)")
    return array if array.dtype in (np.float32, np.float64) else array.astype(float)


class Pool:
    """A pool on disk. `x` and `y` give `count` (default: all) pairs of a part, from `first` on, as flat rows."""

    def __init__(self, path: str, problem: Problem):
        self.path, self.problem = path, problem
        self.records = map_array(path)
        self.records._mmap.madvise(mmap.MADV_RANDOM)  # or the kernel reads ahead, by megabytes for four small pairs
        held = self.records["counts"][0].tolist()
        self.count = dict(zip(PARTS, held, strict=True))
        self.first = dict(zip(PARTS, np.cumsum([0, *held]).tolist(), strict=False))

    def _chosen(self, part: Part, count: int | None, first: int) -> np.ndarray:
        held = self.count[part]
        end = held if count is None else first + count
        if end > held:
            raise KoctError(
                f"{self.path} holds {held} {part} pairs and {end} were asked for: make the pool larger or N smaller"
            )
        chosen = slice(self.first[part] + first, self.first[part] + end)
        self._fetch(chosen)
        return self.records[chosen]

    def _fetch(self, chosen: slice) -> None:
        """Have the kernel read just these records, at the speed of the disk."""
        start = self.records.offset % mmap.ALLOCATIONGRANULARITY + chosen.start * self.records.itemsize
        end = start + (chosen.stop - chosen.start) * self.records.itemsize
        start -= start % mmap.PAGESIZE
        if end > start:
            self.records._mmap.madvise(mmap.MADV_WILLNEED, start, end - start)

    def x(self, part: Part, count: int | None = None, first: int = 0) -> np.ndarray:
        chosen = self._chosen(part, count, first)
        return np.array(chosen["x"]).reshape(len(chosen), -1)

    def y(self, part: Part, count: int | None = None, first: int = 0) -> np.ndarray:
        chosen = self._chosen(part, count, first)
        images = np.asarray(self.problem.decode(np.array(chosen["y"])))
        return images.reshape(len(chosen), -1)
