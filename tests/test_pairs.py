"""Pairs from files: what is read, how groups are split and counted, what is refused, and docs/your-pairs.md, run."""

import importlib.util
import re
import shutil
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT

from koct import cells, registry
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.operators.fanbeam import FanBeam, Projector, fbp
from koct.problems import arrayfiles, pools, slices
from koct.spec import Cell
from koct.workflow import config, resources
from koct.workflow.jobs import Jobs

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'koct[files]'")
pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed: pip install 'koct[files]'")
from pydicom.data import get_testdata_file  # noqa: E402

PAIRS = registry.problem("pairs")
SIZES = Sizes(train=6, val=2, test=3)
PAGE = (ROOT / "docs/your-pairs.md").read_text()
SWEEP = {
    "problem": "pairs",
    "pool": SIZES.values(),
    "N": [2, 6],
    "seeds": [1, 2],
    "archs": ["fc"],
    "lambdas": [1.0],
    "metric": "mse",
}


def arrays(groups=14):
    """Groups of one to three pairs, in no order."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(groups), 1 + np.arange(groups) % 3))
    return {"x": rng.standard_normal((len(group), 5)), "y": rng.standard_normal((len(group), 3, 2)), "group": group}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ct(path, patient, pixels=None, **changes):
    """A slice like pydicom's CT_small.dcm, with other pixels."""
    dataset = pydicom.dcmread(get_testdata_file("CT_small.dcm", download=False))
    if pixels is not None:
        dataset.PixelData = np.asarray(pixels, np.int16).tobytes()
        dataset.Rows, dataset.Columns = pixels.shape
    dataset.PatientID = patient
    for name, value in changes.items():
        setattr(dataset, name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset.save_as(path)


def patients(folder, count=11, each=2, size=16):
    """Squares of the one real slice, as if each came from another patient."""
    whole = pydicom.dcmread(get_testdata_file("CT_small.dcm", download=False)).pixel_array
    for i in range(count * each):
        top, left = divmod(9 * i, 100)
        square = whole[8 * top : 8 * top + size, left:][:, :size]
        ct(folder / f"p{i // each}" / f"{i % each}.dcm", f"p{i // each}", square, SOPInstanceUID=f"1.2.{i}")


def said(**changes):
    """What a config says about a sweep."""
    entry = {**SWEEP, **changes}
    with pytest.raises(KoctError) as caught:
        config.read({"study": "s", "studies": {"s": ["mine"]}, "sweeps": {"mine": entry}})
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What is read


def test_the_same_arrays_in_any_file_make_the_same_pool(folder):
    content = arrays()
    for name, array in content.items():
        np.save(f"{name}.npy", array)
    np.savez("d.npz", sino=content["x"], y=content["y"], group=content["group"])
    with h5py.File("d.h5", "w") as file:
        file["scan/sino"], file["y"] = content["x"], content["y"]
        file["who"] = [str(i) for i in content["group"]]
    problems = [
        PAIRS(x="x.npy", y="y.npy", group="group.npy"),
        PAIRS(data="d.npz", x="sino", group="group"),
        PAIRS(data="d.h5", x="scan/sino", group="who"),
    ]
    assert [problem.files() for problem in problems] == [["x.npy", "y.npy", "group.npy"], ["d.npz"], ["d.h5"]]
    found = []
    for problem in problems:
        assert (problem.x_shape, problem.y_shape, problem.has_layers) == ((5,), (3, 2), False)
        assert not list(problem.check((1,), SIZES))
        pools.make(problem, 1, SIZES, "pool.npy")
        pool = pools.Pool("pool.npy", problem)
        found.append({part: (pool.x(part), pool.y(part)) for part in pools.PARTS})
    place = {row.tobytes(): i for i, row in enumerate(content["x"])}
    for part in pools.PARTS:
        for other in found[1:]:
            np.testing.assert_array_equal(other[part][0], found[0][part][0])
            np.testing.assert_array_equal(other[part][1], found[0][part][1])
        x, y = found[0][part]
        np.testing.assert_array_equal(y, content["y"][[place[row.tobytes()] for row in x]].reshape(len(x), -1))


def test_without_groups_pairs_are_counted_and_held_out_ones_stay(folder):
    np.savez("d.npz", **arrays())
    problem = PAIRS(data="d.npz")
    assert problem.groups(1, SIZES) is None
    for seed in (1, 2):
        pools.make(problem, seed, SIZES, f"{seed}.npy")
    one, two = (pools.Pool(f"{seed}.npy", problem) for seed in (1, 2))
    assert one.count == SIZES.values()
    assert one.groups is None
    for part in ("val", "test"):
        np.testing.assert_array_equal(one.x(part), two.x(part))
    assert not np.array_equal(one.x("train"), two.x("train"))


# Groups


def parts_by_group(problem, seed, sizes, content):
    place = {row.tobytes(): i for i, row in enumerate(content["x"])}
    found = {part: [] for part in pools.PARTS}
    for part, x, _ in problem.pairs(seed, sizes):
        found[part] += [int(content["group"][place[row.tobytes()]]) for row in x]
    return found


def test_no_group_is_divided_and_seeds_draw_groups(folder):
    content = arrays(40)
    np.savez("d.npz", **content)
    problem, sizes = PAIRS(data="d.npz", group="group"), Sizes(train=12, val=4, test=6)
    one, two = (parts_by_group(problem, seed, sizes, content) for seed in (1, 2))
    count = np.bincount(content["group"])
    for found in (one, two):
        for part, groups in found.items():
            distinct = list(dict.fromkeys(groups))
            assert len(distinct) == getattr(sizes, part)
            assert groups == [group for group in distinct for _ in range(count[group])]  # whole, and side by side
        assert len(set().union(*found.values())) == sizes.total
    assert (one["val"], one["test"]) == (two["val"], two["test"])
    assert set(one["train"]) != set(two["train"])
    larger = parts_by_group(problem, 1, Sizes(train=20, val=4, test=6), content)
    assert larger["train"][: len(one["train"])] == one["train"]  # pools are nested
    other = parts_by_group(PAIRS(data="d.npz", group="group", split=1), 1, sizes, content)
    assert other["test"] != one["test"]


def test_a_cell_takes_all_pairs_of_its_first_groups(folder):
    content = arrays()
    np.savez("d.npz", **content)
    problem = PAIRS(data="d.npz", group="group")
    pools.make(problem, 3, SIZES, "pool.npy")
    sizes = problem.groups(3, SIZES)["train"]
    pool = pools.Pool("pool.npy", problem, 3)
    assert pool.groups == problem.groups(3, SIZES)
    for N in (1, 4, 6):
        data = cells.Data(Cell("mine", problem, registry.architecture("fc")(), N, 3, (1.0,)), {"pool": "pool.npy"})
        assert data.N == len(data.x) == sum(sizes[:N])
    _, network = cells.fit(data)
    assert data.predict(network, "test").shape == (sum(pool.groups["test"]), 6)
    with pytest.raises(KoctError, match="holds 6 train groups and 7 were asked for: make the pool larger"):
        pool.pairs_of("train", 7)


def test_costs_count_pairs_and_no_curve_of_groups_is_predicted(folder):
    np.savez("d.npz", **arrays())
    sweep = config.build("mine", {**SWEEP, "data": "d.npz", "group": "group"})
    most = max(sum(sweep.problem.groups(seed, SIZES)["train"][:6]) for seed in (1, 2))
    work = sweep.workload(sweep.archs[0], 6)
    assert work.N == sweep.pairs_of(6) == most > 6
    assert work.sizes.test == sum(sweep.problem.groups(1, SIZES)["test"])
    assert not sweep.predicted
    assert "N counts groups" in sweep.no_theory_pool
    plain = config.build("mine", {**SWEEP, "data": "d.npz"})
    assert plain.workload(plain.archs[0], 6).sizes is plain.sizes
    assert plain.predicted
    assert resources.gram(plain).operations < resources.gram(sweep).operations


GROUPED = """
import numpy as np

from koct.contracts import Problem


class Own(Problem):
    x_shape = (2,)
    y_shape = (3,)

    def groups(self, seed, sizes):
        return {groups}

    def pairs(self, seed, sizes):
        x = np.arange(20.0).reshape(10, 2)
        yield "train", x[:5], np.ones((5, 3)) * x[:5, :1]
        yield "val", x[5:7], np.ones((2, 3)) * x[5:7, :1]
        yield "test", x[7:], np.ones((3, 3)) * x[7:, :1]
"""


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("{'train': [2, 3], 'val': [2], 'test': [1, 2]}", None),
        ("{'train': [5], 'val': [2], 'test': [1, 2]}", "groups gave 1 train groups and pool.train asks for 2"),
        ("{'train': [5, 0], 'val': [2], 'test': [1, 2]}", "groups gave a train group without pairs"),
        ("{'train': [2, 2], 'val': [2], 'test': [1, 2]}", "pairs gave 5 train pairs and its groups have 4"),
    ],
)
def test_groups_of_a_problem_of_ones_own(folder, groups, message):
    (folder / "own.py").write_text(GROUPED.replace("{groups}", groups))
    problem, sizes = registry.problem(str(folder / "own.py"))(), Sizes(train=2, val=1, test=2)
    if message is None:
        pools.make(problem, 1, sizes, "pool.npy")
        assert pools.Pool("pool.npy", problem).pairs_of("train", 1) == 2
        return
    with pytest.raises(KoctError, match=r"own\.py, line \d+: .*" + message):
        pools.make(problem, 1, sizes, "pool.npy")


