"""Theorem 1 for known layers that are not the true ones: it holds, is zero for right layers, and is attained."""

import itertools

import numpy as np
import pytest

from koct.bound.theorem import BoundLayer, BoundNetwork

CHAINS = 10_000


def run(matrices, relus, x):
    """The inputs of all layers, and the output."""
    inputs = [x]
    for U, relu in zip(matrices, relus, strict=True):
        x = np.maximum(U @ x, 0) if relu else U @ x
        inputs.append(x)
    return inputs


def rms(x):
    return float(np.mean(np.sum(x**2, axis=0)) ** 0.5)


@pytest.mark.long
def test_it_holds_for_random_chains():
    rng, ratios = np.random.default_rng(0), []
    for _ in range(CHAINS):
        sizes = rng.integers(1, 6, size=rng.integers(2, 6))
        true = [rng.normal(size=(m, n)) * rng.uniform(0.2, 2) for n, m in itertools.pairwise(sizes)]
        wrong = [U + rng.choice([0, 0.01, 0.3, 2]) * rng.normal(size=U.shape) for U in true]
        known, relus = rng.random(len(true)) < 0.6, rng.random(len(true)) < 0.5
        x, layers, mismatch, errors = rng.normal(size=(sizes[0], 8)), [], {}, {}
        inputs, outputs = run(wrong, relus, x), run(true, relus, x)
        for number, (U, V) in enumerate(zip(true, wrong, strict=True)):
            name = f"u{number}"
            layers.append(BoundLayer(name, float(np.linalg.norm(U, 2)), known=bool(known[number])))
            if known[number]:
                mismatch[name] = float(np.linalg.norm(U - V, 2))
            else:
                errors[name] = rms(run([U], relus[number : number + 1], inputs[number])[-1] - inputs[number + 1]) ** 2
        bound = BoundNetwork(layers).sharp_bound(errors, mismatch=mismatch, input_rms=rms(x)) ** 0.5
        error = rms(inputs[-1] - outputs[-1])
        assert error <= bound * (1 + 1e-9)
        if bound:
            ratios.append(error / bound)
    assert len(ratios) > 0.9 * CHAINS
    assert 0.05 < np.median(ratios) < 1


def test_a_right_layer_adds_nothing_and_without_mismatch_it_is_never_above_theorem_1():
    rng = np.random.default_rng(1)
    for _ in range(200):
        count = rng.integers(2, 6)
        layers = [BoundLayer(f"u{i}", rng.uniform(0.1, 3), known=bool(rng.random() < 0.5)) for i in range(count)]
        network, errors = BoundNetwork(layers), {la.name: float(rng.random()) for la in layers if not la.known}
        bound = network.sharp_bound(errors)
        assert bound <= network.bound_from_errors(errors) * (1 + 1e-12)
        known = [layer.name for layer in layers if layer.known]
        assert network.sharp_bound(errors, mismatch=dict.fromkeys(known, 0.0), input_rms=1.0) == bound
        if not errors:
            assert bound == 0


@pytest.mark.parametrize(("first", "second"), [(0.1, 0.0), (0.0, 0.4), (0.3, 0.2)])
def test_it_is_attained_by_linear_chains_of_two_layers(first, second):
    """Layers that are too large by the same factor in every direction."""
    true, x = [2.0 * np.eye(3), 0.5 * np.eye(3)], np.random.default_rng(2).normal(size=(3, 8))
    wrong = [U + delta * np.eye(3) for U, delta in zip(true, (first, second), strict=True)]
    layers = [BoundLayer(name, U[0, 0], known=True) for name, U in zip("KA", true, strict=True)]
    bound = BoundNetwork(layers).sharp_bound({}, mismatch={"K": first, "A": second}, input_rms=rms(x))
    relus = [False, False]
    assert bound == pytest.approx(rms(run(wrong, relus, x)[-1] - run(true, relus, x)[-1]) ** 2, rel=1e-12)


def test_the_command_says_what_a_wrong_layer_adds(koct, tmp_path):
    layers = "{name: W, lipschitz: 1.0, p: 80, kappa: 1.0e-4}, {name: K, lipschitz: 0.5, known: true}"
    (tmp_path / "network.yaml").write_text(f"layers: [{layers}]")
    status, out, _ = koct("bound", "network.yaml", "--samples", 1000, "--mismatch", "K=0.1", "--input", 2)
    assert status == 0
    risk = 1e-4 * 80 * np.log(1000) / 1000
    assert f"at most {(0.6 * risk**0.5 + 0.1 * 2) ** 2:.4g}" in out
    status, _, err = koct("bound", "network.yaml", "--samples", 1000, "--mismatch", "K")
    assert status
    assert "K=0.05" in err
