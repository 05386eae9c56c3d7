"""docs/curve.md as it stands, run; predicted curves against fits to real data; what `koct curve` says and refuses."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from koct.prediction.curve import Curve
from koct.prediction.spectral import Spectral
from koct.report.text import curve_text as report

pytestmark = pytest.mark.thorough
PAGE = ROOT / "docs/curve.md"
NUMBER = r"\d+(?:\.\d+)?(?:e[+-]\d+)?"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """[(what the page shows, what was printed)]; all of its code is run in order, Python in one session."""
    folder = tmp_path_factory.mktemp("page")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found, output, session = [], "", {}
    with contextlib.chdir(folder):
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.S | re.M):
            if language == "text":
                found.append((text, output))
                output = ""
                continue
            assert not output, f"the page does not show {output}"
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as stream:
                    exec(text, session)
                output = stream.getvalue()
            else:
                command, environment = ["bash", "-euc", text], {**os.environ, "PATH": path}
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                assert (language, done.returncode) == ("sh", 0), done.stderr
                output = done.stdout
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    return found


def check_same(shown, text):
    """The same words, and the same numbers but for the last digit; spaces and rules may be wider."""
    shown, text = (re.sub(r"-{3,}", "---", " ".join(each.replace(",", "").split())) for each in (shown, text))
    assert re.sub(NUMBER, "#", text) == re.sub(NUMBER, "#", shown)
    for a, b in zip(re.findall(NUMBER, shown), re.findall(NUMBER, text), strict=True):
        last = max(10.0 ** Decimal(a).as_tuple().exponent, 0.005 * float(a))  # rounded on another machine
        assert float(b) == pytest.approx(float(a), rel=0, abs=last), (a, b)


def test_all_code_of_the_page_prints_what_the_page_shows(printed):
    assert len(printed) == 3
    for shown, text in printed:
        check_same(shown, text)


def test_fits_to_other_digits_give_what_the_page_predicts(printed):
    """Within 6 %; 10 % beyond the 400 pairs."""
    rows = np.array([re.findall(NUMBER, line) for line in printed[1][1].splitlines()], float)
    assert rows[:, 0].tolist() == [16, 64, 256, 1024]
    assert rows[:3, 1] == pytest.approx(rows[:3, 2], rel=0.06)
    assert rows[3, 1] == pytest.approx(rows[3, 2], rel=0.1)


# Real data


def real(name):
    """x, y and the number of pairs. Pixels from 0 to 1; other columns have mean 0 and standard deviation 1."""
    if name in ("digits", "halves"):
        digits = load_digits()
        left, right = (half.reshape(-1, 32) for half in np.split(digits.images / 16, 2, axis=2))
        return (left, right, 400) if name == "halves" else (np.hstack([left, right]), np.eye(10)[digits.target], 400)
    data, M = (load_diabetes(), 220) if name == "diabetes" else (load_breast_cancer(), 280)
    return *((a - a.mean(0)) / a.std(0) for a in (data.data, data.target[:, None].astype(float))), M


def fitted_error(x, y, train, test, lam):
    """Of ridge regression."""
    a, b = x[train], y[train]
    M = np.linalg.solve(a.T @ a + lam * np.eye(x.shape[1]), a.T @ b)
    return ((x[test] @ M - y[test]) ** 2).mean()


@pytest.mark.long
def test_real_curves_are_foreseen_on_average_over_pools():
    """The method's own error. Flagged points count too.

    Pools are drawn at random. Training sets are drawn from the pool, because N goes up to all of it, and tested on all
    samples outside the pool.
    """
    misses = []
    for name in ("digits", "halves", "diabetes", "cancer"):
        x, y, M = real(name)
        sizes, rows = [*(N for N in (16, 32, 64, 128, 256) if N < M), M], []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            pool, test = np.split(rng.permutation(len(x)), [M])
            for point in Spectral().fit(x[pool], y[pool]).curve(sizes, [0.1, 10.0], tests=len(test)):
                draws = 1 if point.N == M else 10
                errors = [fitted_error(x, y, rng.permutation(pool)[: point.N], test, point.lam) for _ in range(draws)]
                rows.append((point.error, np.mean(errors)))
        found, measured = np.array(rows).reshape(10, -1, 2).mean(0).T
        misses += list(abs(found / measured - 1))
    assert len(misses) == 12 + 12 + 10 + 12
    assert np.median(misses) < 0.06
    assert max(misses) < 0.15


def test_what_lies_beyond_the_pairs_is_called_an_extrapolation():
    x, y, _ = real("digits")
    pool = np.random.default_rng(0).permutation(len(x))[:400]
    curve, seen = Curve(Spectral().fit(x[pool], y[pool])), set()
    for target in np.geomspace(0.028, 0.09, 12):
        required = curve.required(target)
        beyond = required.n is None or required.n > 400
        said = report.as_text(curve, curve.octaves, target)
        assert beyond == bool(required.reason)
        assert ("This is an extrapolation: beyond the 400 pairs" in said) == (beyond and required.reachable)
        assert (json.loads(report.as_json(curve, [], target))["trusted"]) != beyond
        seen.add(beyond)
    assert seen == {True, False}
    assert re.findall(r"^([\d,]+) .*\[1\]$", said, re.M) == ["800", "1,600", "3,200"]
    assert "\n[1] beyond the 400 pairs" in said


# Bad input


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape)


BAD = {
    "NaN in x": (np.vstack([numbers(3, 2), [[0, np.nan]]]), numbers(4), "no finite numbers, first in pair 3"),
    "one pair": (numbers(1, 2), numbers(1, 2), "1 pair tells nothing about others; give at least 2"),
    "constant x": (np.ones((9, 2)), numbers(9, 1), "x is the same in all pairs"),
    "zero y": (numbers(9, 2), np.zeros((9, 1)), "y is zero in all pairs, so there is nothing to learn"),
    "lengths": (numbers(9, 2), numbers(8, 2), "x has 9 samples and y has 8"),
    "complex numbers": (numbers(9, 2) * 1j, numbers(9), "x holds complex128; give real numbers"),
    "no outputs": (numbers(9, 2), numbers(9, 0), "y has no numbers; give an array"),
    "huge": (1e200 * numbers(9, 2), numbers(9), "whose squares float64 cannot hold; rescale it"),
}


@pytest.mark.parametrize(("x", "y", "words"), BAD.values(), ids=BAD)
def test_bad_pairs_are_refused_in_one_sentence(koct, x, y, words):
    np.savez("pairs.npz", x=x, y=y)
    status, out, err = koct("curve", "pairs.npz")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert words in err


def test_pairs_that_no_memory_holds_are_refused_before_they_are_read(koct):
    """10⁶ pairs with 10⁶ outputs: 4 TB on paper, next to nothing on the disk."""
    for name, width in (("x", 64), ("y", 10**6)):
        np.lib.format.open_memmap(f"{name}.npy", "w+", np.float32, (10**6, width)).flush()
    status, _, err = koct("curve", "x.npy", "y.npy")
    assert status == 2
    assert re.search(r"1,000,000 pairs need about 44,703 GiB .* give at most [\d,]+ of them", err)
