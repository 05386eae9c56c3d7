"""Where the tests cause faults."""

import pytest

from tests.conftest import finished
from tests.faults.lab import CONFIG, Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("faults"), made=finished(tmp_path_factory, "faults", CONFIG))
