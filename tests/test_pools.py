"""Phantoms and pools: the stated random stream, nested prefixes, files that hold all or nothing."""

import numpy as np
import pytest

from koct.errors import KoctError
from koct.files import whole
from koct.operators.parallel import projector
from koct.problems import pools
from koct.problems.phantoms import Ellipse, rasterise

SPEC = {"problem": "surrogate", "H": 8, "V": 10, "B": 8, "pool": {"train": 12, "val": 3, "test": 5}}


def read(path, part, count=None):
    pool = pools.Pool(path)
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
    pools.make(SPEC, 3, tmp_path / "pool.npy")
    rng = np.random.default_rng(3)
    for part, count in SPEC["pool"].items():
        x, y = read(tmp_path / "pool.npy", part)
        expected = np.stack([reference_phantom(rng, 8) for _ in range(count)])
        np.testing.assert_array_equal(y, expected.reshape(count, -1))
        np.testing.assert_allclose(x, projector(8, 10)(expected).reshape(count, -1), atol=1e-12)


def test_prefixes_are_nested(tmp_path):
    pools.make(SPEC, 1, tmp_path / "pool.npy")
    all_x, all_y = read(tmp_path / "pool.npy", "train")
    for count in (1, 4, 12):
        x, y = read(tmp_path / "pool.npy", "train", count)
        np.testing.assert_array_equal(x, all_x[:count])
        np.testing.assert_array_equal(y, all_y[:count])


def test_more_pairs_than_there_are_is_an_error_with_its_mend(tmp_path):
    pools.make(SPEC, 1, tmp_path / "pool.npy")
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
        with whole(path) as aside, open(aside, "w") as file:
            file.write("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
