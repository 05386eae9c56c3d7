"""The problem scan: what it makes of images, at which scale, and which slices are in which part."""

import os
import shutil

import numpy as np
import pytest
from conftest import CONFIG
from PIL import Image

from koct.config import study_file
from koct.contracts import Sizes, registry
from koct.errors import KoctError
from koct.operators.fanbeam import fbp
from koct.problems import pools, slices

SCAN = registry.problem("scan")
SIZES = Sizes(train=8, val=2, test=4)
HEAD = "/usr/share/doc/invesalius-examples/examples/Cranium.inv3"


def volume(count=24, size=32):
    """Discs of water in air in HU, which grow and move from slice to slice."""
    row, column = np.mgrid[:size, :size] - (size - 1) / 2
    radii = size * np.linspace(0.2, 0.4, count)
    return np.stack([1000.0 * (np.hypot(row, column - i % 5) < r) - 1000 for i, r in enumerate(radii)])


def array(**options):
    """A scan of the volume above, saved as an array."""
    np.save("volume.npy", volume())
    return SCAN(**{"data": "volume.npy", "units": "HU", "field": 240.0, "H": 16, "V": 24, "B": 32, "gap": 1, **options})


@pytest.mark.parametrize("beam", ["fan", "parallel"])
def test_a_disc_of_water_has_its_chord_in_mm_and_its_value_in_the_image(folder, beam):
    problem = array(beam=beam, finer=4)
    assert not list(problem.check((1,), SIZES))
    pools.make(problem, 1, SIZES, "pool.npy")
    pool = pools.Pool("pool.npy", problem, 1)
    x, images = pool.x("test").reshape(-1, 24, 32), pool.y("test").reshape(-1, 16, 16)
    widest = [2 * np.sqrt((image.sum() * (240 / 16) ** 2) / np.pi) for image in images]  # by the area of the disc
    np.testing.assert_allclose(x.max(axis=(1, 2)), widest, rtol=0.05)
    assert np.isclose(images.max(), 1)
    seen = problem.field_of_view()
    made = fbp(problem.geometry())(x)
    assert np.abs(made - images)[:, seen].mean() < 0.06
    assert seen.sum() == pytest.approx(np.pi / 4 * 256, rel=0.05)


def test_photons_are_those_behind_water(folder):
    """The variance of −log(counts / photons) is one over the expected counts, which water decides."""
    clean, noisy = array(V=200), array(V=200, photons=1e4)
    sinograms = []
    for problem in (clean, noisy):
        pools.make(problem, 1, SIZES, "pool.npy")
        sinograms.append(pools.Pool("pool.npy", problem, 1).x("test").astype(float))
    counts = 1e4 * np.exp(-0.02 * sinograms[0])
    assert np.mean((0.02 * (sinograms[1] - sinograms[0])) ** 2 * counts) == pytest.approx(1, rel=0.05)


def test_what_is_reconstructed_has_not_made_the_data(folder):
    """A residual remains, which is smaller the finer the pixels of the reconstruction are."""
    residuals = []
    for options in ({"finer": 1}, {}, {"H": 32}):
        problem = array(**options)
        pools.make(problem, 1, SIZES, "pool.npy")
        pool = pools.Pool("pool.npy", problem, 1)
        x = pool.x("test")
        residuals.append(np.linalg.norm(problem.forward({}).flat(pool.y("test")) - x) / np.linalg.norm(x))
    own, coarse, fine = residuals
    assert own < 1e-6 < 1e-3 < fine < coarse < 0.1


def test_one_patient_is_cut_into_slabs_with_gaps(folder):
    problem = array()
    drawn = problem._drawn(1, SIZES)
    held = {part: np.sort(numbers) for part, numbers in drawn.items()}
    assert [len(held[part]) for part in ("train", "val", "test")] == [8, 2, 4]
    for one, other in (("train", "test"), ("train", "val"), ("val", "test")):
        assert np.abs(held[one][:, None] - held[other]).min() > 1
    other = problem._drawn(2, SIZES)
    assert np.array_equal(other["test"], drawn["test"])
    assert not np.array_equal(other["train"], drawn["train"])
    (said,) = problem.check((1,), Sizes(train=20, val=2, test=4))
    assert said.startswith("pool.train asks for 20 of 24 slices, and")


