"""Pairs from files: what is read of arrays, what is refused of them, and docs/your-pairs.md, run."""

import importlib.util
import re
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from pair_files import PAIRS, SIZES, SWEEP, arrays, patients, said

from koct.contracts import Sizes
from koct.errors import KoctError
from koct.problems import pools

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
        ({"x": "cut.npy", "y": "x.npy"}, "x = 'cut.npy' is not a complete NumPy file"),
        ({"data": "nowhere"}, "data = 'nowhere' is no folder (of images), and no .npz"),
        ({"data": "text.npz"}, "data = 'text.npz' is not a complete .npz archive"),
        ({"data": "cut.h5"}, "data = 'cut.h5' is not a complete HDF5 file"),
        ({"data": "d.npz", "x": "sino"}, "x = 'sino' is not an array of d.npz, which has 'x', 'y', 'group', "),
        ({"data": "d.npz", "y": "short"}, f"y = 'short' in d.npz has {n - 1} images and x = 'x' in d.npz {n} meas"),
        ({"data": "d.npz", "x": "flat"}, f"x = 'flat' in d.npz has the shape ({n},); give (pairs, ...)"),
        ({"data": "ragged.npz"}, "x = 'x' in ragged.npz has the type object; give real numbers, all pairs of one"),
        ({"data": "c.npz"}, "x = 'x' in c.npz is complex; give real and imaginary part"),
        ({"data": "d.npz", "group": "x"}, f"group = 'x' in d.npz has the type float64 and the shape ({n}, 5); give"),
        ({"data": "few.npz", "group": "group"}, "pool asks for 6 + 2 + 3 = 11 groups, and there are 7; lower pool"),
        ({"data": "few.npz", "pool": {"train": 6, "val": 8, "test": 3}}, "6 + 8 + 3 = 17 pairs, and there are 13"),
        ({"data": "one.npz", "group": "group"}, "group: all pairs are of 0, and training, validation and test need"),
        ({"data": "d.npz", "H": 8}, "H = 8 is for a folder of images, and data is none; remove H"),
    ]
    for changes, message in cases:
        text = said(**changes)
        assert text.startswith("config: sweeps.mine."), text
        assert message in text
    assert "ko: the problem pairs has no known layers" in said(data="d.npz", archs=["ko"])


def test_a_measurement_in_two_parts_is_named_as_it_is_in_the_file(folder):
    content = arrays()
    content["x"][9] = content["x"][20]
    np.savez("d.npz", **content)
    sizes, told = Sizes(train=len(content["x"]) - 4, val=2, test=2), []
    for split in range(9):
        try:
            list(PAIRS(data="d.npz", split=split).pairs(1, sizes))
        except KoctError as error:
            told.append(str(error))
    same = r"x = 'x' in d\.npz: pairs 9 and 20, counted from 0, are the same, and they came into \w+ and \w+; .*"
    assert told
    assert all(re.fullmatch(same, text) for text in told)


def test_an_array_that_lies_in_another_file_is_refused(folder):
    """Its changes would not be seen, and HDF5 reads zeros where the other file is missing."""
    content = arrays()
    with h5py.File("far.h5", "w") as file:
        file["x"] = content["x"]
    layout = h5py.VirtualLayout(content["x"].shape, "f8")
    layout[:] = h5py.VirtualSource("far.h5", "x", content["x"].shape)
    with h5py.File("d.h5", "w") as file:
        file["y"], file["link"] = content["y"], h5py.ExternalLink("far.h5", "x")
        file.create_virtual_dataset("virtual", layout)
    for name in ("link", "virtual"):
        assert f"x = '{name}' in d.h5 lies in another file" in said(data="d.h5", x=name)


def test_what_headers_do_not_tell_ends_the_pool_with_the_place_in_the_file(folder):
    content = arrays()
    content["y"][4, 1, 1] = np.nan
    np.savez("d.npz", **content)
    message = "^y = 'y' in d.npz: pair 4, counted from 0, is not finite; correct it or leave it out"
    with pytest.raises(KoctError, match=message):
        list(PAIRS(data="d.npz").pairs(1, Sizes(train=len(content["x"]) - 4, val=2, test=2)))


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