# CT slices


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
    from koct.operators import chain

    _, R = chain.split([layer.operator for layer in problem.layers({})])
    np.testing.assert_allclose(problem.normal_matrix({}), chain.normal_matrix(R), rtol=1e-5, atol=1e-8)


# What is refused, before the first job


def test_arrays_that_do_not_fit_are_one_sentence(folder):
    content = arrays()
    np.savez("d.npz", **content, short=content["y"][1:], flat=content["x"][:, 0], words=np.array(["a"] * 27))
    np.savez("c.npz", **{**content, "x": content["x"] + 1j})
    np.savez("few.npz", **arrays(7))
    np.savez("one.npz", **{**content, "group": 0 * content["group"]})
    np.savez("ragged.npz", x=np.array([np.zeros(2), np.zeros(3)], dtype=object), y=content["y"])
    (folder / "text.npz").write_text("not an archive")
    (folder / "cut.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    np.save("x.npy", content["x"])
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-8])
    n = len(content["x"])
    cases = [
        ({}, "x = 'x' is not a .npy file; give one, or data"),
        ({"data": "nowhere.npz"}, "data = 'nowhere.npz' cannot be read: No such file or directory; correct the path"),
        ({"data": "nowhere.h5"}, "data = 'nowhere.h5' cannot be read: No such file or directory; correct the path"),
        ({"x": "nowhere.npy", "y": "x.npy"}, "x = 'nowhere.npy' cannot be read: No such file or directory"),
        ({"x": "cut.npy", "y": "x.npy"}, "x = 'cut.npy' is not a complete NumPy file"),
        ({"data": "nowhere"}, "data = 'nowhere' is no folder (of DICOM slices), and no .npz"),
        ({"data": "text.npz"}, "data = 'text.npz' is not a complete .npz archive"),
        ({"data": "cut.h5"}, "data = 'cut.h5' is not a complete HDF5 file"),
        ({"data": "d.npz", "x": "sino"}, "x = 'sino' is not an array of d.npz, which has 'x', 'y', 'group', "),
        ({"data": "d.npz", "y": "short"}, f"y = 'short' in d.npz has {n - 1} images and x = 'x' in d.npz {n} meas"),
        ({"data": "d.npz", "x": "flat"}, f"x = 'flat' in d.npz has the shape ({n},); give (pairs, ...)"),
        ({"data": "d.npz", "x": "words"}, "x = 'words' in d.npz has the type <U1; give real numbers"),
        (
            {"data": "ragged.npz"},
            "x = 'x' in ragged.npz has the type object; give real numbers, all pairs of one shape",
        ),
        ({"data": "c.npz"}, "x = 'x' in c.npz is complex; give real and imaginary part"),
        (
            {"data": "d.npz", "group": "x"},
            f"group = 'x' in d.npz has the type float64 and the shape ({n}, 5); give one",
        ),
        ({"data": "few.npz", "group": "group.npy"}, "group = 'group.npy' cannot be read"),
        ({"data": "few.npz", "group": "group"}, "pool asks for 6 + 2 + 3 = 11 groups, and there are 7; lower pool"),
        ({"data": "few.npz", "pool": {"train": 6, "val": 8, "test": 3}}, "6 + 8 + 3 = 17 pairs, and there are 13"),
        ({"data": "one.npz", "group": "group"}, "group: all pairs are of 0, and training, validation and test need"),
        ({"data": "d.npz", "H": 8}, "H = 8 is for a folder of DICOM slices, and data is none; remove H"),
    ]
    for changes, message in cases:
        text = said(**changes)
        assert text.startswith("config: sweeps.mine."), text
        assert message in text
    assert "ko: the problem pairs has no known layers" in said(data="d.npz", archs=["ko"])


