"""The chains of known and learned layers that networks say of themselves, and the bound for them."""

import pytest
from test_ladder import FANBEAM, PRINTED, fit, pairs

from koct.contracts import Architecture, Problem, registry
from koct.errors import KoctError
from koct.networks.filtering import split_filter
from koct.networks.module import ModuleArchitecture
from koct.study import norms

OPTIONS = {
    "fanbeam": {"H": 8, "V": 6, "B": 8, "rays": "exact"},
    "misaligned": {"H": 8, "V": 6, "B": 8, "gain": 10.0},
    "parallelbeam": {"H": 8, "V": 6, "B": 8},
    "ellipses50": {"H": 8, "V": 6, "B": 12},
    "anatomy": {"H": 8, "V": 6, "B": 8, "learned": "ellipses", "tested": "ellipses"},  # which needs no package
    "surrogate": {"H": 8, "V": 5, "B": 8, "tikhonov": 0.1},
    "mri": {"H": 8, "spokes": 4, "samples": 8},
    "mri with a phase": {"H": 8, "spokes": 4, "samples": 8, "phase": 1.0},
    "deblur": {"H": 8, "blur": 0.5},
}
NO_FILTERS = {("mri", name) for name in ("filter", "filters", "ko-filter")}
NO_TAPS = {(name, "taps") for name in ("surrogate", "mri", "deblur")}


def test_chains_count_what_networks_learn_on_every_problem():
    assert {name.split()[0] for name in OPTIONS} == set(registry.shipped(Problem)) - {"pairs"}
    refused = set()
    for name, options in OPTIONS.items():
        problem = registry.problem(name.split()[0])(**options)
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
    assert refused == NO_FILTERS | NO_TAPS | {("mri", "ko-filter-adagrad")}


def test_learned_filters_refuse_complex_measurements():
    problem = registry.problem("mri")(**OPTIONS["mri"])
    for _, source in NO_FILTERS:
        (message,) = registry.architecture(source)().check(problem)
        assert message.startswith("the measurements of the problem mri are complex, and learned filters are for real")
    with pytest.raises(KoctError, match="weights are of complex measurements"):  # if a problem does not say so
        split_filter(problem.layers({}))


def bound_of(name, problem, **constants):
    return norms.network(registry.architecture(name)().chain(problem, problem.layers(problem.shared())), **constants)


def test_the_bound_of_a_chain_is_that_of_the_paper():
    constants = {"C": 0.3, "n": 64, "kappa": 2.0}
    papers = norms.networks(PRINTED.H, PRINTED.V, PRINTED.B, "fan", **constants)
    for name, expected in zip(("ko", "fc"), papers, strict=True):
        found = bound_of(name, PRINTED, **constants)
        assert found.bound(100) == pytest.approx(expected.bound(100), rel=1e-12)
        assert [term.A_l for term in found.terms(9)] == pytest.approx([term.A_l for term in expected.terms(9)])
    sharded = registry.architecture("fc-fsdp")(ranks=2, iterations=9)
    assert sharded.chain(FANBEAM, ()) == registry.architecture("fc")().chain(FANBEAM, ())
