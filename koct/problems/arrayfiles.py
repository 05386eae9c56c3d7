"""Arrays in files of a user's own: .npy, .npz and HDF5. Shapes come from headers; numbers are read when asked for."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

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
    if name.endswith(".npy"):
        return _npy(f"{key} = {name!r}", name)
    if data is None:
        raise KoctError(f"{key} = {name!r} is not a .npy file; give one, or data, the file that has this array")
    if data.endswith(".npz"):
        return _npz(key, name, data)
    if data.endswith(HDF5):
        return _hdf5(key, name, data)
    raise KoctError(f"data = {data!r} is no folder (of DICOM slices), and no .npz, .h5 or .hdf5 file; correct the path")


def require(package: str, what: str) -> None:
    """Refuse what needs a package that is not there."""
    if find_spec(package) is None:
        raise KoctError(f"{what} needs {package}, which is not installed; install it (pip install 'koct[files]')")


@contextlib.contextmanager
def readable(what: str, fix: str) -> Iterator[None]:
    """Turn what readers make of missing and damaged files into one sentence."""
    try:
        yield
    except KoctError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise KoctError(f"{what} cannot be read: {error.strerror}; correct the path") from None
    except Exception:  # whatever a damaged file makes of NumPy's, zipfile's or HDF5's reader
        raise KoctError(f"{what} {fix}") from None


def _npy(what: str, path: str) -> Stored:
    with readable(what, "is not a complete NumPy file of numbers of one shape; write it again with numpy.save"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return Stored(what, array.shape, array.dtype, lambda rows: np.array(array[rows]))


def _npz(key: str, name: str, data: str) -> Stored:
    what = f"data = {data!r}"
    with (
        readable(what, "is not a complete .npz archive; write it again with numpy.savez"),
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
            with (
                readable(what, "is damaged, or holds Python objects; write it again with numpy.savez"),
                np.load(data) as archive,
            ):
                whole.append(archive[name])
        return whole[0][rows]

    return Stored(what, shape, dtype, read)


def _hdf5(key: str, name: str, data: str) -> Stored:
    require("h5py", f"data = {data!r}")
    import h5py

    def datasets(file: Any) -> list[str]:
        found: list[str] = []
        file.visititems(lambda path, item: found.append(path) if isinstance(item, h5py.Dataset) else None)
        return found

    with readable(f"data = {data!r}", "is not a complete HDF5 file; write it again"):
        open(data, "rb").close()  # whose error is the plainer one
        with h5py.File(data, "r") as file:
            if not isinstance(file.get(name), h5py.Dataset):
                raise _unknown(key, name, data, datasets(file))
            shape, dtype = file[name].shape, file[name].dtype

    what = f"{key} = {name!r} in {data}"

    def read(rows: Any) -> np.ndarray:
        with readable(what, "is damaged; write the file again"), h5py.File(data, "r") as file:
            return np.asarray(file[name][rows])

    return Stored(what, shape, dtype, read)


def _unknown(key: str, name: str, data: str, names: list[str]) -> KoctError:
    has = f"has {', '.join(map(repr, names[:12]))}" if names else "has none"
    return KoctError(f"{key} = {name!r} is not an array of {data}, which {has}; set {key} to the right name")


def check(array: Stored) -> None:
    """Refuse what cannot be pairs, as far as a header tells."""
    if array.dtype.kind == "c":
        raise KoctError(f"{array.what} is complex; give real and imaginary part as two real channels")
    if array.dtype.kind not in "fiub":
        raise KoctError(f"{array.what} has the type {array.dtype}; give real numbers, all pairs of one shape")
    if len(array.shape) < 2 or 0 in array.shape:
        raise KoctError(f"{array.what} has the shape {array.shape}; give (pairs, ...), one entry or more for each pair")


def labels(array: Stored) -> list[str]:
    """The group of every pair, as text."""
    if array.dtype.kind not in "iubUSO" or len(array.shape) != 1:
        raise KoctError(
            f"{array.what} has the type {array.dtype} and the shape {array.shape}; give one whole number or text for "
            "each pair"
        )
    found = array.read(slice(None)).tolist()
    return [item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in found]


def rows(array: Stored, chosen: np.ndarray) -> np.ndarray:
    """The chosen rows, in their order; float32 and float64 stay what they are. All must be finite."""
    ordered, places = np.unique(chosen, return_inverse=True)
    found = array.read(ordered)
    if found.dtype not in (np.float32, np.float64):
        found = found.astype(float)
    bad = ~np.isfinite(found.reshape(len(found), -1)).all(axis=1)
    if bad.any():
        pair = ordered[np.argmax(bad)]
        raise KoctError(f"{array.what}: pair {pair}, counted from 0, is not finite; correct it or leave it out")
    return found[places]
