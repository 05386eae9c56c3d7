"""What `snakemake --profile slurm` submits to a real SLURM: tests/cluster/slurm.sh starts one on any Debian machine."""

import json
import os
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from koct.base.files import write_array
from koct.base.stamps import Stamp
from koct.workflow.jobs import Jobs
from tests.conftest import until
from tests.slurm import lab

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def submitted(checkout):
    """The small study through SLURM, undisturbed, and what was printed."""
    run = lab.small(checkout)
    done = run.snakemake(*lab.PROFILE)
    return run, done.stdout + done.stderr


@lab.cluster
def test_the_cluster_gives_the_bits_of_the_local_run_and_jobs_see_their_gpus(submitted, checkout):
    run, _ = submitted
    local = lab.small(checkout)
    local.snakemake()
    lab.assert_same_results(run, local)
    assert run.path("results/fig_sweeps.pdf").exists()
    for log in ("pools/F32/seed1.log", "grams/F32/seed1.log", "fits/F32/ko/N16_seed1.log", "fits/F32/fc/N4_seed1.log"):
        assert re.search(r"^device: .*CUDA_VISIBLE_DEVICES=\d\)$", run.path(f"results/logs/{log}").read_text(), re.M)


@lab.cluster
def test_a_run_says_what_it_submits_what_waits_and_what_is_done(submitted):
    run, text = submitted
    lines = text.splitlines()
    study = lines.index("Study small: 2 sweeps, 7 cells, device auto.")
    assert lines[study + 1] == f"{len(lab.jobs(run.folder))} submissions:"
    assert lines[study + 3].startswith("    2 to gpu, each: 1 core, 1 GPU, 3.0 GB, 5 to ")
    assert [line for line in lines if re.fullmatch(r"(\d running)?(, )?(\d pending(: \w+)?)?", line)]
    assert "fit fc of F32, N = 16, seed 1" in text
    jobs = sum(run.plan("--forceall", *lab.PROFILE).values())
    assert len(lines) < jobs + 20  # a line for each, and few others
    names = {job["JobName"] for job in lab.all_jobs(run.folder)}
    assert {"cells_fit.koct", "F32_seed1_fit_gram_pool.koct"} < names


@lab.cluster
@pytest.mark.long
def test_a_thousand_cells_are_26_submissions(checkout):
    """Really submitted, to a partition that is down: nothing runs."""
    many = {**lab.SMALL["sweeps"]["H8"], "seeds": list(range(500))}
    config = {**lab.SMALL, "studies": {"small": ["H8"]}, "sweeps": {"H8": many}}
    run, planned = lab.small(checkout, config), Jobs(config)
    specs = {"known/H8": planned.problem_spec("known")(SimpleNamespace(sweep="H8"))}
    for seed in many["seeds"]:
        specs[f"pools/H8/seed{seed}"] = planned.pool_spec(SimpleNamespace(sweep="H8", seed=seed))
    for name, spec in specs.items():  # so that none is made
        write_array(run.path(f"results/{name}.npy"), np.zeros(1), Stamp(json.loads(spec)))
    with lab.partition("State=DOWN"):
        process = lab.started(run)
        try:
            until(lambda: len(lab.jobs(run.folder)) or process.poll() is not None)
            before = -1
            while before != (before := len(queued(run.folder))):
                time.sleep(3)
            assert before == 1000 / 40
            assert "26 submissions:" in run.path("out.txt").read_text()  # with the summary
            until(lambda: "25 pending: PartitionDown" in run.path("out.txt").read_text())
            process.send_signal(signal.SIGTERM)  # as by scancel of a job that snakemake runs in
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)  # and somebody who does not wait
            until(lambda: not queued(run.folder))  # an interrupted run takes its jobs with it
            assert process.wait(60) == 1
        finally:
            process.kill()
            if left := queued(run.folder):
                lab.slurm("scancel", *left)


def queued(folder):
    listed = (line.split() for line in lab.slurm("squeue", "--noheader", "--format=%A %Z").splitlines())
    return [job for job, place in listed if place == str(folder)]


@lab.cluster
@pytest.mark.parametrize(
    ("line", "value", "sentence"),
    [
        ("cpu_partition", "cpux", "invalid partition specified: cpux"),
        pytest.param("reservation", "mine", "Requested reservation is invalid", marks=pytest.mark.long),
        pytest.param("constraint", "skylake", "Invalid feature specification", marks=pytest.mark.long),
    ],
)
def test_a_wrong_site_line_gets_a_sentence_and_no_submission(checkout, line, value, sentence):
    run = lab.small(checkout, **{line: value})
    for arguments in (lab.PROFILE, [*lab.PROFILE, "--dry-run"]):
        done = run.snakemake(*arguments, check=False)
        text = done.stdout + done.stderr
        assert sentence in text
        assert "Fix the site lines" in text
        assert done.returncode == 1
    assert not lab.all_jobs(run.folder)


