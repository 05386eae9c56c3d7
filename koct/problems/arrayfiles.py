"""Arrays in files of a user's own: .npy, .npz and HDF5. Shapes come from headers; numbers are read when asked for."""

from __future__ import annotations

import contextlib
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from koct.base.messages import cut, printable
from koct.errors import KoctError

HDF5 = (".h5", ".hdf5", ".hdf")


class Stored(NamedTuple):
    """An array in a file. `what` is the option that names it and its value, for messages."""

    what: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[Any], np.ndarray]  # the rows of an increasing list of indices, or of a slice


def find(key: str, name: str, data: str | None) -> Stored:
    """The array that the option `key` names: a .npy file, or an array of that name in the file `data`."""
    if name.lower().endswith(".npy"):
        return _npy(f"{key} = {name!r}", name)
    if data is None:
        raise KoctError(f"{key} = {name!r} is not a .npy file; give one, or data, the file that has this array")
    if data.lower().endswith(".npz"):
        return _npz(key, name, data)
    if data.lower().endswith(HDF5):
        return _hdf5(key, name, data)
    fix = "write the pairs into one of these" if os.path.exists(data) else "correct the path"
    raise KoctError(f"data = {data!r} is no folder (of images), and no .npz, .h5 or .hdf5 file; {fix}")


def require(package: str, what: str) -> None:
    """Refuse what needs a package that is not there."""
    if find_spec(package) is None:
        raise KoctError(f"{what} needs {package}, which is not installed; install it (pip install 'koct[files]')")


@contextlib.contextmanager
def readable(what: str, path: str, fix: str) -> Iterator[None]:
    """Turn what readers make of missing, foreign and damaged files into one sentence."""
    opened(what, path)
    try:
        yield
    except (KoctError, MemoryError):
        raise
    except BlockingIOError:  # HDF5 locks what it writes
        raise KoctError(f"{what} is being written by another program; close it there") from None
    except Exception:  # whatever a damaged file makes of NumPy's, zipfile's or HDF5's reader
        raise KoctError(f"{what} {fix}") from None


def opened(what: str, path: str, fix: str = "correct the path") -> None:
    """Refuse what cannot be opened, and pipes and devices, which never end."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise KoctError(f"{what} is a pipe or a device; give a file")
        open(path, "rb").close()
    except PermissionError:
        raise KoctError(f"{what} cannot be read: Permission denied; allow it (chmod +r)") from None
    except (OSError, ValueError) as error:  # ValueError: of names that no file can have
        raise KoctError(f"{what} cannot be read: {getattr(error, 'strerror', error)}; {fix}") from None


def _npy(what: str, path: str) -> Stored:
    with readable(what, path, "is not a complete NumPy file of numbers of one shape; write it again with numpy.save"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return Stored(what, array.shape, array.dtype, lambda rows: np.array(array[rows]))


def _npz(key: str, name: str, data: str) -> Stored:
    what = f"data = {data!r}"
    with (
        readable(what, data, "is not a complete .npz archive; write it again with numpy.savez"),
        zipfile.ZipFile(data) as zip,
    ):
        names = [member.removesuffix(".npy") for member in zip.namelist()]
        if name not in names:
            raise _unknown(key, name, data, names)
        with zip.open(f"{name}.npy") as member:
            version = np.lib.format.read_magic(member)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(member)
    what = f"{key} = {name!r} in {data}"
    whole: list[np.ndarray] = []  # an archive has no part that could be read alone

    def read(rows: Any) -> np.ndarray:
        if not whole:
            with readable(what, data, "is damaged; write it again with numpy.savez"), np.load(data) as archive:
                whole.append(archive[name])
        return whole[0][rows]

    return Stored(what, shape, dtype, read)


def _hdf5(key: str, name: str, data: str) -> Stored:
    require("h5py", f"data = {data!r}")
    import h5py

    def datasets(file: Any) -> list[str]:
        paths: list[str] = []
        file.visititems(lambda path, item: paths.append(path) if isinstance(item, h5py.Dataset) else None)
        return paths

    what = f"{key} = {name!r} in {data}"
    with (
        readable(f"data = {data!r}", data, "is not a complete HDF5 file; write it again"),
        h5py.File(data, "r") as file,
    ):
        dataset = file.get(name)
        if not isinstance(dataset, h5py.Dataset):
            raise _unknown(key, name, data, datasets(file))
        if dataset.is_virtual or dataset.external or not os.path.samefile(dataset.file.filename, data):
            raise KoctError(f"{what} lies in another file, whose changes nobody would see; copy it into {data}")
        dtype = np.dtype(str) if h5py.check_string_dtype(dataset.dtype) else dataset.dtype
        shape = dataset.shape or ()  # None if it is empty

    def read(rows: Any) -> np.ndarray:
        with readable(what, data, "is damaged; write the file again"), h5py.File(data, "r") as file:
            return np.asarray(file[name][rows])

    return Stored(what, shape, dtype, read)


def _unknown(key: str, name: str, data: str, names: list[str]) -> KoctError:
    some = ", ".join(f"'{cut(printable(name))}'" for name in names[:6]) + (", …" if len(names) > 6 else "")
    has = f"has {some}" if names else "has none"
    return KoctError(f"{key} = {name!r} is not an array of {data}, which {has}; set {key} to the right name")


def check(array: Stored) -> None:
    """Refuse what cannot be pairs, as far as a header tells."""
    if array.dtype.kind == "c":
        raise KoctError(f"{array.what} is complex; give real and imaginary part as two real channels")
    if array.dtype.kind not in "fiub":
        raise KoctError(f"{array.what} has the type {array.dtype}; give real numbers, all pairs of one shape")
    if len(array.shape) < 2 or min(array.shape) < 1:
        raise KoctError(f"{array.what} has the shape {array.shape}; give (pairs, ...), one entry or more for each pair")


def labels(array: Stored) -> list[str]:
    """The group of every pair, as text."""
    if array.dtype.kind not in "iubUS" or len(array.shape) != 1:
        how = " (array.astype(str) makes text of objects)" if array.dtype.hasobject else ""
        raise KoctError(
            f"{array.what} has the type {array.dtype} and the shape {array.shape}; give one whole number or text for "
            f"each pair{how}"
        )
    items = array.read(slice(None)).tolist()
    names = [item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in items]
    if "" in names:
        raise KoctError(f"{array.what} is empty at pair {names.index('')}, counted from 0; give every pair a group")
    return names


def rows(array: Stored, chosen: np.ndarray) -> np.ndarray:
    """The chosen rows, in their order; float32 and float64 stay what they are. All must be finite."""
    ordered, places = np.unique(chosen, return_inverse=True)
    values = array.read(ordered)
    if values.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):  # what is too large is not finite
            values = values.astype(float)
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        pair = ordered[np.argmax(bad)]
        raise KoctError(f"{array.what}: pair {pair}, counted from 0, is not finite; correct it or leave it out")
    return values[places]
