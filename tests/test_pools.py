"""Phantoms and pools: the stated random stream, nested prefixes, checked pairs, files that hold all or nothing."""

import re
import textwrap

import numpy as np
import pytest

from koct.base import stamps
from koct.base.files import atomic_write
from koct.contracts import Sizes, registry
from koct.errors import KoctError
from koct.operators.parallel import projector
from koct.problems import pools
from koct.problems.phantoms import Ellipse, rasterise
from koct.problems.surrogate import Surrogate
from koct.study import cells

PROBLEM = Surrogate(H=8, V=10, B=8, tikhonov=0.1)
SIZES = Sizes(train=12, val=3, test=5)


def read(path, part, count=None):
    pool = pools.Pool(path, PROBLEM)
    return pool.x(part, count), pool.y(part, count)


def reference_phantom(rng, H):
    """The law written out once more, from the specification."""
    x, y = np.meshgrid(np.linspace(-1, 1, H), np.linspace(-1, 1, H))
    image = np.zeros((H, H))
    for _ in range(rng.integers(1, 5)):
        amplitude, (cx, cy) = rng.uniform(0.2, 1), rng.uniform(-0.5, 0.5, 2)
        (a, b), angle = rng.uniform(0.08, 0.4, 2), rng.uniform(0, np.pi)
        along = (x - cx) * np.cos(angle) + (y - cy) * np.sin(angle)
        across = (y - cy) * np.cos(angle) - (x - cx) * np.sin(angle)
        image[(along / a) ** 2 + (across / b) ** 2 <= 1] += amplitude
    return image.clip(0, 1.5)


def test_a_pool_is_one_random_stream_of_train_val_and_test(tmp_path):
    pools.make(PROBLEM, 3, SIZES, tmp_path / "pool.npy")
    rng = np.random.default_rng(3)
    for part, count in SIZES.values().items():
        x, y = read(tmp_path / "pool.npy", part)
        expected = np.stack([reference_phantom(rng, 8) for _ in range(count)])
        np.testing.assert_array_equal(y, expected.reshape(count, -1))
        np.testing.assert_allclose(x, projector(8, 10)(expected).reshape(count, -1), atol=1e-12)


def test_prefixes_are_nested(tmp_path):
    pools.make(PROBLEM, 1, SIZES, tmp_path / "pool.npy")
    all_x, all_y = read(tmp_path / "pool.npy", "train")
    for count in (1, 4, 12):
        x, y = read(tmp_path / "pool.npy", "train", count)
        np.testing.assert_array_equal(x, all_x[:count])
        np.testing.assert_array_equal(y, all_y[:count])


def test_more_pairs_than_there_are_is_an_error_with_its_fix(tmp_path):
    pools.make(PROBLEM, 1, SIZES, tmp_path / "pool.npy")
    with pytest.raises(KoctError, match="holds 12 train pairs and 13 were asked for: make the pool larger"):
        read(tmp_path / "pool.npy", "train", 13)


def test_an_ellipse_covers_its_area_and_brightness_is_clipped():
    one = Ellipse(amplitude=0.5, centre=(0.1, -0.2), axes=(0.6, 0.3), angle=0.7)
    image = rasterise([one], 801)
    assert image.sum() * (2 / 800) ** 2 == pytest.approx(0.5 * np.pi * 0.6 * 0.3, rel=1e-3)
    assert rasterise([one] * 4, 32).max() == 1.5


