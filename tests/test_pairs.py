"""Pairs from files: what is read of arrays, what is refused of them, and docs/your-pairs.md, run."""

import importlib.util
import io
import os
import re
import socket
import subprocess
import sys
import zipfile
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from pair_files import PAIRS, SIZES, SWEEP, arrays, patients, said

from koct.contracts import Sizes
from koct.errors import KoctError
from koct.problems import arrayfiles, pools

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'koct[files]'")

PAGE = (ROOT / "docs/your-pairs.md").read_text()


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
    assert one.count == asdict(SIZES)
    assert one.groups is None
    for part in ("val", "test"):
        np.testing.assert_array_equal(one.x(part), two.x(part))
    assert not np.array_equal(one.x("train"), two.x("train"))


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
        ({"x": "nowhere.npy", "y": "x.npy"}, "x = 'nowhere.npy' cannot be read: No such file or directory"),
        ({"x": "cut.npy", "y": "x.npy"}, "x = 'cut.npy' is not a complete NumPy file"),
        ({"data": "nowhere"}, "data = 'nowhere' is no folder (of DICOM slices), and no .npz"),
        ({"data": "text.npz"}, "data = 'text.npz' is not a complete .npz archive"),
        ({"data": "cut.h5"}, "data = 'cut.h5' is not a complete HDF5 file"),
        ({"data": "d.npz", "x": "sino"}, "x = 'sino' is not an array of d.npz, which has 'x', 'y', 'group', "),
        ({"data": "d.npz", "y": "short"}, f"y = 'short' in d.npz has {n - 1} images and x = 'x' in d.npz {n} meas"),
        ({"data": "d.npz", "x": "flat"}, f"x = 'flat' in d.npz has the shape ({n},); give (pairs, ...)"),
        ({"data": "d.npz", "x": "words"}, "x = 'words' in d.npz has the type <U1; give real numbers"),
        ({"data": "ragged.npz"}, "x = 'x' in ragged.npz has the type object; give real numbers, all pairs of one"),
        ({"data": "c.npz"}, "x = 'x' in c.npz is complex; give real and imaginary part"),
        ({"data": "d.npz", "group": "x"}, f"group = 'x' in d.npz has the type float64 and the shape ({n}, 5); give"),
        ({"data": "few.npz", "group": "group.npy"}, "group = 'group.npy' cannot be read"),
        ({"data": "few.npz", "group": "group"}, "pool asks for 6 + 2 + 3 = 11 groups, and there are 7; lower pool"),
        ({"data": "few.npz", "pool": {"train": 6, "val": 8, "test": 3}}, "6 + 8 + 3 = 17 pairs, and there are 13"),
        ({"data": "one.npz", "group": "group"}, "group: all pairs are of 0, and training, validation and test need"),
        ({"data": "d.npz", "known": "printed"}, "known = 'printed' is for a folder of DICOM slices, and data is none"),
        ({"data": "d.npz", "H": 8}, "H = 8 is for a folder of DICOM slices, and data is none; remove H"),
    ]
    for changes, message in cases:
        text = said(**changes)
        assert text.startswith("config: sweeps.mine."), text
        assert message in text
    assert "ko: the problem pairs has no known layers" in said(data="d.npz", archs=["ko"])


def test_groups_that_do_not_fit_are_one_sentence(folder):
    content = arrays()
    n = len(content["x"])
    one = np.full(n, "a")
    cases = [
        (one.astype(object), f"has the type object and the shape ({n},); give one whole number or text for each"),
        (np.where(np.arange(n) == 3, "", one), "is empty at pair 3, counted from 0; give every pair a group"),
        (np.full(n, "z" * 9999), f"all pairs are of {'z' * 60}…, and training, validation and test need"),
        (np.full(n, "a\nb\x1b[1m"), r"all pairs are of a\nb\x1b[1m, and training"),
        (np.full(n, "Zoë"), "all pairs are of Zoë, and training"),
        (one[1:], f"has {n - 1} entries for {n} pairs; give one for every pair"),
    ]
    for group, message in cases:
        np.savez("d.npz", **{**content, "group": group})
        np.save("g.npy", group)
        assert message in said(data="d.npz", group="group")
        assert message in said(data="d.npz", group="g.npy")


