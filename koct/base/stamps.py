"""Stamps: every file that a job writes says what it is, what it was made from, and its own checksum.

A stamp is a line of JSON inside the file, at a place where other readers of the format pass over it: behind the array
of a NumPy file, in a comment of a LaTeX, PDF, Markdown or HTML file, in a text chunk of a PNG file, in the metadata of
a Parquet file, under the key `stamp` of a JSON file. It has

- `spec`: what the job was asked for, with a hash of its code,
- `content`: a digest of what the file holds, without the stamp and without what differs from run to run (times),
- `inputs`: a digest of the contents of all stamped files that it was made from,
- `about`: what else a reader may want to know; under `timings` a digest of the times that `content` leaves out, and
  under `timed` whether `inputs` has these of the files that have some,
- `checksum`: a digest of all bytes in front of the stamp, of their number, and of all bytes behind it,
- `own`: a digest of the stamp itself.

Digests are BLAKE2b with 128 bits. They have no key: they tell damage and mistakes, not forgery.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import mmap
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from koct.errors import KoctError

FORMAT = 2
PREFIX = f'{{"koct-stamp": {FORMAT}, "own": "'
OLDER = b'{"koct-stamp": 1, '
DIGEST = 16  # bytes
BLANK = "0" * (2 * DIGEST)
TAILS = (2**15, 2**20)  # bytes at the end of a file in which its stamp is looked for
SMALL = 2**18  # bytes of an array that is checked whole when a run is planned
VOLATILE = ("fit_seconds", "image_seconds", "device")  # keys of a row that say nothing about its numbers
TABLE_KEY = "koct.stamp"  # of the stamp in the metadata of a Parquet file
PNG_KEY = b"tEXtComment\0"
PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"

guard: Callable[[], None] | None = None  # called before a file is stamped; raises if the code is not what was planned


def digest(*parts: Any) -> str:
    """Return the BLAKE2b digest of bytes, one part behind the other, in hexadecimal."""
    hasher = hashlib.blake2b(digest_size=DIGEST)
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()


def digest_of_file(path: str | os.PathLike[str]) -> str:
    """Return the digest of the bytes of a file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST)).hexdigest()


def open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file to read it; a pipe or a device, which may never end, is refused."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise KoctError(f"{path} is a pipe or a device; put a file there, or remove it")
    return open(path, "rb")


class Stamp(NamedTuple):
    """What a file says of itself."""

    spec: Mapping[str, Any]
    inputs: str = digest(b"")  # which `combined` gives for none
    about: Mapping[str, Any] = {}  # what else a reader wants to know without reading the rest
    content: str = BLANK
    checksum: str = BLANK

    def text(self) -> str:
        rest = {"checksum": self.checksum, "content": self.content, "inputs": self.inputs}
        text = json.dumps({**rest, "spec": self.spec, "about": self.about})[1:]
        text = text.replace(">", "\\u003e")  # which would end a comment of HTML
        return f'{PREFIX}{digest(text.encode())}", {text}'


class Unstamped(KoctError):
    """A file without a stamp: of an older koct, or of something else."""


class Damaged(KoctError):
    """A file that is not what was written."""


def again(path: str | os.PathLike[str]) -> str:
    """The advice that ends the message on a file that cannot be used."""
    return f"`rm {path} && snakemake` makes it again"


def checksum_of(content: Any) -> str:
    """Return the digest of what JSON can hold, without what differs from run to run."""
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if key not in VOLATILE}
    return digest(json.dumps(content, sort_keys=True).encode())


