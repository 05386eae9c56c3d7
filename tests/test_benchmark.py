"""benchmarks/fanbeam.py runs to the end, and fails where an operator is not right."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

from koct.operators.fanbeam import Backprojector

sys.path.insert(0, str(ROOT / "benchmarks"))
import fanbeam

pytestmark = pytest.mark.thorough
TINY = ["--sizes", "32", "--batches", "1", "3", "--repeats", "2", "--iterations", "10"]


@pytest.mark.long
def test_times_and_checks_every_operator(tmp_path, monkeypatch):
    monkeypatch.setenv("KOCT_DEVICE", "cpu")
    command = [sys.executable, ROOT / "benchmarks/fanbeam.py", *TINY, "--json", tmp_path / "times.json"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads((tmp_path / "times.json").read_text())
    names = [f"{way}, {rays} rays" for rays in ("exact", "printed") for way in ("forward", "adjoint")]
    expected = [(name, n) for name in ("FBP", "backprojection", "its adjoint", *names) for n in (1, 3)]
    assert [(row["operator"], row["batch"]) for row in found["operators"]] == expected
    for row in found["operators"]:
        assert row["ok"]
        assert row["us"] > 0
        assert row["peers"]["SciPy"]["us"] > 0
        assert row["peers"]["SciPy"]["difference"] < fanbeam.LIMIT
    assert found["training"][0]["peers"]["plain torch"]["us"] > 0
    assert printed.count("  yes\n") == len(found["operators"])


def test_fails_where_an_operator_is_not_right(monkeypatch, capsys):
    class Wrong(Backprojector):
        def _apply(self, x):
            return super()._apply(x) * np.float32(1.001)

    monkeypatch.setattr(fanbeam, "Backprojector", Wrong)
    monkeypatch.setattr(sys, "argv", ["fanbeam.py", *TINY, "--only", "operators"])
    monkeypatch.setenv("KOCT_DEVICE", "cpu")
    with pytest.raises(SystemExit, match="4 rows are not correct"):
        fanbeam.main()
    wrong = [line for line in capsys.readouterr().out.splitlines() if "NOT CORRECT" in line]
    assert {line[:22].strip() for line in wrong} == {"backprojection", "its adjoint"}
