"""Pools on disk: one NumPy file per seed, one record per pair, so that any prefix is read alone.

A record is x and y, y as its problem stores it; the training pairs come first, then those for validation and for the
test. Behind the records there is an index, the digest of every record in their order: what is read is compared with it,
so a record of another pool or from another place is not taken. The stamp says how many pairs there are of each part
and, of a problem with groups, how many each of them has. A pool is written as it is drawn and mapped when it is read:
neither takes it into memory.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np

from koct.base import stamps
from koct.base.arrays import to_numpy
from koct.base.files import map_array, record_writer
from koct.base.stamps import DIGEST, Stamp, again, digest
from koct.contracts import PARTS, Part, Problem, Sizes
from koct.contracts.blame import line_of
from koct.contracts.spec import encode_problem, same_values
from koct.errors import KoctError

MOST_GROUPS = 100_000  # whose sizes a stamp has room for
MOST_FLAT = 0.75  # share of measurements that may be one number: at few pixels some phantoms fall between them


def make(problem: Problem, seed: int, sizes: Sizes, path: str, spec: Mapping[str, Any] | None = None) -> None:
    """Draw the pool of one seed, checking every pair; `spec` is what its stamp says."""
    wanted = {"seed": seed, "problem": encode_problem(problem, layers=False), "sizes": asdict(sizes)}
    groups = _groups(problem, seed, sizes)
    held = sizes if groups is None else Sizes(**{part: sum(groups[part]) for part in PARTS})
    chunks = _checked(problem, seed, sizes, held)
    first = next(chunks)
    kinds = {name: (value.dtype, value.shape[1:]) for name, value in zip("xy", first, strict=True)}
    about: dict[str, Any] = {"counts": asdict(held)}
    if groups is not None:
        about["groups"] = groups
    with record_writer(path, Stamp(spec or wanted, about=about), held.total, **kinds) as (file, dtype):
        header, index = file.tell(), []
        for x, y in itertools.chain([first], chunks):
            records = np.empty(len(x), dtype)
            records["x"], records["y"] = x, y
            index += digests(records)
            file.write(records.tobytes())
        write_index(file, header, index, about)


def digests(records: np.ndarray) -> list[bytes]:
    """Return the digest of every record."""
    view, size = np.ascontiguousarray(records).view(np.uint8).data, records.itemsize
    return [
        hashlib.blake2b(view[first : first + size], digest_size=DIGEST).digest() for first in range(0, len(view), size)
    ]


def write_index(file: BinaryIO, header: int, index: list[bytes], about: dict[str, Any]) -> None:
    """Write the digests of all records behind them; `about` gets that of the header (its length is given) and index."""
    file.write(b"".join(index))
    file.seek(0)
    about["index"] = digest(file.read(header), *index)


def _groups(problem: Problem, seed: int, sizes: Sizes) -> dict[Part, list[int]] | None:
    """How many pairs each group of a pool has, if there are groups, and as many as were asked for."""
    declared = problem.groups(seed, sizes)
    if declared is None:
        return None
    where = line_of(problem, "groups")
    numbers = {part: [int(size) for size in declared[part]] for part in PARTS}
    for part, groups in numbers.items():
        if len(groups) != getattr(sizes, part):
            raise KoctError(
                f"{where}: groups gave {len(groups)} {part} groups and pool.{part} asks for {getattr(sizes, part)}"
            )
        if min(groups) < 1:
            raise KoctError(f"{where}: groups gave a {part} group without pairs; leave it out")
    if sum(map(len, numbers.values())) > MOST_GROUPS:
        raise KoctError(f"{where}: groups gave over {MOST_GROUPS:,} groups; a pool holds no more, so lower pool.train")
    return numbers


def _checked(problem: Problem, seed: int, sizes: Sizes, held: Sizes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The chunks of a problem as NumPy arrays (x, stored y), or an error that names the line to fix.

    `held` is what `sizes` comes to if it counts groups. At the end it is an error, too, if pairs are all the same.
    """
    where = line_of(problem, "pairs")
    part, counts = PARTS[0], dict.fromkeys(PARTS, 0)
    kinds, alike = None, _Alike(where)

    def check_numbers(*parts: Part) -> None:
        for part in parts:
            wanted = getattr(held, part)
            if counts[part] != wanted:
                asks = f"pool.{part} asks for {wanted}" if held is sizes else f"its groups have {wanted}"
                raise KoctError(f"{where}: pairs gave {counts[part]} {part} pairs and {asks}")

    for chunk in problem.pairs(seed, sizes):
        if not isinstance(chunk, tuple) or len(chunk) != 3:
            raise KoctError(f"{where}: pairs yielded {type(chunk).__name__}; yield (part, x, y)")
        name, x, y = chunk
        if name not in PARTS[PARTS.index(part) :]:
            raise KoctError(f"{where}: pairs gave {name!r} after {part!r}; the parts are train, val, test")
        check_numbers(*PARTS[PARTS.index(part) : PARTS.index(name)])
        part, x, y = name, _real(x, f"{where}: x"), _real(y, f"{where}: y")
        if len(x) != len(y):
            raise KoctError(f"{where}: {len(x)} x and {len(y)} y came together; give one y for every x")
        images = problem.decode(y[:1]) if len(y) else y
        for what, array, decoded, shape in (("x", x, x, problem.x_shape), ("y", y, images, problem.y_shape)):
            if decoded.shape[1:] != shape:
                raise KoctError(f"{where}: {what} has shape {decoded.shape[1:]}, and {what}_shape says {shape}")
            bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            if bad.any():
                pair = counts[part] + int(np.argmax(bad))
                raise KoctError(f"{where}: {what} of {part} pair {pair} (seed {seed}) is not finite")
        now = [(array.dtype, array.shape[1:]) for array in (x, y)]
        kinds = kinds or now
        if now != kinds:
            raise KoctError(f"{where}: a chunk of {now} came after chunks of {kinds}; all must be of one kind")
        if counts[part] + len(x) > getattr(held, part):  # at once: pairs that never end would fill the disk
            counts[part] += len(x)
            check_numbers(part)
        if len(x):
            alike.add(part, counts[part], x, y)
            yield x, y
        counts[part] += len(x)
    check_numbers(*PARTS)
    alike.check(counts)


