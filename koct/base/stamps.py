"""Stamps: every file that a job writes says what it is, what it was made from, and its own checksum.

A stamp is a line of JSON inside the file, at a place where other readers of the format pass over it: behind the array
of a NumPy file, in a comment of a LaTeX, PDF, Markdown or HTML file, in a text chunk of a PNG file, in the metadata of
a Parquet file, under the key `stamp` of a JSON file. It has

- `spec`: what the job was asked for, with a hash of its code,
- `content`: the CRC-32 of what the file holds, without the stamp and without what differs from run to run (times),
- `inputs`: the same of all stamped files that it was made from,
- `checksum`: the CRC-32 of the whole file with zeros in this place, and `own`, that of the stamp.

A CRC tells damage and mistakes, at 1 GB/s; it does not tell forgery.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from koct.errors import KoctError

FORMAT = 1
PREFIX = f'{{"koct-stamp": {FORMAT}, "checksum": "'
BLANK = "0" * 8
TAILS = (2**15, 2**20)  # bytes at the end of a file in which its stamp is looked for
SMALL = 2**18  # bytes of a file that is checked whole when a run is planned
VOLATILE = ("fit_seconds", "device")  # keys of a row that say nothing about its numbers
PNG_KEY = b"tEXtComment\0"
PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"

guard: Callable[[], None] | None = None  # called before a file is stamped; raises if the code is not what was planned


class Stamp(NamedTuple):
    """What a file says of itself."""

    spec: Mapping[str, Any]
    inputs: str = BLANK
    about: Mapping[str, Any] = {}  # what else a reader wants to know without reading the rest
    content: str = BLANK
    checksum: str = BLANK

    def text(self) -> str:
        rest = {"content": self.content, "inputs": self.inputs, "spec": self.spec, "about": self.about}
        text = json.dumps(rest)[1:].replace(">", "\\u003e")  # which would end a comment of HTML
        return f'{PREFIX}{self.checksum}", "own": "{crc(text.encode())}", {text}'


class Unstamped(KoctError):
    """A file without a stamp: of an older koct, or of something else."""


class Damaged(KoctError):
    """A file that is not what was written."""


def again(path: str | os.PathLike[str]) -> str:
    """The advice that ends the message on a file that cannot be used."""
    return f"`rm {path} && snakemake` makes it again"


def crc(data: Any, before: str = BLANK) -> str:
    """The CRC-32 of bytes, behind others whose checksum is `before`."""
    return f"{zlib.crc32(data, int(before, 16)):08x}"


def checksum_of(content: Any) -> str:
    """Of what JSON can hold, without what differs from run to run."""
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if key not in VOLATILE}
    return crc(json.dumps(content, sort_keys=True).encode())


def combined(contents: Iterable[str]) -> str:
    return crc(",".join(contents).encode())


def made_from(*paths: str | os.PathLike[str]) -> str:
    """The `inputs` of what is made from stamped files; files without a stamp do not count."""
    found = []
    for path in paths:
        try:
            found.append(read(path).content)
        except Unstamped:
            continue
    return combined(found)


# Writing


def seal(path: str, stamp: Stamp, kind: str) -> None:
    """Stamp a complete file; `kind` is the ending of its final name. JSON and Parquet files hold the stamp already."""
    if guard is not None:
        guard()
    if kind in (".json", ".parquet"):
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
            start = data.rfind(PREFIX.encode()) + len(PREFIX)
            data[start : start + len(BLANK)] = _checksum(data, start).encode()
        return
    with open(path, "r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            end = len(data) - (len(PNG_END) if kind == ".png" else 0)
            with memoryview(data) as view:
                stamp = stamp._replace(content=crc(view[:end]))
                if kind == ".npy":
                    stamp = stamp._replace(about={**stamp.about, "header": crc(view[: header_size(data)])})
        file.seek(end)
        file.write(appended(stamp, kind))


def header_size(data: Any) -> int:
    """Of the header of a NumPy file; its checksum serves readers that look at a part of the file alone."""
    width = 2 if data[6] == 1 else 4  # of the length, by the version of the format
    return 8 + width + int.from_bytes(data[8 : 8 + width], "little")


def appended(stamp: Stamp, kind: str) -> bytes:
    """The end of a file, from behind its content on."""

    def around(stamp: Stamp) -> bytes:
        line = stamp.text().encode()
        if kind == ".png":
            return (len(PNG_KEY) + len(line) - 4).to_bytes(4) + PNG_KEY + line
        if kind in (".html", ".md"):
            return b"\n<!-- " + line + b" -->\n"
        return b"\n" + line + b"\n" if kind == ".npy" else b"% " + line + b"\n"

    blank = around(stamp._replace(checksum=BLANK))
    end = around(stamp._replace(checksum=crc(blank, stamp.content)))
    return end + (zlib.crc32(end[4:]).to_bytes(4) + PNG_END if kind == ".png" else b"")


def _checksum(data: Any, start: int) -> str:
    """Of bytes with zeros in place of the checksum that begins at `start`; a PNG file's last chunks have their own."""
    with memoryview(data) as view:
        end = len(view) - (4 + len(PNG_END) if view[-len(PNG_END) :] == PNG_END else 0)
        return crc(view[start + len(BLANK) : end], crc(BLANK.encode(), crc(view[:start])))


# Reading


def read(path: str | os.PathLike[str]) -> Stamp:
    """The stamp of a file, without a look at the rest."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        for length in TAILS:
            file.seek(max(0, size - length))
            tail = file.read()
            if PREFIX.encode() in tail or size <= length:
                break
    return _decode(path, tail)


def check(path: str | os.PathLike[str]) -> Stamp:
    """The stamp of a file whose checksum is right."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise Damaged(f"{path} is empty; {again(path)}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return check_bytes(path, data)


def check_bytes(path: str | os.PathLike[str], data: Any) -> Stamp:
    """As `check`, of the bytes of a file."""
    start = data.rfind(PREFIX.encode())
    stamp = _decode(path, data[max(start, 0) :])
    whole = _checksum(data, start + len(PREFIX)) == stamp.checksum
    if data[-len(PNG_END) :] == PNG_END:
        end = len(data) - len(PNG_END) - 4
        whole = whole and data[end : end + 4] == zlib.crc32(data[data.rfind(PNG_KEY) : end]).to_bytes(4)
    if not whole:
        raise Damaged(f"{path} is damaged: its checksum is wrong; {again(path)}")
    return stamp


def _decode(path: str | os.PathLike[str], tail: bytes) -> Stamp:
    start = tail.rfind(PREFIX.encode())
    if start < 0:
        raise Unstamped(f"{path} is not a file of this version of koct: it has no stamp; {again(path)}")
    try:
        text = tail[start:].decode("ascii", "replace")
        found, end = json.JSONDecoder().raw_decode(text)
        if found["own"] != crc(text[text.index('"content"') : end].encode()):
            raise ValueError
        return Stamp(found["spec"], found["inputs"], found["about"], found["content"], found["checksum"])
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