def test_no_patient_is_in_two_parts(folder):
    patients = np.repeat(np.arange(6), 4)
    np.save("patients.npy", np.random.default_rng(0).permutation(patients))
    problem = array(group="patients.npy")
    slices = problem._slices()
    drawn = {part: {slices[i].group for i in numbers} for part, numbers in problem._drawn(1, SIZES).items()}
    assert not drawn["train"] & drawn["test"]
    assert not drawn["train"] & drawn["val"]
    assert not drawn["val"] & drawn["test"]
    assert problem.understood().startswith("24 slices of 6 patients, array in Hounsfield units")


def test_ct_in_nifti_keeps_the_brain(folder):
    """Values below −500 are HU, in pairs and in scan; without them, units are relative unless they are asked for."""
    nibabel = pytest.importorskip("nibabel", reason="nibabel is not installed: pip install 'koct[files]'")
    hu = np.full((16, 16, 8), -1000, np.int16)
    hu[4:12, 4:12] = 30
    for i in range(3):
        (folder / "nii").mkdir(exist_ok=True)
        nibabel.Nifti1Image(hu + i, np.diag([15, 15, 15, 1])).to_filename(f"nii/{i}.nii")
    nibabel.Nifti1Image(hu.clip(min=0), np.diag([15, 15, 15, 1])).to_filename("masked.nii")
    pairs = registry.problem("pairs")(data="nii", H=16, V=8, B=16)
    image = next(y for part, _, y in pairs.pairs(1, Sizes(train=1, val=1, test=1)))
    assert image[0, 8, 8] == pytest.approx(1.03, abs=0.01)
    assert "Hounsfield units (its smallest value is -1000)" in pairs.understood()
    assert pairs.field_of_view().sum() == (np.hypot(*np.mgrid[-7.5:8, -7.5:8]) <= 7.5).sum()
    scan = {"H": 16, "V": 8, "B": 16}
    assert "240 mm wide" in SCAN(data="nii", **scan).understood()
    (masked,) = slices.slices("masked.nii", None)[:1]
    assert "relative to the largest value" in slices.understood(masked, None)
    assert "Hounsfield" in slices.understood(masked, "HU")


def test_png_slices_of_a_folder_are_one_patient(folder):
    (folder / "png").mkdir()
    for i, image in enumerate(volume(24, 20)):
        Image.fromarray((image / 4 + 250).astype(np.uint8)).save(f"png/{i + 1}.png")
    problem = SCAN(data="png", field=200.0, H=16, V=8, B=16, gap=1)
    assert not list(problem.check((1,), SIZES))
    told = "24 slices of one patient, PNG, from black, 0, to white, 1; 200 mm wide; from 1.png to 24.png"
    assert problem.understood() == told
    assert [os.path.basename(each.path) for each in problem._slices()] == [f"{i + 1}.png" for i in range(24)]
    assert not problem.endless
    Image.open("png/3.png").crop((0, 0, 20, 18)).save("png/1.png")
    for i in range(1, 24):
        shutil.copy("png/1.png", f"png/{i + 1}.png")
    assert "; of 18 × 20 pixels the central 18 × 18, 200 mm wide;" in problem.understood()
    with pytest.raises(KoctError, match=r"data: png/\d+\.png and png/\d+\.png are the same image; remove one"):
        list(problem.pairs(1, SIZES))


def test_a_pool_is_of_the_file_that_its_images_are_in(folder):
    """Which makes it stale when the file changes."""
    assert array().files() == ["volume.npy"]


def test_a_file_that_is_no_image_and_a_group_that_is_nowhere_are_named(folder):
    (folder / "head.tif").touch()
    (said,) = SCAN(data="head.tif", field=200.0, H=16, V=8, B=16, gap=1).check((1,), SIZES)
    assert said == "data = 'head.tif' has no images (DICOM, .png, .nii or .nii.gz) but .tif files; save them as .png"
    (said,) = array(group="patient").check((1,), SIZES)
    assert said.startswith("group = 'patient' is not a .npy file; give one")


