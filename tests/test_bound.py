"""The deep risk estimator: Theorem 1, Corollary 1 and Lemma 1 on random networks, CT networks, network files."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koct.bound.theorem import (
    BoundLayer,
    BoundNetwork,
    fully_connected,
    operator_aware,
    read_network,
    structural_reference,
)
from koct.errors import KoctError

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


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("lipschitz", -1.0, "at least 0"),
        ("p", 10**400, "finite"),
        ("kappa", 0, "above 0"),
        ("C", "1e-6", "a number"),
        ("known", "yes", "true or false"),
    ],
)
def test_a_bad_constant_names_the_key_the_value_and_its_fix(key, value, rule):
    constants = {"lipschitz": 1.0, "known": False, key: value}
    with pytest.raises(
        KoctError, match=rf"^layer 'W': {key} = {re.escape(repr(value))} must be {re.escape(rule)}.*; \w+"
    ):
        BoundLayer("W", **constants)


FILE = """\
layers:
  - {name: W, lipschitz: 1.0, C: 0.5, n: 64, p: 80, kappa: 1.0e-3}
  - {name: K, lipschitz: 0.5, known: true}
  - {name: net, lipschitz: 2, p: 1000, known: no}
"""


def test_a_network_file(tmp_path):
    path = tmp_path / "network.yaml"
    path.write_text(FILE, encoding="utf-8")
    assert read_network(path) == BoundNetwork(
        [
            BoundLayer("W", 1.0, False, C=0.5, n=64, p=80, kappa=1e-3),
            BoundLayer("K", 0.5, True),
            BoundLayer("net", 2, False, p=1000),
        ]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer: []", "the key 'layers' is missing"),
        (
            "layers: [{name: W, lipshitz: 1.0}]",
            "layer 'W': unknown key 'lipshitz'; did you mean 'lipschitz'",
        ),
        ("layers: [{name: W, lipschitz: 1.0}]", "layer 'W': p is missing; .* or `known: true`"),
        (
            "layers: [{name: W, lipschitz: 1e-6, p: 1}]",
            "layer 'W': lipschitz = '1e-6' must be a number; .* 1.0e-6",
        ),
        ("layers: [\n  {name: W", "is not valid YAML at line "),
    ],
)
def test_a_bad_network_file_is_a_one_line_error_that_names_it(tmp_path, text, message):
    path = tmp_path / "network.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KoctError, match=message) as caught:
        read_network(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
