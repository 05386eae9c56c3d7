"""The fan-beam backprojection and the ramp filter: adjoints, norms, and the formula written out pixel by pixel."""

import math

import numpy as np
import pytest

from koct.errors import KoctError
from koct.operators.fanbeam import Backprojector, FanBeam
from koct.operators.filters import RampFilter
from koct.operators.testing import adjoint_error

SIZES = [(8, 6, 8), (7, 5, 9), (16, 9, 15), (5, 4, 12), (12, 7, 5), (33, 10, 32), (1, 1, 1), (2, 1, 3)]
# a short detector distance and wide bins: strong magnification, many pixels seen beyond the detector
CLOSE = {"source_isocentre": 30.0, "source_detector": 40.0, "bin": 2.5}


def pixel_by_pixel(sinogram, H, SI, SD, width):
    """The backprojection of SPEC section 3 in plain Python."""
    V, B = len(sinogram), len(sinogram[0])
    r = 0.5 * B * width * SI / SD
    image = [[0.0] * H for _ in range(H)]
    for v in range(V):
        beta = math.pi * v / (V - 1)
        for row in range(H):
            for column in range(H):
                x, y = -r + 2 * r * column / (H - 1), -r + 2 * r * row / (H - 1)
                U = SI + x * math.sin(beta) - y * math.cos(beta)
                offset = SD * (x * math.cos(beta) + y * math.sin(beta)) / U
                for b in range(B):
                    near = 1 - abs(offset - (b - (B - 1) / 2) * width) / width
                    if near > 0:
                        image[row][column] += math.pi / V * (SI / U) ** 2 * near * float(sinogram[v][b])
    return image


@pytest.mark.parametrize("lengths", [{}, CLOSE], ids=["paper", "close"])
@pytest.mark.parametrize(("H", "V", "B"), [(4, 5, 6), (5, 4, 3), (6, 2, 6)])
def test_backprojection_is_the_formula_pixel_by_pixel(H, V, B, lengths):
    sinogram = np.random.default_rng(1).standard_normal((V, B))
    geometry = FanBeam(H, V, B, **lengths)
    expected = pixel_by_pixel(sinogram, H, geometry.source_isocentre, geometry.source_detector, geometry.bin)
    np.testing.assert_allclose(Backprojector(geometry)(sinogram), expected, rtol=1e-12, atol=1e-13)


def test_positions_are_those_of_the_ray_from_the_source_through_the_pixel():
    """Source, pixel and detector point lie on one line, whatever formula found the point."""
    geometry = FanBeam(6, 5, 8)
    x, y = np.meshgrid(geometry.pixels, geometry.pixels)
    for beta in geometry.angles:
        position, U = geometry.onto_detector(beta)
        source = 1000 * np.array([-np.sin(beta), np.cos(beta)])
        offset = position - 3.5
        hit = [500 * np.sin(beta) + offset * np.cos(beta), -500 * np.cos(beta) + offset * np.sin(beta)]
        cross = (x - source[0]) * (hit[1] - source[1]) - (y - source[1]) * (hit[0] - source[0])
        assert abs(cross).max() < 1e-12 * 1500 * 1000
        np.testing.assert_allclose(U, (x - source[0]) * np.sin(beta) - (y - source[1]) * np.cos(beta), rtol=1e-12)


@pytest.mark.parametrize(("H", "V", "B"), SIZES)
def test_adjoints_are_exact(H, V, B):
    geometry, K = FanBeam(H, V, B), RampFilter(V, B)
    for At in (Backprojector(geometry), Backprojector(FanBeam(H, V, B, 60.0, 80.0, 2.5))):
        for operator in (At, At.T, At @ K):
            assert adjoint_error(operator) < 1e-12
    assert adjoint_error(K) < 1e-12


