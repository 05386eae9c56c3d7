"""Intervals over seeds and test images: their coverage, and cases with a known answer."""

import numpy as np
import pytest

from koct.forecast import bootstrap
from koct.forecast.crossing import overtaken

pytestmark = pytest.mark.thorough


def simulated(rng, size, effects):
    """Errors with a mean of one; effects: the standard deviations, in logarithms, of seeds, images and both."""
    shapes = (size[0], 1), size[1], size
    logs = sum(effect * rng.standard_normal(shape) for effect, shape in zip(effects, shapes, strict=True))
    return np.exp(logs - np.square(effects).sum() / 2)


@pytest.fixture(params=[(3, 50), (5, 128)], ids=str)
def size(request, monkeypatch):
    """(seeds, images), with weights that are drawn once."""
    weights = bootstrap.resample(*request.param, draws=1000)
    monkeypatch.setattr(bootstrap, "resample", lambda *_: weights)
    return request.param


@pytest.mark.parametrize("effects", [(0.3, 0.05, 0.05), (0.02, 0.4, 0.1)], ids=["seeds", "images"])
def test_90_per_cent_intervals_cover_the_truth_as_often(size, effects):
    rng, runs = np.random.default_rng(2), 400
    intervals = [bootstrap.mean_interval(simulated(rng, size, effects)) for _ in range(runs)]
    assert 0.85 <= sum(low <= 1 <= high for low, high in intervals) / runs <= 0.95


def test_intervals_of_ratios_are_paired_and_cover(size):
    """Two networks on the same images, which differ far more than the networks do."""
    rng, runs = np.random.default_rng(3), 400
    hits = narrow = 0
    for _ in range(runs):
        shared = np.exp(0.5 * rng.standard_normal(size[1]))
        errors, others = (shared * simulated(rng, size, (0.05, 0.02, 0.05)) for _ in range(2))
        low, high = bootstrap.ratio_interval(errors, others)
        hits += low <= 1 <= high
        narrow += high / low < 1.5
    assert 0.85 <= hits / runs <= 0.95
    assert narrow > 0.8 * runs


def test_seeds_alone_have_students_interval():
    """Where each seed has images of its own, there is one mean for each."""
    errors = np.array([[0.9], [1.0], [1.1]])
    low, high = bootstrap.mean_interval(errors)
    half = 2.919986 * 0.1 / 3**0.5
    assert (low, high) == pytest.approx((1 - half, 1 + half), rel=0.02)
    squared = bootstrap.mean_interval(errors, power=2)
    assert squared == pytest.approx((low**2, high**2))


def test_images_of_a_group_are_drawn_together():
    """Ten groups of equal images hold ten images, not a hundred."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(10), 10)
    errors = np.tile(rng.random(10)[groups], (3, 1))
    apart, together = bootstrap.mean_interval(errors), bootstrap.mean_interval(errors, groups)
    assert (together[1] - together[0]) / (apart[1] - apart[0]) == pytest.approx(10**0.5, rel=0.15)
    weights = bootstrap.resample(3, 100, groups, draws=50)
    assert np.ptp(weights.images.reshape(50, 10, 10), axis=2).max() == 0
    np.testing.assert_allclose(weights.images.sum(axis=1), 1)
    np.testing.assert_allclose(weights.seeds.sum(axis=1), 1)


def test_one_seed_says_nothing_of_others():
    errors = np.random.default_rng(6).random((1, 50))
    assert bootstrap.mean_interval(errors) is None
    assert bootstrap.ratio_interval(errors, errors) is None
    assert bootstrap.crossing_interval([4, 8], [errors, errors], [errors, errors]) is None


# Crossings

N = [4, 16, 64, 256, 1024]
FALLING = (4.0, 2.0, 1.0, 0.4, 0.2)


def curve(means, rng):
    return [mean * (1 + 0.02 * rng.standard_normal((3, 1)) + 0.02 * rng.standard_normal((3, 60))) for mean in means]


def test_the_interval_of_a_crossing_is_around_it():
    rng = np.random.default_rng(8)
    errors, others = curve((0.5,) * 5, rng), curve(FALLING, rng)
    crossing = overtaken(N, [values.mean() for values in errors], [values.mean() for values in others])
    low, high = bootstrap.crossing_interval(N, errors, others)
    assert 128 < low < crossing < high < 256
    constant = bootstrap.crossing_interval(N, errors[:1] * len(N), others)
    assert constant[0] < crossing < constant[1]


def test_draws_without_a_crossing_leave_no_upper_end():
    rng = np.random.default_rng(9)
    others = curve(FALLING, rng)
    low, high = bootstrap.crossing_interval(N, curve((0.2,) * 5, rng), others)
    assert low is None or low > 900
    assert high is None
    assert bootstrap.crossing_interval(N, curve((0.1,) * 5, rng), others) == (None, None)
    assert bootstrap.crossing_interval(N, curve((9,) * 5, rng), others) == pytest.approx((4, 4))
    with pytest.raises(ValueError, match="shorter"):
        bootstrap.crossing_interval(N, others[:2], others)


def test_no_curve_comes_below_an_error_of_zero():
    N, falling = [4, 16, 64], [np.full((3, 5), 0.1**k) for k in range(3)]
    exact = [np.zeros((3, 5))] * 3
    assert bootstrap.crossing_interval(N, exact, falling) == (None, None)
    assert bootstrap.crossing_interval(N, falling, exact) == (4, 4)