def test_what_headers_do_not_tell_ends_the_pool_with_the_place_in_the_file(folder):
    content = arrays()
    content["y"][4, 1, 1] = np.nan
    np.savez("d.npz", **content)
    message = "^y = 'y' in d.npz: pair 4, counted from 0, is not finite; correct it or leave it out"
    with pytest.raises(KoctError, match=message):
        list(PAIRS(data="d.npz").pairs(1, Sizes(train=len(content["x"]) - 4, val=2, test=2)))


def test_slices_that_do_not_fit_are_one_sentence(folder):
    patients(folder / "ct")
    good = {"data": "ct", "H": 8, "V": 6, "B": 8}
    assert "H is missing; a folder of DICOM slices needs it: add it" in said(data="ct")
    assert "H = 64 is more than the 16 pixels of the slices in ct; take at most 16" in said(**{**good, "H": 64})
    assert "B = 9999 makes the image so wide" in said(**{**good, "B": 9999})
    assert "group = 'Nonsense' is not in ct/p0/0.dcm; give a DICOM keyword" in said(**good, group="Nonsense")
    (folder / "empty").mkdir()
    assert "data = 'empty' has no DICOM files" in said(**{**good, "data": "empty"})
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

    planted("a.dcm", lambda p: ct(p, "q"), "has slices of 16 × 16 pixels (ct/p0/0.dcm) and of 128 × 128 pixels (ct/z/a")
    planted("b.dcm", lambda p: p.write_bytes(b"\0" * 500), "ct/z/b.dcm is not a DICOM file, or damaged; copy it again")
    whole = (folder / "ct/p0/0.dcm").read_bytes()
    planted("c.dcm", lambda p: p.write_bytes(whole[:-180]), "ct/z/c.dcm is damaged: it ends before its pixels do")
    planted("d.dcm", lambda p: p.write_bytes(whole[:400]), "ct/z/d.dcm is ")
    mr = get_testdata_file("MR_small.dcm", download=False)
    planted("e.dcm", lambda p: shutil.copy(mr, p), "ct/z/e.dcm is no CT slice in Hounsfield units; remove it")
    planted("f.dcm", lambda p: ct(p, "q", NumberOfFrames=2), "ct/z/f.dcm is in colour or has several frames")
    plan = get_testdata_file("rtplan.dcm", download=False)
    planted("g.dcm", lambda p: shutil.copy(plan, p), "ct/z/g.dcm is no image: it has no Rows; remove it")


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


