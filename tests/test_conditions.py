"""Conditions of the CT problems: noise, arcs, truncation, phantoms in closed form against brute force, refusals."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import SMALL_FANBEAM
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_problems import drawn

from koct.config.study_file import read
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.networks.solvers import Known
from koct.operators.fanbeam import FanBeam, ParallelBeam, Projector
from koct.problems import ct
from koct.problems.closed_form import area_averages, line_integrals
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.noise import noisy, poisson_quantile, uniforms
from koct.problems.parallelbeam import ParallelBeamProblem
from koct.problems.phantoms import Ellipse

pytestmark = pytest.mark.thorough
BEAMS = [FanBeamProblem(H=32, V=20, B=32, rays="exact"), ParallelBeamProblem(H=32, V=20, B=32)]
EACH = pytest.mark.parametrize("problem", BEAMS, ids=lambda problem: problem.label)
FEW = {"train": 40, "val": 3, "test": 5}


# Noise


@pytest.mark.parametrize("mean", [1e-3, 3.0, 199.0, 201.0, 1e5, 1e7])
def test_counts_are_quantiles_of_the_poisson_distribution(mean):
    from scipy.stats import poisson

    u = np.concatenate([uniforms(1, 2, (4000,))[0], [2.0**-53, 1 - 2.0**-53]])
    counts, expected = poisson_quantile(np.full(u.shape, mean), u), poisson.ppf(u, mean)
    assert (counts != expected).mean() <= (0 if mean < 200 else 1e-3)
    assert (abs(counts - expected) <= 1).all()


def test_uniform_numbers_have_their_moments_and_no_correlation():
    many = np.stack([uniforms(7, pair, (50, 40)) for pair in range(50)])
    assert abs(many.mean() - 0.5) < 5 * math.sqrt(1 / 12 / many.size)
    assert abs(many.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / many.size)
    flat = many.reshape(100, -1)
    correlation = np.corrcoef(flat)[np.triu_indices(100, 1)]
    assert abs(correlation).max() < 5.5 / math.sqrt(flat.shape[1])  # neither pairs nor the two kinds of noise


@pytest.mark.parametrize("electronic", [0.0, 10.0])
@pytest.mark.parametrize("photons", [1e3, 1e6])
def test_the_variance_is_that_of_the_poisson_formula(photons, electronic):
    """var(p) ≈ exp(p)/I₀ + electronic² exp(2p)/I₀² (the delta method), within sampling error and its next term."""
    draws = 6000
    p = np.array([[0.0, 0.25, 0.5, 1.0, 1.5]])
    measured = noisy(np.broadcast_to(p, (draws, *p.shape)), photons, electronic, stream=3)
    expected = np.exp(p) / photons + electronic**2 * np.exp(2 * p) / photons**2
    assert abs(measured.var(axis=0, ddof=1) / expected - 1).max() < 4.5 * math.sqrt(2 / draws) + 3 * expected.max()
    bias = measured.mean(axis=0) - p - expected / 2  # of the logarithm, to first order
    assert (abs(bias) < 4.5 * np.sqrt(expected / draws) + 2 * expected**2).all()


@EACH
def test_noise_is_that_of_the_pair_and_of_nothing_else(problem, monkeypatch):
    def measured(**options):
        return drawn(replace(problem, **{"photons": 1e4, "electronic": 3.0, **options}), **FEW)["train"][0]

    one, silent, clean = measured(), measured(electronic=0.0), measured(photons=None, electronic=0.0)
    assert 0 < abs(silent - one).mean() < abs(silent - clean).mean()
    monkeypatch.setattr(ct, "CHUNK", 5)
    np.testing.assert_array_equal(measured(), one)


# The problems


@EACH
def test_truncated_bins_measure_nothing_and_keep_their_weights(problem):
    whole, short = replace(problem, photons=1e4), replace(problem, truncation=0.25, photons=1e4)
    (x, _), (untruncated, _) = drawn(short, **FEW)["test"], drawn(whole, **FEW)["test"]
    assert short.truncated == 4
    assert not x[..., :4].any()
    assert not x[..., -4:].any()
    np.testing.assert_array_equal(x[..., 4:-4], untruncated[..., 4:-4])
    np.testing.assert_array_equal(short.layers({})[0].operator.weights, problem.layers({})[0].operator.weights)


@EACH
def test_pairs_of_arcs_and_angles_are_those_of_the_geometry(problem, monkeypatch):
    monkeypatch.setenv("KOCT_DEVICE", "cpu")
    angles = tuple(np.linspace(3, 130, 20).tolist())
    for options in ({"arc": 120.0}, {"angles": angles}, {"arc": 360.0}):
        other = replace(problem, **options)
        x, y = drawn(other, train=2)["train"]
        np.testing.assert_allclose(x, Projector(other.geometry())(y), rtol=1e-6)
        assert np.isfinite(Known(other.layers({}), True).R(x)).all()
    assert other.geometry().span == 2 * math.pi


def test_the_beams_share_phantoms_pixels_and_dose():
    """Every view sees the whole phantom; bins are equally wide at the isocentre."""
    fan, parallel = BEAMS
    assert fan.geometry().radius == pytest.approx(parallel.geometry().radius)
    (x, y), (other, same) = drawn(fan, **FEW)["train"], drawn(parallel, **FEW)["train"]
    np.testing.assert_array_equal(y, same)
    assert x.sum(axis=2).mean() == pytest.approx(other.sum(axis=2).mean(), rel=0.02)


# Line integrals and averages over pixels, in closed form

SCANS = [FanBeam(32, 7, 32, arc=200), ParallelBeam(32, 7, 32, bin=2 / 3), FanBeam(9, 5, 15, 60.0, 80.0, 2.5, arc=360)]
BODY = [
    Ellipse(0.5, (0.2, -0.1), (0.35, 0.2), 0.6),
    Ellipse(0.3, (-0.3, 0.25), (0.15, 0.3), 2.0),
    Ellipse(0.4, (0.1, 0.1), (0.08, 0.4), 3.0),
]

ELLIPSES = st.builds(  # that every view sees as a whole
    Ellipse,
    amplitude=st.floats(0.2, 1),
    centre=st.tuples(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3)),
    axes=st.tuples(st.floats(0.02, 0.5), st.floats(0.02, 0.5)),
    angle=st.floats(0, math.pi),
)


def packed(*ellipses):
    """One phantom in float64: rows of (amplitude, x, y, a, b, angle)."""
    return np.array([[[e.amplitude, *e.centre, *e.axes, e.angle] for e in ellipses]])


@pytest.mark.parametrize("scan", SCANS, ids=str)
def test_a_disc_has_chords_of_pythagoras(scan):
    """2 √(R² − d²), where d is the distance of its centre from the ray through two samples."""
    disc, r = Ellipse(0.7, (0.3, -0.2), (0.4, 0.4), 1.0), scan.radius
    rays, _ = scan.samples("exact")
    y, x, dy, dx, _ = rays.T
    to_x, to_y = 0.3 * r - (x * scan.pixel - r), -0.2 * r - (y * scan.pixel - r)
    d = (to_x * dy - to_y * dx) / np.hypot(dx, dy)
    expected = 0.7 * 2 * np.sqrt(np.maximum((0.4 * r) ** 2 - d**2, 0))
    np.testing.assert_allclose(line_integrals(packed(disc), scan).ravel(), expected, rtol=1e-9, atol=1e-6 * r)


@given(ELLIPSES, st.integers(2, 40))
@example(Ellipse(1.0, (0.0, 0.0), (0.5, 0.09375), 0.0), 6)  # four pixels have a corner in its centre
@settings(max_examples=100, deadline=None)
def test_an_image_has_the_mass_of_the_phantom(ellipse, H):
    image, mass = area_averages(packed(ellipse), H)[0], ellipse.amplitude * math.pi * math.prod(ellipse.axes)
    assert image.sum() * (2 / (H - 1)) ** 2 == pytest.approx(mass, rel=1e-11)
    assert image.min() >= 0
    assert image.max() <= ellipse.amplitude * (1 + 1e-12)


@given(ELLIPSES, st.integers(2, 24))
@settings(max_examples=50, deadline=None)
def test_pixels_are_the_averages_of_many_points(ellipse, H):
    parts = 64
    grid = ((np.arange(H * parts) + 0.5) / parts - 0.5) * 2 / (H - 1) - 1
    x, y = grid[None, :] - ellipse.centre[0], grid[:, None] - ellipse.centre[1]
    c, s = math.cos(ellipse.angle), math.sin(ellipse.angle)
    a, b = ellipse.axes
    covered = ((c * x + s * y) / a) ** 2 + ((c * y - s * x) / b) ** 2 <= 1
    expected = ellipse.amplitude * covered.reshape(H, parts, H, parts).mean(axis=(1, 3))
    assert abs(area_averages(packed(ellipse), H)[0] - expected).max() < 2 / parts  # a boundary crosses 2·parts points


@pytest.mark.parametrize("beam", [FanBeam, ParallelBeam])
def test_projections_of_the_image_tend_to_the_line_integrals(beam):
    """In proportion to the size of a pixel: edges are sharp."""
    errors = []
    for H in (32, 128, 512):
        scan = beam(H, 9, 64)
        truth = line_integrals(packed(*BODY), scan)
        error = Projector(scan)(area_averages(packed(*BODY), H)) - truth
        errors.append(np.linalg.norm(error) / np.linalg.norm(truth))
    assert errors[0] < 0.1
    assert errors[1] < errors[0] / 3
    assert errors[2] < errors[1] / 3


@EACH
def test_data_are_not_projections_of_their_images(problem, monkeypatch):
    """The inverse crime of `exact`: its data are what the known projector makes of the very images to be found."""
    monkeypatch.setenv("KOCT_DEVICE", "cpu")
    problem = replace(problem, rays="analytic")
    _, x, stored = next(iter(problem.pairs(1, Sizes(**FEW))))
    np.testing.assert_array_equal(x, line_integrals(stored, problem.geometry(), dtype=np.float32))
    images, A = problem.decode(stored), problem.projector()
    np.testing.assert_array_equal(images, area_averages(stored, 32, np.float32))
    assert 0.01 < np.linalg.norm(x - A(images)) / np.linalg.norm(x) < 0.1
    x, images = drawn(replace(problem, rays="exact"), **FEW)["train"]
    np.testing.assert_allclose(x, A(images), rtol=1e-6)


@pytest.mark.parametrize(("H", "V", "percent"), [(128, 60, 1.2), (256, 90, 0.6)])
def test_how_far_the_projector_is_from_the_data(H, V, percent):
    """As docs/conditions.md says, for the test images of the studies."""
    problem = FanBeamProblem(H=H, V=V, B=H, rays="analytic")
    x, y = drawn(problem, train=1, val=1, test=50)["test"]
    assert 100 * np.linalg.norm(problem.projector()(y) - x) / np.linalg.norm(x) == pytest.approx(percent, abs=0.05)


# What goes wrong

SENTENCES = {
    "electronic": ({"electronic": 3.0}, "electronic = 3 is in counted photons, and there are none; set photons"),
    "attenuation": ({"attenuation": 0.1}, "attenuation = 0.1 changes nothing without photons; set photons, or leave"),
    "both": ({"arc": 90, "angles": list(range(20))}, "arc = 90 and angles exclude each other; remove one of them"),
    "V": ({"angles": [0, 1.5]}, "angles has 2 values for V = 20 views; set V to 2"),
    "too far": ({"angles": [0, 1, 365], "V": 3}, "angles reach from 0 to 365; keep them within less than 360 degrees"),
    "all": ({"truncation": 0.99}, "truncation = 0.99 leaves none of the 32 bins; take less"),
    "bin_rays": ({"bin_rays": 4}, "bin_rays = 4 changes nothing without rays = 'analytic'; set that, or leave it out"),
    "too little": ({"truncation": 0.01}, "truncation = 0.01 is less than half a bin at each end of 32"),
}


@pytest.mark.parametrize(("options", "message"), SENTENCES.values(), ids=SENTENCES)
def test_what_does_not_go_together_is_one_sentence(options, message):
    entry = {**SMALL_FANBEAM["sweeps"]["F32"], "problem": "parallelbeam", "rays": "exact", **options}
    config = {**SMALL_FANBEAM, "sweeps": {"F32": entry}, "studies": {"small": ["F32"]}}
    with pytest.raises(KoctError, match=re.escape(message)) as error:
        read(config)
    assert "sweeps.F32." in str(error.value)