@lab.cluster
@pytest.mark.long
def test_a_full_queue_is_waited_for(checkout):
    """A user may have one job at a time: the others are submitted when it has ended."""
    run = lab.small(checkout)
    with lab.meanwhile("sacctmgr --immediate modify user root set", "MaxSubmitJobs=1", "MaxSubmitJobs=-1"):
        done = run.snakemake("results/cells.parquet", *lab.PROFILE, "--retries", "0")
    assert "SLURM takes no more jobs for now" in done.stdout + done.stderr
    assert "Attempt" not in done.stdout + done.stderr
    assert len(lab.all_jobs(run.folder)) == 4


ENVIRONMENT = """
from koct.networks.fc import FC


class Mine(FC):
    def fit(self, data):
        import os, pathlib

        pathlib.Path("environment.txt").write_text(" ".join(os.environ))
        return super().fit(data)
"""


@pytest.mark.long
@lab.cluster
def test_a_job_gets_what_it_needs_and_no_secret(checkout, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("MINE", "wanted")
    run = lab.with_own(checkout, ENVIRONMENT)
    run.snakemake("results/fits/own/mine/N4_seed1.npy", *lab.PROFILE, "--envvars", "MINE")
    found = run.path("environment.txt").read_text().split()
    assert "GITHUB_TOKEN" not in found
    assert {"HOME", "PATH", "PYTHONPATH", "KOCT_DEVICE", "SLURM_JOB_ID", "MINE"} <= set(found)


@pytest.mark.long
@lab.cluster
def test_a_job_that_slurm_will_never_start_has_failed(checkout):
    """The partition changes under a run that has been checked."""
    run = lab.small(checkout)
    with lab.partition("State=DOWN"):
        process = lab.started(run, "--retries", "0")
        until(lambda: "pending: PartitionDown" in run.path("out.txt").read_text() or process.poll() is not None)
        lab.slurm("scontrol", "update", "PartitionName=cpu", "MaxTime=1", "State=UP")
        status, text = lab.ended(process, run, 120)
    assert status == 1
    assert "SLURM will never start job" in text
    assert "PartitionTimeLimit" in text
    assert not [job for job in lab.all_jobs(run.folder) if job["JobState"] in ("PENDING", "RUNNING")]


@lab.cluster
def test_a_node_that_is_down_for_a_while_is_no_wrong_line(checkout):
    node = lab.slurm("sinfo", "--noheader", "--format=%n", "--partition=gpu").strip()
    with lab.meanwhile(f"scontrol update NodeName={node}", "State=DRAIN Reason=test", "State=RESUME"):
        assert len(lab.dry(lab.small(checkout), "--config", "study=small")) == 4


@pytest.mark.long
@lab.cluster
def test_account_and_memory_reach_the_job(submitted, checkout):
    run = lab.small(checkout, account="mine", memory="false")
    run.snakemake("results/cells/H8/ko/N4_seed1.json", *lab.PROFILE)
    job = lab.jobs(run.folder)["cells_fit"]
    assert (job["Account"], job["TimeLimit"]) == ("mine", "00:05:00")
    assert job["MinMemoryNode"] == "0"
    plain, _ = submitted
    job = lab.jobs(plain.folder)["cells_fit"]
    assert (job["Account"], job["Requeue"], job["MinMemoryNode"]) == ("koct", "0", "2000M")  # the default account


@lab.cluster
@pytest.mark.long
def test_jobs_that_left_the_queue_are_found_in_the_accounting(checkout):
    """The queue forgets them within a minute, as on a busy cluster; those of other tests too, so this is the last."""
    run = lab.small(checkout)
    age = re.search(r"MinJobAge += (\d+)", lab.slurm("scontrol", "show", "config"))[1]
    config = Path(os.environ.get("SLURM_CONF") or "/etc/slurm/slurm.conf")
    text = config.read_text()
    try:
        config.write_text(text.replace(f"MinJobAge={age}", "MinJobAge=2"))
        lab.slurm("scontrol", "reconfigure")
        run.snakemake("results/pools/H8/seed1.npy", *lab.PROFILE[:-1], "70")
    finally:
        config.write_text(text)
        lab.slurm("scontrol", "reconfigure")
    assert not lab.all_jobs(run.folder)
