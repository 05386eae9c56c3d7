"""What reruns what: the modules a stage is made of."""

from koct.networks import ARCHS
from koct.workflow.sources import digest, reached


def test_imports_are_followed_through_the_package():
    found = reached(["koct.problems.surrogate"])
    assert {"koct.operators.parallel", "koct.operators.algebra", "koct.problems.phantoms"} <= found
    assert "koct.report.figures" not in found


def test_a_fit_does_not_depend_on_reports_or_on_the_other_architecture():
    found = reached(["koct.cells", ARCHS["ko"]])
    assert {"koct.networks.linalg", "koct.metrics", "koct.problems.pools"} <= found
    assert not found & {ARCHS["fc"], "koct.workflow.sweeps", "koct.results", "koct.cli", "koct.report.tables"}


def test_ct_knows_nothing_of_learning_and_risk_nothing_of_ct():
    assert not any(name.startswith(("koct.networks", "koct.risk")) for name in reached(["koct.problems.surrogate"]))
    assert all(name.startswith(("koct.risk", "koct.errors")) for name in reached(["koct.risk.calibration"]))


def test_the_digest_is_stable_and_tells_modules_apart():
    assert digest("koct.cells", ARCHS["ko"]) == digest("koct.cells", ARCHS["ko"])
    assert digest("koct.cells", ARCHS["ko"]) != digest("koct.cells", ARCHS["fc"])
