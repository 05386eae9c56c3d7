"""Calibration and its inverse, laws and forecasts: closed forms against brute force, recovery of known laws."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from koct import Calibration, Forecast, Pilot, two_factors
from koct.errors import KoctError
from koct.forecast.laws import LAWS, learned
from koct.forecast.runs import Points

positive = st.floats(1e-6, 1e3)


# The calibrated bound and its inverse


@given(st.floats(0, 1e3), positive, st.floats(1e-9, 0.999))
def test_required_solves_the_bound(floor, sigma, share):
    target = floor + share * sigma / np.e
    assume(target > floor)
    answer = Calibration(floor, sigma).required(target)
    assert answer.n / np.log(answer.n) == pytest.approx(sigma / (target - floor), rel=1e-9)
    assert answer.n > np.e
    assert answer.samples == max(3, np.ceil(answer.n))


@given(st.floats(1e-6, 10), positive, st.floats(0, 1))
def test_a_target_at_or_below_the_floor_has_a_reason(floor, sigma, share):
    answer = Calibration(floor, sigma).required(share * floor)
    assert not answer.reachable
    assert answer.n is None
    assert "not above the floor" in answer.reason


def test_two_factors_of_the_published_sweeps():
    known, dense = Calibration(2.48e-3, 8.51e-3), Calibration(5.81e-3, 6.86e-2)
    factors = two_factors(known, dense, 1e-2)
    assert factors.structural == pytest.approx(8.06, abs=0.01)
    assert factors.approximation == pytest.approx((1e-2 - 2.48e-3) / (1e-2 - 5.81e-3))
    N = [curve.required(1e-2).n for curve in (known, dense)]
    assert N[0] is None  # for this target the operator-aware bound is low enough at every N
    target = 6e-3
    factors = two_factors(known, dense, target)
    ratio = (dense.sigma / (target - dense.floor)) / (known.sigma / (target - known.floor))
    assert factors.product == pytest.approx(ratio)


def test_two_factors_below_a_floor_name_the_target_and_its_fix():
    with pytest.raises(
        KoctError, match=r"target = 0\.005 is not above the dense network's floor 0\.006; choose a larger"
    ):
        two_factors(Calibration(1e-3, 1e-2), Calibration(6e-3, 1e-1), 5e-3)


# Laws

N = np.array([4, 8, 16, 32, 64, 128])


@settings(deadline=None)
@given(st.sampled_from(sorted(LAWS)), st.floats(-3, 3))
def test_shapes_are_relative_to_the_largest_N_and_priors_add_up_to_one(name, level):
    law = LAWS[name]
    mean = np.exp(level) * N**-0.5
    points = Points(N.astype(float), np.log(mean), 1e-4 * np.eye(len(N)))
    far = law.shapes(np.geomspace(2, 1e6, 50), points)
    assert np.isfinite(far).all()
    assert np.exp(law.log_prior(learned())).sum() == pytest.approx(1)
    assert len(far) == len(law.log_prior(learned()))
    np.testing.assert_allclose(law.shapes(points.N[-1:], points), 0, atol=1e-9)
    some = np.unique([0, len(far) - 1])
    np.testing.assert_array_equal(law.shapes(points.N, points, some), law.shapes(points.N, points)[some])


# Forecasts


def pilot_of(curve, noise=0.1, seeds=5, seed=0, sizes=N):
    rng = np.random.default_rng(seed)
    return Pilot(sizes, curve(sizes.astype(float)) * np.exp(noise * rng.standard_normal((seeds, len(sizes)))))


def test_laws_are_weighed_by_how_well_they_explain_the_pilot():
    falling = Forecast(pilot_of(lambda n: n**-0.5, noise=0.02))
    assert sum(falling.weights_.values()) == pytest.approx(1)
    assert list(falling.weights_.values()) == sorted(falling.weights_.values(), reverse=True)
    assert falling.law_ == next(iter(falling.weights_))
    assert falling.weights_["last"] < 1e-6
    late = Forecast(pilot_of(lambda n: 1 / (1 + (n / 32) ** 2), noise=0.02))
    assert late.weights_["mmf4"] + late.weights_["broken"] > 0.9  # the two that have a plateau
    assert late.weights_["power"] < 1e-3
    flat = Forecast(pilot_of(lambda n: np.full_like(n, 0.1), noise=0.05))
    assert flat.predict([1000])[0][0] == pytest.approx(0.1, rel=0.2)


def test_the_forecast_is_reproducible_and_lies_in_its_interval():
    pilot = pilot_of(lambda n: 0.01 + n**-0.7)
    first, second = (Forecast(pilot).required(0.05) for _ in range(2))
    assert first == second
    assert first.n_low <= first.n <= first.n_high
    assert first.error_low <= first.error <= first.error_high
    error, low, high = Forecast(pilot).predict(np.geomspace(4, 4096, 20))
    assert np.all((low > 0) & (low <= error) & (error <= high))


@pytest.mark.parametrize(
    ("sizes", "errors", "seeds", "message"),
    [
        ([4, 8], [0.1, np.nan], None, "error = nan must be finite and not below 0"),
        ([0, 8], [0.1, 0.2], None, "N = 0 must be an integer of at least 2"),
        ([4, 4.5], [0.1, 0.2], None, r"N = 4\.5 must be an integer of at least 2"),
        ([4, 8, 8], [0.1, 0.2, 0.3], [1, 1, 1], "seed has two runs at the same N"),
    ],
)
def test_bad_points_are_rejected(sizes, errors, seeds, message):
    with pytest.raises(KoctError, match=message):
        Pilot.from_points(sizes, errors, seeds)


def test_assurance_needs_more_samples_than_the_mean():
    forecast = Forecast(pilot_of(lambda n: n**-0.5, noise=0.3, seeds=20, seed=1))
    assert forecast.required(0.08, assurance=0.9).n > forecast.required(0.08).n
    with pytest.raises(KoctError, match=r"assurance = 1\.5 must be between 0 and 1"):
        forecast.required(0.05, assurance=1.5)


def test_assurance_means_that_share_of_runs():
    curve, noise = (lambda n: n**-0.5), 0.3
    n = Forecast(pilot_of(curve, noise, seeds=200), law="power").required(0.08, assurance=0.9).n
    runs = curve(float(n)) * np.exp(noise * np.random.default_rng(1).standard_normal(20_000))
    assert np.mean(runs <= 0.08) == pytest.approx(0.9, abs=0.04)


def test_two_sizes_or_single_runs_still_give_an_interval():
    answer = Forecast(Pilot.from_points([4, 16], [0.5, 0.25])).required(0.1)
    assert answer.n_low < answer.n
    assert "only two N" in answer.reason
    with pytest.raises(KoctError, match=r"assurance = 0\.9 needs repeated runs"):
        Forecast(Pilot.from_points([4, 16, 64], [0.5, 0.25, 0.1])).required(0.1, assurance=0.9)


def test_bad_arguments_are_named():
    pilot = pilot_of(lambda n: n**-0.5)
    with pytest.raises(
        KoctError, match="law = 'cubic' is unknown; choose one of auto, power, pow4, mmf4, broken, last, slope,"
    ):
        Forecast(pilot, law="cubic")
    for target in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(KoctError, match="must be finite and above 0; choose a positive error"):
            Forecast(pilot).required(target)
    with pytest.raises(KoctError, match="N = 4 in every run; a pilot needs runs at two or more N"):
        Pilot.from_points([4, 4], [0.1, 0.2])


def test_the_estimator_imports_neither_torch_nor_matplotlib_nor_snakemake():
    code = (
        "import sys, koct.forecast.pilot, koct.bound.theorem, koct.forecast.budget;"
        "print([m for m in ('torch', 'matplotlib', 'snakemake', 'koct.problems', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
