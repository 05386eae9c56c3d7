"""A few faults of running studies, really caused. `make faults` causes all of them."""

import pytest

from tests.faults.__main__ import KINDS, cases

RUNS = ["kills", "two-runs", "disk-full", "code-edits"]


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind in RUNS for number in KINDS[kind].SHORT])
def test_a_run_stands_a_fault(lab, kind, number):
    ((_, case),) = cases(KINDS[kind], lab, [number])
    assert case.ok, f"{case.name}: {case.outcome}, expected {case.expected} ({case.choices})\n{case.detail}"
