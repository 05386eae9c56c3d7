"""Pairs from a folder of CT slices in DICOM: images, sinograms and known layers, and what is refused."""

import os
import re
import shutil
import warnings

import numpy as np
import pytest
from pair_files import PAIRS, SIZES, SWEEP, ct, get_testdata_file, patients, pydicom, said
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGLSLossless,
    RLELossless,
)

from koct.contracts import Sizes, registry
from koct.errors import KoctError
from koct.operators import chain
from koct.operators.fanbeam import FanBeam, Projector, fbp
from koct.problems import pools, slices
from koct.study import cells
from koct.workflow.jobs import Jobs


def test_a_slice_is_cropped_averaged_and_in_units_of_water(folder):
    pixels = np.full((8, 12), 1024)  # 0 HU
    pixels[:, :2] = 3000  # cropped away
    pixels[0, 4:8] = [24, 1024, 2024, 2024]  # -1000, 0, 1000, 1000 HU
    pixels[4:6, 4:6] = -2000  # padding, below air
    ct(folder / "a.dcm", "p", pixels)
    found = slices.image("a.dcm", 4)
    assert found.dtype == np.float32
    expected = np.ones((4, 4))
    expected[0, 1:3] = [(0 + 1 + 1 + 1) / 4, (2 + 2 + 1 + 1) / 4]
    expected[2, 1] = 0
    corner = np.linspace(-1, 1, 4)[:, None] ** 2 + np.linspace(-1, 1, 4) ** 2 > 1
    np.testing.assert_allclose(found, np.where(corner, 0, expected), atol=1e-6)


def test_averages_keep_the_mean_where_parts_cut_pixels():
    for n, H in ((7, 3), (128, 32), (5, 5), (9, 2)):
        means = slices.averages(n, H)
        np.testing.assert_allclose(means.sum(axis=1), 1)
        np.testing.assert_allclose(means.sum(axis=0), H / n)
    np.testing.assert_array_equal(slices.averages(5, 5), np.eye(5))


def test_a_folder_of_slices_gives_sinograms_by_patient(folder):
    patients(folder / "ct")
    (folder / "ct/LICENSE.txt").write_text("not a slice")
    (folder / "ct/DICOMDIR").write_text("neither")
    problem = PAIRS(data="ct", H=8, V=6, B=8)
    assert len(problem.files()) == 22
    assert not list(problem.check((1,), SIZES))
    pools.make(problem, 1, SIZES, "pool.npy")
    pool = pools.Pool("pool.npy", problem, 1)
    assert pool.groups == {"train": [2] * 6, "val": [2] * 2, "test": [2] * 3}
    A = Projector(FanBeam(8, 6, 8), "exact")
    images = pool.y("train").reshape(-1, 8, 8)
    np.testing.assert_allclose(A(images).reshape(12, -1), pool.x("train"), rtol=1e-5)
    whole = {slices.image(path, 8).tobytes() for path in problem.files()}
    assert {image.tobytes() for image in images} <= whole
    alone = PAIRS(data="ct", H=8, V=6, B=8, group="SOPInstanceUID")
    assert not list(alone.check((1,), Sizes(train=18, val=2, test=2)))
    assert alone.groups(1, SIZES)["train"] == [1] * 6


def test_the_known_layers_are_filtered_backprojection(folder):
    patients(folder / "ct", 3)
    problem = PAIRS(data="ct", H=16, V=24, B=16)
    sinogram = np.random.default_rng(0).random(problem.x_shape)
    image = sinogram
    for layer in cells.checked_layers(problem, {}):
        image = layer.operator(image)
    np.testing.assert_allclose(image, fbp(FanBeam(16, 24, 16))(sinogram), rtol=1e-10)
    np.testing.assert_array_equal(problem.inverses({})[None](sinogram), fbp(FanBeam(16, 24, 16))(sinogram))
    printed = PAIRS(data="ct", H=16, V=24, B=16, known="printed")
    assert printed.layers({})[1].operator.width is None
    for name in ("ko", "ko-ridge", "filter", "filters", "ko-filter", "taps"):
        arch = registry.architecture(name)()
        assert not list(arch.check(problem))
        assert len(arch.chain(problem, problem.layers({}))) >= 2
    _, R = chain.split([layer.operator for layer in problem.layers({})])
    np.testing.assert_allclose(problem.normal_matrix({}), chain.normal_matrix(R), rtol=1e-5, atol=1e-8)


