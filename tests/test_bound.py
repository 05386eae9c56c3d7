"""The deep risk estimator: Theorem 1, Corollary 1 and Lemma 1 on random networks, network files, `koct bound`."""

import math
import re

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from koct.base.files import write_json
from koct.base.stamps import Stamp
from koct.bound.theorem import (
    BoundLayer,
    BoundNetwork,
    fully_connected,
    operator_aware,
    read_network,
    structural_reference,
)
from koct.errors import KoctError
from koct.report.text.bound_text import format_table

pytestmark = pytest.mark.thorough
ACTIVATIONS = {"linear": lambda x: x, "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


def apply(layer, x):
    kind, weights, shift = layer
    return ACTIVATIONS[kind](x @ weights.T + shift)


@st.composite
def networks(draw):
    """True layers, the network's layers, which of them are known, and a batch of inputs."""
    depth = draw(st.integers(1, 6))
    kinds = draw(st.lists(st.sampled_from(sorted(ACTIVATIONS)), min_size=depth, max_size=depth))
    dims = draw(st.lists(st.integers(1, 7), min_size=depth + 1, max_size=depth + 1))
    known = draw(st.lists(st.booleans(), min_size=depth, max_size=depth))
    sizes = draw(st.lists(st.sampled_from([0.1, 1.0, 5.0]), min_size=depth, max_size=depth))
    off = draw(st.lists(st.sampled_from([1e-6, 1e-2, 1.0, 10.0]), min_size=depth, max_size=depth))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    true, learned = [], []
    for k in range(depth):
        weights = sizes[k] * rng.standard_normal((dims[k + 1], dims[k]))
        shift = rng.standard_normal(dims[k + 1])
        true.append((kinds[k], weights, shift))
        change = 0.0 if known[k] else off[k]
        moved = weights + change * rng.standard_normal(weights.shape)
        learned.append((kinds[k], moved, shift + change * rng.standard_normal(shift.shape)))
    return true, learned, known, rng.standard_normal((20, dims[0]))


def described(true, known):
    """The estimator's view of a network: true Lipschitz constants from the SVD (ReLU and tanh are 1-Lipschitz)."""
    return BoundNetwork(
        BoundLayer(f"u{k}", np.linalg.svd(weights, compute_uv=False)[0], known[k])
        for k, (_, weights, _) in enumerate(true)
    )


def squared(difference):
    return (difference**2).sum(axis=1)


def rounding(before, layers, inputs):
    """Rounding error of a difference of two outputs, given the rounding error of the difference of the inputs."""
    size = max(np.sqrt(squared(x)).max() for x in inputs)
    steep = [np.linalg.norm(weights, 2) for _, weights, _ in layers]
    made = max(s * size + np.linalg.norm(shift) for s, (_, _, shift) in zip(steep, layers, strict=True))
    return steep[0] * before + 1e-13 * made


@settings(deadline=None, max_examples=300)
@given(networks())
def test_theorem_1_the_measured_error_never_exceeds_the_bound(drawn):
    true, learned, known, x = drawn
    network = described(true, known)
    ideal, actual, errors, rounded = x, x, [], 0.0
    for u, u_hat in zip(true, learned, strict=True):
        errors.append(squared(apply(u, actual) - apply(u_hat, actual)))  # on the network's own inputs, as in the proof
        rounded = rounding(rounded, (u, u_hat), (ideal, actual))
        ideal, actual = apply(u, ideal), apply(u_hat, actual)
    measured = squared(ideal - actual)
    bound = network.bound_from_errors([e.mean() for e in errors])
    assert np.sqrt(measured.mean()) <= np.sqrt(bound) * (1 + 1e-9) + rounded
    for i, one in enumerate(measured):  # Eq. pointwise: also for each input
        assert np.sqrt(one) <= np.sqrt(network.bound_from_errors([e[i] for e in errors])) * (1 + 1e-9) + rounded
    if len(true) == 1 and not known[0]:
        assert bound == measured.mean()
    residual = np.random.default_rng(0).standard_normal(ideal.shape)  # what no true layers give
    sharp = network.sharp_bound([e.mean() for e in errors])
    assert np.sqrt(measured.mean()) <= np.sqrt(sharp) * (1 + 1e-9) + rounded
    assert sharp <= bound * (1 + 1e-9)
    with_rest = network.sharp_bound([e.mean() for e in errors], squared(residual).mean())
    assert np.sqrt(squared(ideal + residual - actual).mean()) <= np.sqrt(with_rest) * (1 + 1e-9) + rounded


@settings(deadline=None)
@given(networks())
def test_lemma_1_the_lipschitz_constant_is_at_most_the_product(drawn):
    true, _, known, x = drawn
    start, end, rounded = x, x[::-1], 0.0
    distance = np.sqrt(squared(start - end))
    for u in true:
        rounded = rounding(rounded, (u,), (start, end))
        start, end = apply(u, start), apply(u, end)
    steepest = described(true, known).lipschitz() * distance
    assert (np.sqrt(squared(start - end)) <= steepest * (1 + 1e-9) + rounded).all()


LIPSCHITZ = st.lists(st.floats(0, 100), min_size=1, max_size=8)


@given(LIPSCHITZ)
def test_amplifications_match_the_published_equation(constants):
    L = len(constants)
    squares = np.square(constants)
    expected = [2.0 ** (L - 1 if k == 1 else L - k + 1) * math.prod(squares[k:]) for k in range(1, L + 1)]
    network = BoundNetwork(BoundLayer(str(k), constant, True) for k, constant in enumerate(constants))
    assert network.amplifications() == pytest.approx(expected, rel=1e-12)
    assert network.lipschitz() == pytest.approx(math.prod(constants), rel=1e-12)


LAYERS = st.builds(
    BoundLayer,
    name=st.uuids().map(str),
    lipschitz=st.floats(0, 10),
    known=st.booleans(),
    C=st.floats(0, 10),
    n=st.floats(1, 1e4),
    p=st.integers(1, 10**9),
    kappa=st.floats(1e-3, 1e3),
)
NETWORKS = st.lists(LAYERS, min_size=1, max_size=6, unique_by=lambda layer: layer.name).map(BoundNetwork)


@given(NETWORKS, st.integers(2, 10**9), st.data())
def test_corollary_1_removes_exactly_one_term(network, N, data):
    m = data.draw(st.integers(0, len(network.layers) - 1))
    name = network.layers[m].name
    before, after = network.terms(N), network.with_known(name).terms(N)
    assert after[m].total == 0
    assert after[m].A_l == before[m].A_l
    assert [term[1:] for term in after[:m] + after[m + 1 :]] == [term[1:] for term in before[:m] + before[m + 1 :]]
    assert network.with_known(name).bound(N) == pytest.approx(
        network.bound(N) - before[m].total, abs=1e-12 * network.bound(N)
    )
    assert network.with_known(name).with_known(name) == network.with_known(name)
    errors = [1.0] * len(network.layers)
    removed = 0 if network.layers[m].known else before[m].A_l
    left = network.with_known(name).bound_from_errors(errors)
    assert left == pytest.approx(network.bound_from_errors(errors) - removed, abs=1e-12 * sum(network.amplifications()))


@given(NETWORKS, st.integers(2, 10**9))
def test_the_barron_form_equals_the_error_form_under_assumption_2(network, N):
    risks = {layer.name: layer.C**2 / layer.n + layer.kappa * layer.p * np.log(N) / N for layer in network.layers}
    assert network.bound(N) == pytest.approx(network.bound_from_errors(risks), rel=1e-12)


@given(st.integers(1, 1024), st.floats(0.1, 10), st.floats(0.1, 100), st.integers(1, 10**6))
def test_the_structural_reference_is_the_ratio_of_slopes_at_equal_kappa(H, K, At, p):
    ratio = fully_connected(H * H * p).terms(100)[0].estimation / operator_aware(K, At, p).terms(100)[0].estimation
    assert structural_reference(H, K, At) == pytest.approx(ratio, rel=1e-12)


# Network files

W = "layers: [{name: W, lipschitz: 1.0, p: 1, %s}]"
BAD = {
    "layer: []": "the key 'layers' is missing",
    "layers: [{name: W, lipshitz: 1.0}]": "layer 'W': unknown key 'lipshitz'; did you mean 'lipschitz'",
    "layers: [{name: W, lipschitz: 1.0}]": "layer 'W': p is missing; add the number of trainable parameters, or",
    "layers: [{name: W, lipschitz: -1.0, p: 1}]": "layer 'W': lipschitz = -1.0 must be at least 0; ",
    "layers: [\n  {name: W": "is not valid YAML at line ",
    W % "C: 1e-6": "layer 'W': C = '1e-6' must be a number; write it without quotes, and 1e-6 as 1.0e-6",
    W % "kappa: 0": "layer 'W': kappa = 0 must be above 0; ",
    W % f"n: {10**400}": "must be finite; ",
    W % "known: maybe": "layer 'W': known = 'maybe' must be true or false; ",
    W[:-1] % "" + "]\ntrivial: -1": "trivial = -1 must be above 0; give the mean-square error of predicting zero",
}


@pytest.mark.parametrize(("text", "message"), BAD.items())
def test_a_bad_network_file_is_a_one_line_error_that_names_it(tmp_path, text, message):
    path = tmp_path / "network.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KoctError, match=re.escape(message)) as caught:
        read_network(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


# What `koct bound` prints; docs/how-many-samples.md has a table, which test_budget.py compares


@pytest.mark.parametrize(
    ("trivial", "N", "vacuous", "sentence"),
    [
        (10.0, 100, False, "If so, this is 4.8 % of the trivial error 10."),
        (0.2, 10**9, True, "without any samples, and the approximation terms alone are 0.25, whatever N is."),
        (0.3, 100, True, "an error of 0.3 without any samples; it falls below that at about N = 647."),
        (0.25 * (1 + 2.0**-52), 100, True, "without any samples, and at any N up to 1e18."),
    ],
)
def test_a_vacuous_bound_says_so(trivial, N, vacuous, sentence):
    layer = BoundLayer("W", 1.0, False, C=1.0, n=4, p=10, kappa=0.5)  # 0.25 + 5 log N / N
    network = BoundNetwork([layer], trivial)
    assert network.is_vacuous(N) is vacuous
    assert format_table(network, N).splitlines()[-1].endswith(sentence)
    assert "C = 1, n = 4, κ = 0.5" in format_table(network, N)
    assert network.with_known("W").trivial == trivial
    assert not network.with_known("W").is_vacuous(N)
    assert network.bound(646) > 0.3 > network.bound(649)
    assert BoundNetwork([layer]).is_vacuous(100) is None
    with pytest.raises(KoctError, match="too large for a float, so the bound is vacuous"):
        BoundNetwork([layer, BoundLayer("K", 1e200, True)]).bound(10)


def test_the_trivial_error_of_the_command_line(koct):
    command = ("bound", ROOT / "docs/network.yaml", "--samples", 256, "--trivial")
    shown = re.search(r"^The bound is vacuous: .*$", (ROOT / "docs/how-many-samples.md").read_text(), re.M).group()
    assert shown in koct(*command, 0.005)[1]
    status, _, err = koct(*command, "nan")
    assert status == 2
    assert "trivial" in err


CHAIN = {"weights": (1.0, 80), "filter": (0.5, 0), "backprojection": (4.0, 0)}


@pytest.fixture
def chains(koct):
    """`koct bound` on the networks of a sweep."""
    chain = [{"name": name, "lipschitz": constant, "p": p} for name, (constant, p) in CHAIN.items()]
    write_json("H8.json", {"sweep": "H8", "chains": {"ko": chain, "untold": []}}, Stamp({}))
    return lambda *arguments: koct("bound", "H8.json", "--samples", 256, *arguments)


def test_the_bound_applies_to_a_network_of_a_sweep_as_it_stands(chains):
    weights = BoundLayer("weights", 1.0, False, C=0.5, n=64, p=80, kappa=1e-3)
    known = BoundLayer("filter", 0.5, True), BoundLayer("backprojection", 4.0, True)
    expected = format_table(BoundNetwork([weights, *known]), 256)
    assert chains("--arch", "ko", "--C", 0.5, "--n", 64, "--kappa", 1e-3) == (0, expected, "")
    assert "C = 0, κ = 1" in chains("--arch", "ko")[1]
    for arguments, message in (
        ([], "has the layers of several networks; choose one with --arch"),
        (["--arch", "fc"], "has the networks ko, untold; take one of them"),
        (["--arch", "untold"], "does not say which of its layers are known; take another"),
        (["--C", "0.5"], "--C, --n and --kappa go with --arch"),
    ):
        status, _, err = chains(*arguments)
        assert status == 2
        assert message in err
