"""Pairs from a folder of images: DICOM slices, PNG and NIfTI, sinograms and known layers, and what is refused."""

import os
import shutil
import struct
import zlib

import numpy as np
import pytest
from pair_files import PAIRS, SIZES, ct, get_testdata_file, patients, pydicom, said
from PIL import Image
from pydicom.uid import DeflatedExplicitVRLittleEndian

from koct.contracts import Sizes
from koct.errors import KoctError
from koct.operators.fanbeam import FanBeam, Projector
from koct.problems import pools, slices

SCAN = {"H": 8, "V": 6, "B": 8}
SQUARE = np.arange(256).reshape(16, 16)


def test_a_slice_is_cropped_averaged_and_in_units_of_water(folder):
    pixels = np.full((8, 12), 1024)  # 0 HU
    pixels[:, :2] = 3000  # cropped away
    pixels[0, 4:8] = [24, 1024, 2024, 2024]  # -1000, 0, 1000, 1000 HU
    pixels[4:6, 4:6] = -2000  # padding, below air
    ct(folder / "a.dcm", "p", pixels)
    expected = np.ones((4, 4))
    expected[0, 1:3] = [(0 + 1 + 1 + 1) / 4, (2 + 2 + 1 + 1) / 4]
    expected[2, 1] = 0
    corner = np.linspace(-1, 1, 4)[:, None] ** 2 + np.linspace(-1, 1, 4) ** 2 > 1
    np.testing.assert_allclose(slices.image(slices.dicom("a.dcm"), 4), np.where(corner, 0, expected), atol=1e-6)


@pytest.mark.parametrize(("padding", "limit"), [(3000, None), (63536, None), (-2000, -1990), (63546, 63536)])
def test_padding_is_air_whatever_its_value(folder, padding, limit):
    pixels = np.full((8, 8), 1024)
    pixels[2:4] = 3000 if padding == 3000 else -2000
    for kind, slope in {"CT": 1, "MR": 1}.items():
        changes = {"Modality": kind, "RescaleSlope": slope, "RescaleIntercept": -1024 if kind == "CT" else 5000}
        ct(folder / "a.dcm", "p", pixels, **changes)
        dataset = pydicom.dcmread("a.dcm")
        kinds = ("US" if padding > 2**15 else "SS", padding), ("US" if padding > 2**15 else "SS", limit)
        dataset.add_new("PixelPaddingValue", *kinds[0])
        if limit is not None:
            dataset.add_new("PixelPaddingRangeLimit", *kinds[1])
        dataset.save_as("a.dcm")
        image = slices.image(slices.dicom("a.dcm"), 4)
        assert image[1, 1:3].tolist() == [0, 0]
        assert image[2, 1:3].tolist() == [1, 1]


@pytest.mark.parametrize(("signed", "padding"), [(0, 65535), (1, -32768)])
def test_padding_that_the_bits_of_pixels_cannot_hold_is_refused(folder, signed, padding):
    """pydicom keeps the bits alone: such a pixel may be padding, or measured."""
    pixels = np.full((8, 8), 1024, np.uint16)
    for spoilt in (False, True):
        pixels[2:4] = padding % 2**16 if spoilt else 1000
        ct(folder / "a.dcm", "p", pixels.view(np.int16), BitsStored=12, HighBit=11, PixelRepresentation=signed)
        dataset = pydicom.dcmread("a.dcm")
        dataset.add_new("PixelPaddingValue", "SS" if signed else "US", padding)
        dataset.save_as("a.dcm")
        if not spoilt:
            assert slices.image(slices.dicom("a.dcm"), 4)[2, 2] > 0
    with pytest.raises(KoctError, match=rf"PixelPaddingValue = {padding}, which its 12 bits"):
        slices.image(slices.dicom("a.dcm"), 4)