def test_x_runs_along_columns_and_y_along_rows():
    image = rasterise([Ellipse(1.0, centre=(0.5, -0.5), axes=(0.1, 0.1), angle=0.0)], 41)
    row, column = np.argwhere(image > 0).mean(axis=0)
    assert (row, column) == pytest.approx((10, 30), abs=0.5)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "row.json"
    path.write_text("old")

    def interrupted():
        with atomic_write(path) as temporary, open(temporary, "w") as file:
            file.write("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def swapped(path, first, second, other=None):
    """Swap two records of a pool as somebody does who leaves the rest alone; or take one from another pool."""
    records = np.load(path, mmap_mode="r+")
    source = np.load(other or path)
    records[first] = source[second]
    if other is None:
        records[second] = source[first]
    records.flush()


def test_pools_of_other_pairs_have_other_contents(tmp_path):
    """The checksum of a pool once cancelled out its records: all pools of one shape had the same."""
    for seed in (1, 2, 101):
        pools.make(PROBLEM, seed, SIZES, tmp_path / f"{seed}.npy")
    assert len({stamps.read(tmp_path / f"{seed}.npy").content for seed in (1, 2, 101)}) == 3


def test_records_from_another_place_or_another_pool_are_refused(tmp_path):
    for seed in (1, 2):
        pools.make(PROBLEM, seed, SIZES, tmp_path / f"{seed}.npy")
    pools.make(PROBLEM, 1, SIZES, tmp_path / "again.npy")
    swapped(tmp_path / "1.npy", 3, 16)
    swapped(tmp_path / "again.npy", 3, 3, tmp_path / "2.npy")
    for path, part, wrong in (("1.npy", "train", 3), ("1.npy", "test", 1), ("again.npy", "train", 3)):
        with pytest.raises(KoctError, match=f"{path} is damaged: the checksum of its {part} pair {wrong} is wrong"):
            read(tmp_path / path, part)
    read(tmp_path / "1.npy", "train", 3)  # what is in front of it is right


def test_a_gram_matrix_of_another_pool_is_refused(tmp_path):
    for seed in (1, 2):
        pools.make(PROBLEM, seed, SIZES, tmp_path / f"{seed}.npy")
        cells.write_gram(PROBLEM, tmp_path / f"{seed}.npy", tmp_path / f"gram{seed}.npy")
    pool = pools.Pool(tmp_path / "1.npy", PROBLEM)
    np.testing.assert_allclose(
        cells.read_matrix(tmp_path / "gram1.npy", PROBLEM, layers=False, pool=pool), pool.x("train") @ pool.x("train").T
    )
    with pytest.raises(KoctError, match=r"gram2\.npy was not made from .*1\.npy; give the one that was"):
        cells.read_matrix(tmp_path / "gram2.npy", PROBLEM, layers=False, pool=pool)


# Pairs of a user's own, which are checked

OWN = """
import numpy as np

from koct.contracts import Problem


class Own(Problem):
    x_shape = (2,)
    y_shape = (3, 2)

    def pairs(self, seed, sizes):
        x, y = np.arange(40.0).reshape(20, 2), np.arange(120.0).reshape(20, 3, 2)
{pairs}
"""
GOOD = """
yield "train", x[:5], y[:5]
yield "train", x[5:12], y[5:12]
yield "val", x[12:15], y[12:15]
yield "test", x[15:], y[15:]
"""
BAD_PAIRS = {
    "too few train": (
        GOOD.replace("x[5:12], y[5:12]", "x[5:11], y[5:11]"),
        "pairs gave 11 train pairs and pool.train asks for 12",
    ),
    "too many train": (
        GOOD.replace("x[5:12], y[5:12]", "x[5:13], y[5:13]"),
        "pairs gave 13 train pairs and pool.train asks for 12",
    ),
    "too few val": (
        GOOD.replace("x[12:15], y[12:15]", "x[12:14], y[12:14]"),
        "pairs gave 2 val pairs and pool.val asks for 3",
    ),
    "no val": (GOOD.replace('yield "val"', '0, "val"'), "pairs gave 0 val pairs and pool.val asks for 3"),
    "too few test": (
        GOOD.replace('"test", x[15:], y[15:]', '"test", x[16:], y[16:]'),
        "pairs gave 4 test pairs and pool.test asks for 5",
    ),
    "too many test": (
        GOOD.replace('"test", x[15:], y[15:]', '"test", x, y'),
        "pairs gave 20 test pairs and pool.test asks for 5",
    ),
    "no test": (GOOD.replace('yield "test"', '0, "test"'), "pairs gave 0 test pairs and pool.test asks for 5"),
    "endless": (  # which is noticed before the disk is full
        "for _ in range(1000):\n    yield 'train', x, y",
        "pairs gave 20 train pairs and pool.train asks for 12",
    ),
    "nothing": ("yield from ()", "pairs gave 0 train pairs and pool.train asks for 12"),
    "shape of x": ("x = x[:, :1]" + GOOD, "x has shape (1,), and x_shape says (2,)"),
    "shape of y": ("y = y.reshape(20, 6)" + GOOD, "y has shape (6,), and y_shape says (3, 2)"),
    "NaN in x": ("x[11, 1] = np.nan" + GOOD, "x of train pair 11 (seed 4) is not finite"),
    "infinite y": ("y[4, 2, 0] = np.inf" + GOOD, "y of train pair 4 (seed 4) is not finite"),
    "complex x": ("x = x + 1j" + GOOD, "x is complex; give real and imaginary part as two real channels"),
    "text as y": ("y = np.full((20, 3, 2), 'a')" + GOOD, "y has the type <U1; give real numbers"),
    "order": (
        GOOD + 'yield "train", x[:1], y[:1]',
        "pairs gave 'train' after 'test'; the parts are train, val, test, in this order",
    ),
    "val after test": (
        GOOD.replace("val", "?").replace("test", "val").replace("?", "test"),
        "pairs gave 0 val pairs and pool.val asks for 3",
    ),
    "unknown part": (
        GOOD.replace("val", "validation"),
        "pairs gave 'validation' after 'train'; the parts are train, val, test, in this order",
    ),
    "lengths": (
        GOOD.replace("x[5:12], y[5:12]", "x[5:12], y[5:11]"),
        "7 x and 6 y came together; give one y for every x",
    ),
    "kinds of x": (GOOD.replace("x[5:12]", "x[5:12].astype(np.float32)"), "all must be of one kind"),
    "all zero x": ("x *= 0" + GOOD, "x of all train pairs is 0 everywhere; nothing can be learned from it"),
    "constant y": ("y[15:] = 7" + GOOD, "y of all test pairs is 7 everywhere; nothing can be learned from it"),
    "test on what was learned": (
        "x[16] = x[3]" + GOOD,
        "x of train pair 3 and of test pair 1 is the same; the parts must be disjoint",
    ),
    "validate on the test": (
        "x[14] = x[15]" + GOOD,
        "x of val pair 2 and of test pair 0 is the same; the parts must be disjoint",
    ),
    "kinds of y": (
        GOOD.replace('"test", x[15:], y[15:]', '"test", x[15:], y[15:].astype(np.float32)'),
        "all must be of one kind",
    ),
}


def make_own(tmp_path, statements):
    """Make a pool of a problem with these statements in `pairs`; gives the file, the line of `pairs`, the pool."""
    file, out = tmp_path / "own.py", tmp_path / "pools" / "own.npy"
    file.write_text(OWN.format(pairs=textwrap.indent(statements, " " * 8)))
    problem = registry.problem(str(file))()
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if "def pairs" in text)
    return problem, f"{file}, line {line}: ", out


def test_good_pairs_of_a_users_own_make_a_pool(tmp_path):
    problem, _, out = make_own(tmp_path, GOOD)
    pools.make(problem, 4, SIZES, out)
    pool = pools.Pool(out, problem)
    assert pool.count == SIZES.values()
    assert pool.x("train").shape == (12, 2)
    assert pool.y("test").shape == (5, 6)


@pytest.mark.parametrize(("statements", "message"), BAD_PAIRS.values(), ids=BAD_PAIRS)
def test_bad_pairs_are_one_sentence_with_file_and_line(tmp_path, statements, message):
    problem, where, out = make_own(tmp_path, statements)
    with pytest.raises(KoctError, match="^" + re.escape(where)) as caught:
        pools.make(problem, 4, SIZES, out)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not out.parent.exists() or not list(out.parent.iterdir())  # not even half a pool
