"""The planner's forecasts: laws, curves that never rise, answers that agree with each other, a right sampler."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from koct.bound.calibration import rate
from koct.errors import KoctError
from koct.forecast import ensemble
from koct.forecast.budget import Forecast
from koct.forecast.ensemble import Ensemble, falling
from koct.forecast.laws import LAWS, GridLaw, Law, learned
from koct.forecast.runs import Pilot, Points

pytestmark = pytest.mark.thorough
N = np.array([4.0, 8, 16, 32, 64, 128])
KINDS = {"falling": -0.4, "flat": 0.0, "rising": 0.3}  # random pilots: the mean change of the log error per octave


def random_pilot(seed, change=-0.4):
    """Two to six N, one to five runs at each; the error is a random walk."""
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.choice(N, rng.integers(2, 7), replace=False))
    walk = np.cumsum(rng.normal(change, 0.2, len(sizes)))
    noise = rng.uniform(0.01, 0.3) * rng.standard_normal((rng.integers(1, 6), len(sizes)))
    return Pilot(sizes, np.exp(rng.normal(-1, 1) + walk + noise))


def noise_free(curve, seeds=3):
    return Pilot(N, np.tile(curve(N), (seeds, 1)))


def by(forecast, n):
    """The error that every replicate has reached by n."""
    return np.exp(forecast.curves_.reached_at(np.array([float(n)]))[:, 0])


@pytest.mark.parametrize("change", KINDS.values(), ids=KINDS)
def test_beyond_the_pilot_nothing_rises_and_what_is_said_of_n_and_of_the_error_agree(change):
    compared = 0
    for seed in range(15):
        forecast = Forecast(random_pilot(seed, change))
        largest = forecast.pilot.N[-1]
        far = largest * np.geomspace(1, 2e6, 60)  # a bit farther than curves are drawn
        error, low, high = forecast.predict(far)
        assert ((low > 0) & (low <= error) & (error <= high)).all()
        assert (np.diff(np.log(np.vstack([forecast.replicates(far), error, low, high]))) <= 1e-9).all()
        for target in forecast.predict([largest])[0][0] * np.array([0.9, 0.7, 0.3, 0.05]):
            samples = forecast.samples(target)
            for size in (forecast.pilot.N[-2], *(largest * np.array([1.5, 4.0, 100.0]))):
                reached, below = samples <= size, forecast.replicates([size])[:, 0] <= target
                np.testing.assert_array_equal(reached, by(forecast, size) <= target)
                if size > largest:
                    assert not np.any(below & ~reached)
            answer = forecast.required(target)
            ends = [np.inf if n is None else n for n in (answer.n_low, answer.n, answer.n_high)]
            assert ends == sorted(ends)
            assert answer.probability == np.mean(np.isfinite(samples))
            assert answer.reachable == (answer.probability >= 0.5)
            if answer.n is None or answer.n <= forecast.pilot.N[0]:
                continue
            compared += 1
            assert answer.error <= target
            assert np.mean(by(forecast, answer.n) <= target) >= 0.5 > np.mean(by(forecast, answer.n - 1) <= target)
    assert compared > (20 if change < 0 else 0)


def test_ups_and_downs_within_the_pilot_do_not_reach_a_target():
    """Errors of 0.5 at six N, known to 1 %: a target of 0.49 is not reached at one of them by chance."""
    sizes = np.repeat([4, 16, 64, 256, 1024, 4096], 3)
    forecast = Forecast(Pilot.from_points(sizes, np.tile([0.5, 0.501, 0.499], 6), np.tile([1, 2, 3], 6)))
    answer = forecast.required(0.485)
    assert answer.n is None or answer.n > 4096
    assert answer.error <= 0.485


def test_a_target_below_a_clear_floor_is_out_of_reach():
    noise = 0.02 * np.random.default_rng(0).standard_normal((5, 6))
    forecast = Forecast(Pilot(N, (0.1 + 0.5 * N**-1.5) * (1 + noise)))
    assert forecast.required(0.11).n_high < 128
    for target, most in ((0.09, 0.3), (0.05, 0.2), (1e-6, 0.01)):
        answer = forecast.required(target)
        assert answer.n is None
        assert answer.probability < most


# What a pilot tells

CURVES = {
    "power": [lambda n, floor=floor, b=b: floor + n**-b for floor in (0, 0.01) for b in (0.2, 0.5, 0.7, 1.0)],
    "steep": [lambda n, floor=floor: floor + n**-1.5 for floor in (0, 1e-4)],
    "rate": [lambda n, floor=floor: floor + rate(n) for floor in (0, 0.01, 0.1, 1)],
    "pow4": [lambda n, shift=shift: 0.01 + (n + shift) ** -0.7 for shift in (10, 40)],
    "mmf4": [lambda n, q=q: 0.02 + 1 / (1 + (n / 20) ** q) for q in (1.0, 2.0)],
}


@pytest.mark.parametrize(("name", "curve"), [(name, curve) for name, curves in CURVES.items() for curve in curves])
def test_a_noise_free_curve_is_continued(name, curve):
    error, low, high = (value[0] for value in Forecast(noise_free(curve)).predict([4 * N[-1]]))
    assert low <= curve(4 * N[-1]) <= high
    if name == "power":  # of a steeper or a stranger one, the pilot tells less
        assert error == pytest.approx(curve(4 * N[-1]), rel=0.03)


def test_a_pilot_that_rises_is_remarked_on():
    risen = Forecast(Pilot(N, np.array([0.3, 0.2, 0.1, 0.2, 0.3, 0.4]) * np.array([[0.98], [1.0], [1.02]])))
    assert risen.warnings_[0].startswith("the error rises from N = 16 on")
    assert risen.formula_ == "no law: the error rises"
    flat = Forecast(Pilot(N, 0.1 * np.exp(0.1 * np.random.default_rng(1).standard_normal((3, 6)))))
    assert "does not clearly fall over the pilot" in flat.warnings_[0]
    assert not Forecast(noise_free(lambda n: n**-0.5)).warnings_


def noisy(curve, noise, seeds=5):
    draws = np.random.default_rng(0).standard_normal((seeds, len(N)))
    return Pilot(N, curve(N) * np.exp(noise * draws))


def test_laws_are_weighed_by_how_well_they_explain_the_pilot():
    falling = Forecast(noisy(lambda n: n**-0.5, 0.02)).weights_
    assert sum(falling.values()) == pytest.approx(1)
    assert list(falling.values()) == sorted(falling.values(), reverse=True)
    assert falling["last"] < 1e-6
    late = Forecast(noisy(lambda n: 1 / (1 + (n / 32) ** 2), 0.02)).weights_
    assert late["mmf4"] + late["broken"] > 0.9  # the two that have a plateau
    assert late["power"] < 1e-3
    flat = Forecast(noisy(lambda n: np.full_like(n, 0.1), 0.05))
    assert flat.predict([1000])[0][0] == pytest.approx(0.1, rel=0.2)


def test_assurance_means_that_share_of_runs():
    n = Forecast(noisy(lambda n: n**-0.5, 0.3, seeds=200), law="power").required(0.08, assurance=0.9).n
    runs = n**-0.5 * np.exp(0.3 * np.random.default_rng(1).standard_normal(20_000))
    assert np.mean(runs <= 0.08) == pytest.approx(0.9, abs=0.04)


def test_two_sizes_or_single_runs_still_give_an_interval():
    answer = Forecast(Pilot.from_points([4, 16], [0.5, 0.25])).required(0.1)
    assert answer.n_low < answer.n
    assert "only two N" in answer.reason
    with pytest.raises(KoctError, match=r"assurance = 0\.9 needs repeated runs"):
        Forecast(Pilot.from_points([4, 16, 64], [0.5, 0.25, 0.1])).required(0.1, assurance=0.9)


def test_bad_arguments_are_named():
    pilot = noise_free(lambda n: n**-0.5)
    with pytest.raises(KoctError, match="law = 'cubic' is unknown; choose one of auto, power, pow4, mmf4, broken"):
        Forecast(pilot, law="cubic")
    with pytest.raises(KoctError, match=r"assurance = 1\.5 must be between 0 and 1"):
        Forecast(pilot).required(0.05, assurance=1.5)
    for target in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(KoctError, match="must be finite and above 0; choose a positive error"):
            Forecast(pilot).required(target)


# Laws and the sampler


@given(st.sampled_from(sorted(LAWS)), st.floats(-3, 3))
def test_shapes_are_relative_to_the_largest_N_and_priors_add_up_to_one(name, level):
    law, points = LAWS[name], Points(N, level - 0.5 * np.log(N), 1e-4 * np.eye(len(N)))
    far = law.shapes(np.geomspace(2, 1e6, 50), points)
    assert np.isfinite(far).all()
    assert np.exp(law.log_prior(learned())).sum() == pytest.approx(1)
    assert len(far) == len(law.log_prior(learned()))
    np.testing.assert_allclose(law.shapes(points.N[-1:], points), 0, atol=1e-9)
    some = np.unique([0, len(far) - 1])
    np.testing.assert_array_equal(law.shapes(points.N, points, some), law.shapes(points.N, points)[some])


def correlated_points():
    own = np.array([0.05, 0.04, 0.06, 0.05, 0.08, 0.1])
    covariance = np.outer(own, own) * np.where(np.eye(6, dtype=bool), 1, 0.4)
    return Points(N, np.log(0.02 + 0.5 * N**-0.6) + own * [1, -1, 0.5, 0, -1, 1], covariance)


@pytest.mark.parametrize("names", [["power"], ["mmf4"], ["broken"], ["last"], list(LAWS)])
def test_moments_are_those_of_many_draws(monkeypatch, names):
    """With what is only in the draws left out: drift, more spread within the pilot, tails, and that they fall."""
    monkeypatch.setattr(ensemble, "MORE_INSIDE", 0.0)
    monkeypatch.setattr(Law, "falls", False)
    known = learned()
    priors = replace(known, misfit={0.02: 0.5, 0.2: 0.5}, drift={0.0: 1.0})
    found = Ensemble(correlated_points(), {name: (LAWS[name], known.laws[name]) for name in names}, priors, 1e12)
    count = 20_000
    curves = found.draw(count, np.random.default_rng(1))
    for size in (8.0, 32.0, 128.0, 256.0, 2048.0):  # on the grid of the curves
        weight, mean, variance = found.moments(size)
        assert weight.sum() == pytest.approx(1)
        centre = weight @ mean
        spread = weight @ (variance + (mean - centre) ** 2)
        drawn = curves.at(np.array([size]))[:, 0]
        off = (drawn - centre) ** 2
        assert abs(drawn.mean() - centre) < 4 * np.sqrt(spread / count)
        assert abs(off.mean() - spread) < 4 * off.std() / np.sqrt(count)


def test_falling_is_isotonic_regression():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 30):
        curves = np.vstack([rng.standard_normal((40, n)), np.cumsum(rng.standard_normal((40, n)), 1), np.zeros((1, n))])
        weights = rng.uniform(0.01, 1, n)
        expected = [isotonic_regression(curve, weights=weights, increasing=False).x for curve in curves]
        np.testing.assert_allclose(falling(curves, weights), expected, atol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("law", ["auto", *LAWS])
def test_extreme_pilots_give_no_warning(law):
    for sizes, errors in (
        ([2, 10**15], [1e60, 1e-60]),
        ([2, 3, 10**15 - 1, 10**15], [1e60, 1e-60, 1e60, 1e-60]),
        ([4, 8, 16], [1e-60] * 3),
        ([2, 4], [0.0, 0.0]),
        (range(2, 502), np.geomspace(1, 0.1, 500)),
    ):
        forecast = Forecast(Pilot.from_points(list(sizes), errors), law)
        assert np.isfinite(forecast.predict([2, 10**6, 10**18])).all()
        for target in (1e-60, 1.0, 1e60):
            answer = forecast.required(target)
            assert np.isfinite([answer.error, answer.error_low, answer.error_high]).all()


def test_the_estimator_imports_neither_torch_nor_matplotlib_nor_snakemake():
    code = (
        "import sys, koct.forecast.pilot, koct.bound.theorem, koct.forecast.budget;"
        "print([m for m in ('torch', 'matplotlib', 'snakemake', 'koct.problems', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_new_law_is_weighed_and_named_everywhere(monkeypatch, koct):
    """Priors know nothing of it yet: it has the weight that it declares, and its shapes are as probable."""

    def logarithm(N, largest, share, start):
        return np.log(share + (1 - share) * np.log1p(largest**2 / N / start) / np.log1p(largest / start))

    def one_bin(share, start):
        return np.zeros(share.shape, int)

    shares, starts = np.linspace(0, 0.9, 4), np.array([1.0, 10.0])
    law = GridLaw("madeup", "a + b log(1/N)", "slower than any power", logarithm, one_bin, shares, starts)
    monkeypatch.setitem(LAWS, "madeup", law)
    law.weight = 1e3  # so that it is mentioned
    assert np.exp(law.log_prior(learned())).sum() == pytest.approx(1)
    Path("pilot.csv").write_text("N,error\n" + "".join(f"{n},{float(n) ** -0.2}\n" for n in (4, 8, 16, 32)))
    assert "madeup" in koct("budget", "pilot.csv", "--target", "0.4")[1]
    assert law.text in koct("budget", "pilot.csv", "--target", "0.4", "--law", "madeup")[1]
    assert koct("planner", "pilot.csv", "--out", "page.html")[0] == 0
    assert f"madeup: {law.words}" in Path("page.html").read_text()
    assert "madeup" in koct("budget", "pilot.csv", "--target", "0.4", "--law", "none")[2]
