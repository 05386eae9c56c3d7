"""CT slices in DICOM files: what a folder holds, and slices as small images of attenuation."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
import zlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from koct.errors import KoctError
from koct.problems.arrayfiles import HDF5, opened, shown

ENDINGS = ("", ".dcm", ".dicom", ".ima")  # of files that are read, in capitals too
AIR = -1000.0  # HU
PREAMBLE = 144  # bytes up to the end of the element that says how long the header of a file is
LARGEST = 2**28  # bytes of a slice: one of 8,192 × 8,192 pixels has half as many
AGAIN = "copy it again or remove it"


class Header(NamedTuple):
    """What a slice says of itself."""

    path: str
    rows: int
    columns: int
    group: str


def find(folder: str) -> list[str]:
    """The DICOM files below a folder, in order; hidden files and DICOMDIR are no slices."""
    return [path for path in _files(folder) if os.path.splitext(path)[1].lower() in ENDINGS]


def _files(folder: str) -> list[str]:
    """All files below a folder but hidden ones, in order; links to folders are followed, and each is seen once."""
    paths: list[str] = []
    seen: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        about = os.stat(place)
        if (about.st_dev, about.st_ino) in seen:
            folders.clear()
            continue
        seen.add((about.st_dev, about.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [os.path.join(place, name) for name in names if not name.startswith((".", "DICOMDIR"))]
    return sorted(paths)


def check_folder(folder: str) -> None:
    """Refuse a folder without slices."""
    if find(folder):
        return
    endings = {os.path.splitext(path)[1].lower() for path in _files(folder)}
    if ".npy" in endings:
        instead = " but .npy files; leave data out and give x and y, one .npy file each that holds all pairs"
    elif arrays := sorted(endings & {".npz", *HDF5}):
        instead = f" but {arrays[0]} files; give one that holds all pairs"
    else:
        instead = " (.dcm, .ima, or no ending); correct the path or rename them"
    raise KoctError(f"data = {folder!r} has no DICOM files{instead}")


def headers(folder: str, group: str) -> list[Header]:
    """Return the headers of all slices of a folder, which must be CT and of one size; pixels are not read."""
    from pydicom.datadict import tag_for_keyword

    if tag_for_keyword(group) is None:
        raise KoctError(f"group = {group!r} is no DICOM keyword; give one that all slices have, such as PatientID")
    slices = [_header(path, group) for path in find(folder)]
    for other in slices:
        if other[1:3] != slices[0][1:3]:
            sizes = (f"{slice.rows} × {slice.columns} pixels ({_named(slice.path)})" for slice in (slices[0], other))
            raise KoctError(f"data = {folder!r} has slices of {' and of '.join(sizes)}; keep those of one size")
    return slices


def _named(path: str) -> str:
    return shown(path, 1000)


def _header(path: str, group: str) -> Header:
    what = f"data: {_named(path)}"
    opened(what, path, AGAIN)
    with open(path, "rb") as file, _understood(path):
        from pydicom import dcmread

        _check_inflated(what, path)
        dataset = dcmread(file, stop_before_pixels=True)
        _check_slice(what, dataset)
        if _is(dataset, "deflated"):  # and read as a whole
            file.seek(0)
            left = 8 + len(dcmread(file).get("PixelData", b""))
        else:
            left = os.fstat(file.fileno()).st_size - file.tell()
        size = 8 + dataset.Rows * dataset.Columns * dataset.BitsAllocated // 8  # tag and length, and the pixels
        if left <= 8:
            raise KoctError(f"{what} has no pixels; {AGAIN}")
        if left < (1 if _is(dataset, "compressed") else size):
            raise KoctError(f"{what} is damaged: it ends before its pixels do; {AGAIN}")
        label = dataset.get(group)
        if label in (None, ""):
            raise KoctError(f"group = {group!r} is not in {_named(path)}; give a DICOM keyword that all slices have")
        return Header(path, dataset.Rows, dataset.Columns, str(label))


def _check_inflated(what: str, path: str) -> None:
    """Refuse a deflated file that becomes too large: pydicom inflates it as a whole, before it looks at anything."""
    from pydicom.filereader import read_file_meta_info

    try:
        meta = read_file_meta_info(path)
        deflated = meta.TransferSyntaxUID.is_deflated
        start = PREAMBLE + meta.FileMetaInformationGroupLength
    except Exception:  # a file without such a header is not deflated
        return
    size, inflate = 0, zlib.decompressobj(-zlib.MAX_WBITS)
    with open(path, "rb") as file:
        file.seek(start)
        while deflated and not inflate.eof and (part := inflate.unconsumed_tail or file.read(2**16)):
            size += len(inflate.decompress(part, 2**20))
            if size > LARGEST:
                raise KoctError(
                    f"{what} becomes over {LARGEST >> 20} MiB when it is inflated, as no slice does; {AGAIN}"
                )


def _check_slice(what: str, dataset: Any) -> None:
    """Refuse what is no CT slice, as far as the header tells."""
    for name in ("Rows", "Columns", "BitsAllocated"):
        if not isinstance(dataset.get(name), int) or not dataset.get(name):
            raise KoctError(f"{what} is no image: it has no {name}; remove it from the folder")
    colour = not str(dataset.get("PhotometricInterpretation", "MONOCHROME2")).startswith("MONOCHROME")
    if colour or dataset.get("NumberOfFrames", 1) not in (None, 1) or dataset.get("SamplesPerPixel", 1) != 1:
        raise KoctError(f"{what} is in colour or has several frames; give one grey slice per file")
    slope, intercept = (_number(dataset.get(name)) for name in ("RescaleSlope", "RescaleIntercept"))
    if dataset.get("Modality") != "CT" or slope in (None, 0) or intercept is None:
        raise KoctError(f"{what} is no CT slice in Hounsfield units; remove it from the folder")
    if "LOCALIZER" in (dataset.get("ImageType") or ()):
        raise KoctError(f"{what} is a localizer and no slice; remove it from the folder")
    if not _can_decode(dataset):
        name = dataset.file_meta.TransferSyntaxUID.name
        raise KoctError(
            f"{what} is stored as {shown(name)}, for which pydicom finds no decoder; install one (pip install "
            "'pylibjpeg[all]'), or decompress the slices"
        )


@contextlib.contextmanager
def _understood(path: str) -> Iterator[None]:
    """Turn whatever a damaged file makes of the parser, which parses values when asked for, into one sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that no pixel depends on
        try:
            yield
        except KoctError:
            raise
        except Exception:
            raise KoctError(f"data: {_named(path)} is not a DICOM file, or damaged; {AGAIN}") from None


