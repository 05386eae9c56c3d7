"""The budget planner with pairs at hand: when the predicted curve is used, what it gains, and when it loses."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from koct.forecast.budget import Forecast
from koct.forecast.laws import Theory
from koct.forecast.runs import Pilot
from koct.prediction.curve import Curve
from koct.prediction.spectral import Spectral

pytestmark = pytest.mark.thorough
PAIRS, FEATURES, OUTPUTS = 160, 60, 4
RIDGES = 10.0 ** np.arange(-3, 4)


def draw(count, seed):
    """Pairs of a noisy linear map, with a spectrum that decays."""
    decay = np.arange(1.0, FEATURES + 1) ** -0.7
    truth = np.random.default_rng(0).standard_normal((FEATURES, OUTPUTS))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, FEATURES)) * decay
    return x, x @ truth + 0.3 * rng.standard_normal((count, OUTPUTS))


def error(N, seed):
    """The mean squared error of ridge regression on N samples, at the best strength."""
    (x, y), (new_x, new_y) = draw(N, [1, seed]), draw(500, [2, seed])
    values, vectors = np.linalg.eigh(x @ x.T)
    found = ((vectors / (values.clip(0) + ridge)) @ (vectors.T @ y) for ridge in RIDGES)
    return min(((new_x @ (x.T @ dual) - new_y) ** 2).mean() for dual in found)


def pilot(*sizes, seeds=5, first=0):
    return Pilot(np.array(sizes, float), np.array([[error(N, first + s) for N in sizes] for s in range(seeds)]))


@pytest.fixture(scope="module")
def curve():
    return Curve(Spectral().fit(*draw(PAIRS, 7)))


@pytest.fixture(scope="module")
def true():
    return {N: np.mean([error(N, 100 + s) for s in range(15)]) for N in (64, 128, 256)}


def misses(forecast, true):
    return np.log(forecast.predict(list(true))[0] / list(true.values()))


@pytest.mark.parametrize(("sizes", "first"), [((8, 16), 0), ((16, 18), 20), ((14, 15, 16), 10), ((8, 16, 32), 30)])
def test_on_a_short_or_flat_pilot_the_predicted_curve_takes_over(curve, true, sizes, first):
    runs = pilot(*sizes, first=first)
    alone, both = Forecast(runs), Forecast(runs, theory=curve)
    assert both.law_ == "theory"
    assert both.weights_["theory"] > 0.9
    assert "the curve predicted from 160 pairs is used, scaled by" in both.required(true[64]).reason
    assert np.abs(misses(both, true)).max() < 0.2
    _, low, high = both.predict(list(true))
    assert ((low < list(true.values())) & (list(true.values()) < high)).all()
    assert (np.log(high / low) < 0.5 * np.log(np.divide(*alone.predict(list(true))[:0:-1]))).all()


# When it is not

AGAINST = {  # the pilot's errors from N and the predicted error
    "a fall that is too fast": (lambda N, predicted: 1 / N, (8, 16, 32)),
    "no fall beyond the pairs": (lambda N, predicted: np.where(N > 200, 1.7, 1.0) * predicted, (32, 64, 128, 256)),
}


@pytest.mark.parametrize(("shape", "sizes"), AGAINST.values(), ids=AGAINST)
def test_what_the_pilot_speaks_against_changes_next_to_nothing(curve, shape, sizes):
    N, noise = np.array(sizes, float), 0.03 * np.random.default_rng(3).standard_normal((5, len(sizes)))
    runs = Pilot(N, shape(N, np.exp(Theory(curve).log_error(N))) * np.exp(noise))
    alone, both = Forecast(runs), Forecast(runs, theory=curve)
    assert both.law_ == alone.law_ != "theory"
    assert both.weights_["theory"] < 0.01
    far = [sizes[-1], 4 * sizes[-1], 16 * sizes[-1]]
    (middle, *_), (expected, low, high) = both.predict(far), alone.predict(far)
    assert (np.abs(np.log(middle / expected)) < 0.05 * np.log(high / low)).all()
    reason = both.required(0.1).reason
    assert "the pilot speaks against the curve predicted from 160 pairs (probability 0 %): from N =" in reason
    insisting = Forecast(runs, law="theory", theory=curve)
    assert insisting.law_ == "theory"
    assert "; the pilot contradicts it: from N =" in insisting.required(0.1).reason


def test_a_flagged_prediction_does_not_take_over_and_has_a_wide_interval(curve):
    flagged = [
        point._replace(trusted=False, reason="a few rare samples") if point.N >= 32 else point
        for point in curve.octaves
    ]
    doubtful = SimpleNamespace(theory=curve.theory, octaves=flagged)
    forecast = Forecast(pilot(8, 16), theory=doubtful)
    assert "theory" not in forecast.weights_
    assert "not to be trusted beyond the pilot: a few rare samples" in forecast.required(0.2).reason
    sure, unsure = (Theory(each).doubt(np.array([64.0]), pilot(8, 16).points())[0] for each in (curve, doubtful))
    assert unsure > 3 * sure


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A pilot of one arch and of two, and the pairs in both forms."""
    folder = tmp_path_factory.mktemp("pairs")
    x, y = draw(PAIRS, 7)
    np.savez(folder / "pairs.npz", x=x, y=y)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    rows = [(N, seed, error(N, seed)) for N in (8, 16) for seed in range(5)]
    (folder / "one.csv").write_text("N,seed,error\n" + "".join(f"{N},{s},{e}\n" for N, s, e in rows))
    both = "".join(f"{arch},{N},{s},{e * f}\n" for arch, f in (("fc", 1), ("ko", 0.5)) for N, s, e in rows)
    (folder / "two.csv").write_text("arch,N,seed,error\n" + both)
    return folder


def test_the_command_prints_the_law_and_why(files, koct):
    arguments = ["budget", files / "one.csv", "--target", 0.3, "--pairs", files / "pairs.npz"]
    status, text, _ = koct(*arguments, "--plot", "plot.png")
    assert status == 0
    assert "predicted from 160 pairs × " in text.splitlines()[2]
    assert "the curve predicted from 160 pairs is used, scaled by " in text


def test_json_with_pairs_for_one_of_two_archs(files, koct):
    def answers(*more):
        found = json.loads(koct("budget", files / "two.csv", "--target", 0.3, "--json", *more)[1])
        return {answer["arch"]: answer for answer in found}

    without, pairs = answers(), ["--pairs-arch", "fc", "--pairs", files / "pairs.npz"]
    found = answers("--pairs", files / "x.npy", files / "y.npy", "--pairs-arch", "fc")
    assert found["fc"]["law"] == "theory"
    assert found["fc"]["n_high"] < (without["fc"]["n_high"] or np.inf)
    assert found["ko"] == without["ko"]  # theirs are no pairs of ko
    asked = answers(*pairs, "--law", "theory")
    assert (asked["fc"]["law"], asked["ko"]["law"]) == ("theory", without["ko"]["law"])
    assert answers(*pairs, "--lam", 1000)["fc"]["error"] != found["fc"]["error"]