def test_slices_that_do_not_fit_are_one_sentence(folder):
    patients(folder / "ct")
    good = {"data": "ct", "H": 8, "V": 6, "B": 8}
    assert "H is missing; a folder of DICOM slices needs it: add it" in said(data="ct")
    assert "H = 64 is more than the 16 pixels of the slices in ct; take at most 16" in said(**{**good, "H": 64})
    assert "B = 9999 makes the image so wide" in said(**{**good, "B": 9999})
    assert "group = 'Nonsense' is no DICOM keyword; give one that all slices have" in said(**good, group="Nonsense")
    assert "group = 'walk' is no DICOM keyword" in said(**good, group="walk")  # a method of pydicom's datasets
    assert "group = 'WindowCenter' is not in ct/p0/0.dcm; give a DICOM keyword" in said(**good, group="WindowCenter")
    assert "x = 'x.npy' names an array, and data is a folder" in said(**good, x="x.npy")
    (folder / "empty").mkdir()
    assert "data = 'empty' has no DICOM files (.dcm, .ima, or no ending)" in said(data="empty")
    for ending, fix in ((".npz", "give one that holds all pairs"), (".npy", "leave data out and give x and y")):
        (folder / f"empty/pairs{ending}").write_bytes(b"")
        assert f"data = 'empty' has no DICOM files but {ending} files; {fix}" in said(data="empty")
    patients(folder / "single", 1, 4)
    assert "group: all pairs are of p0, and training, validation and test need a group each" in said(
        **{**good, "data": "single"}
    )

    def planted(name, make, message):
        path = folder / "ct/z" / name
        path.parent.mkdir(exist_ok=True)
        make(path)
        text = said(**good)
        assert text.startswith("config: sweeps.mine.data")
        assert message in text
        path.unlink()

    def changed(*removed, **changes):
        def make(path):
            ct(path, "q", np.arange(256).reshape(16, 16))
            dataset = pydicom.dcmread(path)
            for name in removed:
                delattr(dataset, name)
            dataset.update(changes)
            dataset.save_as(path)

        return make

    whole = (folder / "ct/p0/0.dcm").read_bytes()
    mr, plan = (get_testdata_file(name, download=False) for name in ("MR_small.dcm", "rtplan.dcm"))
    no_units = "is no CT slice in Hounsfield units; remove it from the folder"
    intercept = whole.index(b"\x28\x00\x52\x10DS")
    worded = whole[: intercept + 8] + b"water" + whole[intercept + 13 :]
    image_type = ["ORIGINAL", "PRIMARY", "LOCALIZER"]
    many = "is in colour or has several frames; give one grey slice per file"
    damaged = "is not a DICOM file, or damaged; copy it again"
    planted("a.dcm", lambda p: ct(p, "q"), "has slices of 16 × 16 pixels (ct/p0/0.dcm) and of 128 × 128 pixels (ct/z/a")
    planted("b.dcm", lambda p: p.write_bytes(b"\0" * 500), f"ct/z/b.dcm {damaged}")
    planted("b\n\x1b.dcm", lambda p: p.write_bytes(b""), rf"ct/z/b\n\x1b.dcm {damaged}")
    planted("c.dcm", lambda p: p.write_bytes(whole[:-180]), "ct/z/c.dcm is damaged: it ends before its pixels do")
    planted("d.dcm", lambda p: p.write_bytes(whole[:400]), "ct/z/d.dcm is ")
    planted("e.dcm", lambda p: shutil.copy(mr, p), f"ct/z/e.dcm {no_units}")
    planted("e.dcm", changed("RescaleSlope"), f"ct/z/e.dcm {no_units}")
    planted("e.dcm", changed(RescaleSlope=0), f"ct/z/e.dcm {no_units}")
    planted("e.dcm", lambda p: p.write_bytes(worded), f"ct/z/e.dcm {no_units}")
    planted("f.dcm", changed(NumberOfFrames=2), f"ct/z/f.dcm {many}")
    planted("f.dcm", changed(SamplesPerPixel=3), f"ct/z/f.dcm {many}")
    planted("f.dcm", changed(PhotometricInterpretation="PALETTE COLOR"), f"ct/z/f.dcm {many}")
    planted("g.dcm", lambda p: shutil.copy(plan, p), "ct/z/g.dcm is no image: it has no Rows; remove it")
    planted("h.dcm", changed("PixelData"), "ct/z/h.dcm has no pixels; copy it again or remove it")
    planted("i.dcm", changed(ImageType=image_type), "ct/z/i.dcm is a localizer and no slice; remove it")
    planted("j.dcm", lambda p: p.symlink_to("nowhere"), "ct/z/j.dcm cannot be read: No such file or directory; copy")
    planted("j.dcm", lambda p: p.symlink_to("j.dcm"), "ct/z/j.dcm cannot be read: Too many levels of symbolic links")
    planted("k.dcm", os.mkfifo, "ct/z/k.dcm is a pipe or a device; give a file")
    planted("l.dcm", stored_as(JPEGLSLossless), "l.dcm is stored as JPEG-LS Lossless Image Compression, for which pyd")
    planted("l.dcm", stored_as(UID("1.2.3.4")), "l.dcm is stored as 1.2.3.4, for which pydicom finds no decoder")


