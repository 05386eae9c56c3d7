"""Data sets that people download: folders of the layout of LoDoPaB-CT and 2DeteCT, whole and damaged."""

import shutil

import numpy as np
import pytest
from PIL import Image

from koct.contracts import Sizes, registry
from koct.errors import KoctError
from koct.operators.fanbeam import Projector
from koct.problems import pools

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'koct[files]'")
SIZES = Sizes(train=5, val=2, test=3)
LODOPAB = registry.problem("lodopab")
DETECT = registry.problem("detect")


def disc(H, number):
    """Discs that differ, and that no symmetry of the square maps onto themselves."""
    row, column = np.mgrid[:H, :H] - (H - 1) / 2
    image = 0.5 * (np.hypot(row - 0.1 * H, column + 0.02 * number * H) < 0.25 * H)
    return image + 0.3 * (np.hypot(row + 0.15 * H, column - 0.05 * H) < 0.1 * H)


def residual(problem, images, x):
    """‖A y − x‖ / ‖x‖."""
    return np.linalg.norm(problem.forward({}).flat(images) - x) / np.linalg.norm(x)


def centres(problem, row, column):
    """(V,): where every view sees a point, in mm along the detector from its middle."""
    image = np.zeros((problem.H, problem.H))
    image[row, column] = 1.0
    scan = problem.forward({})(image)
    return scan @ problem.geometry().bins / scan.sum(axis=1)


@pytest.fixture
def lodopab_folder(tmp_path):
    """Three parts of two files with four pairs each, the last of three; made by the operator, in the file's units."""
    problem = LODOPAB(data=str(tmp_path), H=12, V=20, B=19, views=20)
    A, number = Projector(problem.geometry()), 0
    for part, patients in (("train", 3), ("validation", 2), ("test", 2)):
        images = np.stack([disc(12, number + i) for i in range(8)])
        scans = A(images) / 1000
        for i, some in enumerate((slice(4), slice(4, 8))):
            (tmp_path / f"ground_truth_{part}").mkdir(exist_ok=True)
            with h5py.File(tmp_path / f"ground_truth_{part}/ground_truth_{part}_{i:03}.hdf5", "w") as file:
                file["data"] = images[some].transpose(0, 2, 1).astype(np.float32)
            with h5py.File(tmp_path / f"observation_{part}_{i:03}.hdf5", "w") as file:
                file["data"] = scans[some].astype(np.float32)
        lines = [str(number + i % patients) for i in range(7)]  # the last file has one pair that does not count
        (tmp_path / f"patient_ids_rand_{part}.csv").write_text("\n".join(lines) + "\n")
        number += 10
    return tmp_path, problem


def test_lodopab_gives_its_own_parts_and_an_operator_that_fits(lodopab_folder):
    folder, problem = lodopab_folder
    assert not list(problem.check((1,), SIZES))
    assert problem.understood().startswith("train: 7 slices of 3 patients; validation: 7 slices of 2 patients")
    pools.make(problem, 1, SIZES, str(folder / "pool.npy"))
    pool = pools.Pool(str(folder / "pool.npy"), problem, 1)
    for part, number in (("train", 0), ("val", 10), ("test", 20)):
        own = {disc(12, number + i).astype(np.float32).tobytes() for i in range(7)}
        images = pool.y(part)
        assert {image.tobytes() for image in images} <= own  # of its own part, and not the eighth
        assert residual(problem, images, pool.x(part)) < 1e-5
    fewer = LODOPAB(data=str(folder), H=12, V=5, B=19, views=20)
    np.testing.assert_allclose(fewer.geometry().angles, problem.geometry().angles[::4])
    assert "V = 3 is no divisor of 20" in next(iter(LODOPAB(data=".", V=3, views=20).check((1,), SIZES)))


def test_lodopab_is_scanned_as_documented():
    g = LODOPAB(data=".").geometry()
    assert (g.H, g.V, g.B) == (362, 1000, 513)
    assert g.pixel == pytest.approx(260 / 362)
    assert g.bin * g.B == pytest.approx(260 * 2**0.5)  # ODL's detector is as wide as the diagonal
    np.testing.assert_allclose(np.rad2deg(g.angles[[0, -1]]), [0.09, 179.91])
    assert g.field_of_view.all()


def test_a_point_of_lodopab_is_seen_where_odl_sees_it():
    problem = LODOPAB(data=".", H=40, V=12, B=57, views=12)
    x, y = 30, 8  # places along the two axes of an array of ODL, whose transpose the problem takes
    position = (np.array([x, y]) - 19.5) * 260 / 40
    angles = (np.arange(12) + 0.5) * np.pi / 12
    expected = position[0] * np.cos(angles) + position[1] * np.sin(angles)
    np.testing.assert_allclose(centres(problem, y, x), expected, atol=1.0)  # a pixel is 6.5 mm wide


def short(path):
    path.write_bytes(path.read_bytes()[:-200])


def other_shape(path):
    path.unlink()
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros((4, 12, 11), np.float32)


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("observation_train_001.hdf5", lambda path: path.unlink(), "observation_train_001.hdf5 is missing in"),
        ("patient_ids_rand_test.csv", lambda path: path.unlink(), "patient_ids_rand_test.csv is missing in"),
        (
            "ground_truth_train/ground_truth_train_000.hdf5",
            other_shape,
            "ground_truth_train_000.hdf5 has arrays of the shape (12, 11), and LoDoPaB-CT (12, 12); download it again",
        ),
        ("observation_test_000.hdf5", short, "observation_test_000.hdf5' is not a complete HDF5 file"),
        (
            "patient_ids_rand_train.csv",
            lambda path: path.write_text("1\n" * 4),
            "patient_ids_rand_train.csv has 4 lines, and the 2 files of its part have 8 pairs",
        ),
        ("observation_validation_000.hdf5", lambda path: path.write_text("<html>"), "is not a complete HDF5 file"),
        ("patient_ids_rand_test.csv", lambda path: path.write_text("1\n" * 7), "patient 1 is in train and in test"),
    ],
)
def test_every_damage_of_lodopab_is_named(lodopab_folder, name, damage, sentence):
    folder, problem = lodopab_folder
    damage(folder / name)
    (said,) = problem.check((1,), SIZES)
    assert sentence in said


