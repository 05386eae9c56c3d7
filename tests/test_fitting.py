"""λ by search, and what chooses it: the N training pairs, or validation pairs that N does not count."""

import math

import numpy as np
import pytest
from conftest import Pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_files import PAIRS, SIZES, arrays
from small_problems import small

from koct import metrics
from koct.contracts import Sizes
from koct.contracts.registry import architecture
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.problems import pools
from koct.study import cells, fitting


def searched(error, listed=()):
    search = fitting.Search(listed)
    for lambdas in search.rounds():
        assert not set(lambdas) & search.errors.keys(), "no λ is tried twice"
        search.errors |= {lam: error(math.log10(lam)) for lam in lambdas}
    return search, min(search.errors, key=search.errors.__getitem__)


@given(best=st.floats(-11, 11), left=st.floats(0.1, 3), right=st.floats(0.1, 3))
@settings(max_examples=200, deadline=None)
def test_a_search_finds_the_optimum_wherever_it_is(best, left, right):
    search, lam = searched(lambda power: 1 + (left if power < best else right) * abs(power - best))
    assert abs(math.log10(lam) - best) <= 0.51
    assert not search.at_edge(lam)
    assert len(search.errors) <= 16


def test_a_search_ends_where_the_curve_is_level_and_says_where_it_had_to_end():
    search, lam = searched(lambda power: 5 + max(power, -3))
    assert not search.at_edge(lam)
    assert len(search.errors) < 12
    search, lam = searched(lambda power: 100 - power)
    assert search.at_edge(lam)
    assert lam == 1e12
    search, lam = searched(lambda power: math.inf if power < -1 else 2 + power)
    assert not search.at_edge(lam)
    assert 0.1 <= lam <= 1
    search, lam = searched(lambda power: power**2, (1e-4, 1e-2))
    assert list(search.errors) == [1e-4, 1e-2]
    assert search.at_edge(lam)


