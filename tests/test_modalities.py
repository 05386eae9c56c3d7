"""What holds for the pairs and the layers of every problem, and what is special about each but the fan beam."""

import numpy as np
import pytest
from conftest import Pairs
from small_problems import OPTIONS, drawn, small
from test_networks import stacked_ridge

from koct import metrics
from koct.base.files import read_json
from koct.contracts import Sizes
from koct.contracts.registry import architecture, problem
from koct.contracts.spec import Cell
from koct.networks.ko import KO
from koct.networks.solvers import Known
from koct.operators.testing import assert_adjoint
from koct.problems import anatomy, ellipses50, phantoms, pools
from koct.study import cells, evaluation, fitting, predictions

SCAN = {"H": 24, "V": 30, "B": 40}
RADIAL = {"H": 16, "spokes": 6, "samples": 32}


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KOCT_DEVICE", "cpu")
        yield


# All problems


@pytest.mark.parametrize("name", OPTIONS)
def test_pools_are_nested_and_hold_no_image_twice(name):
    """Seeds draw other training pairs, and but for the surrogate the same held-out ones."""
    own = small(name)
    one, again, other, fewer = drawn(own), drawn(own), drawn(own, 2), drawn(own, 1, 30, 2, 3)
    for part, count in (("train", 70), ("val", 5), ("test", 6)):
        for a, b, c, d, shape in zip(
            one[part], again[part], other[part], fewer[part], (own.x_shape, own.y_shape), strict=True
        ):
            assert (a.shape, a.dtype) == ((count, *shape), np.float32 if own.same_held_out else np.float64)
            np.testing.assert_array_equal(a, b)
            assert np.array_equal(a[: len(d)], d) == (own.same_held_out or part == "train")
            assert np.array_equal(a, c) == (own.same_held_out and part != "train")
    images = np.concatenate([y for _, y in [*one.values(), other["train"]]])
    if own.same_held_out:  # of the surrogate, some small images are empty
        assert len(np.unique(images.reshape(len(images), -1), axis=0)) == len(images)


@pytest.mark.parametrize("name", OPTIONS)
def test_layers_and_normal_matrix(name):
    own = small(name)
    shared = own.shared()
    R = Known(cells.checked_layers(own, shared), False).R
    assert_adjoint(R)
    np.testing.assert_allclose(own.normal_matrix(shared), R.matrix().T @ R.matrix(), atol=1e-10)


# Radial MRI and deblurring


@pytest.mark.parametrize("name", ["mri", "mri with a phase", "deblur"])
@pytest.mark.parametrize("toward", ["zero", "analytic"])
def test_the_ridge_of_one_weight_per_complex_sample_is_dense_least_squares(name, toward):
    """Written out: the columns of the least-squares problem are the images of one weight at a time."""
    own = small(name)
    x, y = (array.reshape(20, -1).astype(float) for array in drawn(own, train=20)["train"])
    data = Pairs(x, y, layers=own.layers({}), normal=own.normal_matrix({}), lambdas=[1e-3, 1.0])
    known = Known(data.layers, False)
    size = len(known.analytic)
    columns = np.stack([known.reconstruct(known.weighted(unit, x)).ravel() for unit in np.eye(size)], axis=1)
    start = known.analytic if toward == "analytic" else np.zeros(size)
    for lam, network in KO(toward=toward).fit(data):
        expected = stacked_ridge(columns, y.ravel(), lam, start)
        np.testing.assert_allclose(network.learned["w"], expected, rtol=1e-8, atol=1e-8)
        assert network.parameters == size
        np.testing.assert_allclose(network.predict(x).ravel(), columns @ network.learned["w"], atol=1e-10)


def test_with_enough_spokes_gridding_gives_the_image():
    """A smooth image, sampled finely: density compensation and the adjoint are its inverse, and its mean is right."""
    own, axis = problem("mri")(H=32, spokes=80, samples=128), phantoms.grid(32)
    image = np.exp(-8 * (axis[:, None] ** 2 + (axis - 0.2) ** 2))
    weights, adjoint = (layer.operator for layer in own.layers({}))
    found = adjoint(weights(own.transform()(image)))
    assert np.linalg.norm(found - image) < 5e-4 * np.linalg.norm(image)
    assert found.mean() == pytest.approx(image.mean(), rel=1e-3)