@pytest.mark.parametrize(("H", "V", "B"), [(4, 3, 5), (5, 2, 4)])
def test_the_matrix_from_basis_arrays_is_the_operator_and_its_transpose_the_adjoint(H, V, B):
    rng = np.random.default_rng(2)
    for operator in (Backprojector(FanBeam(H, V, B)), RampFilter(V, B)):
        matrix = operator.matrix()
        x, y = rng.standard_normal(operator.domain), rng.standard_normal(operator.range)
        assert matrix.shape == operator.shape
        np.testing.assert_allclose(operator(x).ravel(), matrix @ x.ravel(), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(operator.T(y).ravel(), matrix.T @ y.ravel(), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(operator.T.matrix(), matrix.T, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("B", [1, 2, 3, 4, 7, 8, 15, 16, 33])
def test_the_norm_of_the_ramp_in_closed_form(B):
    K = RampFilter(2, B)
    assert K.norm() == (B // 2) / B
    assert K.norm() == pytest.approx(np.linalg.norm(K.matrix(), 2), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("B", [7, 8])
def test_the_ramp_multiplies_a_wave_by_its_frequency(B):
    for k in range(B // 2 + 1):
        wave = np.cos(2 * np.pi * k * np.arange(B) / B)[None]
        np.testing.assert_allclose(RampFilter(1, B)(wave), k / B * wave, atol=1e-14)


def test_the_ramp_acts_on_each_view_alone():
    sinogram = np.random.default_rng(3).standard_normal((4, 9))
    full = np.fft.ifft(np.fft.fft(sinogram, axis=1) * abs(np.fft.fftfreq(9)), axis=1)
    np.testing.assert_allclose(RampFilter(4, 9)(sinogram), full.real, atol=1e-14)
    assert abs(full.imag).max() < 1e-14


@pytest.mark.parametrize(("H", "V", "B"), [(8, 6, 8), (7, 5, 9), (3, 2, 4)])
def test_the_norm_of_the_backprojector_is_its_largest_singular_value(H, V, B):
    At = Backprojector(FanBeam(H, V, B))
    largest = np.linalg.norm(At.matrix(), 2)
    assert At.norm(tol=1e-14) == pytest.approx(largest, rel=1e-10)
    assert At.norm() == pytest.approx(largest, rel=2e-6)
    assert At.T.norm() == pytest.approx(largest, rel=1e-6)
    with pytest.raises(ArithmeticError, match="did not settle"):
        At.norm(max_iterations=1)


@pytest.mark.parametrize(("H", "V", "B"), [(32, 20, 32), (64, 30, 63)])
def test_the_norm_lies_between_the_bounds_of_collatz_and_wielandt(H, V, B):
    """min (Mv)_i/v_i ≤ largest eigenvalue of M ≤ max (Mv)_i/v_i for M = AAᵀ ≥ 0 and any v > 0."""
    At = Backprojector(FanBeam(H, V, B))
    v = np.ones((V, B))
    for _ in range(12):
        v = At.T(At(v))
        v /= v.max()
    ratio = At.T(At(v)) / v
    assert v.min() > 0
    assert ratio.max() / ratio.min() < 1 + 1e-4
    assert ratio.min() <= At.norm() ** 2 * (1 + 2e-6)
    assert At.norm() ** 2 <= ratio.max() * (1 + 1e-12)


def test_batches_equal_single_sinograms():
    rng = np.random.default_rng(4)
    for operator in (Backprojector(FanBeam(6, 5, 7)), RampFilter(5, 7)):
        x, y = rng.standard_normal((2, 3, *operator.domain)), rng.standard_normal((2, 3, *operator.range))
        assert operator(x).shape == (2, 3, *operator.range)
        np.testing.assert_array_equal(operator(x)[1, 2], operator(x[1, 2]))
        np.testing.assert_array_equal(operator.T(y)[0, 1], operator.T(y[0, 1]))
        assert operator(x[:0]).shape == (0, 3, *operator.range)


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


def test_a_constant_sinogram_backprojects_the_sum_of_the_weights():
    geometry = FanBeam(17, 12, 16)
    image = Backprojector(geometry)(np.ones((12, 16)))
    assert (Backprojector(geometry).matrix() >= 0).all()
    assert (image >= 0).all()
    assert image[8, 8] == pytest.approx(np.pi)  # at the isocentre U = SI for every view
    inside = np.hypot(*np.meshgrid(geometry.pixels, geometry.pixels)) < 0.8 * geometry.radius
    weights = sum((1000 / geometry.onto_detector(beta)[1]) ** 2 for beta in geometry.angles) * np.pi / 12
    np.testing.assert_allclose(image[inside], weights[inside], rtol=1e-12)


def test_a_point_is_backprojected_to_where_it_was_seen():
    """Ones where each view sees the point: every view then adds its whole weight there and nowhere more."""
    geometry = FanBeam(31, 40, 31)
    row, column = 9, 20
    sinogram = np.zeros((40, 31))
    for view, beta in enumerate(geometry.angles):
        sinogram[view, round(geometry.onto_detector(beta)[0][row, column])] = 1
    image = Backprojector(geometry)(sinogram)
    assert np.unravel_index(image.argmax(), image.shape) == (row, column)


def test_geometry_of_the_paper():
    geometry = FanBeam(128, 60, 128)
    assert geometry.radius == pytest.approx(128 / 3)
    assert geometry.pixels[[0, -1]] == pytest.approx([-128 / 3, 128 / 3])
    assert geometry.angles[[0, -1]] == pytest.approx([0, np.pi])
    assert len(geometry.angles) == 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"H": 0}, "H = 0 must be at least 1"),
        ({"V": -1}, "V = -1 must be at least 1"),
        ({"bin": 0.0}, "bin = 0.0 must be a length above 0"),
        ({"source_detector": math.nan}, "source_detector = nan must be a length above 0"),
        ({"B": 2200}, "the source inside the image"),
    ],
)
def test_a_bad_geometry_is_named(arguments, message):
    with pytest.raises(KoctError, match=message):
        FanBeam(**{"H": 8, "V": 6, "B": 8, **arguments})


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"Backprojector\(.*\) takes arrays of shape \(\.\.\., 6, 8\), got \(8, 6\)"):
        Backprojector(FanBeam(8, 6, 8))(np.ones((8, 6)))


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
