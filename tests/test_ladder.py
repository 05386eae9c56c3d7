"""The networks between KO and FC against least squares that cannot be wrong, their chains, and bounds for these."""

import itertools

import numpy as np
import pytest
from conftest import Pairs
from small_problems import OPTIONS, small
from test_networks import stacked_ridge

from koct.contracts import Architecture, Problem, registry
from koct.errors import KoctError
from koct.networks import pixelwise
from koct.networks.filtering import Alternation, Filtered, split_filter
from koct.networks.module import ModuleArchitecture
from koct.operators.algebra import product
from koct.operators.fanbeam import Backprojector
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.surrogate import Surrogate
from koct.study import norms

LAMBDAS = (1e-4, 1e-2, 1.0, 1e2)
FANBEAM = FanBeamProblem(H=8, V=6, B=8, rays="exact")
ODD = FanBeamProblem(H=7, V=5, B=9, rays="exact", known="printed")  # an odd period has no Nyquist frequency
PRINTED = FanBeamProblem(H=8, V=6, B=8, rays="exact", known="printed")
SURROGATE = Surrogate(H=8, V=5, B=8, tikhonov=0.1)
PROBLEMS = {"fan beam": FANBEAM, "printed": PRINTED, "odd": ODD, "surrogate": SURROGATE}


def pairs(problem, N=5, lambdas=LAMBDAS, noise=0.05):
    """Training pairs in float64: y is what the known layers give, in part, and noise."""
    rng, shared = np.random.default_rng(0), problem.shared()
    shapes = {"x_shape": problem.x_shape, "y_shape": problem.y_shape}
    x = rng.random((N, problem.x_size)) * 5
    data = Pairs(x, x, layers=problem.layers(shared), normal=problem.normal_matrix(shared), lambdas=lambdas, **shapes)
    data.y = 1.3 * known_images(data)
    data.y = data.y + noise * rng.standard_normal(data.y.shape)
    return data


def known_images(data):
    """What the known layers make of the measurements."""
    x = data.x.reshape(-1, *data.x_shape)
    return product([layer.operator for layer in data.layers])(x).reshape(data.N, -1)


def fit(name, data, **options):
    """Networks by λ."""
    return dict(registry.architecture(name)(**options).fit(data))


def matrix_of(linear_map, size):
    """The columns of a linear map, flat."""
    return np.stack([linear_map(unit).ravel() for unit in np.eye(size)], axis=1)


PER_VIEW = pytest.mark.parametrize("per_view", [False, True], ids=["one filter", "one per view"])


def filter_design(data, per_view, toward="analytic"):
    """(the linear map from spectra to images, what they are pulled to)."""
    known = Filtered(data.layers, data.nonnegative)
    start = np.tile(known.spectrum, known.views if per_view else 1)
    held = known.coefficients(data.x * known.weights)
    return lambda theta: known.behind(held * known.factors(theta)), start if toward == "analytic" else 0 * start


# The design


