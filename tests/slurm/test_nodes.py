"""`fc-fsdp` on several nodes of a real SLURM: tests/cluster/nodes.sh makes three on one machine."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.slurm.lab import PROFILE, ROOT, all_jobs, ended, jobs, slurm, small, started, until
from tests.slurm.test_faults import FSDP_LOG, FSDP_ROW, with_fsdp

SCRIPT = ROOT / "tests/cluster/nodes.sh"
HEAD = (str(SCRIPT), "on", "head")
ON_NODES = "fit_torchrun_nodes_wildcards_F32_fc-fsdp_16_1"
ITERATIONS = 200
FIT = "results/fits/F32/fc-fsdp/N16_seed1.npy"


def answers():
    try:
        return subprocess.run([*HEAD, "sinfo"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


pytestmark = [
    pytest.mark.skipif(not answers(), reason="no three nodes answer here: run tests/cluster/nodes.sh start"),
    pytest.mark.skipif(shutil.which("scontrol") is None, reason="no SLURM here"),
]


def snakemake(run, *arguments):
    command = [*HEAD, str(Path(sys.executable).with_name("snakemake")), *arguments, *PROFILE]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def under_way(run):
    log = run.path(FSDP_LOG)
    return lambda: log.exists() and re.search(rf"^iteration \d+ of {ITERATIONS}", log.read_text(), re.M)


def row(run):
    found = json.loads(run.path(FSDP_ROW).read_text())
    return [found[key] for key in ("mse", "rrmse_peak", "rrmse_norm", "val_mse", "lam")]


@pytest.fixture(scope="module")
def one_node(checkout):
    """Two ranks on one node."""
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    run = small(checkout, with_fsdp(ITERATIONS))
    snakemake(run, FSDP_ROW)
    return run


def test_two_nodes_give_what_one_gives(checkout, one_node):
    """Four ranks, so that a split of 3 + 1 would show; then two ranks, bit for bit."""
    run = small(checkout, with_fsdp(ITERATIONS, ranks=4, nodes=2), gpu_type="test-model")
    snakemake(run, FSDP_ROW)
    job = jobs(run.folder, *HEAD)[ON_NODES]
    assert (job["NumNodes"], job["TresPerNode"], job["NumCPUs"]) == ("2", "gres:gpu:test-model:2", "4")
    visible = re.findall(r"CUDA_VISIBLE_DEVICES=(\S+)\)", run.path(FSDP_LOG).read_text())
    assert visible
    assert {len(found.split(",")) for found in visible} == {2}
    assert row(run) == pytest.approx(row(one_node), rel=1e-5)

    two = small(checkout, with_fsdp(ITERATIONS, nodes=2))
    snakemake(two, FSDP_ROW)
    assert jobs(two.folder, *HEAD)[ON_NODES]["NumNodes"] == "2"
    assert row(two) == row(one_node)


def test_a_cancelled_cell_resumes_on_another_number_of_nodes(checkout, one_node):
    """Begun on two nodes, cancelled; continued on three, cancelled; ended on one."""
    run = small(checkout, with_fsdp(ITERATIONS, nodes=2))
    for ranks, nodes in ((2, 2), (3, 3)):
        set_fsdp(run, ranks=ranks, nodes=nodes)
        run.path(FSDP_LOG).unlink(missing_ok=True)
        process = started(run, FSDP_ROW, "--retries", "0", through=HEAD)
        until(under_way(run))
        slurm(*HEAD, "scancel", jobs(run.folder, *HEAD)[ON_NODES]["JobId"])
        status, text = ended(process, run)
        assert status == 1, text
        assert not run.path(FIT).exists()
    set_fsdp(run, ranks=1, nodes=1)
    snakemake(run, FSDP_ROW)
    assert int(re.search(r"^resumed after iteration (\d+)", run.path(FSDP_LOG).read_text(), re.M)[1]) > 0
    assert row(run) == pytest.approx(row(one_node), rel=1e-5)


def set_fsdp(run, **options):
    run.path("config.yaml").write_text(yaml.safe_dump(with_fsdp(ITERATIONS, **options)))


def test_a_lost_node_costs_no_result(checkout, one_node):
    """A node falls silent in mid-run; SLURM finds it down, and the cell is submitted again to the others."""
    run = small(checkout, with_fsdp(ITERATIONS, nodes=2))
    process = started(run, FSDP_ROW, through=HEAD)
    until(under_way(run))
    nodes = jobs(run.folder, *HEAD)[ON_NODES]["NodeList"]
    lost = slurm(*HEAD, "scontrol", "show", "hostnames", nodes).split()[1]
    slurm(str(SCRIPT), "lose", lost)
    try:
        status, text = ended(process, run, 600)
        assert status == 0, text
        attempts = [job for job in all_jobs(run.folder, *HEAD) if job["Comment"].endswith(ON_NODES)]
        assert len(attempts) == 2
        assert row(run) == pytest.approx(row(one_node), rel=1e-5)
    finally:
        until(lambda: re.search(r"down|idle", slurm(*HEAD, "sinfo", "-h", "-n", lost, "--format=%t")))
        slurm(str(SCRIPT), "bring", lost)
