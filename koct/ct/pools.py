"""Pools on disk: one NumPy file per seed, one record (part, x, y) per phantom, so that any prefix is read alone."""

import importlib

import numpy as np

from koct.ct import PROBLEMS
from koct.errors import KoctError
from koct.files import map_array, write_array


def make(spec, seed, path):
    """Draw the pool of one seed: the parts train, val and test of its problem, one after the other."""
    problem = importlib.import_module(PROBLEMS[spec["problem"]])
    parts = list(problem.pairs(spec, seed))
    _, x, y = parts[0]
    dtype = [("part", "S5"), ("x", x.dtype, x.shape[1:]), ("y", y.dtype, y.shape[1:])]
    records = np.empty(sum(len(x) for _, x, _ in parts), dtype)
    first = 0
    for part, x, y in parts:
        chunk = records[first : first + len(x)]
        chunk["part"], chunk["x"], chunk["y"] = part, x, y
        first += len(x)
    write_array(path, records)


def read(path, part, count=None):
    """The first `count` (default: all) pairs of a part as flat rows x (count, V·B) and y (count, H²)."""
    records = map_array(path)
    places = np.flatnonzero(records["part"] == part.encode())
    if count is None:
        count = len(places)
    if count > len(places):
        raise KoctError(
            f"{path} holds {len(places)} {part} pairs and {count} were asked for: make the pool larger or N smaller"
        )
    chosen = records[places[0] : places[0] + count]
    return tuple(np.array(chosen[name]).reshape(count, -1) for name in ("x", "y"))
