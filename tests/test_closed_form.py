"""Phantoms in closed form: line integrals and averages over pixels against theory and brute force, and the data."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from koct.contracts import Sizes
from koct.operators.fanbeam import FanBeam, ParallelBeam, Projector
from koct.problems.closed_form import area_averages, line_integrals
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.parallelbeam import ParallelBeamProblem
from koct.problems.phantoms import Ellipse

SCANS = [FanBeam(32, 7, 32, arc=200), ParallelBeam(32, 7, 32, bin=2 / 3), FanBeam(9, 5, 15, 60.0, 80.0, 2.5, arc=360)]
BEAMS = [FanBeamProblem(H=32, V=20, B=32, rays="analytic"), ParallelBeamProblem(H=32, V=20, B=32, rays="analytic")]
SIZES = Sizes(train=11, val=3, test=2)
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


def area(ellipse):
    """The area times the amplitude."""
    return ellipse.amplitude * math.pi * math.prod(ellipse.axes)


def changed(problem, **options):
    return replace(problem, **options)


def drawn(problem):
    """All pairs of a pool: x and what is stored of y."""
    chunks = list(problem.pairs(1, SIZES))
    return tuple(np.concatenate([chunk[i] for chunk in chunks]) for i in (1, 2))


# Line integrals


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


# Averages over pixels


@given(ELLIPSES, st.integers(2, 40))
@example(Ellipse(1.0, (0.0, 0.0), (0.5, 0.09375), 0.0), 6)  # four pixels have a corner in its centre
@settings(max_examples=100, deadline=None)
def test_an_image_has_the_mass_of_the_phantom(ellipse, H):
    image = area_averages(packed(ellipse), H)[0]
    assert image.sum() * (2 / (H - 1)) ** 2 == pytest.approx(area(ellipse), rel=1e-11)
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


# Both


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


# The data of the problems


@pytest.mark.parametrize("problem", BEAMS, ids=lambda problem: problem.label)
def test_data_are_not_projections_of_their_images(problem, monkeypatch):
    """The inverse crime of `exact`: its data are what the known projector makes of the very images to be found."""
    monkeypatch.setenv("KOCT_DEVICE", "cpu")
    x, stored = drawn(problem)
    np.testing.assert_array_equal(x, line_integrals(stored, problem.geometry(), dtype=np.float32))
    images, A = problem.decode(stored), problem.projector()
    np.testing.assert_array_equal(images, area_averages(stored, 32, np.float32))
    assert 0.01 < np.linalg.norm(x - A(images)) / np.linalg.norm(x) < 0.1
    crime = changed(problem, rays="exact")
    x, stored = drawn(crime)
    np.testing.assert_allclose(x, A(crime.decode(stored)), rtol=1e-6)


@pytest.mark.parametrize(("H", "V", "percent"), [(128, 60, 1.2), (256, 90, 0.6)])
def test_how_far_the_projector_is_from_the_data(H, V, percent):
    """As docs/conditions.md says, for the test images of the studies."""
    problem = FanBeamProblem(H=H, V=V, B=H, rays="analytic")
    chunks = list(problem.pairs(1, Sizes(train=1, val=1, test=50)))[2:]
    x, stored = (np.concatenate([chunk[i] for chunk in chunks]) for i in (1, 2))
    away = problem.projector()(problem.decode(stored)) - x
    assert 100 * np.linalg.norm(away) / np.linalg.norm(x) == pytest.approx(percent, abs=0.05)
