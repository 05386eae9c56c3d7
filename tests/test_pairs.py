"""Pairs from files: what is read of arrays and refused of them, their groups, and docs/your-pairs.md, run."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from pair_files import PAIRS, SIZES, SWEEP, arrays, patients, said

from koct.config import study_file as config
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.problems import pools
from koct.study import cells, fitting

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'koct[files]'")

PAGE = (ROOT / "docs/your-pairs.md").read_text()


def places(x, content):
    """Where these measurements lie in the arrays."""
    number = {row.tobytes(): i for i, row in enumerate(content["x"])}
    return [number[row.tobytes()] for row in x]


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
        found.append([np.concatenate([read(part) for part in pools.PARTS]) for read in (pool.x, pool.y)])
    for x, y in found:
        np.testing.assert_array_equal(x, found[0][0])
        np.testing.assert_array_equal(y, content["y"][places(x, content)].reshape(len(x), -1))


def test_arrays_that_do_not_fit_are_one_sentence(folder):
    content = arrays()
    np.savez("d.npz", **content, short=content["y"][1:], flat=content["x"][:, 0])
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
        ({"data": "d.npz", "archs": ["ko"]}, "ko: the problem pairs has no known layers to learn with"),
        ({"data": "d.npz", "H": 8}, "H = 8 is for a folder of images, and data is none; remove H"),
    ]
    layers, forward = "layers to reconstruct with", "forward operator"
    for arch, what in (("untrained", layers), ("fbp", layers), ("nnls", forward), ("tv", forward)):
        cases.append(({"data": "d.npz", "archs": ["fc", arch]}, f"has no known {what}; remove {arch} from archs"))
    for changes, message in cases:
        text = said(**changes)
        assert text.startswith("config: sweeps.mine."), text
        assert message in text


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
    sizes = Sizes(train=len(arrays()["x"]) - 4, val=2, test=2)
    for name, place, value, message in (
        ("y", (4, 1, 1), np.nan, "y = 'y' in d.npz: pair 4, counted from 0, is not finite; correct it or leave it out"),
        ("x", 9, arrays()["x"][20], "x = 'x' in d.npz: pairs 9 and 20, counted from 0, are the same, and they came"),
    ):
        content, told = arrays(), set()
        content[name][place] = value
        np.savez("d.npz", **content)
        for split in range(9):  # which may leave equal pairs in one part
            try:
                list(PAIRS(data="d.npz", split=split).pairs(1, sizes))
            except KoctError as error:
                told.add(str(error)[: len(message)])
        assert told == {message}


# Groups


def parts_by_group(problem, seed, sizes, content):
    found = {part: [] for part in pools.PARTS}
    for part, x, _ in problem.pairs(seed, sizes):
        found[part] += content["group"][places(x, content)].tolist()
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
    np.savez("d.npz", **arrays())
    problem = PAIRS(data="d.npz", group="group")
    pools.make(problem, 3, SIZES, "pool.npy")
    pool = pools.Pool("pool.npy", problem, 3)
    assert pool.groups == problem.groups(3, SIZES)
    for N in (1, 4, 6):
        data = cells.Data(Cell("mine", problem, registry.architecture("fc")(), N, 3, (1.0,)), {"pool": "pool.npy"})
        assert data.N == len(data.x) == sum(pool.groups["train"][:N])
    _, network = fitting.fit(data)
    assert data.predict(network, "test").shape == (sum(pool.groups["test"]), 6)
    with pytest.raises(KoctError, match="holds 6 train groups and 7 were asked for: make the pool larger"):
        pool.pairs_of("train", 7)
    arch = registry.architecture("semi-supervised")(more_scans=2)
    mixed = cells.Data(Cell("mine", problem, arch, 3, 3, ()), {"pool": "pool.npy"})
    first, end = (sum(pool.groups["train"][:N]) for N in (3, 5))
    np.testing.assert_array_equal(mixed.more_scans, pool.x("train")[first:end])


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
    assert plain.workload(plain.archs[0], 6).sizes is plain.pool
    assert plain.predicted


# The page


@pytest.mark.long
def test_the_example_runs_to_the_end(checkout):
    """The page's own pairs and config, and a folder of slices beside them, through Snakemake."""
    run = checkout()
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
    run.path("make.py").write_text(code)
    subprocess.run([sys.executable, "make.py"], cwd=run.folder, check=True)
    overlay = yaml.safe_load((ROOT / "docs/your-pairs/config.yaml").read_text())
    patients(run.path("slices"))
    ct = {"data": "slices", "H": 8, "V": 6, "B": 8, "nonnegative": True, "archs": ["ko", "fc"], "seeds": [1]}
    overlay["sweeps"]["ct"] = {**SWEEP, **ct, "targets": [0.01]}
    overlay["studies"]["own"].append("ct")
    overlay["sweeps"]["mine"] |= {"seeds": [1, 2], "N": [4, 32]}
    run.path("own.yaml").write_text(yaml.safe_dump(overlay))
    done = run.snakemake("--configfile", "own.yaml")
    assert "Curves of mine are not predicted before their fits: N counts groups" in done.stdout + done.stderr
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
