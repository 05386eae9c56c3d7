"""Images in files of a user's own, as small squares: DICOM slices, PNG images, volumes (NIfTI, InVesalius), arrays."""

from __future__ import annotations

import contextlib
import os
import warnings
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from koct.base.messages import printable
from koct.errors import KoctError
from koct.problems.arrayfiles import HDF5, Stored, opened, require
from koct.problems.arrayfiles import find as find_array

if TYPE_CHECKING:
    import numpy as np

ENDINGS = {  # capitals too
    "DICOM": ("", ".dcm", ".dicom", ".ima"),
    "PNG": (".png",),
    "NIfTI": (".nii", ".nii.gz"),
    "InVesalius": (".inv3",),
}
PICTURES = (".tif", ".tiff", ".jpg", ".jpeg", ".bmp")  # which are not read
READERS = {"DICOM": "pydicom", "PNG": "PIL", "NIfTI": "nibabel", "InVesalius": "tarfile"}
AIR = -1000.0  # HU
SURELY_HU = -500.0  # a volume with values below is in Hounsfield units: air is far below zero in nothing else
SOME = 8  # slices of an array that are looked at before a run
PREAMBLE = 144  # bytes up to the end of the element that says how long the header of a DICOM file is
DEPTH = 24  # place in a PNG file of the bits of a sample, and behind it of the kind of colour
GREY = 0
PROJECTION = 0x7029  # group of the elements in which DICOM-CT-PD describes a detector
LARGEST = 2**28  # bytes of a slice: one of 8,192 × 8,192 pixels has half as many
AGAIN = "copy it again or remove it"


class Slice(NamedTuple):
    """What a file says of an image before its pixels are read."""

    path: str
    kind: str  # CT, MR, PNG, NIfTI, InVesalius or array
    shape: tuple[int, int]
    spacing: tuple[float, float] | None  # mm from row to row and from column to column; None: unknown
    group: str
    number: int = 0  # of the slice in a volume
    array: str = ""  # the name of an array in the file
    patient: str = ""  # of DICOM
    series: str = ""

    @property
    def side(self) -> float:
        """The side of the largest central square, in mm if the spacing is known, else in pixels."""
        return min(size * step for size, step in zip(self.shape, self.spacing or (1.0, 1.0), strict=True))

    def pixels(self, side: float) -> tuple[float, float]:
        """How many pixels a square of this side has in each direction."""
        down, right = self.spacing or (1.0, 1.0)
        return min(self.shape[0], round(side / down, 6)), min(self.shape[1], round(side / right, 6))


def find(folder: str) -> list[str]:
    """The files with images below a folder, in order. One without an ending is DICOM if there is nothing else."""
    if os.path.isfile(folder):
        return [folder]
    paths = [path for path in _files(folder) if kind_of(path)]
    named = [path for path in paths if os.path.splitext(path)[1]]
    return named if {kind_of(path) for path in named} - {"DICOM"} else paths


def kind_of(path: str) -> str | None:
    """DICOM, PNG, NIfTI or InVesalius, by the ending of a name; None: none of them."""
    stem, ending = os.path.splitext(path.lower())
    ending = ".nii.gz" if ending == ".gz" and stem.endswith(".nii") else ending
    return next((kind for kind, endings in ENDINGS.items() if ending in endings), None)


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


def slices(folder: str, group: str | None) -> list[Slice]:
    """All images of a folder, which must be of one kind, and of one size unless all say how large their pixels are.

    `group` is a DICOM keyword, by default PatientID. PNG images of one folder below this one are a group, and so are
    the slices of a volume. Pixels are not read.
    """
    paths = [path for path in find(folder) if kind_of(path)]
    kinds = sorted({str(kind_of(path)) for path in paths})
    if not paths:
        there = [folder] if os.path.isfile(folder) else _files(folder)
        endings = {os.path.splitext(path)[1].lower() for path in there}
        arrays, pictures = (sorted(endings & {*others}) for others in ((".npy", ".npz", *HDF5), PICTURES))
        fix = f" but {arrays[0]} files; name one that holds all pairs" if arrays else "; correct the path"
        if pictures and not arrays:
            fix = f" but {pictures[0]} files; save them as .png"
        raise KoctError(f"data = {folder!r} has no images (DICOM, .png, .nii or .nii.gz){fix}")
    if len(kinds) > 1:
        raise KoctError(f"data = {folder!r} has {' and '.join(kinds)} files; keep one kind")
    require(READERS[kinds[0]], f"data = {folder!r}")
    if kinds != ["DICOM"] and group is not None:
        raise KoctError(f"group = {group!r} is a DICOM keyword, and data = {folder!r} has {kinds[0]}; remove group")
    readers = {"PNG": _png, "NIfTI": _nifti, "InVesalius": _inv3}
    read = readers.get(kinds[0], lambda path, _: [dicom(path, group or "PatientID")])
    found = [each for path in paths for each in read(path, folder)]
    first, spaced = found[0], all(each.spacing for each in found)  # none has a spacing if not all have one
    for other in found:
        if other.kind != first.kind:
            raise KoctError(f"data = {folder!r} has {first.kind} and {other.kind} slices; keep one kind")
        if other.shape != first.shape and not spaced:
            sizes = (f"{each.shape[0]} × {each.shape[1]} pixels ({printable(each.path)})" for each in (first, other))
            raise KoctError(
                f"data = {folder!r} has images of {' and of '.join(sizes)}, and not all say how large a pixel is; "
                "keep those of one size"
            )
    return found if spaced else [each._replace(spacing=None) for each in found]


