"""How well a pilot's means are known: independent and correlated runs, groups, counted errors, zeros."""

import numpy as np
import pytest

from koct.errors import KoctError
from koct.forecast.budget import Forecast
from koct.forecast.runs import Pilot

N = np.array([4.0, 8, 16, 32, 64, 128])
CURVE = N**-0.5


def runs(seed, count, own=0.2, common=0.0, groups=None):
    """Errors around CURVE: every run is off by `own`, and all runs of a seed, or of a group, by `common`."""
    rng = np.random.default_rng(seed)
    group = np.arange(count) if groups is None else np.asarray(groups)
    off = common * rng.standard_normal(group.max() + 1)[group][:, None] + own * rng.standard_normal((count, len(N)))
    return CURVE * (1 + off)


def correlation(covariance):
    own = np.sqrt(np.diag(covariance))
    return (covariance / np.outer(own, own))[~np.eye(len(own), dtype=bool)]


def test_a_common_effect_of_the_seed_makes_means_correlated():
    """Seeds off by 20 % and runs by 10 %: a correlation of 0.8, which few seeds tell less well than many."""
    many = correlation(Pilot(N, runs(0, 400, own=0.1, common=0.2)).covariance())
    np.testing.assert_allclose(many, 0.8, atol=0.05)
    few = np.mean([correlation(Pilot(N, runs(seed, 5, own=0.1, common=0.2)).covariance()) for seed in range(200)])
    assert 0.5 < few < 0.85


def widths(pilot):
    _, low, high = Forecast(pilot).predict([128, 256, 512])
    return np.log(high / low)


def test_runs_of_a_group_are_no_independent_evidence():
    """Four patients with five runs each: as if there were four runs."""
    groups = np.repeat(np.arange(4), 5)
    ratios = []
    for seed in range(12):
        errors = runs(seed, 20, own=0.03, common=0.3, groups=groups)
        shuffled = np.column_stack([np.random.default_rng([seed, k]).permutation(errors[:, k]) for k in range(len(N))])
        ratios.append(widths(Pilot(N, errors, groups)) / widths(Pilot(N, shuffled)))
    assert (np.mean(ratios, axis=0) > 1.1).all()
    told = [np.diag(Pilot(N, runs(s, 20, 0.05, 0.1, groups), groups).covariance()).mean() for s in range(300)]
    assert np.mean(told) == pytest.approx((0.1**2 + 0.05**2 / 5) / 4, rel=0.15)


def test_seeds_of_different_groups_are_different_ones():
    sizes, seeds, groups = np.tile([4, 8], 4), np.repeat([1, 2, 1, 2], 2), np.repeat(["a", "b"], 4)
    pilot = Pilot.from_points(sizes, np.linspace(1, 2, 8), seeds, groups)
    assert pilot.errors.shape == (4, 2)
    assert pilot.groups.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("sizes", "errors", "seeds", "message"),
    [
        ([4, 8], [0.1, np.nan], None, "error = nan must be finite and not below 0"),
        ([0, 8], [0.1, 0.2], None, "N = 0 must be an integer of at least 2"),
        ([4, 4.5], [0.1, 0.2], None, r"N = 4\.5 must be an integer of at least 2"),
        ([4, 4], [0.1, 0.2], None, "N = 4 in every run; a pilot needs runs at two or more N"),
        ([4, 8, 8], [0.1, 0.2, 0.3], [1, 1, 1], "seed has two runs at the same N"),
    ],
)
def test_bad_points_are_rejected(sizes, errors, seeds, message):
    with pytest.raises(KoctError, match=message):
        Pilot.from_points(sizes, errors, seeds)


# Error rates and zeros


def test_an_error_rate_is_known_no_better_than_it_was_counted():
    rates = np.tile([0.4, 0.2, 0.1, 0.05, 0.02, 0.01], (3, 1))
    counted = np.diag(Pilot(N, rates, test_size=100).covariance())
    np.testing.assert_allclose(counted, (1 - rates[0]) / (rates[0] * 100 * 3))  # binomial, relative
    assert (np.diag(Pilot(N, rates).covariance()) == 1e-4).all()
    assert (widths(Pilot(N, rates, test_size=100)) > widths(Pilot(N, rates))).all()
    spread = Pilot(N, runs(0, 5))  # runs that differ by more than counting explains
    np.testing.assert_array_equal(Pilot(N, spread.errors, test_size=10**6).covariance(), spread.covariance())


@pytest.mark.parametrize("test_size", [None, 50])
@pytest.mark.parametrize("zeros", [slice(5, 6), slice(2, 6), slice(0, 6)])
@pytest.mark.filterwarnings("error")
def test_zeros_are_errors_too_small_to_be_seen(test_size, zeros):
    errors = np.tile([0.4, 0.2, 0.1, 0.08, 0.04, 0.02], (3, 1))
    errors[:, zeros] = 0
    pilot = Pilot(N, errors, test_size=test_size)
    assert (pilot.level > 0).all()
    assert (pilot.level[zeros] < errors[errors > 0].min(initial=1)).all()
    assert (np.diag(pilot.covariance())[zeros] >= 1).all()  # by a factor of e, or more
    answer = Forecast(pilot).required(0.01)
    assert np.isfinite([answer.error, answer.error_low, answer.error_high]).all()
    assert answer.reachable
    assert "where every run has an error of zero" in answer.reason


def test_one_group_does_not_narrow_the_interval():
    errors = CURVE * np.array([[1.5], [0.5]])
    alone, together = Pilot(N, errors), Pilot(N, errors, np.zeros(2, dtype=int))
    assert alone.replicated
    assert not together.replicated
    assert (np.diag(together.covariance()) > np.diag(alone.covariance())).all()
    assert "no N has runs of two groups" in Forecast(together).required(0.05).reason
