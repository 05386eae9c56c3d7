"""A sweep's known operator R on disk, with RᵀR beside it: computed once, read by every cell."""

import importlib

from koct.ct import PROBLEMS
from koct.files import read_record, write_record


def make(spec, path):
    """Write R as the matrix `operator` (H², V·B), and RᵀR as `gram`."""
    R = importlib.import_module(PROBLEMS[spec["problem"]]).known_operator(spec).values
    write_record(path, operator=R, gram=R.T @ R)


read = read_record