@contextlib.contextmanager
def _understood(path: str, kind: str) -> Iterator[None]:
    """Turn whatever a damaged file makes of its reader into one sentence."""
    opened(f"data: {printable(path)}", path, AGAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that no pixel depends on
        try:
            yield
        except (KoctError, MemoryError):
            raise
        except Exception as error:
            why = str(error).strip().partition("\n")[0].rstrip(":. ")
            raise KoctError(f"data: {printable(path)} is no {kind} file that can be read: {why}; {AGAIN}") from None


def image(each: Slice, H: int, side: float | None = None, units: str | None = None) -> Any:
    """(H, H), float32: the central square of a slice with this side, by default the largest, averaged over areas.

    What lies outside the inscribed circle, which not every view sees, is 0.
    """
    import numpy as np

    readers = {"PNG": _png_values, "CT": _dicom_values, "MR": _dicom_values}
    values = readers[each.kind](each) if each.kind in readers else _volume_values(each, units)
    if not np.isfinite(values).all():
        raise KoctError(f"data: {printable(each.path)} has values that are not finite; correct it or remove it")
    down, right = (
        averages(size, H, length)
        for size, length in zip(values.shape, each.pixels(each.side if side is None else side), strict=True)
    )
    places = np.linspace(-1, 1, H)
    seen = places[:, None] ** 2 + places**2 <= 1
    return np.where(seen, down @ values @ right.T, 0).astype(np.float32)


def averages(n: int, H: int, length: float | None = None) -> Any:
    """(H, n): the mean over each of H equal parts of the middle `length` of n pixels; pixels may lie in two parts."""
    import numpy as np

    length = n if length is None else length
    edges = (n - length) / 2 + np.arange(H + 1) * (length / H)
    low, high = edges[:-1, None], edges[1:, None]
    pixels = np.arange(n)
    return (np.minimum(high, pixels + 1) - np.maximum(low, pixels)).clip(min=0) / (length / H)


# DICOM


def dicom(path: str, group: str = "PatientID") -> Slice:
    """What the header of a DICOM file says; a KoctError if it is no slice of CT or MR."""
    from pydicom.datadict import tag_for_keyword

    if tag_for_keyword(group) is None:
        raise KoctError(f"group = {group!r} is no DICOM keyword; give one that all slices have, such as PatientID")
    with _understood(path, "DICOM"):
        dataset = _dataset(path, stop_before_pixels=True)
        label, spacing = dataset.get(group), dataset.get("PixelSpacing") or ()
        if label in (None, ""):
            raise KoctError(f"group = {group!r} is not in {printable(path)}; give a DICOM keyword that all have")
        steps = tuple(float(step) for step in spacing)
        known = len(steps) == 2 and min(steps) > 0
        patient, series = (str(dataset.get(keyword) or "") for keyword in ("PatientID", "SeriesInstanceUID"))
        number, size = int(dataset.get("InstanceNumber") or 0), (dataset.Rows, dataset.Columns)
        known_steps = (steps[0], steps[1]) if known else None
        return Slice(path, dataset.Modality, size, known_steps, str(label), number, patient=patient, series=series)


def _check_inflated(path: str) -> None:
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
                large = f"becomes over {LARGEST >> 20} MiB when it is inflated, as no slice does"
                raise KoctError(f"data: {printable(path)} {large}; {AGAIN}")


def _dataset(path: str, **how: Any) -> Any:
    """What pydicom reads; refuse what is no slice, as far as the header tells."""
    from pydicom import dcmread

    _check_inflated(path)
    what, dataset = f"data: {printable(path)}", dcmread(path, **how)
    if dataset.group_dataset(PROJECTION):
        raise KoctError(f"{what} is a projection (DICOM-CT-PD) and no image; give reconstructed slices")
    for name in ("Rows", "Columns"):
        if not dataset.get(name):
            raise KoctError(f"{what} is no image: it has no {name}; remove it from the folder")
    colour = not str(dataset.get("PhotometricInterpretation", "MONOCHROME2")).startswith("MONOCHROME")
    if colour or dataset.get("NumberOfFrames", 1) not in (None, 1) or dataset.get("SamplesPerPixel", 1) != 1:
        raise KoctError(f"{what} is in colour or has several frames; give one grey slice per file")
    in_units = dataset.get("RescaleSlope") not in (None, 0) and dataset.get("RescaleIntercept") is not None
    if dataset.get("Modality") != "MR" and not (dataset.get("Modality") == "CT" and in_units):
        raise KoctError(f"{what} is neither a CT slice in Hounsfield units nor an MR slice; remove it from the folder")
    if "LOCALIZER" in (dataset.get("ImageType") or ()):
        raise KoctError(f"{what} is a localizer and no slice; remove it from the folder")
    return dataset


def _dicom_values(each: Slice) -> np.ndarray:
    """CT as attenuation relative to water, 1 + HU / 1000; MR relative to the largest value; nothing below 0.

    Padding, which was not measured, is 0.
    """
    import numpy as np

    with _understood(each.path, "DICOM"), np.errstate(over="ignore"):
        dataset = _dataset(each.path)
        slope, intercept = dataset.get("RescaleSlope"), dataset.get("RescaleIntercept")
        stored = dataset.pixel_array
        values = stored.astype(float) * float(slope or 1) + float(intercept or 0)
        padding = dataset.get("PixelPaddingValue")
        if padding is not None:  # from there to the limit, if there is one; some write it without the sign of pixels
            limit = dataset.get("PixelPaddingRangeLimit")
            asked = np.array([padding, padding if limit is None else limit]).astype(stored.dtype).astype(int)
            bits, signed = int(dataset.BitsStored), stored.dtype.kind == "i"
            ends = asked & (2**bits - 1)  # the bits that pixels are read from
            ends = np.where(signed & (ends >= 2 ** (bits - 1)), ends - 2**bits, ends)
            low, high = np.sort(ends)
            padded = (stored >= low) & (stored <= high)
            if (ends != asked).any() and padded.any():
                why = f"PixelPaddingValue = {padding}, which its {bits} bits (BitsStored) cannot hold"
                raise KoctError(f"data: {printable(each.path)} has {why}; correct its header")
            values[padded] = AIR if each.kind == "CT" else 0
    return _water(values) if each.kind == "CT" else values.clip(min=0) / (values.max(initial=0) or 1)


def _water(values: np.ndarray) -> np.ndarray:
    """Attenuation relative to water, of Hounsfield units; nothing below 0."""
    return (1 - values / AIR).clip(min=0)


def in_hu(each: Slice, units: str | None) -> bool:
    """Return whether an image is in Hounsfield units: as the file says, as asked for, or as its values say."""
    if each.kind in ("CT", "MR", "PNG"):
        return each.kind == "CT"
    return units == "HU" if units else each.kind == "InVesalius" or _smallest(each) < SURELY_HU


def _smallest(each: Slice) -> float:
    return extremes(each)[0]


def extremes(each: Slice) -> tuple[float, float]:
    """Return the smallest and the largest value of a volume, or of some slices of an array."""
    changed = os.path.getmtime(each.path)
    if each.kind == "array":
        stored = _stored(each.array, each.path, changed)
        values = stored.read(range(0, stored.shape[0], max(1, stored.shape[0] // SOME)))
    else:
        values = _volume(each.path, each.kind, changed)
    return float(values.min()), float(values.max())


def understood(each: Slice, units: str | None) -> str:
    """Return what the values of an image were taken for, in words."""
    words = {"MR": "MR, relative to the largest value of each slice", "PNG": "PNG, from black, 0, to white, 1"}
    if each.kind in words:
        return words[each.kind]
    hu = in_hu(each, units)
    why = "" if units or each.kind in ("CT", "InVesalius") else f" (its smallest value is {_smallest(each):g})"
    other = "attenuation relative to water" if each.kind == "array" else "relative to the largest value of the volume"
    return f"{each.kind} in Hounsfield units{why}, 1 is water" if hu else f"{each.kind}, {other}{why}"


# PNG, volumes and arrays


def _png(path: str, folder: str) -> list[Slice]:
    from PIL import Image

    with _understood(path, "PNG"), Image.open(path) as file:
        below = os.path.relpath(path, folder)
        return [Slice(path, "PNG", file.size[::-1], None, os.path.dirname(below) or below)]


def _png_values(each: Slice) -> np.ndarray:
    """From 0 to 1, which is white. Colours must be shades of grey."""
    import numpy as np
    from PIL import Image

    with _understood(each.path, "PNG"), open(each.path, "rb") as file, Image.open(file) as picture:
        if picture.format != "PNG":
            raise KoctError(f"data: {printable(each.path)} is in the format {picture.format}; save it as PNG")
        file.seek(DEPTH)
        depth, colour = file.read(2)
        if depth == 16 and colour != GREY:
            raise KoctError(f"data: {printable(each.path)} has colours of 16 bits; save it as grey of 16 bits")
        pixels = np.asarray(picture) if depth == 16 else np.asarray(picture.convert("RGB"))
        values: np.ndarray = np.divide(pixels, 2 ** max(depth, 8) - 1, dtype=np.float32).astype(float)
    if values.ndim == 3 and (values != values[..., :1]).any():
        raise KoctError(f"data: {printable(each.path)} is in colour; make it grey")
    return values[..., 0] if values.ndim == 3 else values


def _nifti(path: str, folder: str) -> list[Slice]:
    """The middle half of the axial slices of a volume: those at its ends show little."""
    import nibabel

    with _understood(path, "NIfTI"):
        volume: Any = nibabel.load(path)
        if len(volume.shape) != 3:
            raise KoctError(f"data: {printable(path)} has the shape {volume.shape}; give volumes of three axes")
        order = nibabel.io_orientation(volume.affine)[:, 0].argsort()
        columns, rows, count = (volume.shape[axis] for axis in order)
        across, down, _ = (float(volume.header.get_zooms()[axis]) for axis in order)
        label, chosen = os.path.relpath(path, folder), range(count // 4, count - count // 4)
        return [Slice(path, "NIfTI", (rows, columns), (down, across), label, number) for number in chosen]


def _inv3(path: str, folder: str) -> list[Slice]:
    """All slices of a project of InVesalius: a compressed tar archive with main.plist and a matrix of numbers."""
    about, spacing = _project(path)
    label, (count, rows, columns) = os.path.relpath(path, folder), about["shape"]
    steps = float(spacing[1]), float(spacing[0])
    return [Slice(path, "InVesalius", (rows, columns), steps, label, number) for number in range(count)]


def _project(path: str) -> tuple[dict[str, Any], list[float]]:
    """Return what main.plist of a project says of its matrix, and the spacing along x, y and z in mm."""
    import plistlib

    with _understood(path, "InVesalius"):
        about = plistlib.loads(_member(path, "main.plist"))
        if about.get("modality") != "CT" or len(about["matrix"]["shape"]) != 3:
            raise KoctError(f"data: {printable(path)} is no CT volume; remove it")
        return about["matrix"], about["spacing"]


def _member(path: str, name: str) -> bytes:
    """Return a file of an archive, whatever folder it is in."""
    import tarfile

    with tarfile.open(path) as archive:
        members = (each for each in archive if each.isfile() and os.path.basename(each.name) == name)
        file = archive.extractfile(next(members))
        assert file is not None
        return file.read()


def _volume_values(each: Slice, units: str | None) -> np.ndarray:
    """A slice of a volume relative to water or to its largest value; a slice of an array relative to water."""
    if each.kind == "array":
        values = _stored(each.array, each.path, os.path.getmtime(each.path)).read([each.number])[0].astype(float)
        return _water(values) if units == "HU" else values.clip(min=0)
    volume = _volume(each.path, each.kind, os.path.getmtime(each.path))
    if in_hu(each, units):
        return _water(volume[each.number].astype(float))
    relative: np.ndarray = volume[each.number].clip(min=0) / (volume.max().clip(min=0) or 1)
    return relative.astype(float)


@lru_cache(maxsize=1)
def _stored(name: str, path: str, changed: float) -> Stored:
    return find_array("array", name, path)


@lru_cache(maxsize=1)  # the slices of a volume come one after the other
def _volume(path: str, kind: str, changed: float) -> np.ndarray:
    """Return all slices of a volume, the front of the body at the top."""
    import numpy as np

    with _understood(path, kind):
        if kind == "InVesalius":
            about, _ = _project(path)
            return np.frombuffer(_member(path, about["filename"]), about["dtype"]).reshape(about["shape"])
        import nibabel

        volume: Any = nibabel.as_closest_canonical(nibabel.load(path))  # from left to right, from back to front, and up
        return np.asarray(volume.dataobj, np.float32)[:, ::-1].T