@pytest.fixture
def detect_folder(tmp_path):
    """Twelve slices of which some are scanned with the detector a bin off; counts are those of the operator."""
    problem = DETECT(data=str(tmp_path / "scans"), truth=str(tmp_path / "truth"), H=16, V=30, B=24, views=30, width=16)
    A = Projector(problem.geometry())
    for number in (*range(1, 7), *range(3001, 7 + 3000)):
        image = (
            (0.05 + 1e-6 * number) * disc(16, number % 3000) * (np.hypot(*np.mgrid[-7.5:8, -7.5:8]) < 4.5)
        )  # the last bins see air
        scan = np.exp(-A(image) / (problem._side / 16))
        scan = np.concatenate([scan, scan[:1]])
        if number < 3000:
            scan = np.concatenate([np.ones((31, 1)), scan[:, :-1]], axis=1)
        folder = tmp_path / f"scans/slice{number:05}/mode1"
        folder.mkdir(parents=True)
        counts = np.repeat(100 + 50_000 * scan, 2, axis=1)
        for name, values in (("sinogram", counts), ("dark", 100), ("flat1", 50_000), ("flat2", 50_200)):
            whole = np.broadcast_to(values, (31, 48) if name == "sinogram" else (1, 48))
            Image.fromarray(np.round(whole).astype(np.uint16)).save(folder / f"{name}.tif")
        place = tmp_path / f"truth/slice{number:05}/mode2"
        place.mkdir(parents=True)
        moved = np.zeros((16, 16), np.float32)
        moved[1:, 1:] = image[:-1, :-1]
        Image.fromarray(moved).save(place / "reconstruction.tif")
    return tmp_path, problem


def test_2detect_gives_pairs_that_its_operator_explains(detect_folder):
    folder, problem = detect_folder
    assert not list(problem.check((1,), SIZES))
    pools.make(problem, 1, SIZES, str(folder / "pool.npy"))
    pool = pools.Pool(str(folder / "pool.npy"), problem, 1)
    for part in ("train", "val", "test"):
        assert residual(problem, pool.y(part), pool.x(part)) < 1e-4  # the detector counts whole numbers


def test_2detect_is_scanned_as_documented():
    g = DETECT(data=".", V=3600).geometry()
    assert (g.H, g.V, g.B) == (1024, 3600, 956)
    assert g.pixel * 1024 == pytest.approx(956 * 2 * 0.0748 * 431.019989 / 529.000488)
    np.testing.assert_allclose(np.rad2deg(g.angles[[0, 1]]), [0, -0.1])  # ASTRA's y points up, and a row is down
    assert g.span == pytest.approx(2 * np.pi)


def test_a_point_of_2detect_is_seen_where_astra_sees_it():
    problem = DETECT(data=".", H=64, V=12, B=96, views=12, width=64)
    row, column = 12, 40
    pixel = problem._side / 64
    x, y = (column - 31.5) * pixel, (31.5 - row) * pixel  # ASTRA's y points up
    angles = np.arange(12) * np.pi / 6
    source = 431.019989 * np.array([np.sin(angles), -np.cos(angles)])
    along = np.array([np.cos(angles), np.sin(angles)])  # the detector
    ray = np.array([[x], [y]]) - source
    towards = -source / 431.019989
    expected = (ray * along).sum(axis=0) / (ray * towards).sum(axis=0) * 529.000488
    np.testing.assert_allclose(centres(problem, row, column), expected, atol=0.1)  # a pixel is 0.18 mm wide


def small(path):
    Image.fromarray(np.zeros((31, 47), np.uint16)).save(path)


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("scans/slice00003/mode1/flat2.tif", lambda path: path.unlink(), "slice00003/mode1/flat2.tif is missing"),
        (
            "truth/slice00002/mode2/reconstruction.tif",
            lambda path: path.unlink(),
            "truth/slice00002/mode2/reconstruction.tif is missing",
        ),
        (
            "scans/slice00001/mode1/sinogram.tif",
            small,
            "slice00001/mode1/sinogram.tif has 31 × 47 pixels, and 2DeteCT 31 × 48; download it again",
        ),
        ("scans/slice03002/mode1/dark.tif", lambda path: path.write_text("<html>"), "is not a complete TIFF file"),
        ("scans/slice00005", shutil.rmtree, "pool asks for 12 slices, and there are 11; lower it"),
    ],
)
def test_every_damage_of_2detect_is_named_before_a_run(detect_folder, name, damage, sentence):
    folder, problem = detect_folder
    damage(folder / name)
    (said,) = problem.check((1,), Sizes(train=7, val=2, test=3))
    assert sentence in said


def test_half_a_scan_of_2detect_is_named(detect_folder):
    folder, problem = detect_folder
    short(folder / "scans/slice00001/mode1/sinogram.tif")
    with pytest.raises(KoctError, match=r"slice00001/mode1/sinogram\.tif is not a complete TIFF file; download"):
        pools.make(problem, 1, Sizes(train=7, val=2, test=3), str(folder / "pool.npy"))
