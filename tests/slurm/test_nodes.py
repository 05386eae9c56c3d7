"""`fc-fsdp` on several nodes of a real SLURM: tests/cluster/nodes.sh makes three on one machine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from koct.base.files import read_record
from tests.conftest import ROOT, checked, until
from tests.slurm.lab import PROFILE, all_jobs, answers, ended, slurm, small, started
from tests.slurm.test_faults import FSDP_LOG, fsdp_under_way, with_fsdp

SCRIPT = ROOT / "tests/cluster/nodes.sh"
HEAD = (str(SCRIPT), "on", "head")
ON_NODES = "fit_torchrun_wildcards_F32_fc-fsdp_16_1"
ITERATIONS = 200
FIT = "results/fits/F32/fc-fsdp/N16_seed1.npy"


NONE = "no three nodes answer here: run tests/cluster/nodes.sh start"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("scontrol") is None or not answers(*HEAD), reason=NONE)]


def snakemake(run, *arguments):
    command = [*HEAD, str(Path(sys.executable).with_name("snakemake")), *arguments, *PROFILE]
    checked(subprocess.run(command, cwd=run.folder, capture_output=True, text=True, timeout=600), True)


def difference(run, other):
    """Of the matrices that two runs have learned, relative to the second."""
    (one,), (two,) = (read_record(which.path(FIT))[0].values() for which in (run, other))
    return np.linalg.norm(one - two) / np.linalg.norm(two)


@pytest.fixture(scope="module")
def one_node(checkout):
    """Two ranks on one node."""
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    run = small(checkout, with_fsdp(ITERATIONS))
    snakemake(run, FIT)
    return run


@pytest.fixture
def begun(checkout, one_node):
    """Makes runs that have all but the fit of fc-fsdp."""

    def make(fsdp, **lines):
        run = small(checkout, with_fsdp(ITERATIONS, **fsdp), **lines)
        shutil.copytree(one_node.path("results"), run.path("results"))
        for left in run.path("results/fits").rglob("*.checkpoint"):
            shutil.rmtree(left)
        run.path(FIT).unlink()
        run.path(FSDP_LOG).unlink()
        return run

    return make


def test_two_nodes_give_the_bits_of_one(begun, one_node):
    run = begun({"ranks": 2, "nodes": 2})
    snakemake(run, FIT)
    (job,) = all_jobs(run.folder, *HEAD)
    assert (job["NumNodes"], job["TresPerNode"]) == ("2", "gres:gpu:1")
    assert difference(run, one_node) == 0


@pytest.mark.long
def test_every_node_gets_its_share_of_the_gpus(begun, one_node):
    run = begun({"ranks": 4, "nodes": 2}, gpu_type="test-model")
    snakemake(run, FIT)
    (job,) = all_jobs(run.folder, *HEAD)
    assert (job["NumNodes"], job["TresPerNode"], job["NumCPUs"]) == ("2", "gres:gpu:test-model:2", "4")
    visible = re.findall(r"CUDA_VISIBLE_DEVICES=(\S+)\)", run.path(FSDP_LOG).read_text())
    assert visible
    assert {len(found.split(",")) for found in visible} == {2}
    assert difference(run, one_node) < 3e-5  # float32, summed in another order


@pytest.mark.long
def test_a_cancelled_cell_resumes_on_another_number_of_nodes(begun, one_node):
    """Begun on two nodes, cancelled; continued on three, cancelled; ended on one."""
    run = begun({"ranks": 2, "nodes": 2})
    for ranks in (2, 3):
        run.configure(with_fsdp(ITERATIONS, ranks=ranks, nodes=ranks))
        run.path(FSDP_LOG).unlink(missing_ok=True)
        process = started(run, FIT, "--retries", "0", through=HEAD)
        slurm(*HEAD, "scancel", fsdp_under_way(run, ON_NODES, HEAD)["JobId"])
        status, text = ended(process, run)
        assert status == 1, text
        assert not run.path(FIT).exists()
    run.configure(with_fsdp(ITERATIONS, ranks=1, nodes=1))
    snakemake(run, FIT)
    assert int(re.search(r"^resumed after iteration (\d+)", run.path(FSDP_LOG).read_text(), re.M)[1]) > 0
    assert difference(run, one_node) < 3e-5  # float32, summed in another order


@pytest.mark.long
def test_a_lost_node_costs_no_result(begun, one_node):
    """A node falls silent in mid-run; SLURM finds it down, and the cell is submitted again to the others."""
    run = begun({"ranks": 2, "nodes": 2})
    process = started(run, FIT, through=HEAD)
    nodes = fsdp_under_way(run, ON_NODES, HEAD)["NodeList"]
    lost = slurm(*HEAD, "scontrol", "show", "hostnames", nodes).split()[1]
    slurm(str(SCRIPT), "lose", lost)
    try:
        status, text = ended(process, run, 600)
        assert status == 0, text
        first, second = all_jobs(run.folder, *HEAD)
        assert [first[key] == second[key] for key in ("MinMemoryNode", "TimeLimit")] == [True, True]
        assert difference(run, one_node) < 3e-5  # float32, summed in another order
    finally:
        until(lambda: re.search(r"down|idle", slurm(*HEAD, "sinfo", "-h", "-n", lost, "--format=%t")))
        slurm(str(SCRIPT), "bring", lost)