@pytest.mark.parametrize(("ending", "pair"), [(".npz", {}), (".h5", {}), (".npy", {"y": "y.npy"})])
def test_files_that_cannot_be_opened_are_one_sentence(folder, monkeypatch, ending, pair):
    np.save("y.npy", arrays()["y"])
    (folder / f"loop{ending}").symlink_to(f"loop{ending}")
    os.mkfifo(f"pipe{ending}")
    key = "x" if pair else "data"
    for name, message in {
        "loop": "cannot be read: Too many levels of symbolic links; correct the path",
        "pipe": "is a pipe or a device; give a file",
        "a" * 300: "cannot be read: File name too long; correct the path",
        "nul\0": "cannot be read: embedded null byte; correct the path",
    }.items():
        assert f"{key} = {name + ending!r} {message}" in said(**pair, **{key: name + ending})
    (folder / f"shut{ending}").write_bytes(b"")
    monkeypatch.setattr("builtins.open", shut(f"shut{ending}"))
    message = f"{key} = 'shut{ending}' cannot be read: Permission denied; allow it (chmod +r)"
    assert message in said(**pair, **{key: f"shut{ending}"})


def shut(path, real=open):
    """`open` as somebody who may not read a file finds it."""

    def refuse(name, *others, **named):
        if name == path:
            raise PermissionError(13, "Permission denied", path)
        return real(name, *others, **named)

    return refuse


