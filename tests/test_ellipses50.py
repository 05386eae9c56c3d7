"""The problem of 50 ellipses: its images, its noise, and who made the data."""

import numpy as np
import pytest

from koct.contracts import Sizes
from koct.contracts.registry import problem
from koct.problems import ellipses50

SIZES = Sizes(train=3, val=2, test=6)


@pytest.fixture(scope="module")
def small():
    return problem("ellipses50")(H=32, V=8, B=47)


def parts(made, seed=1):
    chunks = list(made.pairs(seed, SIZES))
    return {part: tuple(np.concatenate([c[i] for c in chunks if c[0] == part]) for i in (1, 2)) for part, *_ in chunks}


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KOCT_DEVICE", "cpu")
        yield


def test_images_fill_the_unit_interval_and_only_training_pairs_depend_on_the_seed(small):
    first, second = parts(small), parts(small, 2)
    x, y = first["test"]
    assert (x.shape, y.shape) == ((6, 8, 47), (6, 32, 32))
    assert (y.min(axis=(1, 2)), y.max(axis=(1, 2))) == (pytest.approx(0), pytest.approx(1))
    np.testing.assert_array_equal(x, second["test"][0])
    assert not np.array_equal(first["train"][0], second["train"][0])
    np.testing.assert_array_equal(first["train"][0], parts(small)["train"][0])


def test_noise_is_a_share_of_the_mean_measurement_and_the_data_come_from_finer_pixels(small):
    x, y = parts(small)["test"]
    clean = parts(problem("ellipses50")(H=32, V=8, B=47, noise=0))["test"][0]
    share = (x - clean).std(axis=(1, 2)) / clean.mean(axis=(1, 2))
    assert share == pytest.approx(0.05, rel=0.12)  # of 376 measurements
    again = small.forward({})(y)
    difference = np.abs(again - clean).mean() / clean.mean()
    assert 1e-3 < difference < 0.03  # nearly the same, and not the same


def test_ellipses_are_drawn_as_the_literature_draws_them():
    drawn = np.concatenate([ellipses50.ellipses(7, number) for number in range(200)], axis=1)
    values, centres, axes, angles = drawn[0], drawn[1:3], drawn[3:5], drawn[5]
    assert values.shape == (200 * 50,)
    assert np.abs(values).mean() == pytest.approx(0.25 * 0.4, rel=0.03)
    assert values.mean() == pytest.approx(0, abs=0.005)
    assert axes.mean() == pytest.approx(0.2, rel=0.03)
    assert np.abs(centres).max() <= 1
    assert centres.std() == pytest.approx(1 / np.sqrt(3), rel=0.02)
    assert angles.std() == pytest.approx(2 * np.pi / np.sqrt(12), rel=0.02)
