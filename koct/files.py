"""Atomic writes: outputs appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from koct.errors import KoctError


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a temporary path to write to; it takes the name `path` only when the block ends without an error."""
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    temporary = os.path.join(folder, f".{os.getpid()}.{name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file."""
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)


def write_array(path: str | os.PathLike[str], array: Any) -> None:
    """Write a NumPy file."""
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.save(file, array)


def map_array(path: str | os.PathLike[str]) -> Any:
    """A NumPy file, mapped and not read."""
    try:
        return np.load(path, mmap_mode="r")
    except (ValueError, EOFError):
        raise KoctError(f"{path} is not a complete NumPy file: delete it and run snakemake again") from None


def write_record(path: str | os.PathLike[str], /, **fields: Any) -> None:
    """Write named arrays as one NumPy record: unlike in an archive, each can be mapped into memory alone."""
    fields = {name: np.asarray(value) for name, value in fields.items()}
    dtype = np.dtype([(name, value.dtype, value.shape) for name, value in fields.items()])
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": dtype.descr, "fortran_order": False, "shape": ()})
        for value in fields.values():  # one after the other: together they may not fit into memory twice
            file.write(np.ascontiguousarray(value).data)


@contextlib.contextmanager
def record_writer(
    path: str | os.PathLike[str], count: int, **fields: tuple[Any, tuple[int, ...]]
) -> Iterator[tuple[BinaryIO, Any]]:
    """Write `count` NumPy records piece by piece: `fields` are (dtype, shape) in the order in which a record has them.

    Yields the file and the dtype of a record. A record can have 2 GiB at most, a file of them any size.
    """
    dtype = np.dtype([(name, *kind) for name, kind in fields.items()])
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": dtype.descr, "fortran_order": False, "shape": (count,)})
        yield file, dtype


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays of `write_record` or `record_writer`, mapped and not read."""
    record = map_array(path)
    if record.dtype.names is None:
        raise KoctError(f"{path} holds no named arrays: delete it and run snakemake again")
    return {name: record[name] for name in record.dtype.names}


class Blocks(NamedTuple):
    """An array that is too large to hold: `length` blocks of one shape, produced one after the other."""

    length: int
    shape: tuple[int, ...]
    blocks: Iterable[Any]
    dtype: str = "<f4"