def test_ko_of_radial_mri_learns_and_is_predicted_from_subsets(tmp_path):
    """Weights that two measurements share have no fixed point."""
    own = small("mri", H=12, spokes=6, samples=16, noise=0.02)
    inputs, error = {"pool": str(tmp_path / "pool.npy")}, {}
    pools.make(own, 1, Sizes(train=64, val=16, test=16), inputs["pool"])
    for source, N in (("untrained", 0), ("fc", 4), ("ko", 4), ("ko", 64)):
        arch = architecture(source)(**({"toward": "analytic"} if source == "ko" else {}))
        data = cells.Data(Cell("mri", own, arch, N, 1, (1e-4, 1e-2, 1.0)), inputs)
        error[source, N] = evaluation.errors(fitting.fit(data)[1], data)["mse"]
    assert error["ko", 4] < error["fc", 4]
    assert error["ko", 64] < min(error["untrained", 0], error["ko", 4])
    assert arch.predicted == "fixed point"
    spec = {**data.cell.encode(), "at": [8], "tests": 16, "metric": "mse"}
    predictions.predict(spec, inputs, tmp_path / "theory.json")
    assert {row["method"] for row in read_json(tmp_path / "theory.json")[0]["rows"]} == {"subsets"}


def test_a_late_readout_the_phase_of_a_coil_and_a_wrong_blur():
    right, late = problem("mri")(**RADIAL), problem("mri")(**RADIAL, delay=2.0)
    y = drawn(right)["train"][1].astype(float)
    np.testing.assert_allclose(late.measure(y)[..., :-2, :], right.measure(y)[..., 2:, :], atol=1e-9)
    np.testing.assert_array_equal(drawn(late)["train"][1], y)
    axis = (np.arange(16) - 8) / 8
    turned = y * np.exp(0.7j * (axis[:, None] ** 2 + axis**2))
    expected = problem("mri")(**RADIAL, phase=1.0).measure(np.stack([turned.real, turned.imag], axis=-1))
    np.testing.assert_allclose(problem("mri")(**RADIAL, coil_phase=0.7).measure(y), expected, atol=1e-9)
    wrong, blurred = problem("deblur")(H=32, blur=1.0, widened=20.0), problem("deblur")(H=32, blur=1.0)
    np.testing.assert_array_equal(drawn(wrong)["train"][0], drawn(blurred)["train"][0])
    np.testing.assert_allclose(wrong.inverse().spectrum, problem("deblur")(H=32, blur=1.2).inverse().spectrum)


# The scanner that is not the known one


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


