"""Pools on disk: one NumPy file per part, one record (x, y) per phantom, so that any prefix is read alone."""

import importlib
import os

import numpy as np

from koct.ct import PROBLEMS
from koct.errors import KoctError
from koct.files import write_array


def make(spec, seed, folder):
    """Draw the pool of one seed and write `train.npy`, `val.npy` and `test.npy` into `folder`."""
    problem = importlib.import_module(PROBLEMS[spec["problem"]])
    for part, x, y in problem.pairs(spec, seed):
        records = np.empty(len(x), dtype=[("x", x.dtype, x.shape[1:]), ("y", y.dtype, y.shape[1:])])
        records["x"], records["y"] = x, y
        write_array(os.path.join(folder, f"{part}.npy"), records)


def read(folder, part, count=None):
    """The first `count` (default: all) pairs of a part as flat rows x (count, V·B) and y (count, H²)."""
    path = os.path.join(folder, f"{part}.npy")
    records = np.load(path, mmap_mode="r")
    if count is not None and count > len(records):
        raise KoctError(f"{path} holds {len(records)} pairs, {count} were asked for: make the pool larger or N smaller")
    count = len(records) if count is None else count
    return tuple(np.array(records[name][:count]).reshape(count, -1) for name in ("x", "y"))
