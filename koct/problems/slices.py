"""CT slices in DICOM files: what a folder holds, and slices as small images of attenuation."""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple

from koct.errors import KoctError

ENDINGS = ("", ".dcm", ".dicom", ".ima")  # of files that are read, in capitals too
AIR = -1000.0  # HU


class Header(NamedTuple):
    """What a slice says of itself."""

    path: str
    rows: int
    columns: int
    group: str


def find(folder: str) -> list[str]:
    """The DICOM files below a folder, in order; hidden files and DICOMDIR are no slices."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            ending = os.path.splitext(name)[1].lower()
            if ending in ENDINGS and not name.startswith((".", "DICOMDIR")):
                found.append(os.path.join(place, name))
    return sorted(found)


def headers(folder: str, group: str) -> list[Header]:
    """Of all slices of a folder, which must be CT and of one size; pixels are not read."""
    paths = find(folder)
    if not paths:
        raise KoctError(
            f"data = {folder!r} has no DICOM files (.dcm, .ima, or no ending); correct the path or rename them"
        )
    found = [_header(path, group) for path in paths]
    for other in found:
        if other[1:3] != found[0][1:3]:
            sizes = (f"{slice.rows} × {slice.columns} pixels ({slice.path})" for slice in (found[0], other))
            raise KoctError(f"data = {folder!r} has slices of {' and of '.join(sizes)}; keep those of one size")
    return found


def _header(path: str, group: str) -> Header:
    with open(path, "rb") as file:
        dataset = _parsed(path, file, stop_before_pixels=True)
        left = os.fstat(file.fileno()).st_size - file.tell()
    for name in ("Rows", "Columns", "BitsAllocated"):
        if not isinstance(dataset.get(name), int) or not dataset.get(name):
            raise KoctError(f"data: {path} is no image: it has no {name}; remove it from the folder")
    if dataset.get("NumberOfFrames", 1) not in (None, 1) or dataset.get("SamplesPerPixel", 1) != 1:
        raise KoctError(f"data: {path} is in colour or has several frames; give one grey slice per file")
    if dataset.get("Modality") != "CT" or "RescaleSlope" not in dataset or "RescaleIntercept" not in dataset:
        raise KoctError(f"data: {path} is no CT slice in Hounsfield units; remove it from the folder")
    size = 8 + dataset.Rows * dataset.Columns * dataset.BitsAllocated // 8  # tag and length, and the pixels
    if left < (1 if _is_compressed(dataset) else size):
        raise KoctError(f"data: {path} is damaged: it ends before its pixels do; copy it again or remove it")
    label = dataset.get(group)
    if label in (None, ""):
        raise KoctError(f"group = {group!r} is not in {path}; give a DICOM keyword that all slices have")
    return Header(path, dataset.Rows, dataset.Columns, str(label))


def _parsed(path: str, file: Any, **settings: Any) -> Any:
    from pydicom import dcmread

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that no pixel depends on
        try:
            dataset = dcmread(file, **settings)
            dataset.get("Modality"), dataset.get("Rows")  # parsed when asked for
            return dataset
        except Exception:  # whatever a damaged file makes of the parser
            raise KoctError(f"data: {path} is not a DICOM file, or damaged; copy it again or remove it") from None


def _is_compressed(dataset: Any) -> bool:
    syntax = getattr(getattr(dataset, "file_meta", None), "TransferSyntaxUID", None)
    return bool(syntax is not None and not syntax.is_private and syntax.is_compressed)


def image(path: str, H: int) -> Any:
    """(H, H), float32: a slice as attenuation relative to water, 1 + HU / 1000 and nothing below 0.

    Its central square is averaged over areas to H × H pixels, and what lies outside the inscribed circle, which not
    every view sees, is 0. The spacing of its pixels is not used: the square fills the field of view.
    """
    import numpy as np

    with open(path, "rb") as file:
        dataset = _parsed(path, file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stored = dataset.pixel_array.astype(float)
    except Exception as error:
        why = str(error).strip().partition("\n")[0]
        raise KoctError(f"data: the pixels of {path} cannot be decoded: {why}; copy it again or remove it") from None
    hounsfield = stored * float(dataset.RescaleSlope) + float(dataset.RescaleIntercept)
    if not np.isfinite(hounsfield).all():
        raise KoctError(f"data: {path} has Hounsfield units that are not finite; correct it or remove it")
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
