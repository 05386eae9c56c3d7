"""What is public says its parameters and what it returns, and its examples run."""

import doctest
import inspect
import re
from importlib import import_module

import numpy as np
import pytest

import koct

# {module: names that are not public: steps of a computation, and what functions return, with a comment at each field}
MODULES = {
    "koct.notebook": "",
    "koct.contracts": "Sizes Training Network TorchrunArchitecture",
    "koct.operators.algebra": "Adjoint Composition Sum Scaled Constant Compiled split product normal_matrix",
    "koct.operators.fanbeam": "Kernel backprojection_normal",
    "koct.operators.filters": "gaussian_spectrum",
    "koct.operators.geometry": "Scan",
    "koct.operators.nufft": "points kernel kernel_transform normal_of_adjoint",
    "koct.operators.parallel": "view_angles cosine_and_sine",
    "koct.bound.calibration": "rate solve_rate BoundAnswer Factors",
    "koct.bound.from_torch": "layers linear_norm",
    "koct.bound.theorem": "operator_aware fully_connected structural_reference read_network",
    "koct.prediction.curve": "crossing read_pairs",
    "koct.prediction.fixed_point": "",
    "koct.prediction.spectral": "",
    "koct.prediction.subsets": "take_apart training_sets interval rare rows_of",
    "koct.forecast.budget": "quantiles held_out Answer",
    "koct.forecast.next_runs": "widened sizes NewRuns RunPlan",
    "koct.forecast.runs": "told_sizes",
}


def public():
    """Yield the public functions and classes, without named tuples."""
    yield from (getattr(koct, name) for name in koct.PUBLIC)
    for name, internal in MODULES.items():
        for key, value in vars(import_module(name)).items():
            kind = inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, tuple))
            if kind and value.__module__ == name and not key.startswith("_") and key not in internal.split():
                yield value


PUBLIC = {f"{value.__module__}.{value.__qualname__}": value for value in public()}


def section(docstring, title):
    """Return the names in a section of a docstring; none if there is no such section."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\S.*?) : \S", match[1], re.MULTILINE) if match else []
    return [name for entry in entries for name in entry.split(", ")]


@pytest.mark.parametrize("value", PUBLIC.values(), ids=PUBLIC)
def test_parameters_and_returns_are_documented(value):
    docstring = inspect.getdoc(value)
    assert sorted(section(docstring, "Parameters")) == sorted(inspect.signature(value).parameters)
    assert section(docstring, "Returns") or not inspect.isfunction(value)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_they_stand(name):
    assert not doctest.testmod(import_module(name), globs={"np": np}).failed
