"""A sweep's known operator R on disk, with RᵀR beside it: computed once, read by every cell."""

import importlib
import os

import numpy as np

from koct.ct import PROBLEMS
from koct.files import write_array


def make(spec, folder):
    """Write `operator.npy`, R as a matrix (H², V·B), and `gram.npy`, RᵀR, into `folder`."""
    R = importlib.import_module(PROBLEMS[spec["problem"]]).known_operator(spec).values
    write_array(os.path.join(folder, "operator.npy"), R)
    write_array(os.path.join(folder, "gram.npy"), R.T @ R)


def read(folder):
    return {name: np.load(os.path.join(folder, f"{name}.npy"), mmap_mode="r") for name in ("operator", "gram")}