def test_another_format_is_not_read_as_png(folder):
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save("a.png", format="TIFF")
    with pytest.raises(KoctError, match=r"a\.png is in the format TIFF; save it as PNG"):
        slices._png_values(slices._png("a.png", ".")[0])


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_grey_of_any_depth_is_read_as_it_was_written(folder, depth):
    """Written by hand: Pillow writes no grey of 2 and 4 bits."""
    largest = 2**depth - 1
    levels = np.random.default_rng(0).integers(0, largest + 1, (16, 16))
    bits = (levels[..., None] >> np.arange(depth)[::-1]) & 1
    write_png(folder / "a.png", depth, 0, np.packbits(bits.reshape(16, -1).astype(np.uint8), axis=1))
    values = slices._png_values(slices._png("a.png", ".")[0])
    np.testing.assert_allclose(values, levels / largest, rtol=1e-6)


def test_colours_of_16_bits_are_refused(folder):
    """Pillow reads eight of them."""
    grey = np.random.default_rng(0).integers(0, 2**16, (16, 16)).astype(">u2")
    write_png(folder / "a.png", 16, 2, np.repeat(grey[..., None], 3, axis=-1).reshape(16, -1).view(np.uint8))
    with pytest.raises(KoctError, match=r"a\.png has colours of 16 bits; save it as grey of 16 bits"):
        slices._png_values(slices._png("a.png", ".")[0])


def write_png(path, depth, colour, rows):
    """A square image of packed rows."""
    chunks = {b"IHDR": struct.pack(">2I5B", len(rows), len(rows), depth, colour, 0, 0, 0)}
    chunks |= {b"IDAT": zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows)), b"IEND": b""}
    data = (
        struct.pack(">I", len(body)) + name + body + zlib.crc32(name + body).to_bytes(4)
        for name, body in chunks.items()
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(data))


def test_slices_of_any_size_are_brought_to_one_scale_by_their_spacing(folder):
    """The same body, 96 mm wide, on pixels of three sizes and in fields of two: a disc of 36 mm around the centre."""

    def disc(size, step):
        place = (np.arange(size) - (size - 1) / 2) * step
        return np.where(place[:, None] ** 2 + place**2 < 36**2, 1024, 24)

    for i, (size, step) in enumerate([(96, 1.0), (48, 2.0), (192, 0.5), (240, 0.5)]):
        ct(folder / f"ct/{i}.dcm", "p", disc(size, step), PixelSpacing=[step, step])
    found = slices.slices("ct", None)
    side = min(each.side for each in found)
    assert side == 96
    images = [slices.image(each, 16, side) for each in found]
    for other in images[1:]:
        np.testing.assert_allclose(other, images[0], atol=0.15)  # at the edge of the disc pixels are coarse
        assert other.mean() == pytest.approx(np.pi * 36**2 / 96**2, rel=0.02)
    assert "H = 49 is more than the 48 pixels of ct/1.dcm; take at most 48" in said(data="ct", **{**SCAN, "H": 49})
    ct(folder / "ct/none.dcm", "c", disc(50, 1.0), PixelSpacing=None)
    message = "96 × 96 pixels (ct/0.dcm) and of 48 × 48 pixels (ct/1.dcm), and not all say how large a pixel"
    assert message in said(data="ct", **SCAN)


def test_mr_slices_are_in_units_of_their_largest_value(folder):
    for i in (0, 100):
        ct(folder / f"mr/{i}.dcm", f"p{i}", SQUARE + i, Modality="MR", RescaleSlope=1, RescaleIntercept=0)
    image, middle = slices.image(slices.slices("mr", None)[0], 16), np.s_[4:12, 4:12]
    np.testing.assert_allclose(image[middle], (SQUARE / 255)[middle], rtol=1e-6)
    ct(folder / "mr/ct.dcm", "q", SQUARE)
    assert "data = 'mr' has MR and CT slices; keep one kind" in said(data="mr", **SCAN)