@PER_VIEW
@pytest.mark.parametrize("problem", [FANBEAM, PRINTED], ids=["exact", "printed"])
def test_the_design_predicts_what_the_network_does_and_numpys_fft(per_view, problem):
    """The exact chain filters views of 8 bins that are padded to 15, the printed one as they are."""
    data, period = pairs(problem), 8 if problem.known == "printed" else 15
    apply, prior = filter_design(data, per_view)
    theta = np.random.default_rng(4).standard_normal(prior.shape)
    spectra = theta.reshape(-1, period // 2 + 1)
    arch = registry.architecture("filters" if per_view else "filter")()
    predicted = arch.restore({"spectrum": theta}, data).predict(data.x)
    weighted = data.x.reshape(-1, 6, 8) * data.layers[0].operator.weights
    filtered = np.fft.irfft(np.fft.rfft(weighted, period) * spectra, period)[..., :8]
    expected = Backprojector(problem.geometry())(np.ascontiguousarray(filtered)).reshape(len(data.x), -1)
    np.testing.assert_allclose(predicted, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(apply(theta), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("problem", [FANBEAM, PRINTED], ids=["exact", "printed"])
@pytest.mark.parametrize("name", ["filter", "filters", "ko-filter", "taps"])
def test_analytic_parameters_give_the_known_chain(name, problem):
    data = pairs(problem, lambdas=(1e15,))
    (network,) = fit(name, data).values()
    np.testing.assert_allclose(network.predict(data.x), known_images(data), rtol=1e-9, atol=1e-9)


# Closed forms


@PER_VIEW
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("toward", ["zero", "analytic"])
def test_filters_equal_dense_least_squares(problem, per_view, toward):
    data = pairs(PROBLEMS[problem])
    apply, prior = filter_design(data, per_view, toward)
    dense = matrix_of(apply, len(prior))
    networks = fit("filters" if per_view else "filter", data, toward=toward)
    assert tuple(networks) == LAMBDAS
    for lam, network in networks.items():
        expected = stacked_ridge(dense, data.y.ravel(), lam, prior)
        np.testing.assert_allclose(dense @ network.learned["spectrum"], dense @ expected, rtol=1e-8, atol=1e-8)
        if lam >= 1:
            np.testing.assert_allclose(network.learned["spectrum"], expected, rtol=1e-8, atol=1e-8)


def test_fits_that_cannot_be_solved_are_no_numbers():
    data = pairs(FanBeamProblem(H=4, V=10, B=8, rays="exact"), N=1, lambdas=(1e-300, 1.0))
    for name in ("filters", "taps"):
        singular, solved = (network.predict(data.x) for network in fit(name, data).values())
        assert np.isnan(singular).all()
        assert np.isfinite(solved).all()


# Weights and filter together


def test_the_alternation_ends_where_neither_step_moves():
    data = pairs(FANBEAM, N=20)
    known = Filtered(data.layers, nonnegative=False)
    steps = Alternation(known, data.x, data.y, data.normal)
    for lam, found in steps.fit(LAMBDAS, tolerance=1e-12, rounds=3000):
        w, spectrum = found.w, found.spectrum
        residual = known.images(data.x, spectrum, w) - data.y
        penalty = ((w - known.weights) ** 2).sum() + ((spectrum - known.spectrum) ** 2).sum()
        assert found.objective == pytest.approx((residual**2).sum() + lam * penalty, rel=1e-9)
        by_weights = matrix_of(lambda v, s=spectrum: known.images(data.x, s, v), len(w))
        expected = stacked_ridge(by_weights, data.y.ravel(), lam, known.weights)
        np.testing.assert_allclose(by_weights @ w, by_weights @ expected, rtol=1e-3, atol=1e-3)
        by_filter = matrix_of(lambda s, v=w: known.images(data.x, s, v), len(spectrum))
        expected = stacked_ridge(by_filter, data.y.ravel(), lam, known.spectrum)
        np.testing.assert_allclose(by_filter @ spectrum, by_filter @ expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_gradient_of_weights_and_filter_is_that_of_finite_differences(nonnegative):
    data, rng = pairs(FANBEAM), np.random.default_rng(1)
    joint = Filtered(data.layers, nonnegative)
    parameters = joint.analytic + 0.1 * rng.standard_normal(joint.analytic.shape)
    _, gradient = joint.loss_and_gradient(parameters, data.x, data.y)
    direction = rng.standard_normal(parameters.shape)
    ends = (joint.loss_and_gradient(parameters + sign * 1e-6 * direction, data.x, data.y)[0] for sign in (1, -1))
    assert (next(ends) - next(ends)) / 2e-6 == pytest.approx(gradient @ direction, rel=1e-6)


# Taps


@pytest.mark.parametrize("problem", [FANBEAM, ODD], ids=["even", "odd"])
@pytest.mark.parametrize("toward", ["zero", "analytic"])
@pytest.mark.parametrize("N", [4, 30])  # fewer than taps of a pixel: the dual form; more: the primal one
def test_taps_equal_dense_least_squares_in_both_forms(problem, N, toward, monkeypatch):
    monkeypatch.setattr(pixelwise, "ENTRIES", 2 * problem.V * N * 5)  # five pixels at a time
    data = pairs(problem, N)
    taps = pixelwise.Taps(data.layers, False)
    prior = taps.analytic if toward == "analytic" else 0 * taps.analytic
    sinograms = taps.sinograms(data.x)
    features = taps.features(sinograms, slice(None)).swapaxes(1, 2)
    for lam, network in fit("taps", data, toward=toward).items():
        for pixel in range(0, taps.pixels, 7):
            expected = stacked_ridge(features[pixel], data.y[:, pixel], lam, prior[pixel])
            np.testing.assert_allclose(
                features[pixel] @ network.learned["taps"][pixel], features[pixel] @ expected, atol=1e-8
            )
        np.testing.assert_array_equal(network.learned["taps"][~taps.seen], prior[~taps.seen])
        expected = np.einsum("pnt,pt->np", features, network.learned["taps"])
        np.testing.assert_allclose(network.predict(data.x), expected, rtol=1e-12, atol=1e-12)


# Nesting

NESTED = [
    ("filter", "filters"),
    ("filter", "ko-filter"),
    ("ko-ridge", "ko-filter"),
    ("ko", "ko-filter"),
    *((name, "fc") for name in ("ko", "filter", "filters", "ko-filter", "taps")),
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_network_that_contains_another_fits_at_least_as_well(problem):
    """With N above the number of measurements, so that no fit is trivial, and λ close to 0."""
    data = pairs(PROBLEMS[problem], N=80, lambdas=(1e-7,), noise=1.0)
    error = {}
    for name in dict.fromkeys(itertools.chain(*NESTED)):
        if name == "taps" and problem == "surrogate":
            continue
        ((_, network),) = fit(name, data).items()
        error[name] = ((network.predict(data.x) - data.y) ** 2).mean()
    for inner, outer in NESTED:
        if inner in error:
            assert error[outer] <= error[inner] * (1 + 1e-6), (inner, outer)
    assert error["fc"] < 0.999 * error["ko-filter"] < 0.999**2 * error["filter"]


def test_a_network_by_adagrad_is_one_of_those_that_learn_a_filter_too():
    data, steps = pairs(FANBEAM, N=8), {"lr": 0.01, "iterations": 100, "batch": 4}
    outer, inner = registry.architecture("ko-filter-adagrad")(**steps), registry.architecture("ko")
    (network,) = fit("ko", data, solver="adagrad", **steps).values()
    (both,) = outer.fit(data)
    assert ((both[1].predict(data.x) - data.y) ** 2).mean() < 0.2 * ((known_images(data) - data.y) ** 2).mean()
    assert both[1].parameters == 48 + 8
    assert outer.contains(inner(solver="adagrad", **steps))
    same = outer.restore({"w": network.learned["w"], "spectrum": Filtered(data.layers, False).spectrum}, data)
    np.testing.assert_allclose(same.predict(data.x), network.predict(data.x), rtol=1e-9, atol=1e-9)


# The chains of known and learned layers, and the bound for them

REFUSED = {("mri", name) for name in ("filter", "filters", "ko-filter", "ko-filter-adagrad")}
REFUSED |= {(name, "taps") for name in ("surrogate", "mri", "deblur")}


def test_chains_count_what_networks_learn_on_every_problem():
    assert {name.split()[0] for name in OPTIONS} == set(registry.shipped(Problem)) - {"pairs", "lodopab", "detect"}
    refused = set()
    for name in OPTIONS:
        problem = small(name)
        data = pairs(problem, lambdas=(1.0,))
        for source in registry.shipped(Architecture):
            arch = registry.architecture(source)
            if arch.launch != "process" or not arch.trained or issubclass(arch, ModuleArchitecture):
                continue  # the first fits what `fc` fits, and says so below; the bound is not for modules
            steps = {"lr": 0.1, "iterations": 2, "batch": 2} if source == "ko-filter-adagrad" else {}
            if list(arch(**steps).check(problem)):
                refused.add((problem.name, source))
                continue
            (network,) = fit(source, data, **steps).values()
            learned = sum(layer.p for layer in arch(**steps).chain(problem, data.layers))
            assert learned == network.parameters, (name, source)
    assert refused == REFUSED


def test_learned_filters_refuse_complex_measurements():
    (message,) = registry.architecture("filter")().check(small("mri"))
    assert message.startswith("the measurements of the problem mri are complex, and learned filters are for real")
    with pytest.raises(KoctError, match="weights are of complex measurements"):  # if a problem does not say so
        split_filter(small("mri").layers({}))


def test_the_bound_of_a_chain_is_that_of_the_paper():
    constants = {"C": 0.3, "n": 64, "kappa": 2.0}
    papers = norms.networks(PRINTED.H, PRINTED.V, PRINTED.B, "fan", **constants)
    for name, expected in zip(("ko", "fc"), papers, strict=True):
        found = norms.network(registry.architecture(name)().chain(PRINTED, PRINTED.layers({})), **constants)
        assert found.bound(100) == pytest.approx(expected.bound(100), rel=1e-12)
        assert [term.A_l for term in found.terms(9)] == pytest.approx([term.A_l for term in expected.terms(9)])
    sharded = registry.architecture("fc-fsdp")(ranks=2, iterations=9)
    assert sharded.chain(FANBEAM, ()) == registry.architecture("fc")().chain(FANBEAM, ())


# On torch tensors


DESCENT = {"solver": "adam", "lr": 0.01, "iterations": 60, "batch": 3}
RUNS = [*((name, {}) for name in ("ko-ridge", "filter", "filters", "ko-filter", "taps")), ("ko-filter", DESCENT)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("problem", [FANBEAM, PRINTED], ids=["exact", "printed"])
@pytest.mark.parametrize(("name", "options"), RUNS)
def test_torch_tensors_give_the_same(name, options, problem, device):
    torch = pytest.importorskip("torch", reason="torch is not installed: NumPy alone is tested")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU that torch can use: CPU only")
    if options == DESCENT and device == "cpu":
        pytest.skip("descent takes NumPy arrays on the CPU")
    data, other = pairs(problem), pairs(problem)
    other.x, other.y, other.normal = (torch.tensor(part, device=device) for part in (data.x, data.y, data.normal))
    networks = (fit(name, each, **options).values() for each in (data, other))
    for one, two in zip(*networks, strict=True):
        predicted = two.predict(other.x).cpu().numpy()
        np.testing.assert_allclose(predicted, one.predict(data.x), rtol=1e-5, atol=1e-5)
