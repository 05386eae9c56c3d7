"""Conditions of the CT problems: noise against its formula, arcs, angles and truncation, and what is refused."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import SMALL_FANBEAM

from koct.config.study_file import read
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.networks.solvers import Known
from koct.operators.fanbeam import Projector
from koct.problems import ct
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.noise import noisy, poisson_quantile, uniforms
from koct.problems.parallelbeam import ParallelBeamProblem

BEAMS = [FanBeamProblem(H=32, V=20, B=32, rays="exact"), ParallelBeamProblem(H=32, V=20, B=32)]
SIZES = Sizes(train=40, val=3, test=5)


def drawn(problem, seed=1, sizes=SIZES):
    """All pairs of a pool: {part: x}."""
    chunks = {}
    for part, x, _ in problem.pairs(seed, sizes):
        chunks.setdefault(part, []).append(x)
    return {part: np.concatenate(listed) for part, listed in chunks.items()}


# Noise


@pytest.mark.parametrize("mean", [1e-3, 3.0, 199.0, 201.0, 1e5, 1e7])
def test_counts_are_quantiles_of_the_poisson_distribution(mean):
    from scipy.stats import poisson

    u = np.concatenate([uniforms(1, 2, (4000,))[0], [2.0**-53, 1 - 2.0**-53]])
    counts, expected = poisson_quantile(np.full(u.shape, mean), u), poisson.ppf(u, mean)
    assert (counts != expected).mean() <= (0 if mean < 200 else 1e-3)
    assert (abs(counts - expected) <= 1).all()


def test_uniform_numbers_are_what_every_machine_draws():
    """Philox is a standard: the first words of key (1, 2), and moments of many."""
    u = uniforms(1, 2, (3,))
    np.testing.assert_array_equal(u, uniforms(1, 2, (3,)))
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


@pytest.mark.parametrize("problem", BEAMS, ids=lambda problem: problem.label)
def test_noise_is_that_of_the_pair_and_of_nothing_else(problem, monkeypatch):
    problem = replace(problem, photons=1e4, electronic=3.0)
    one, other = drawn(problem, 1), drawn(problem, 2)
    for part in ("val", "test"):
        np.testing.assert_array_equal(one[part], other[part])
    assert (one["train"] != other["train"]).any(axis=(1, 2)).all()
    few = drawn(problem, 1, Sizes(train=7, val=2, test=1))
    monkeypatch.setattr(ct, "CHUNK", 5)
    again = drawn(problem, 1)
    for part, x in one.items():
        np.testing.assert_array_equal(few[part], x[: len(few[part])])
        np.testing.assert_array_equal(again[part], x)
    silent = drawn(replace(problem, electronic=0.0), 1)["train"]
    assert 0 < abs(silent - one["train"]).mean() < abs(silent - drawn(replace(problem, photons=None))["train"]).mean()


# The problems


@pytest.mark.parametrize("problem", BEAMS, ids=lambda problem: problem.label)
def test_truncated_bins_measure_nothing_and_keep_their_weights(problem):
    short = replace(problem, truncation=0.25, photons=1e4)
    x, whole = drawn(short)["test"], drawn(replace(problem, photons=1e4))["test"]
    assert short.truncated == 4
    assert not x[..., :4].any()
    assert not x[..., -4:].any()
    np.testing.assert_array_equal(x[..., 4:-4], whole[..., 4:-4])
    np.testing.assert_array_equal(short.layers({})[0].operator.weights, problem.layers({})[0].operator.weights)


@pytest.mark.parametrize("problem", BEAMS, ids=lambda problem: problem.label)
def test_pairs_of_arcs_and_angles_are_those_of_the_geometry(problem, monkeypatch):
    monkeypatch.setenv("KOCT_DEVICE", "cpu")
    angles = tuple(np.linspace(3, 130, 20).tolist())
    for options in ({"arc": 120.0}, {"angles": angles}, {"arc": 360.0}):
        other = replace(problem, **options)
        _, x, y = next(iter(other.pairs(1, Sizes(train=2, val=1, test=1))))
        np.testing.assert_allclose(x, Projector(other.geometry())(other.decode(y)), rtol=1e-6)
        assert np.isfinite(Known(other.layers({}), True).R(x)).all()
    assert other.geometry().span == 2 * math.pi


def test_the_beams_share_phantoms_pixels_and_dose():
    fan, parallel = BEAMS
    assert fan.geometry().radius == pytest.approx(parallel.geometry().radius)
    for one, other in zip(fan.pairs(1, SIZES), parallel.pairs(1, SIZES), strict=True):
        np.testing.assert_array_equal(one[2], other[2])
        # every view sees the whole phantom; bins are equally wide at the isocentre
        assert one[1].sum(axis=2).mean() == pytest.approx(other[1].sum(axis=2).mean(), rel=0.02)


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
