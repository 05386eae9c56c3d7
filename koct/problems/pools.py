"""Pools on disk: one NumPy file per seed, one record per phantom, so that any prefix is read alone.

A record is the sinogram x and the phantom, as the image y where that is small and as its ellipses where it is large;
the training phantoms come first, then those for validation and for the test. Every record also says how many there
are of each, so that nobody has to look through the file. It is written as it is drawn and mapped when it is read:
neither takes it into memory.
"""

import importlib
import itertools
import mmap

import numpy as np

from koct.errors import KoctError
from koct.files import map_array, record_writer
from koct.problems import PROBLEMS
from koct.problems.phantoms import Ellipse, rasterise

PARTS = ("train", "val", "test")


def make(spec, seed, path):
    """Draw the pool of one seed: the parts train, val and test of its problem, one after the other."""
    problem = importlib.import_module(PROBLEMS[spec["problem"]])
    counts = np.array([spec["pool"][part] for part in PARTS], np.int32)
    chunks = ({**fields, "counts": np.tile(counts, (len(fields["x"]), 1))} for fields in problem.records(spec, seed))
    first = next(chunks)
    kinds = {name: (value.dtype, value.shape[1:]) for name, value in first.items()}
    with record_writer(path, int(counts.sum()), **kinds) as (file, dtype):
        for fields in itertools.chain([first], chunks):
            records = np.empty(len(fields["x"]), dtype)
            for name, value in fields.items():
                records[name] = value
            file.write(records.tobytes())


class Pool:
    """A pool on disk. `x` and `y` give `count` (default: all) pairs of a part, from `first` on, as flat rows."""

    def __init__(self, path):
        self.path = path
        self.records = map_array(path)
        self.records._mmap.madvise(mmap.MADV_RANDOM)  # or the kernel reads ahead, by megabytes for four small pairs
        held = self.records["counts"][0].tolist()
        self.count = dict(zip(PARTS, held, strict=True))
        self.first = dict(zip(PARTS, np.cumsum([0, *held]).tolist(), strict=False))

    def _chosen(self, part, count, first):
        held = self.count[part]
        end = held if count is None else first + count
        if end > held:
            raise KoctError(
                f"{self.path} holds {held} {part} pairs and {end} were asked for: make the pool larger or N smaller"
            )
        chosen = slice(self.first[part] + first, self.first[part] + end)
        self._fetch(chosen)
        return self.records[chosen]

    def _fetch(self, chosen):
        """Have the kernel read just these records, at the speed of the disk."""
        start = self.records.offset % mmap.ALLOCATIONGRANULARITY + chosen.start * self.records.itemsize
        end = start + (chosen.stop - chosen.start) * self.records.itemsize
        start -= start % mmap.PAGESIZE
        if end > start:
            self.records._mmap.madvise(mmap.MADV_WILLNEED, start, end - start)

    def x(self, part, count=None, first=0):
        chosen = self._chosen(part, count, first)
        return np.array(chosen["x"]).reshape(len(chosen), -1)

    def y(self, part, count=None, first=0):
        chosen = self._chosen(part, count, first)
        if "y" in chosen.dtype.names:
            return np.array(chosen["y"]).reshape(len(chosen), -1)
        H = int(self.records["H"][0])
        images = np.empty((len(chosen), H * H), chosen["x"].dtype)
        for image, rows in zip(images, chosen["ellipses"], strict=True):
            image[:] = rasterise(unpacked(rows), H, images.dtype).ravel()
        return images


def packed(ellipses, most):
    """Ellipses as rows (amplitude, x, y, a, b, angle), filled up with zeros to `most` rows."""
    rows = np.zeros((most, 6), np.float32)
    for row, e in zip(rows, ellipses, strict=False):
        row[:] = e.amplitude, *e.centre, *e.axes, e.angle
    return rows


def unpacked(rows):
    return [Ellipse(a, (x, y), axes, angle) for a, x, y, *axes, angle in rows.tolist() if a]
