"""Fan and parallel beams at any angles: adjoints, norms, gradients, analytic line integrals, FBP, weights, filters."""

import math

import numpy as np
import pytest

from koct.errors import KoctError
from koct.operators.fanbeam import Backprojector, FanBeam, ParallelBeam, Projector, analytic_weights, fbp
from koct.operators.filters import RampFilter
from koct.problems.phantoms import Ellipse, rasterise

UNEVEN = (0.0, 7.0, 30.0, 31.5, 90.0, 120.0, 200.0)
PARALLEL = [
    ParallelBeam(9, 6, 11),
    ParallelBeam(16, 5, 15, bin=0.7),
    ParallelBeam(11, 6, 19, image=13.0),
    ParallelBeam(8, 7, 9, degrees=UNEVEN),
    ParallelBeam(12, 9, 12, arc=360),
    ParallelBeam(1, 1, 1),
]
ARCS = [
    FanBeam(9, 6, 11, arc=90),
    FanBeam(16, 5, 15, arc=270),
    FanBeam(8, 7, 9, degrees=UNEVEN),
    FanBeam(12, 9, 12, arc=360),
    FanBeam(10, 6, 9, 60.0, 80.0, 2.5, arc=210),
]
SIZES = [(8, 6, 8), (7, 5, 9), (16, 9, 15), (5, 4, 12), (12, 7, 5), (33, 10, 32), (1, 1, 1), (2, 1, 3)]
# a short detector distance and wide bins: strong magnification, many pixels seen beyond the detector
CLOSE = {"source_isocentre": 60.0, "source_detector": 80.0, "bin": 2.5}
HALF = [FanBeam(*size) for size in SIZES] + [FanBeam(*size, **CLOSE) for size in SIZES]