@pytest.mark.parametrize("N", [5, 12], ids=["dual", "primal"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_leave_one_out_is_what_fits_without_the_pair_give(N, nonnegative):
    rng = np.random.default_rng(N)
    x, y = rng.standard_normal((N, 8)), rng.standard_normal((N, 6))
    fc = architecture("fc")()
    lambdas = (1e-3, 0.3, 10.0)
    networks = dict(fc.fit(Pairs(x, y, lambdas=lambdas, nonnegative=nonnegative)))
    for n in range(N):
        others = np.arange(N) != n
        for lam, network in fc.fit(Pairs(x[others], y[others], lambdas=lambdas, nonnegative=nonnegative)):
            (left_out,) = networks[lam].left_out(slice(n, n + 1))
            np.testing.assert_allclose(left_out, network.predict(x[n : n + 1])[0], rtol=1e-6, atol=1e-8)


def data_of(path, problem, source, N, lambdas=(), **options):
    return cells.Data(Cell("S", problem, architecture(source)(**options), N, 1, lambdas), {"pool": path})


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    problem, path = small("deblur"), str(tmp_path_factory.mktemp("pool") / "pool.npy")
    pools.make(problem, 1, Sizes(train=80, val=20, test=200), path)
    return path, problem


def refuse_labels(data, monkeypatch):
    """Let nobody read images other than those of the training pairs."""
    read = data.read

    def checked(name, part, *more):
        assert name == "x" or part == "train"
        return read(name, part, *more)

    monkeypatch.setattr(data, "read", checked)


@pytest.mark.parametrize("source", ["fc", "ko-ridge"])
@pytest.mark.parametrize("N", [4, 16, 80])
def test_the_training_pairs_choose_nearly_the_best_strength_and_no_other_label_is_read(scan, monkeypatch, source, N):
    data = data_of(*scan, source, N)
    refuse_labels(data, monkeypatch)
    about, network = fitting.fit(data)
    assert about["tuned_on"] == "training pairs"
    assert not about["edge"]
    error, y = metrics.load("mse").error, data.pool.y("test")
    data.lambdas = tuple(10.0**power for power in range(-8, 9))
    best = min(error(data.predict(other, "test"), y) for _, other in fitting.fits(data))
    assert error(data.predict(network, "test"), y) <= 1.1 * best


def test_a_choice_is_not_that_of_few_samples(tmp_path):
    """With λ near zero, measurements that few of the samples reach make a few large errors."""
    problem, path = small("surrogate"), str(tmp_path / "pool.npy")
    pools.make(problem, 1, Sizes(train=128, val=1, test=500), path)
    data = data_of(path, problem, "ko", 128)
    data.inputs["shared"] = str(tmp_path / "shared.npy")
    cells.write_shared(problem, data.inputs["shared"])
    _, network = fitting.fit(data)
    error, y = metrics.load("mse").error, data.pool.y("test")
    data.lambdas = tuple(10.0**power for power in range(-8, 3))
    best = min(error(data.predict(other, "test"), y) for _, other in fitting.fits(data))
    assert error(data.predict(network, "test"), y) <= 1.05 * best


def test_the_last_weights_are_kept_without_a_look_at_other_labels(scan, monkeypatch):
    small_net = {"steps": 20, "channels": 2, "levels": 2, "averaging": 0.0}
    for validation, tuned_on in {"none": None, "split": "training pairs", "labels": "validation pairs"}.items():
        data = data_of(*scan, "unet", 8, validation=validation, **small_net)
        if validation != "labels":
            refuse_labels(data, monkeypatch)
        assert fitting.fit(data)[0]["tuned_on"] == tuned_on


CHANGED = """
from koct.contracts import Architecture, Network


class Shrunk(Architecture):
    def fit(self, data):
        network = Factor()
        for network.factor in data.lambdas:
            yield network.factor, network

    def restore(self, state, data):
        return Factor()


class Factor(Network):
    def predict(self, x):
        return self.factor * x

    def state(self):
        return {}
"""


def test_a_network_that_changes_after_it_was_yielded_is_refused(scan, folder):
    (folder / "net.py").write_text(CHANGED)
    with pytest.raises(KoctError, match=r"net\.py, line 6: a network changed after fit had yielded it"):
        fitting.fit(data_of(*scan, "net.py", 4, (1.0, 100.0), validation="labels"))


@pytest.mark.parametrize(("best", "edge"), [(0, False), (1, False), (2, False), (3, True)])
def test_no_strength_at_all_lies_beyond_the_weakest(scan, best, edge, monkeypatch):
    """Filtered backprojection without a window, and with windows from the weakest on."""
    data = data_of(*scan, "fbp", 4, validation="labels")
    y, strengths = data.read("y", "val"), (None, 1.0, 0.5, 0.25)
    strength = strengths[best]

    def worse_further_away(x, tried):
        return y + abs(strengths.index(tried) - best) * y.max()

    monkeypatch.setattr(type(data.cell.arch), "strengths", lambda *_: strengths)
    monkeypatch.setattr(type(data.cell.arch), "solver", lambda *_: worse_further_away)
    about, _ = fitting.fit(data)
    assert (about["lam"], about["tuned_on"], about["edge"]) == (strength, "validation pairs", edge)


def test_two_networks_without_a_strength_are_refused(scan, folder):
    (folder / "net.py").write_text(CHANGED.replace("yield network.factor", "yield None"))
    with pytest.raises(KoctError, match="fit yielded lambda None; yield one of"):
        fitting.fit(data_of(*scan, "net.py", 4, (1.0, 100.0), validation="labels"))


def test_a_patient_is_left_out_as_a_whole(folder):
    np.savez("pairs.npz", **arrays())
    problem = PAIRS(data="pairs.npz", group="group")
    pools.make(problem, 1, SIZES, "pool.npy")
    data = data_of("pool.npy", problem, "fc", 6)
    sizes = data.pool.groups["train"][:6]
    group_of = np.repeat(np.arange(6), sizes)
    folds = fitting._folds(data)
    assert np.array_equal(np.sum(folds, axis=0), np.ones(len(group_of)))
    for left_out in folds:
        assert not set(group_of[left_out]) & set(group_of[~left_out])
    part = fitting.without(data, folds[0], (1.0,))
    np.testing.assert_array_equal(part.read("x", "train"), part.x)
    np.testing.assert_array_equal(part.read("y", "train", 2, 1), part.y[1:3])
    assert fitting.fit(data)[0]["tuned_on"] == "training pairs"
