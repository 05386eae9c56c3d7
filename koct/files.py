"""Outputs that appear whole or not at all."""

import contextlib
import os


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
    import numpy as np

    with whole(path) as aside, open(aside, "wb") as file:
        np.save(file, array)