def timings_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what `about` says of rows that have times: a digest of these."""
    timed = [{key: row[key] for key in VOLATILE if key in row} for row in rows]
    return {"timings": digest(json.dumps(timed).encode())} if any(timed) else {}


def as_input(stamp: Stamp, timed: bool) -> str:
    """Return what a file is to one that is made from it; `timed` if that one tells its times."""
    return stamp.content + (stamp.about.get("timings", "") if timed else "")


def combined(contents: Iterable[str]) -> str:
    return digest(",".join(contents).encode())


def made_from(*paths: str | os.PathLike[str], timed: bool = False) -> str:
    """The `inputs` of what is made from stamped files, with their times if `timed`; others do not count."""
    contents = []
    for path in paths:
        with contextlib.suppress(Unstamped):
            contents.append(as_input(read(path), timed))
    return combined(contents)


def of_timed(spec: Mapping[str, Any], *paths: str | os.PathLike[str]) -> Stamp:
    """Return the stamp of what tells the times in these files, so that it is made again when they change."""
    return Stamp(spec, made_from(*paths, timed=True), {"timed": True})


# Writing


def seal(path: str, stamp: Stamp, kind: str) -> None:
    """Stamp a complete file; `kind` is the ending of its final name. JSON and Parquet files hold the stamp already."""
    if guard is not None:
        guard()
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        if kind in (".json", ".parquet"):
            start = data.rfind(PREFIX.encode())
            if start < 0:
                raise KoctError(f"this output is of another format than {kind}; give --out another ending")
            stamp = stamp._replace(checksum=_checksum(data, start, start + len(stamp.text())))
            data[start : start + len(stamp.text())] = stamp.text().encode()
            return
        end = len(data) - (len(PNG_END) if kind == ".png" else 0)
        with memoryview(data) as view:
            hasher = hashlib.blake2b(view[:end], digest_size=DIGEST)
        stamp = stamp._replace(content=hasher.hexdigest())
        head, tail = _frame(stamp, kind)
        for part in (head, (end + len(head)).to_bytes(8), tail):
            hasher.update(part)
        file.seek(end)
        file.write(appended(stamp._replace(checksum=hasher.hexdigest()), kind))


def _frame(stamp: Stamp, kind: str) -> tuple[bytes, bytes]:
    """What stands in front of a stamp and behind it, where it is appended; behind that, a PNG file goes on."""
    if kind == ".png":
        return (len(PNG_KEY) + len(stamp.text()) - 4).to_bytes(4) + PNG_KEY, b""
    if kind in (".html", ".md"):
        return b"\n<!-- ", b" -->\n"
    return b"\n" if kind == ".npy" else b"% ", b"\n"


def appended(stamp: Stamp, kind: str) -> bytes:
    """The end of a file, from behind its content on."""
    head, tail = _frame(stamp, kind)
    end = head + stamp.text().encode() + tail
    return end + (zlib.crc32(end[4:]).to_bytes(4) + PNG_END if kind == ".png" else b"")


def _checksum(data: Any, start: int, end: int) -> str:
    """Return the digest of all bytes but the stamp from `start` to `end`; a PNG's last chunks have their own."""
    with memoryview(data) as view:
        last = len(view) - (4 + len(PNG_END) if view[-len(PNG_END) :] == PNG_END else 0)
        return digest(view[:start], start.to_bytes(8), view[end:last])


# Reading


def read(path: str | os.PathLike[str]) -> Stamp:
    """The stamp of a file, without a look at the rest."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        for length in TAILS:
            file.seek(max(0, size - length))
            tail = file.read()
            if PREFIX.encode() in tail or size <= length:
                break
    return _decode(path, tail)


def check(path: str | os.PathLike[str]) -> Stamp:
    """The stamp of a file whose checksum is right."""
    with open_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise Damaged(f"{path} is empty; {again(path)}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return check_bytes(path, data)


def check_bytes(path: str | os.PathLike[str], data: Any) -> Stamp:
    """As `check`, of the bytes of a file."""
    start = max(0, data.rfind(PREFIX.encode()))
    stamp = _decode(path, data[start:])
    whole = _checksum(data, start, start + len(stamp.text())) == stamp.checksum
    if data[-len(PNG_END) :] == PNG_END:
        end = len(data) - len(PNG_END) - 4
        whole = whole and data[end : end + 4] == zlib.crc32(data[data.rfind(PNG_KEY) : end]).to_bytes(4)
    if not whole:
        raise Damaged(f"{path} is damaged: its checksum is wrong; {again(path)}")
    return stamp


def check_table(path: str | os.PathLike[str], data: bytes) -> None:
    """Refuse the bytes of a Parquet file whose stamp does not fit; one without, or of an older koct, is taken."""
    try:
        check_bytes(path, data)
    except Unstamped:
        if TABLE_KEY.encode() in data and OLDER not in data:
            raise Damaged(f"{path} is damaged: its stamp cannot be read; {again(path)}") from None


def _decode(path: str | os.PathLike[str], tail: bytes) -> Stamp:
    start = tail.rfind(PREFIX.encode())
    if start < 0:
        raise Unstamped(f"{path} is not a file of this version of koct: it has no stamp; {again(path)}")
    try:
        text = tail[start:].decode("ascii", "replace")
        fields, end = json.JSONDecoder().raw_decode(text)
        stamp = Stamp(fields["spec"], fields["inputs"], fields["about"], fields["content"], fields["checksum"])
        if stamp.text() != text[:end]:
            raise ValueError
        return stamp
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path} is damaged: its stamp cannot be read; {again(path)}") from None


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[str]:
    """The dotted keys in which two specs differ."""
    keys: list[str] = []
    for key in {**wanted, **found}:
        a, b = found.get(key), wanted.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            keys += difference(a, b, (*path, key))
        elif a != b:
            keys.append(".".join((*path, str(key))))
    return keys