def test_a_package_that_is_missing_is_named_with_its_extra(folder, monkeypatch):
    np.savez("d.npz", **arrays())
    (folder / "d.h5").write_bytes(b"")
    patients(folder / "ct", 3)
    monkeypatch.setattr(arrayfiles, "find_spec", lambda name: None)
    text = "needs {}, which is not installed; install it (pip install 'koct[files]')"
    assert "data = 'd.h5' " + text.format("h5py") in said(data="d.h5")
    assert "data = 'ct' " + text.format("pydicom") in said(data="ct", H=8, V=6, B=8)
    assert not list(PAIRS(data="d.npz").check((1,), SIZES))  # NumPy needs neither


def test_many_files_are_one_entry_of_a_spec(folder):
    patients(folder / "ct", 60)
    entry = {**SWEEP, "data": "ct", "H": 8, "V": 6, "B": 8}
    settings = {"study": "s", "studies": {"s": ["mine"]}, "sweeps": {"mine": entry}}
    before = Jobs(settings)._pool_spec("mine")
    assert '"files": {"120 files": "' in before
    assert Jobs(settings)._pool_spec("mine") == before
    (folder / "ct/p7/1.dcm").write_bytes((folder / "ct/p7/1.dcm").read_bytes()[:-2] + b"\7\7")
    assert Jobs(settings)._pool_spec("mine") != before