class _Alike:
    """What is wrong with pairs although each is fine: all the same, or some of them both to learn from and to test."""

    def __init__(self, where: str):
        self.where = where
        self.ranges: dict[tuple[Part, str], tuple[float, float]] = {}
        self.first: dict[int, tuple[Part, int]] = {}  # the hash of a measurement, and where it came first
        self.flat = dict.fromkeys(PARTS, 0)  # how many measurements are one number everywhere

    def add(self, part: Part, first: int, x: np.ndarray, y: np.ndarray) -> None:
        """Look at pairs `first`, `first` + 1, ... of a part."""
        low, high = (reduce(x.reshape(len(x), -1), axis=1) for reduce in (np.min, np.max))
        for name, a, b in (("x", low.min(), high.max()), ("y", y.min(), y.max())):
            before = self.ranges.get((part, name), (a, b))
            self.ranges[part, name] = min(before[0], a), max(before[1], b)
        self.flat[part] += int(np.sum(low == high))
        for i in np.flatnonzero(low != high):  # an empty image may well come twice
            other, number = self.first.setdefault(hash(x[i].tobytes()), (part, first + int(i)))
            if other != part:
                both = f"{other} pair {number} and of {part} pair {first + i}"
                raise KoctError(f"{self.where}: x of {both} is the same; the parts must be disjoint")

    def check(self, counts: Mapping[Part, int]) -> None:
        for (part, name), (low, high) in self.ranges.items():
            if low == high:
                same = f"{name} of all {part} pairs is {low:g} everywhere"
                raise KoctError(f"{self.where}: {same}; nothing can be learned from it")
        for part, count in self.flat.items():
            if count > MOST_FLAT * counts[part]:
                flat = f"x of {count} of the {counts[part]} {part} pairs is one number everywhere"
                raise KoctError(f"{self.where}: {flat}; little can be learned from such measurements")