@pytest.mark.parametrize("geometry", [*PARALLEL, *ARCS, *HALF], ids=str)
def test_adjoints_are_exact(geometry):
    rng, back = np.random.default_rng(0), Backprojector(geometry)
    for A in (Projector(geometry), back, back @ RampFilter(geometry.V, geometry.B), fbp(geometry)):
        for n in (1, 2, 3, 5):  # lanes of two and of four
            x, y = rng.standard_normal((n, *A.domain)), rng.standard_normal((n, *A.range))
            Ax, Aty = A(x), A.T(y)
            assert abs(np.vdot(Ax, y) - np.vdot(x, Aty)) <= 1e-12 * np.linalg.norm(Ax) * np.linalg.norm(y)
            np.testing.assert_allclose(Ax[n - 1], A(x[n - 1]), rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(Aty[0], A.T(y[0]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("geometry", [PARALLEL[0], PARALLEL[2], ARCS[1], ARCS[2], ARCS[4], HALF[0], HALF[9]], ids=str)
def test_backprojection_is_its_formula_pixel_by_pixel(geometry):
    """Also for the views that are mirror images: linear interpolation, times what a view stands for."""
    g = geometry
    x = np.random.default_rng(1).standard_normal((g.V, g.B))
    expected = np.zeros((g.H, g.H))
    for view, beta in zip(x, g.angles, strict=True):
        for row, y in enumerate(g.pixels):
            for column, x_ in enumerate(g.pixels):
                fan = isinstance(g, FanBeam)
                U = 1 + (x_ * np.sin(beta) - y * np.cos(beta)) / g.source_isocentre if fan else 1
                offset = (x_ * np.cos(beta) + y * np.sin(beta)) / U / g.width
                near = np.maximum(1 - abs(offset + (g.B - 1) / 2 - np.arange(g.B)), 0)
                expected[row, column] += g.span / g.V / U**2 * (near @ view)
    np.testing.assert_allclose(Backprojector(g)(x), expected, rtol=1e-11, atol=1e-12)


def test_batches_of_any_size_have_the_bits_of_single_sinograms():
    """However many images the compiled loops take at a time: with mirror images of views, and without."""
    rng = np.random.default_rng(4)
    for geometry in (FanBeam(9, 5, 8), FanBeam(9, 5, 8, arc=200.0)):
        for dtype in (np.float32, np.float64):
            A = Backprojector(geometry)
            for operator in (A, A.T):
                x = rng.standard_normal((19, *operator.domain)).astype(dtype)
                single = np.stack([operator(one) for one in x])
                for count in (2, 3, 4, 5, 7, 8, 9, 12, 19):
                    np.testing.assert_array_equal(operator(x[:count]), single[:count])


@pytest.mark.parametrize("B", [1, 2, 3, 4, 7, 8, 15, 16, 33])
def test_the_ramp_of_the_paper_multiplies_every_view_by_its_frequency(B):
    K, sinogram = RampFilter(2, B), np.random.default_rng(3).standard_normal((2, B))
    filtered = np.fft.ifft(np.fft.fft(sinogram, axis=1) * abs(np.fft.fftfreq(B)), axis=1)
    np.testing.assert_allclose(K(sinogram), filtered, atol=1e-14)
    assert K.norm() == (B // 2) / B
    assert K.norm() == pytest.approx(np.linalg.norm(K.matrix(), 2), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("cutoff", [1.0, 0.8, 0.5, 0.3])
def test_the_window_of_the_ramp_is_hanns(cutoff):
    """The spectrum of a long response: |f| (1 + cos(πf/cutoff))/2 up to the cutoff, and nothing above it."""
    width, B = 0.5, 4001
    response = RampFilter(1, B, width, cutoff)._impulse_response()
    frequency = np.fft.rfftfreq(2 * B - 1)
    window = np.where(frequency < cutoff / 2, (1 + np.cos(2 * np.pi * frequency / cutoff)) / 2, 0)
    found = np.fft.rfft(np.concatenate([response, response[:0:-1]])).real
    np.testing.assert_allclose(found, frequency / width * window, atol=2e-4)
    wrong = [({"cutoff": 0.5}, "give its width"), ({"cutoff": 1.2, "width": 1.0}, "at most 1, the Nyquist frequency")]
    for options, message in wrong:
        with pytest.raises(KoctError, match=message):
            RampFilter(4, 8, **options)


def integrals(geometry, ellipse):
    """The exact line integrals of an ellipse: a ray is the line x cos θ + y sin θ = s."""
    g, r = geometry, geometry.radius
    fan = isinstance(g, FanBeam)
    theta = g.angles[:, None] + (np.arctan2(g.bins, g.source_detector) if fan else 0)
    distance = g.source_isocentre * np.sin(theta - g.angles[:, None]) if fan else g.bins
    (a, b), (cx, cy) = np.array(ellipse.axes) * r, np.array(ellipse.centre) * r
    s = distance - (cx * np.cos(theta) + cy * np.sin(theta))
    width = (a * np.cos(theta - ellipse.angle)) ** 2 + (b * np.sin(theta - ellipse.angle)) ** 2
    return ellipse.amplitude * 2 * a * b * np.sqrt(np.maximum(width - s * s, 0)) / width


def test_a_view_along_the_rows_is_that_along_the_columns_of_the_transposed_image():
    """At 90° a ray moves 3e-17 rows from sample to sample, so it would leave a large image after 10¹⁹ of them."""
    A = Projector(ParallelBeam(400, 2, 12))
    image = np.random.default_rng(0).random((400, 400))
    (_, along_rows), (along_columns, _) = A(image), A(image.T[:, ::-1])
    np.testing.assert_allclose(along_rows, along_columns[::-1], rtol=1e-12)
    sinogram = np.array([np.zeros(12), np.ones(12)])
    assert np.vdot(A.T(sinogram), image) == pytest.approx(along_rows.sum(), rel=1e-12)


COMPLETE = {
    **{f"fan, {arc}°": FanBeam(128, 60, 128, arc=arc) for arc in (180, 190, 270, 360)},
    **{f"parallel, {arc}°": ParallelBeam(128, 60, 128, bin=0.5, arc=arc) for arc in (180, 200, 360)},
    "fan, wide": FanBeam(128, 90, 128, 500.0, 600.0, 3.0),
    "fan, own angles": FanBeam(128, 180, 128, degrees=tuple(190 * (np.arange(180) / 179) ** 1.5)),
    "parallel, own angles": ParallelBeam(128, 90, 128, degrees=tuple(np.arange(5.0, 185, 2))),
}


@pytest.mark.parametrize("geometry", COMPLETE.values(), ids=COMPLETE)
def test_fbp_gives_a_disc_its_value(geometry):
    """A unit disc from its line integrals in closed form, whatever the arc: 180° of a fan beam miss some lines."""
    R = fbp(geometry)
    for centre in ((0.0, 0.0), (0.3, -0.2), (-0.35, 0.4), (0.55, 0.0)):
        image = R(integrals(geometry, Ellipse(1.0, centre, (0.4, 0.4), 0.0)))
        inside = rasterise([Ellipse(1.0, centre, (0.36, 0.36), 0.0)], 128) > 0
        assert image[inside].mean() == pytest.approx(1, abs=5e-3)
        assert image[inside].std() < 0.01


@pytest.mark.parametrize("V", [5, 20, 61])
@pytest.mark.parametrize("arc", [180, 181.5, 190, 200, 270, 359, 360])
@pytest.mark.parametrize("beam", [FanBeam, ParallelBeam])
def test_weights_count_every_line_once(beam, arc, V):
    """Lines at one distance from the isocentre have all directions, 2π: two bins see them, over all views."""
    lengths = (500.0, 600.0, 3.0) if beam is FanBeam else ()
    geometry = beam(64, V, 64, *lengths, arc=arc)
    angle = (analytic_weights(geometry) / geometry.cosines).sum(0) * geometry.view_weight
    np.testing.assert_allclose(angle + angle[::-1], math.tau, rtol=1e-12)


def test_geometry_of_the_paper_and_angles_of_arcs():
    geometry = FanBeam(128, 60, 128)
    assert geometry.pixels[[0, -1]] == pytest.approx([-128 / 3, 128 / 3])
    np.testing.assert_array_equal(geometry.angles, np.linspace(0, np.pi, 60))
    np.testing.assert_array_equal(FanBeam(8, 5, 8, arc=180).angles, np.linspace(0, np.pi, 5))
    np.testing.assert_array_equal(np.rad2deg(FanBeam(8, 4, 8, arc=360).angles), [0, 90, 180, 270])
    np.testing.assert_allclose(np.rad2deg(FanBeam(8, 4, 8, arc=90).angles), [0, 30, 60, 90])
    np.testing.assert_allclose(np.rad2deg(ParallelBeam(8, 4, 8).angles), [0, 45, 90, 135])
    np.testing.assert_array_equal(analytic_weights(ParallelBeam(8, 4, 8)), np.ones((4, 8)))
    np.testing.assert_array_equal(analytic_weights(ParallelBeam(8, 4, 8, arc=360)), np.full((4, 8), 0.5))
    assert ParallelBeam(8, 4, 8).view_weight == math.pi / 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"H": 0}, "H = 0 must be at least 1"),
        ({"arc": 361}, "at most 360"),
        ({"arc": 90, "degrees": (0, 1, 2)}, "exclude each other"),
        ({"degrees": (0, 1, 1)}, "angles that differ"),
        ({"bin": -1}, "bin = -1 must be a length above 0"),
        ({"B": 2**16}, "B = 65536 must be at most 65533"),
        ({"B": 2200}, "the source inside the image"),
    ],
)
def test_a_bad_geometry_is_named(arguments, message):
    with pytest.raises(KoctError, match=message):
        FanBeam(**{"H": 8, "V": 3, "B": 8, **arguments})