def _number(value: Any) -> float | None:
    """A finite number, or None if it is none."""
    try:
        return float(value) if math.isfinite(float(value)) else None
    except (TypeError, ValueError):
        return None


def _syntax(dataset: Any) -> Any:
    """Return how the file is written; None if it does not say."""
    return getattr(getattr(dataset, "file_meta", None), "TransferSyntaxUID", None)


def _is(dataset: Any, how: Literal["compressed", "deflated"]) -> bool:
    syntax = _syntax(dataset)
    return bool(syntax is not None and not syntax.is_private and getattr(syntax, f"is_{how}"))


def _can_decode(dataset: Any) -> bool:
    from pydicom.pixels import get_decoder

    try:
        return _syntax(dataset) is None or bool(get_decoder(_syntax(dataset)).is_available)
    except NotImplementedError:
        return False


def image(path: str, H: int) -> Any:
    """(H, H), float32: a slice as attenuation relative to water, 1 + HU / 1000 and nothing below 0.

    Its central square is averaged over areas to H × H pixels, and what lies outside the inscribed circle, which not
    every view sees, is 0. The spacing of its pixels is not used: the square fills the field of view.
    """
    import numpy as np
    from pydicom import dcmread

    opened(f"data: {_named(path)}", path, AGAIN)
    with open(path, "rb") as file, _understood(path):
        _check_inflated(f"data: {_named(path)}", path)
        dataset = dcmread(file)
        _check_slice(f"data: {_named(path)}", dataset)
        slope, intercept = float(dataset.RescaleSlope), float(dataset.RescaleIntercept)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stored = dataset.pixel_array.astype(float)
    except Exception as error:
        why = str(error).strip().partition("\n")[0].rstrip(":. ")
        raise KoctError(f"data: the pixels of {_named(path)} cannot be decoded: {why}; {AGAIN}") from None
    with np.errstate(over="ignore"):
        hounsfield = stored * slope + intercept
    if not np.isfinite(hounsfield).all():
        raise KoctError(f"data: {_named(path)} has Hounsfield units that are not finite; correct it or remove it")
    side = min(hounsfield.shape)
    top, left = ((size - side) // 2 for size in hounsfield.shape)
    square = (1 - hounsfield[top : top + side, left : left + side] / AIR).clip(min=0)
    means = averages(side, H)
    places = np.linspace(-1, 1, H)
    seen = places[:, None] ** 2 + places**2 <= 1
    return np.where(seen, means @ square @ means.T, 0).astype(np.float32)


def averages(n: int, H: int) -> Any:
    """(H, n): the mean over each of H equal parts of n pixels, some of which lie in two parts."""
    import numpy as np

    edges = np.arange(H + 1) * (n / H)
    low, high = edges[:-1, None], edges[1:, None]
    pixels = np.arange(n)
    return (np.minimum(high, pixels + 1) - np.maximum(low, pixels)).clip(min=0) / (n / H)