# Real slices, and the page


def test_networks_trained_on_ellipses_meet_real_slices(monkeypatch):
    """The numbers of docs/your-pairs.md, with the network off."""

    def refuse(*_):
        raise AssertionError("something wants to download")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    spec = importlib.util.spec_from_file_location("transfer", ROOT / "benchmarks/transfer.py")
    transfer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(transfer)
    printed = {}
    for label, n, *values in re.findall(r"^\| (\w+) \| (\d+|–) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|", PAGE, re.M):
        if label in ("FBP", "KO", "FC"):
            printed[label, 0 if n == "–" else int(n)] = [float(value) for value in values]
    found = transfer.errors()
    assert found.keys() == printed.keys()
    for key, (own, real) in found.items():
        assert [own, *real] == pytest.approx(printed[key], abs=0.01), key
    for n in transfer.N:
        assert all(np.less(found["KO", n][1], found["FC", n][1]))


def test_the_example_runs_to_the_end(checkout):
    """The page's own pairs and config, and a folder of slices beside them, through Snakemake."""
    run = checkout()
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
    run.path("make.py").write_text(code)
    subprocess.run([sys.executable, "make.py"], cwd=run.folder, check=True)
    overlay = yaml.safe_load((ROOT / "docs/your-pairs/config.yaml").read_text())
    patients(run.path("slices"))
    overlay["sweeps"]["ct"] = {
        **SWEEP,
        "data": "slices",
        "H": 8,
        "V": 6,
        "B": 8,
        "nonnegative": True,
        "archs": ["ko", "fc"],
        "seeds": [1],
        "targets": [0.01],
    }
    overlay["studies"]["own"].append("ct")
    overlay["sweeps"]["mine"] |= {"seeds": [1, 2], "N": [4, 32]}
    run.path("own.yaml").write_text(yaml.safe_dump(overlay))
    done = run.snakemake("--configfile", "own.yaml")
    assert "No curve of mine is predicted, for want of a pool: N counts groups" in done.stdout + done.stderr
    found = pd.read_parquet(run.path("results/cells.parquet"))
    assert found.groupby(["sweep", "arch"]).size().to_dict() == {("mine", "fc"): 4, ("ct", "ko"): 2, ("ct", "fc"): 2}
    curve = found.query("sweep == 'mine'").groupby("N")["mse"].mean()
    assert curve[32] < curve[4]
    assert set(found.query("sweep == 'ct'")["H"]) == {8}
    assert len(pd.read_parquet(run.path("results/untrained.parquet"))) == 1
    assert run.path("results/fig_recons_ct.png").stat().st_size > 500
    told = run.koct("budget", "results/cells.parquet", "--sweep", "mine", "--metric", "mse", "--target", "0.3")
    assert "0.3" in told.stdout
    assert run.plan("--configfile", "own.yaml") == {}
    with np.load(run.path("pairs.npz")) as content:
        changed = {**content, "y": content["y"] * 2}
    np.savez(run.path("pairs.npz"), **changed)
    plan = run.plan("results/curves.parquet", "--configfile", "own.yaml")
    assert sum(count for rule, count in plan.items() if rule.startswith("pool")) == 2
    np.savez(run.path("pairs.npz"), x=changed["x"][1:], y=changed["y"], patient=changed["patient"])
    done = run.snakemake("--configfile", "own.yaml", check=False)
    assert done.returncode == 1
    assert "config: sweeps.mine.y = 'y' in pairs.npz has 240 images and x = 'x' in pairs.npz 239" in done.stderr
