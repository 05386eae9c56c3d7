"""A few faults of running studies, really caused. `make faults` causes all of them."""

import pytest

from tests.faults.__main__ import KINDS, cases
from tests.faults.lab import Lab

RUNS = ["kills", "two-runs", "disk-full", "code-edits"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind in RUNS for number in KINDS[kind].SHORT])
def test_a_run_stands_a_fault(lab, kind, number):
    ((_, case),) = cases(KINDS[kind], lab, [number])
    assert case.ok, f"{case.name}: {case.outcome}, expected {case.expected} ({case.choices})\n{case.detail}"