def test_png_images_are_grouped_by_their_folders(folder):
    rng = np.random.default_rng(0)
    for i in range(22):
        place = folder / f"png/p{i // 2}"
        place.mkdir(parents=True, exist_ok=True)
        grey = rng.integers(0, 256, (20, 16), np.uint8)
        Image.fromarray(np.stack([grey] * 3, axis=-1) if i % 2 else grey).save(place / f"{i}.png")
    problem = PAIRS(data="png", H=16, V=6, B=16)
    assert not list(problem.check((1,), SIZES))
    assert problem.groups(1, SIZES)["train"] == [2] * 6
    last = next(each for each in slices.slices("png", None) if each.path.endswith("21.png"))
    np.testing.assert_allclose(slices.image(last, 16)[8, 8], grey[10, 8] / 255, rtol=1e-6)
    assert "group = 'PatientID' is a DICOM keyword, and" in said(data="png", **SCAN, group="PatientID")
    Image.fromarray(rng.integers(0, 256, (20, 16, 3), np.uint8)).save("png/p0/0.png")
    with pytest.raises(KoctError, match=r"png/p0/0\.png is in colour; make it grey"):
        slices.image(slices.slices("png", None)[0], 8)
    (folder / "png/b.png").write_bytes(b"no image")
    assert "data: png/b.png is no PNG file that can be read" in said(data="png", **SCAN)


def test_volumes_in_nifti_files_are_groups_of_axial_slices(folder):
    nibabel = pytest.importorskip("nibabel", reason="nibabel is not installed: pip install 'koct[files]'")
    rng = np.random.default_rng(0)
    (folder / "nii").mkdir()
    volume = rng.integers(0, 100, (12, 20, 8)).astype(np.int16)  # right, front, up
    for i in range(11):
        nibabel.Nifti1Image(volume + i, np.diag([2, 1, 3, 1])).to_filename(f"nii/{i:02}.nii.gz")
    affine = [[0, -2, 0, 22], [0, 0, 1, 0], [3, 0, 0, 0], [0, 0, 0, 1]]
    nibabel.Nifti1Image(volume[::-1].transpose(2, 0, 1), np.array(affine)).to_filename("turned.nii")
    found = slices.slices("nii", None)
    assert len(found) == 11 * 4
    assert (found[0].shape, found[0].spacing, found[0].number, found[0].side) == ((20, 12), (1.0, 2.0), 2, 20.0)
    problem = PAIRS(data="nii", **SCAN)
    assert not list(problem.check((1,), SIZES))
    assert problem.groups(1, SIZES)["val"] == [4, 4]
    (same,) = slices._nifti("turned.nii", ".")[:1]
    np.testing.assert_array_equal(slices.image(same, 8), slices.image(found[0], 8))
    shown = slices._volume_values(found[0], None)
    np.testing.assert_allclose(shown[0], volume[:, -1, 2] / volume.max(), rtol=1e-6)  # the front is at the top
    nibabel.Nifti1Image(np.zeros((4, 4, 4, 2)), np.eye(4)).to_filename("nii/four.nii")
    assert "nii/four.nii has the shape (4, 4, 4, 2); give volumes of three axes" in said(data="nii", **SCAN)
    ct(folder / "nii/ct.dcm", "p")
    assert "data = 'nii' has DICOM and NIfTI files; keep one kind" in said(data="nii", **SCAN)


def test_a_folder_of_slices_gives_sinograms_by_patient(folder):
    patients(folder / "ct")
    (folder / "ct/LICENSE.txt").write_text("not a slice")
    (folder / "ct/DICOMDIR").write_text("neither")
    problem = PAIRS(data="ct", **SCAN)
    assert len(problem.files()) == 22
    assert not list(problem.check((1,), SIZES))
    pools.make(problem, 1, SIZES, "pool.npy")
    pool = pools.Pool("pool.npy", problem, 1)
    assert pool.groups == {"train": [2] * 6, "val": [2] * 2, "test": [2] * 3}
    A = Projector(FanBeam(8, 6, 8), "exact")
    images = pool.y("train").reshape(-1, 8, 8)
    np.testing.assert_allclose(A(images).reshape(12, -1), pool.x("train"), rtol=1e-5)
    whole = {slices.image(slices.dicom(path), 8).tobytes() for path in problem.files()}
    assert {image.tobytes() for image in images} <= whole
    alone = PAIRS(data="ct", **SCAN, group="SOPInstanceUID")
    assert not list(alone.check((1,), Sizes(train=18, val=2, test=2)))
    assert alone.groups(1, SIZES)["train"] == [1] * 6