def test_without_options_it_is_the_fan_beam_and_gain_hardening_and_jitter_change_it():
    x, y = drawn(problem("misaligned")(**SCAN))["train"]
    fan = drawn(problem("fanbeam")(rays="analytic", **SCAN))["train"]
    np.testing.assert_allclose(x, fan[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(y, fan[1])
    np.testing.assert_allclose(drawn(problem("misaligned")(**SCAN, gain=50.0))["train"][0], 1.5 * x, rtol=1e-6)
    hard, width = drawn(problem("misaligned")(**SCAN, hardening=20.0))["train"][0], 40 * 1000 / 1500
    np.testing.assert_allclose(hard, x * (1 - 0.2 * x / width), rtol=1e-5, atol=1e-6)
    shaken = [problem("misaligned")(**SCAN, jitter=jitter).lines()[0][:, 0] for jitter in (0.0, 1.0, 2.0)]
    assert 0.5 < np.rad2deg(shaken[1] - shaken[0]).std() < 1.5
    np.testing.assert_allclose(shaken[2] - shaken[0], 2 * (shaken[1] - shaken[0]), rtol=1e-9)


# 50 ellipses


def test_noise_is_a_share_of_the_mean_measurement_and_the_data_come_from_finer_pixels():
    noisy, silent = (problem("ellipses50")(H=32, V=8, B=47, **options) for options in ({}, {"noise": 0}))
    (x, y), (clean, _) = drawn(noisy)["test"], drawn(silent)["test"]
    assert (y.min(axis=(1, 2)), y.max(axis=(1, 2))) == (pytest.approx(0), pytest.approx(1))
    share = (x - clean).std(axis=(1, 2)) / clean.mean(axis=(1, 2))
    assert share == pytest.approx(0.05, rel=0.12)  # of 376 measurements
    difference = np.abs(noisy.forward({})(y) - clean).mean() / clean.mean()
    assert 1e-3 < difference < 0.03  # nearly the same, and not the same


def test_ellipses_are_drawn_as_the_literature_draws_them():
    ellipses = np.concatenate([ellipses50.ellipses(7, number) for number in range(200)], axis=1)
    values, centres, axes, angles = ellipses[0], ellipses[1:3], ellipses[3:5], ellipses[5]
    assert values.shape == (200 * 50,)
    assert np.abs(values).mean() == pytest.approx(0.25 * 0.4, rel=0.03)
    assert values.mean() == pytest.approx(0, abs=0.005)
    assert axes.mean() == pytest.approx(0.2, rel=0.03)
    assert np.abs(centres).max() <= 1
    assert centres.std() == pytest.approx(1 / np.sqrt(3), rel=0.02)
    assert angles.std() == pytest.approx(2 * np.pi / np.sqrt(12), rel=0.02)


# Slices of a brain


def test_ellipses_as_printed_are_a_poisson_number_and_fbp_has_the_printed_psnr_on_shepp_logan():
    """Adler and Öktem (2018), Table I: 19.75 dB, with a Hann window."""
    counts = [ellipses50.printed_ellipses(7, number).shape[1] for number in range(2000)]
    assert np.mean(counts) == pytest.approx(50, abs=1)
    assert np.var(counts) == pytest.approx(50, rel=0.15)
    scan = problem("ellipses50")(images="printed", held_out="shepp-logan")
    x, y = next((x, y) for part, x, y in scan.pairs(1, Sizes(train=1, val=1, test=4)) if part == "test")
    images = scan.inverses({})[1.0](x).reshape(4, -1)
    psnr = metrics.load("psnr").each(images, y.reshape(4, -1), y.shape[1:])
    assert np.mean(psnr) == pytest.approx(19.75, abs=0.5)


def test_ellipses_are_those_of_the_fan_beam_and_need_no_package(monkeypatch):
    monkeypatch.setattr(anatomy, "template", lambda: None)
    sizes, own = Sizes(train=20, val=1, test=1), small("anatomy")
    (x, y), same = drawn(own, 3)["train"], drawn(problem("fanbeam")(H=8, V=6, B=8, rays="exact"), 3)["train"]
    np.testing.assert_allclose(x, same[0], atol=1e-4)
    np.testing.assert_allclose(y, same[1], atol=1e-6)
    assert not list(own.check((1,), sizes))
    (sentence,) = small("anatomy", images="anatomy").check((1,), sizes)
    assert "pip install 'koct[anatomy]'" in sentence


@pytest.mark.skipif(not anatomy.template(), reason="nilearn is not installed: pip install 'koct[anatomy]'")
def test_slices_of_a_part_are_in_its_slabs_and_held_out_ones_stay(monkeypatch):
    pytest.importorskip("nibabel")
    own = problem("anatomy")(H=16, V=10, B=16, images="anatomy")
    assert not list(own.check((1,), Sizes(train=40, val=5, test=6)))
    assert len(own.files()) == 1
    one, two = drawn(own), drawn(own, 2)
    for part in ("val", "test"):
        np.testing.assert_array_equal(one[part][1], two[part][1])
    assert not np.array_equal(one["train"][1], two["train"][1])
    assert 0 <= one["train"][1].min() < 0.01 < 0.7 < one["train"][1].max() <= 1
    x, y = one["test"]
    np.testing.assert_allclose(own.forward({})(y[:1]), x[:1], rtol=1e-5)
    heights = np.broadcast_to(np.arange(189.0), (197, 233, 189))  # every pixel says how high it lies
    monkeypatch.setattr(anatomy, "volume", lambda: heights)
    seen = {part: {anatomy.brain(np.random.default_rng(i), part, 8).max() for i in range(300)} for part in one}
    assert {len(heights) for heights in seen.values()} == {18, 36}
    closest = min(abs(a - b) for a in seen["train"] for b in seen["val"] | seen["test"])
    assert closest >= 3  # mm: two slices between them
