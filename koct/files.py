"""Outputs that appear whole or not at all."""

import contextlib
import os

import numpy as np

from koct.errors import KoctError


@contextlib.contextmanager
def whole(path):
    """Yield a path to write to; it takes the name `path` only when the block ends without an error."""
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    aside = os.path.join(folder, f".{os.getpid()}.{name}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(aside)


def write_text(path, text):
    """Write a whole UTF-8 text file."""
    with whole(path) as aside, open(aside, "w", encoding="utf-8") as file:
        file.write(text)


def write_array(path, array):
    """Write a whole NumPy file."""
    with whole(path) as aside, open(aside, "wb") as file:
        np.save(file, array)


def map_array(path):
    """A NumPy file, mapped and not read."""
    try:
        return np.load(path, mmap_mode="r")
    except (ValueError, EOFError):
        raise KoctError(f"{path} is not a whole NumPy file: delete it and run snakemake again") from None


def write_record(path, **fields):
    """Write named arrays as one NumPy record: unlike in an archive, each can be mapped into memory alone."""
    fields = {name: np.asarray(value) for name, value in fields.items()}
    dtype = np.dtype([(name, value.dtype, value.shape) for name, value in fields.items()])
    with whole(path) as aside, open(aside, "wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": dtype.descr, "fortran_order": False, "shape": ()})
        for value in fields.values():  # one after the other: together they may not fit into memory twice
            file.write(np.ascontiguousarray(value).data)


@contextlib.contextmanager
def record_writer(path, count, **fields):
    """Write `count` NumPy records piece by piece: `fields` are (dtype, shape) in the order in which a record has them.

    Yields the file and the dtype of a record. A record can have 2 GiB at most, a file of them any size.
    """
    dtype = np.dtype([(name, *kind) for name, kind in fields.items()])
    with whole(path) as aside, open(aside, "wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": dtype.descr, "fortran_order": False, "shape": (count,)})
        yield file, dtype


def read_record(path):
    """The arrays of `write_record` or `record_writer`, mapped and not read."""
    record = map_array(path)
    return {name: record[name] for name in record.dtype.names}