def test_slices_that_do_not_fit_are_one_sentence(folder):
    patients(folder / "ct")
    (folder / "empty").mkdir()
    (folder / "arrays").mkdir()
    np.save("arrays/x.npy", 0)
    patients(folder / "single", 1, 4)
    (folder / "photos").mkdir()
    (folder / "photos/1.tif").touch()
    for changes, message in (
        ({"H": None}, "H is missing; a folder of images needs it: add it"),
        ({"H": 64}, "H = 64 is more than the 16 pixels of ct/p0/0.dcm; take at most 16"),
        ({"B": 9999}, "B = 9999 makes the image so wide"),
        ({"group": "walk"}, "group = 'walk' is no DICOM keyword; give one that all slices have"),
        ({"group": "WindowCenter"}, "group = 'WindowCenter' is not in ct/p0/0.dcm; give a DICOM keyword"),
        ({"x": "x.npy"}, "x = 'x.npy' names an array, and data is a folder"),
        ({"data": "empty"}, "data = 'empty' has no images (DICOM, .png, .nii or .nii.gz); correct the path"),
        ({"data": "arrays"}, "data = 'arrays' has no images (DICOM, .png, .nii or .nii.gz) but .npy files; name one"),
        ({"data": "photos"}, "has no images (DICOM, .png, .nii or .nii.gz) but .tif files; save them as .png"),
        ({"data": "single"}, "group: all pairs are of p0, and training, validation and test need a group each"),
    ):
        assert message in said(**{"data": "ct", **SCAN, **changes})

    def changed(**values):
        return lambda path: ct(path, "q", SQUARE, **values)

    def projection(path):
        dataset = ct(path, "q", SQUARE) or pydicom.dcmread(path)
        dataset.private_block(0x7029, "DICOM-CT-PD", create=True).add_new(0x02, "FL", 1.0)
        dataset.save_as(path)

    plan, many = get_testdata_file("rtplan.dcm", download=False), "is in colour or has several frames; give one grey"
    no_slice = "is neither a CT slice in Hounsfield units nor an MR slice; remove it"
    for make, message in (
        (lambda path: path.write_bytes(b"\0" * 500), "is no DICOM file that can be read: "),
        (lambda path: path.symlink_to("nowhere"), "cannot be read: No such file or directory; copy it again"),
        (os.mkfifo, "is a pipe or a device; give a file"),
        (lambda path: shutil.copy(plan, path), "is no image: it has no Rows; remove it"),
        (changed(Modality="PT"), no_slice),
        (changed(RescaleSlope=None), no_slice),
        (changed(RescaleSlope=0), no_slice),
        (changed(NumberOfFrames=2), many),
        (changed(PhotometricInterpretation="PALETTE COLOR"), many),
        (changed(ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]), "is a localizer and no slice; remove it"),
        (projection, "is a projection (DICOM-CT-PD) and no image; give reconstructed slices"),
    ):
        path = folder / "ct/z.dcm"
        make(path)
        text = said(data="ct", **SCAN)
        path.unlink()
        assert text.startswith("config: sweeps.mine.data: ct/z.dcm ")
        assert message in text


def test_a_deflated_bomb_is_refused_before_it_is_inflated(folder, monkeypatch):
    """pydicom inflates a file as a whole, before it looks at anything: a few kilobytes may become gigabytes."""
    dataset = pydicom.dcmread(get_testdata_file("CT_small.dcm", download=False))
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dataset.save_as("fine.dcm")
    fine = slices.dicom("fine.dcm")
    assert fine.shape == (128, 128)
    dataset.add_new(0x00091010, "OB", bytes(2**22))
    dataset.save_as("bomb.dcm")
    monkeypatch.setattr(slices, "LARGEST", 2**20)
    assert os.path.getsize("bomb.dcm") < 2**16
    for read in (lambda: slices.dicom("bomb.dcm"), lambda: slices.image(fine._replace(path="bomb.dcm"), 8)):
        with pytest.raises(KoctError, match=r"bomb\.dcm becomes over 1 MiB when it is inflated, as no slice does"):
            read()
