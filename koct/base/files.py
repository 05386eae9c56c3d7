"""Atomic writes: outputs appear whole or not at all, with a stamp that says what they are."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from koct.base import stamps
from koct.base.stamps import Stamp, again, checksum_of, timings_of
from koct.errors import KoctError

Path = str | os.PathLike[str]


@contextlib.contextmanager
def atomic_write(path: Path, stamp: Stamp | None = None) -> Iterator[str]:
    """Yield a temporary path to write to; it takes the name `path` only when the block ends without an error.

    A link stays, and what it points to is replaced; a device or a pipe is written to directly.
    """
    _check_link(path)
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    direct = _is_special(path)
    temporary = path if direct else os.path.join(folder, temporary_name(name))
    try:
        os.makedirs(folder, exist_ok=True)
        if not direct:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
        yield temporary
        if not direct:
            if stamp is not None:
                stamps.seal(temporary, stamp, os.path.splitext(name)[1])
            os.replace(temporary, path)
    except OSError as error:
        if error.filename is None or str(error.filename) == temporary:  # a full disk names no file
            raise OSError(error.errno, error.strerror or str(error), path) from None
        raise
    finally:
        if not direct:
            with contextlib.suppress(OSError):
                os.remove(temporary)


def _check_link(path: Path) -> None:
    """Refuse links and pipes that other users have put into folders where all may write, wherever a path leads.

    Linux does so, too, where it is set so.
    """
    place, seen = "/", set[str]()
    parts = os.path.join(os.getcwd(), path).split("/")[::-1]
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        folder, place = place, os.path.dirname(place) if part == ".." else os.path.join(place, part)
        try:
            about, around = os.lstat(place), os.stat(folder)
        except OSError:
            return  # from here on nothing is there
        link = stat.S_ISLNK(about.st_mode)
        theirs = around.st_mode & stat.S_IWOTH and about.st_uid not in (os.getuid(), around.st_uid)
        if theirs and (link or stat.S_ISFIFO(about.st_mode)):
            raise PermissionError(errno.EACCES, "It is a link or a pipe of another user's", place)
        if link and place not in seen:
            seen.add(place)
            target = os.readlink(place)
            parts += target.split("/")[::-1]
            place = "/" if target.startswith("/") else folder


def temporary_name(name: str) -> str:
    """It names koct and the process, so that the files of a dead one can be told from those of others.

    Nobody can guess the rest, and put a link there.
    """
    return f".koct-temporary.{os.uname().nodename}.{os.getpid()}.{os.urandom(8).hex()}.{name[-128:]}"


def _is_special(path: str) -> bool:
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return os.path.exists(path) and not os.path.isfile(path)


def write_text(path: Path, text: str, stamp: Stamp | None = None) -> None:
    """Write a UTF-8 text file."""
    with atomic_write(path, stamp) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)


def write_json(path: Path, content: Mapping[str, Any], stamp: Stamp) -> None:
    """Write a JSON object with its stamp under `stamp`."""
    text = json.dumps(content, indent=1)
    stamp = stamp._replace(content=checksum_of(content), about={**stamp.about, **timings_of([content])})
    write_text(path, f'{text[:-2]},\n "stamp": {stamp.text()}\n}}\n', stamp)


def read_json(path: Path) -> tuple[dict[str, Any], Stamp]:
    """(content, stamp) of what `write_json` wrote."""
    try:
        with stamps.open_file(path) as file:
            data = file.read()
    except FileNotFoundError:
        raise KoctError(f"{path} is missing; `snakemake {path}` makes it") from None
    stamp = stamps.check_bytes(path, data)
    try:
        content = dict(json.loads(data))
    except (ValueError, TypeError, RecursionError):
        raise stamps.Damaged(f"{path} is damaged: it is not JSON; {again(path)}") from None
    content.pop("stamp", None)
    return content, stamp


def write_array(path: Path, array: Any, stamp: Stamp) -> None:
    """Write a NumPy file."""
    with atomic_write(path, stamp) as temporary, open(temporary, "wb") as file:
        np.save(file, array)


def map_array(path: Path) -> Any:
    """A NumPy file, mapped and not read."""
    try:
        return np.load(path, mmap_mode="r")
    except OSError:
        raise
    except Exception:  # whatever a header of random bytes makes of NumPy's reader
        raise stamps.Damaged(f"{path} is not a complete NumPy file; {again(path)}") from None


def read_array(path: Path) -> tuple[Any, Stamp]:
    """(array, stamp) of what `write_array` wrote, mapped, with its checksum checked."""
    stamp = stamps.check(path)
    return map_array(path), stamp


def write_record(path: Path, stamp: Stamp, /, **fields: Any) -> None:
    """Write named arrays as one NumPy record: unlike in an archive, each can be mapped into memory alone."""
    fields = {name: np.asarray(value) for name, value in fields.items()}
    kinds = {name: (value.dtype, value.shape) for name, value in fields.items()}
    with record_writer(path, stamp, None, **kinds) as (file, _):
        for value in fields.values():  # one after the other: together they may not fit into memory twice
            file.write(np.ascontiguousarray(value).data)


@contextlib.contextmanager
def record_writer(
    path: Path, stamp: Stamp, count: int | None, **fields: tuple[Any, tuple[int, ...]]
) -> Iterator[tuple[BinaryIO, Any]]:
    """Write `count` NumPy records, or one (None), piece by piece; `fields` are (dtype, shape) in their order in it.

    Yields the file and the dtype of a record. A record can have 2 GiB at most, a file of them any size.
    """
    dtype = np.dtype([(name, *kind) for name, kind in fields.items()])
    shape = () if count is None else (count,)
    with atomic_write(path, stamp) as temporary, open(temporary, "w+b") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": dtype.descr, "fortran_order": False, "shape": shape})
        yield file, dtype


def read_record(path: Path) -> tuple[dict[str, Any], Stamp]:
    """(arrays, stamp) of `write_record` or `record_writer`, mapped, with their checksum checked."""
    record, stamp = read_array(path)
    if record.dtype.names is None:
        raise stamps.Damaged(f"{path} holds no named arrays; {again(path)}")
    return {name: record[name] for name in record.dtype.names}, stamp


class Blocks(NamedTuple):
    """An array that is too large to hold: `length` blocks of one shape, produced one after the other."""

    length: int
    shape: tuple[int, ...]
    blocks: Iterable[Any]
    dtype: str = "<f4"