def _real(array: Any, what: str) -> np.ndarray:
    """As float32 or float64; neither objects nor complex numbers become pairs."""
    array = to_numpy(array, what)
    if array.dtype.kind == "c":
        raise KoctError(f"{what} is complex; give real and imaginary part as two real channels")
    if array.dtype.kind not in "fiub":
        raise KoctError(f"{what} has the type {array.dtype}; give real numbers")
    if array.ndim < 1:
        raise KoctError(f"{what} is one number; give an array (samples, ...)")
    return array if array.dtype in (np.float32, np.float64) else array.astype(float)


class Pool:
    """A pool on disk. `x` and `y` give `count` (default: all) pairs of a part, from `first` on, as flat rows."""

    def __init__(self, path: str, problem: Problem, seed: int | None = None):
        self.path, self.problem = path, problem
        self.stamp = stamps.read(path)
        self._check_spec(seed)
        if "index" not in self.stamp.about:
            raise self.damaged("it holds no pairs")
        self.records = map_array(path)
        self.index = self._read_index()
        self.count: dict[str, int] = self.stamp.about["counts"]
        self.tests = True  # whether test pairs may be read
        self.groups = self.stamp.about.get("groups")  # how many pairs each has, by part; None without groups
        self.first = dict(zip(PARTS, np.cumsum([0, *self.count.values()]).tolist(), strict=False))
        self.checked = np.zeros(len(self.records), bool)  # whose digest is known to be right

    def damaged(self, why: str) -> KoctError:
        return stamps.Damaged(f"{self.path} is damaged: {why}; {again(self.path)}")

    def _read_index(self) -> bytes:
        """Return the digests of all records, of which those that are read will be compared.

        In front of the records there is the header, behind the index there is the stamp, and nothing else.
        """
        with open(self.path, "rb") as file:
            header = file.read(self.records.offset)
            file.seek(self.records.offset + self.records.nbytes)
            index, end = file.read(DIGEST * self.records.size), file.read(2**20)
        if digest(header, index) != self.stamp.about["index"]:
            raise self.damaged("the checksum of its header and its index is wrong")
        if end != stamps.appended(self.stamp, ".npy"):
            raise self.damaged("its stamp is not where the pairs end")
        return index

    def _check_spec(self, seed: int | None) -> None:
        """Refuse the pool of another problem or seed; a class that no config named does not know its source."""
        problem = encode_problem(self.problem, layers=False) if self.problem.source else None
        spec, wanted = self.stamp.spec, {"problem": problem, "seed": seed}
        wrong = [key for key, value in wanted.items() if value is not None and not same_values(spec.get(key), value)]
        if spec and wrong:
            raise KoctError(
                f"{self.path} is the pool of another {' and '.join(wrong)} than the cell's; give the pool of the cell"
            )

    def pairs_of(self, part: Part, N: int) -> int:
        """How many pairs the first N samples of a part are: N, or those of the first N groups."""
        if self.groups is None:
            return N
        if len(self.groups[part]) < N:
            raise KoctError(
                f"{self.path} holds {len(self.groups[part])} {part} groups and {N} were asked for: "
                "make the pool larger or N smaller"
            )
        return sum(self.groups[part][:N])

    def _chosen(self, part: Part, count: int | None, first: int) -> np.ndarray:
        if part == "test" and not self.tests:
            raise KoctError(f"{self.path}: the test pairs are not there for a fit; remove what reads them")
        held = self.count[part]
        end = held if count is None else first + count
        if end > held:
            raise KoctError(f"{self.path} holds {held} {part} pairs and {end} were asked for: make the pool larger")
        chosen = slice(self.first[part] + first, self.first[part] + end)
        records = self.records[chosen]
        if not self.checked[chosen].all():
            for i, actual in enumerate(digests(records)):
                place = DIGEST * (chosen.start + i)
                if actual != self.index[place : place + DIGEST]:
                    raise self.damaged(f"the checksum of its {part} pair {first + i} is wrong")
            self.checked[chosen] = True
        return records

    def x(self, part: Part, count: int | None = None, first: int = 0) -> np.ndarray:
        chosen = self._chosen(part, count, first)
        return np.array(chosen["x"]).reshape(len(chosen), -1)

    def y(self, part: Part, count: int | None = None, first: int = 0) -> np.ndarray:
        chosen = self._chosen(part, count, first)
        images = np.asarray(self.problem.decode(np.array(chosen["y"])))
        return images.reshape(len(chosen), -1)
