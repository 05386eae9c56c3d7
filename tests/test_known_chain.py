"""Filtered backprojection as the known chain: exact or printed, with windows, and divided out of the normal matrix."""

import math

import numpy as np
import pytest
from test_fanbeam_problem import chain
from test_scans import integrals

from koct.contracts import Sizes
from koct.operators.fanbeam import Backprojector, fbp, printed_weights
from koct.operators.filters import RampFilter
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.phantoms import Ellipse, rasterise


def test_the_known_chain_reconstructs():
    """Before any training, on the 50 test images of H128-exact; the printed chain gives a disc 0.61 of its value."""
    disc, inside = (Ellipse(1.0, (0.0, 0.0), (a, a), 0.0) for a in (0.4, 0.36))
    for known, error, value in (("exact", 7.6e-4, 1.0), ("printed", 8.92e-3, 0.61)):
        problem = FanBeamProblem(H=128, V=60, B=128, rays="exact", known=known)
        chunks = [(x, y) for part, x, y in problem.pairs(1, Sizes(train=1, val=1, test=50)) if part == "test"]
        x, stored = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        y, image = problem.decode(stored), chain(problem)(x).clip(min=0)
        found = np.mean(np.sqrt(((image - y) ** 2).mean((1, 2))) / y.max((1, 2))) ** 2
        assert found == pytest.approx(error, rel=0.01)
        image = chain(problem)(integrals(problem.geometry(), disc))
        assert image[rasterise([inside], 128) > 0].mean() == pytest.approx(value, abs=0.005)


def test_the_printed_chain_is_that_of_the_paper():
    """Bit for bit: the circular ramp without a scale behind Parker's weights at the angles of the views."""
    problem = FanBeamProblem(H=32, V=20, B=32, rays="printed", known="printed")
    g, (weights, ramp, back) = problem.geometry(), [layer.operator for layer in problem.layers({})]
    np.testing.assert_array_equal(weights.weights, printed_weights(g))
    np.testing.assert_array_equal(ramp.view_matrix, RampFilter(20, 32).view_matrix)
    assert isinstance(back, Backprojector)
    beta, gamma = np.linspace(0, math.pi, 20)[:, None], np.arctan2(g.bins, 1500.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.where(beta < -2 * gamma, np.sin(math.pi / 4 * beta / -gamma) ** 2, 1)
        falling = np.where(beta > math.pi - 2 * gamma, np.sin(math.pi / 4 * (math.pi - beta) / gamma) ** 2, 1)
    np.testing.assert_allclose(weights.weights, rising * falling * g.cosines, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("known", ["exact", "printed"])
def test_inverses_are_exact_fbp_by_their_window(known):
    """Whatever the chain of the networks is: a disc keeps its value, and noise falls with the cutoff."""
    problem = FanBeamProblem(H=64, V=40, B=64, rays="exact", known=known)
    g, disc = problem.geometry(), Ellipse(1.0, (0.1, 0.0), (0.5, 0.5), 0.0)
    inside = rasterise([Ellipse(1.0, disc.centre, (0.35, 0.35), 0.0)], 64) > 0
    noise, spread = np.random.default_rng(0).standard_normal((40, 64)), []
    inverses = problem.inverses({})
    np.testing.assert_array_equal(inverses[None](noise), fbp(g)(noise))
    for inverse in inverses.values():
        assert inverse(integrals(g, disc))[inside].mean() == pytest.approx(1, abs=0.01)
        spread.append(inverse(noise).std())
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 0.3 * spread[0]
    assert list(inverses) == [None, 1.0, 0.8, 0.6, 0.45, 0.3]
