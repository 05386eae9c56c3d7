"""What is wrong with a known operator is found in pairs: a factor, a shift, gains of views; and where curves cross."""

import json

import numpy as np
import pytest
from small_problems import drawn

from koct.contracts.registry import problem
from koct.prediction.prediction import Prediction
from koct.study.knowing import Knowing, crossing

FAN = {"rays": "exact", "known": "exact", "H": 16, "V": 24, "B": 32}
SET = [part for key, value in FAN.items() for part in ("--set", f"{key}={value}")]
PAIRS = 60


@pytest.fixture(scope="module")
def fan():
    """A problem whose known operator is right but for the few views, pairs of it, and what repairs it."""
    own = problem("fanbeam")(**FAN)
    x, y = drawn(own, train=PAIRS)["train"]
    return x, y, lambda x: {repair.name: repair for repair in Knowing(own, x, y).repairs()}


def test_a_factor_is_found(fan):
    x, _, repairs = fan
    right, wrong = repairs(x), repairs(1.5 * x)
    assert right["one factor"].found["factor"] == pytest.approx(1, abs=0.1)
    assert wrong["one factor"].found["factor"] == pytest.approx(right["one factor"].found["factor"] / 1.5, rel=1e-6)
    assert wrong["one factor"].error == pytest.approx(right["one factor"].error, rel=1e-6)
    assert wrong["nothing"].error > 2 * wrong["one factor"].error


@pytest.mark.parametrize("shift", [-1.3, 0.6])
def test_a_shift_is_found(fan, shift):
    """The detector was elsewhere when the data were taken."""
    x, _, repairs = fan
    phase = np.exp(-2j * np.pi * np.fft.rfftfreq(96) * shift)
    moved = np.fft.irfft(np.fft.rfft(x, 96) * phase, 96)[..., :32]
    as_it_was, found = repairs(x), repairs(moved)
    assert found["a shift along the detector"].found["bins"] == pytest.approx(shift, abs=0.15)
    assert found["a shift along the detector"].error < 1.3 * as_it_was["one factor"].error
    assert found["one factor"].error > 1.2 * found["a shift along the detector"].error


def test_gains_of_views_are_found(fan):
    x, _, repairs = fan
    gains = np.random.default_rng(0).uniform(0.5, 1.5, size=(24, 1))
    found = repairs(gains * x)
    assert found["a factor per view"].learned == 24
    assert found["a factor per view"].error < 1.1 * repairs(x)["a factor per view"].error
    assert found["a factor per view"].error < 0.7 * found["one factor"].error
    assert found["nothing"].train_error == pytest.approx(found["nothing"].error, rel=0.2)


def test_a_crossing_lies_in_its_interval_and_may_be_missing():
    def curve(errors):
        about = np.ones(1), True, ""
        return [Prediction(4 * 2**k, 1.0, e, e / 1.2, e * 1.2, *about) for k, e in enumerate(errors)]

    falls, level = curve([0.8, 0.4, 0.2, 0.1, 0.05, 0.025]), curve([0.15] * 6)
    found = crossing(level, falls)
    assert 16 < found.N == pytest.approx(16 * (0.2 / 0.15), abs=1)
    assert found.N_low < found.N < found.N_high < found.upto == 128
    assert crossing(falls, level).N is None
    assert crossing(falls, curve([0.1] * 3 + [0.01] * 3)).N == 4


@pytest.mark.long
def test_the_command_says_it_in_words_and_in_numbers(koct, fan, tmp_path):
    np.savez("pairs.npz", x=1.5 * fan[0], y=fan[1])
    status, out, err = koct("know", "pairs.npz", "--layers", "fanbeam", *SET, "--plot", "know.png")
    assert (status, err) == (0, "")
    assert "One factor (factor 0.71" in out
    assert "a filter per view would repair" in out
    assert "pairs on" in out or "is not predicted to be better" in out
    assert (tmp_path / "know.png").stat().st_size > 5000
    status, out, _ = koct("know", "pairs.npz", "--layers", "fanbeam", *SET, "--json")
    told = json.loads(out)
    assert (status, told["pairs"]) == (0, PAIRS)
    assert told["repairs"][1]["found"]["factor"] == pytest.approx(2 / 3, abs=0.1)
    assert told["crossing"]["upto"] == told["curves"][-1]["N"] == 8 * PAIRS


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--layers", "fanbeam", *SET[:-2]], "B"),
        (["--layers", "fanbeams", *SET], "fanbeam"),
        (["--layers", "pairs", "--set", "data=pairs.npz"], "no known layers"),
        (["--layers", "fanbeam", *SET[:-2], "--set", "B=8"], "shape"),
    ],
)
def test_what_does_not_fit_is_named(koct, fan, arguments, named):
    np.savez("pairs.npz", x=fan[0], y=fan[1])
    status, _, err = koct("know", "pairs.npz", *arguments)
    assert status
    assert named in err
