"""What Numba has compiled is used for the code that it was compiled from, and compiled again when it is damaged."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = pytest.mark.thorough

pytest.importorskip("numba", reason="numba is not installed")

LOOP = """
from koct.operators.machine_code import compiled


@compiled
def double(x):
    x[0] = 2 * x[0]
"""
COMPUTE = """
import numpy as np
from koct.operators import loop
x = np.ones(1)
loop.double(x)
print(x[0], sum(loop.double.stats.cache_hits.values()))
"""


def computed(operators):
    """(the double of 1, how often machine code came from the cache)."""
    surroundings = {"PYTHONPATH": str(operators.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", COMPUTE]
    done = subprocess.run(command, cwd=operators, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    value, hits = done.stdout.split()
    return float(value), int(hits)


@pytest.mark.long
def test_damage_an_edit_its_undoing_and_other_options_are_noticed(tmp_path):
    operators = tmp_path / "koct/operators"  # a package koct with one loop
    operators.mkdir(parents=True)
    for name in ("koct/__init__.py", "koct/errors.py", "koct/operators/machine_code.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (operators / "loop.py").write_text(LOOP)
    assert computed(operators) == (2.0, 0)
    assert computed(operators) == (2.0, 1)
    for ending, damage in (
        (".nbi", lambda data: b""),
        (".nbc", lambda data: data[:1000]),
        (".nbc", lambda data: data[:3000] + bytes([data[3000] ^ 1]) + data[3001:]),
    ):
        (damaged,) = operators.rglob(f"*{ending}")
        damaged.write_bytes(damage(damaged.read_bytes()))
        assert computed(operators) == (2.0, 0)
    for name, old, new, expected in (
        ("loop.py", "2 *", "3 *", (3.0, 0)),
        ("loop.py", "3 *", "2 *", (2.0, 1)),
        ("machine_code.py", "fastmath=True", "fastmath=False", (2.0, 0)),
    ):
        path = operators / name
        about = path.stat()
        path.write_text(path.read_text().replace(old, new))
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))  # it keeps its time
        assert computed(operators) == expected
