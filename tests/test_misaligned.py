"""The scanner that is not the known one: aligned it is the fan beam, and every option moves rays as it says."""

import numpy as np
import pytest

from koct.contracts import Sizes
from koct.contracts.registry import problem

SCAN = {"H": 24, "V": 30, "B": 40}
SIZES = Sizes(train=48, val=1, test=1)


def pairs(own):
    chunks = [(x, own.decode(y)) for part, x, y in own.pairs(1, SIZES) if part == "train"]
    return tuple(np.concatenate(arrays) for arrays in zip(*chunks, strict=True))


@pytest.fixture(scope="module")
def aligned():
    return pairs(problem("misaligned")(**SCAN))


def test_without_options_it_is_the_fan_beam(aligned):
    x, y = pairs(problem("fanbeam")(rays="analytic", **SCAN))
    np.testing.assert_allclose(aligned[0], x, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(aligned[1], y)


@pytest.mark.parametrize(
    ("options", "angle", "distance"),
    [
        ({"turn": 2.0}, np.deg2rad(2.0), 0.0),
        ({"offset_mm": 1.5}, np.arctan(1.5 / 1500), 1000 * np.sin(np.arctan(1.5 / 1500))),
        ({"spacing": 10.0}, np.pi / 10, 0.0),
    ],
)
def test_the_middle_ray_of_the_last_view_goes_where_it_says(options, angle, distance):
    """With an odd number of bins the middle one lies on the axis."""
    scan = {**SCAN, "B": 41}
    known, true = problem("misaligned")(**scan).lines(), problem("misaligned")(**scan, **options).lines()
    assert true[0][-1, 20] - known[0][-1, 20] == pytest.approx(angle, rel=1e-9)
    assert true[1][20] - known[1][20] == pytest.approx(distance, rel=1e-9, abs=1e-12)


def test_gain_hardening_and_jitter(aligned):
    x, _ = pairs(problem("misaligned")(**SCAN, gain=50.0))
    np.testing.assert_allclose(x, 1.5 * aligned[0], rtol=1e-6)
    x, _ = pairs(problem("misaligned")(**SCAN, hardening=20.0))
    width = 40 * 1000 / 1500
    np.testing.assert_allclose(x, aligned[0] * (1 - 0.2 * aligned[0] / width), rtol=1e-5, atol=1e-6)
    shaken = [problem("misaligned")(**SCAN, jitter=jitter).lines()[0][:, 0] for jitter in (0.0, 1.0, 2.0)]
    errors = np.rad2deg(shaken[1] - shaken[0])
    assert 0.5 < errors.std() < 1.5
    np.testing.assert_allclose(shaken[2] - shaken[0], 2 * (shaken[1] - shaken[0]), rtol=1e-9)


# Radial MRI and deblurring

RADIAL = {"H": 16, "spokes": 6, "samples": 32}


def test_a_readout_that_is_two_samples_late_gives_the_samples_two_farther_on():
    right, late = problem("mri")(**RADIAL), problem("mri")(**RADIAL, delay=2.0)
    y = pairs(right)[1].astype(float)
    np.testing.assert_allclose(late.measure(y)[..., :-2, :], right.measure(y)[..., 2:, :], atol=1e-9)
    np.testing.assert_array_equal(pairs(late)[1], y)


def test_the_phase_of_the_coil_is_that_of_a_complex_image():
    y = pairs(problem("mri")(**RADIAL))[1].astype(float)
    axis = (np.arange(16) - 8) / 8
    turned = y * np.exp(0.7j * (axis[:, None] ** 2 + axis**2))
    expected = problem("mri")(**RADIAL, phase=1.0).measure(np.stack([turned.real, turned.imag], axis=-1))
    np.testing.assert_allclose(problem("mri")(**RADIAL, coil_phase=0.7).measure(y), expected, atol=1e-9)


def test_a_blur_that_is_taken_to_be_wider_changes_the_known_filter_and_no_pair():
    wrong = problem("deblur")(H=32, blur=1.0, widened=20.0)
    np.testing.assert_array_equal(pairs(wrong)[0], pairs(problem("deblur")(H=32, blur=1.0))[0])
    np.testing.assert_allclose(wrong.inverse().spectrum, problem("deblur")(H=32, blur=1.2).inverse().spectrum)