def test_arrays_that_lie_in_other_files_are_watched_and_refused_where_one_is_missing(folder):
    """HDF5 reads zeros for a virtual dataset whose source is missing."""
    content = arrays()
    os.mkdir("far")
    for name in ("x", "y"):
        with h5py.File(f"far/{name}.h5", "w") as file:
            file["deep/a"] = content[name]
    layout = h5py.VirtualLayout(content["x"].shape, content["x"].dtype)
    layout[:] = h5py.VirtualSource("far/x.h5", "deep/a", content["x"].shape)
    with h5py.File("between.h5", "w") as file:
        file["y"] = h5py.ExternalLink("far/y.h5", "deep")
    with h5py.File("d.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
        file["soft"] = h5py.SoftLink("/virtual")
        file["link"] = h5py.ExternalLink("between.h5", "y")
        file.create_dataset("raw", content["x"].shape, "f8", external=[("raw.bin", 0, h5py.h5f.UNLIMITED)])[:] = 1
    problem = PAIRS(data="d.h5", x="soft", y="link/a")
    assert problem.files() == ["d.h5", "far/x.h5", "far/y.h5"]
    assert not list(problem.check((1,), SIZES))
    assert PAIRS(data="d.h5", x="raw", y="link/a").files() == ["d.h5", "raw.bin", "far/y.h5"]
    with h5py.File("far/x.h5", "a") as file:
        file.move("deep/a", "deep/b")
    assert "far/x.h5 has no array 'deep/a', which a virtual dataset" in said(data="d.h5", x="virtual", y="link/a")
    os.remove("far/x.h5")
    told = "x = 'virtual' in d.h5 lies in far/x.h5, which does not exist; put it there, or correct the link"
    assert told in said(data="d.h5", x="virtual", y="link/a")


def test_odd_arrays_of_a_file_are_one_sentence(folder):
    content = arrays()
    n = len(content["x"])
    with h5py.File("d.h5", "w") as file:
        file["x"], file["y"] = content["x"], content["y"]
        file["empty"] = h5py.Empty("f4")
        file.create_dataset("ragged", (n,), dtype=h5py.vlen_dtype("i4"))
        file.create_dataset("foreign", (n, 5), "f4", chunks=(n, 5), compression=32015, allow_unknown_filter=True)
    assert "x = 'empty' in d.h5 has the shape (); give (pairs, ...)" in said(data="d.h5", x="empty")
    assert "x = 'foreign' in d.h5 is compressed by filter 32015, which h5py lacks" in said(data="d.h5", x="foreign")
    assert f"group = 'ragged' in d.h5 has the type object and the shape ({n},)" in said(data="d.h5", group="ragged")
    whole = io.BytesIO()
    np.save(whole, content["x"])
    with zipfile.ZipFile("cut.npz", "w") as archive:
        archive.writestr("x.npy", whole.getvalue()[:-8])
    assert "data = 'cut.npz' is not a complete .npz archive; write it again" in said(data="cut.npz")
    np.save("objects.npy", np.array([[1, "a"]] * n, object))
    np.save("y.npy", content["y"])
    assert "x = 'objects.npy' has the type object; give real numbers" in said(x="objects.npy", y="y.npy")
    (folder / "d.mat").write_bytes(b"")
    assert "no .npz, .h5 or .hdf5 file; write the pairs into one of these" in said(data="d.mat")
    np.savez("{seed}.npz", **content)
    assert "pairs reads '{seed}.npz', and Snakemake takes { } for wildcards; rename it" in said(data="{seed}.npz")


def test_a_measurement_in_two_parts_is_named_as_it_is_in_the_file(folder):
    content = arrays()
    content["x"][9] = content["x"][20]
    np.savez("D.NPZ.npz", **content)
    (folder / "D.NPZ.npz").rename("D.NPZ")  # an ending in capitals is one too
    sizes = Sizes(train=len(content["x"]) - 4, val=2, test=2)
    problems = (PAIRS(data="D.NPZ", split=split) for split in range(99))
    problem = next(problem for problem in problems if divides(problem, sizes, 9, 20))
    message = r"^x = 'x' in D\.NPZ: pairs 9 and 20, counted from 0, are the same, and they came into \w+ and \w+; "
    with pytest.raises(KoctError, match=message):
        list(problem.pairs(1, sizes))


def divides(problem, sizes, one, other):
    """Whether two pairs come into different parts."""
    found = problem._drawn(1, sizes)
    return len({part for part, places in found.items() for place in places if set(place) & {one, other}}) == 2


def test_what_headers_do_not_tell_ends_the_pool_with_the_place_in_the_file(folder):
    content = arrays()
    content["y"][4, 1, 1] = np.nan
    np.savez("d.npz", **content)
    message = "^y = 'y' in d.npz: pair 4, counted from 0, is not finite; correct it or leave it out"
    with pytest.raises(KoctError, match=message):
        list(PAIRS(data="d.npz").pairs(1, Sizes(train=len(content["x"]) - 4, val=2, test=2)))


def test_a_package_that_is_missing_is_named_with_its_extra(folder, monkeypatch):
    np.savez("d.npz", **arrays())
    (folder / "d.h5").write_bytes(b"")
    patients(folder / "ct", 3)
    monkeypatch.setattr(arrayfiles, "find_spec", lambda name: None)
    text = "needs {}, which is not installed; install it (pip install 'koct[files]')"
    assert "data = 'd.h5' " + text.format("h5py") in said(data="d.h5")
    assert "data = 'ct' " + text.format("pydicom") in said(data="ct", H=8, V=6, B=8)
    assert not list(PAIRS(data="d.npz").check((1,), SIZES))  # NumPy needs neither


def test_networks_trained_on_ellipses_meet_real_slices(monkeypatch):
    """The numbers of docs/your-pairs.md, with the network off."""

    def refuse(*_):
        raise AssertionError("something wants to download")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("KOCT_DEVICE", "cpu")
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


@pytest.mark.slow
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
    assert run.path("results/fig_recons_ct.png").stat().st_size > 500
    assert run.plan("--configfile", "own.yaml") == {}
    with np.load(run.path("pairs.npz")) as content:
        changed = {**content, "y": content["y"] * 2}
    np.savez(run.path("pairs.npz"), **changed)
    plan = run.plan("results/curves.parquet", "--configfile", "own.yaml")
    assert sum(count for rule, count in plan.items() if rule.startswith("pool")) == 2