def stored_as(syntax):
    """Make a slice whose header says that it is stored so."""

    def make(path):
        ct(path, "q", np.arange(256).reshape(16, 16))
        dataset = pydicom.dcmread(path)
        if syntax.is_private or syntax.is_compressed:
            dataset.compress(RLELossless)
        dataset.file_meta.TransferSyntaxUID = syntax
        dataset.save_as(path)

    return make


def test_labels_of_any_length_are_one_sentence(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(4):
            ct(folder / f"ct/{i}.dcm", "z" * 5000, np.full((16, 16), 100 * i))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of pydicom's
        text = said(data="ct", H=8, V=6, B=8)
    assert f"group: all pairs are of {'z' * 60}…, and training" in text


@pytest.mark.parametrize("syntax", [DeflatedExplicitVRLittleEndian, RLELossless, ImplicitVRLittleEndian])
def test_slices_are_the_same_however_they_are_stored(folder, syntax):
    make, plain = stored_as(syntax), stored_as(ExplicitVRLittleEndian)
    (folder / "ct").mkdir()
    plain(folder / "ct/plain.dcm")
    make(folder / "ct/other.dcm")
    other, same = slices.headers("ct", "PatientID")
    assert other[1:] == same[1:] == (16, 16, "q")
    np.testing.assert_array_equal(slices.image(other.path, 8), slices.image(same.path, 8))


def test_links_are_followed_and_loops_end(folder):
    patients(folder / "store", 11)
    (folder / "ct").mkdir()
    for place in (folder / "store").iterdir():
        (folder / "ct" / place.name).symlink_to(place)
    (folder / "ct/again").symlink_to(".")
    (folder / "store/p3/up").symlink_to("../../ct")
    problem = PAIRS(data="ct", H=8, V=6, B=8)
    assert problem.files() == sorted(f"ct/p{i}/{j}.dcm" for i in range(11) for j in range(2))
    assert not list(problem.check((1,), SIZES))


def test_a_slice_that_is_there_twice_is_named(folder):
    patients(folder / "ct", 6, 1)
    dataset = pydicom.dcmread(folder / "ct/p2/0.dcm")
    dataset.PatientID = "other"
    dataset.save_as(folder / "ct/Zoë.dcm")
    divided = []
    for split in range(9):
        try:
            list(PAIRS(data="ct", H=8, V=6, B=8, split=split).pairs(1, Sizes(train=3, val=2, test=2)))
        except KoctError as error:
            divided.append(str(error))
    assert 0 < len(divided) < 9
    same = r"data: ct/Zoë\.dcm and ct/p2/0\.dcm are the same slice, and they came into \w+ and \w+; remove one"
    assert all(re.fullmatch(same, text) for text in divided)


def test_damaged_slices_never_end_in_another_error(folder):
    """Bytes of a slice changed or cut at random: an image, or a KoctError."""
    patients(folder / "ct", 3, 1)
    path = folder / "ct/p0/0.dcm"
    whole, rng = path.read_bytes(), np.random.default_rng(5)
    problem, refused = PAIRS(data="ct", H=8, V=6, B=8), 0
    for _ in range(60):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 30):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(100, len(whole) + 1)])
        try:
            if not list(problem.check((1,), Sizes(train=1, val=1, test=1))):
                assert np.isfinite(slices.image(str(path), 8)).all()
        except KoctError:
            refused += 1
    assert refused < 60


def test_many_files_are_one_entry_of_a_spec(folder):
    patients(folder / "ct", 60)
    entry = {**SWEEP, "data": "ct", "H": 8, "V": 6, "B": 8}
    settings = {"study": "s", "studies": {"s": ["mine"]}, "sweeps": {"mine": entry}}
    before = Jobs(settings)._pool_spec("mine")
    assert '"files": {"120 files": "' in before
    assert Jobs(settings)._pool_spec("mine") == before
    (folder / "ct/p7/1.dcm").write_bytes((folder / "ct/p7/1.dcm").read_bytes()[:-2] + b"\7\7")
    assert Jobs(settings)._pool_spec("mine") != before


def test_a_deflated_bomb_is_refused_before_it_is_inflated(folder, monkeypatch):
    """pydicom inflates a file as a whole, before it looks at anything: a few kilobytes may become gigabytes."""
    dataset = pydicom.dcmread(get_testdata_file("CT_small.dcm", download=False))
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dataset.save_as("fine.dcm")
    assert slices._header("fine.dcm", "PatientID").rows == 128
    dataset.add_new(0x00091010, "OB", bytes(2**22))
    dataset.save_as("bomb.dcm")
    monkeypatch.setattr(slices, "LARGEST", 2**20)
    assert os.path.getsize("bomb.dcm") < 2**16
    for read in (lambda: slices._header("bomb.dcm", "PatientID"), lambda: slices.image("bomb.dcm", 8)):
        with pytest.raises(KoctError, match=r"bomb\.dcm becomes over 1 MiB when it is inflated, as no slice does"):
            read()