def test_units_that_values_contradict_are_refused(folder):
    problem = array(units="relative")
    (said,) = problem.check((1,), SIZES)
    assert (
        said == "units = 'relative': values of volume.npy go from -1000 to 0, and water is 1; give HU, or divide "
        "by the value of water"
    )
    np.save("water.npy", 1 + volume() / 1000)
    assert not list(array(data="water.npy", units="relative").check((1,), SIZES))
    (said,) = array(data="water.npy").check((1,), SIZES)
    assert said == "units = 'HU': values of water.npy go from 0 to 1, too narrow for Hounsfield units; give relative"
    nibabel = pytest.importorskip("nibabel", reason="nibabel is not installed: pip install 'koct[files]'")
    clipped = volume(48).transpose(1, 2, 0).clip(-100, 300) + np.linspace(0, 300, 48)
    nibabel.Nifti1Image(clipped.astype(np.int16), np.diag([8, 8, 8, 1])).to_filename("clipped.nii")
    nifti = {"data": "clipped.nii", "field": None}
    (said,) = array(**nifti, units=None).check((1,), SIZES)
    assert said.startswith(
        "units is missing: values of clipped.nii go from -100 to 300, which may be Hounsfield units;"
    )
    assert not list(array(**nifti).check((1,), SIZES))


def test_several_dicom_series_of_one_patient_are_refused(folder, monkeypatch):
    found = [slices.Slice(f"{i}.dcm", "CT", (32, 32), (8, 8), "P", i, series="12"[i % 2]) for i in range(24)]
    problem = array()
    monkeypatch.setattr(type(problem), "_slices", lambda self: found)
    (said,) = problem.check((1,), SIZES)
    assert said == "data: P has 2 DICOM series, and slices of one place could be in two parts; keep one series"
    found[:] = [each._replace(group=each.series, patient="P") for each in found]  # group: SeriesInstanceUID
    assert list(problem.check((1,), SIZES)) == [said]
    found[:] = [each._replace(group=str(i // 6), patient=str(i // 6)) for i, each in enumerate(found)]
    assert not list(problem.check((1,), SIZES))


def test_what_a_scan_lacks_is_one_sentence(folder):
    np.save("volume.npy", volume())
    entry = {"problem": "scan", "data": "volume.npy", "H": 16, "V": 8, "B": 16, "N": [2, 4], "seeds": [1], "gap": 1}
    entry |= {"archs": ["fc"], "metric": "mse", "pool": {"train": 8, "val": 2, "test": 4}}

    def said(**changes):
        with pytest.raises(KoctError) as caught:
            study_file.read({"study": "s", "studies": {"s": ["mine"]}, "sweeps": {"mine": {**entry, **changes}}})
        return str(caught.value)

    assert "field is missing: nothing says how large a pixel is; give the side" in said(units="HU")
    assert "units is missing: an array does not say what its values are; give HU" in said(field=240.0)
    assert "H = 64 is more than the 32 pixels of volume.npy" in said(field=240.0, units="HU", H=64)
    assert "data = 'nowhere' does not exist; correct the path" in said(data="nowhere")
    (folder / "broken.inv3").write_bytes(b"no archive")
    assert "data: broken.inv3 is no InVesalius file that can be read" in said(data="broken.inv3")
    np.save("flat.npy", np.zeros((4, 4)))
    assert "flat.npy' has the shape (4, 4); give (slices, rows, columns)" in said(
        data="flat.npy", field=1.0, units="HU"
    )
    others = {"study": "s", "studies": {"s": ["mine", "other"]}}
    whole = {**entry, "units": "HU", "field": 240.0}
    for changes, sentence in (
        ({"tested_on": ["none"]}, "sweeps.mine.tested_on has 'none', which is no other sweep of this study"),
        ({"tested_on": ["other"], "V": 9}, "sweeps.mine.tested_on has 'other', whose measurements and images have"),
    ):
        with pytest.raises(KoctError, match=sentence):
            study_file.read({**others, "sweeps": {"mine": {**whole, **changes}, "other": whole}})


needs_head = pytest.mark.skipif(not os.path.exists(HEAD), reason="apt install invesalius-examples")


@needs_head
def test_the_head_is_scanned_at_its_size():
    problem = SCAN(data=HEAD, H=32, V=8, B=32)
    assert problem.understood().startswith("108 slices of one patient, InVesalius in Hounsfield units")
    assert problem.side == pytest.approx(245, abs=0.1)


@pytest.mark.long
@needs_head
def test_the_small_study_of_the_head_runs(checkout):
    study = checkout({**CONFIG, "study": "head-small"})
    study.snakemake()
    rows = study.table("transfer")
    assert set(rows["tested_on"].dropna()) == {"head-32", "head-32-quarter"}
