"""Phantoms and pools: the stated random stream, nested prefixes, checked pairs, files that hold all or nothing."""

import re
import textwrap
from dataclasses import asdict

import numpy as np
import pytest

from koct.base import stamps
from koct.contracts import Sizes, registry
from koct.errors import KoctError
from koct.operators.parallel import projector
from koct.problems import pools
from koct.problems.surrogate import Surrogate
from koct.study import cells

PROBLEM = Surrogate(H=8, V=10, B=8, tikhonov=0.1)
SIZES = Sizes(train=12, val=3, test=5)


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
    pool = pools.Pool(tmp_path / "pool.npy", PROBLEM)
    for part, count in asdict(SIZES).items():
        expected = np.stack([reference_phantom(rng, 8) for _ in range(count)])
        np.testing.assert_array_equal(pool.y(part), expected.reshape(count, -1))
        np.testing.assert_allclose(pool.x(part), projector(8, 10)(expected).reshape(count, -1), atol=1e-12)


def test_records_from_another_place_or_another_pool_are_refused(tmp_path):
    """The checksum of a pool once cancelled out its records: all pools of one shape had the same."""
    for name, seed in (("1", 1), ("again", 1), ("2", 2)):
        pools.make(PROBLEM, seed, SIZES, tmp_path / f"{name}.npy")
    contents = [stamps.read(tmp_path / f"{name}.npy").content for name in ("1", "again", "2")]
    assert contents[0] == contents[1] != contents[2]
    one, again, other = (np.load(tmp_path / f"{name}.npy", mmap_mode="r+") for name in ("1", "again", "2"))
    one[[3, 16]] = one[[16, 3]]
    again[3] = other[3]
    for path, part, wrong in (("1.npy", "train", 3), ("1.npy", "test", 1), ("again.npy", "train", 3)):
        with pytest.raises(KoctError, match=f"{path} is damaged: the checksum of its {part} pair {wrong} is wrong"):
            pools.Pool(tmp_path / path, PROBLEM).x(part)
    pools.Pool(tmp_path / "1.npy", PROBLEM).x("train", 3)  # what is in front of it is right


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

    def groups(self, seed, sizes):
        return {groups}

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
MIDDLE, END = "x[5:12], y[5:12]", '"test", x[15:], y[15:]'
ALIKE = "is the same; the parts must be disjoint"
BAD_PAIRS = {
    "too few train": (GOOD.replace(MIDDLE, "x[5:11], y[5:11]"), "pairs gave 11 train pairs and pool.train asks for 12"),
    "no test": (GOOD.replace('yield "test"', '0, "test"'), "pairs gave 0 test pairs and pool.test asks for 5"),
    "endless": ("while True:\n    yield 'train', x, y", "pairs gave 20 train pairs and pool.train asks for 12"),
    "shape of x": ("x = x[:, :1]" + GOOD, "x has shape (1,), and x_shape says (2,)"),
    "shape of y": ("y = y.reshape(20, 6)" + GOOD, "y has shape (6,), and y_shape says (3, 2)"),
    "NaN in x": ("x[11, 1] = np.nan" + GOOD, "x of train pair 11 (seed 4) is not finite"),
    "infinite y": ("y[4, 2, 0] = np.inf" + GOOD, "y of train pair 4 (seed 4) is not finite"),
    "masked y": ("y = np.ma.masked_less(y, 5)" + GOOD, "y has a mask, which would be lost; fill it"),
    "masked rows": ("y = list(np.ma.masked_less(y, 5))" + GOOD, "y has a mask, which would be lost; fill it"),
    "order": (GOOD + 'yield "train", x[:1], y[:1]', "pairs gave 'train' after 'test'; the parts are train, val, test"),
    "lengths": (GOOD.replace(MIDDLE, "x[5:12], y[5:11]"), "7 x and 6 y came together; give one y for every x"),
    "kinds of x": (GOOD.replace("x[5:12]", "x[5:12].astype(np.float32)"), "all must be of one kind"),
    "all zero x": ("x *= 0" + GOOD, "x of all train pairs is 0 everywhere; nothing can be learned from it"),
    "constant y": ("y[15:] = 7" + GOOD, "y of all test pairs is 7 everywhere; nothing can be learned from it"),
    "test on what was learned": ("x[16] = x[3]" + GOOD, f"x of train pair 3 and of test pair 1 {ALIKE}"),
}


GROUPS = {  # of the good pairs
    "too few groups": ([1] * 11, "groups gave 11 train groups and pool.train asks for 12"),
    "an empty group": ([*[1] * 11, 0], "groups gave a train group without pairs"),
    "a large group": ([*[1] * 11, 2], "pairs gave 12 train pairs and its groups have 13"),
}
BAD = [(statements, None, message) for statements, message in BAD_PAIRS.values()]
BAD += [(GOOD, {"train": groups, "val": [1] * 3, "test": [1] * 5}, message) for groups, message in GROUPS.values()]


@pytest.mark.parametrize(("statements", "groups", "message"), BAD, ids=[*BAD_PAIRS, *GROUPS])
def test_bad_pairs_are_one_sentence_with_file_and_line(tmp_path, statements, groups, message):
    file, out = tmp_path / "own.py", tmp_path / "pools" / "own.npy"
    file.write_text(OWN.format(pairs=textwrap.indent(statements, " " * 8), groups=groups))
    method = "def groups" if message.startswith("groups") else "def pairs"
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if method in text)
    with pytest.raises(KoctError, match="^" + re.escape(f"{file}, line {line}: ")) as caught:
        pools.make(registry.problem(str(file))(), 4, SIZES, out)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not out.parent.exists() or not list(out.parent.iterdir())  # not even half a pool
