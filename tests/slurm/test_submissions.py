"""What `snakemake --profile slurm` submits to a real SLURM: tests/cluster/slurm.sh starts one on any Debian machine."""

import json
import math
import os
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_requests import MEAN, request

from koct.base.files import write_array
from koct.base.stamps import Stamp
from koct.config.study_file import build
from koct.workflow import resources
from koct.workflow.jobs import Jobs
from tests.slurm.lab import (
    PROFILE,
    ROOT,
    SMALL,
    all_jobs,
    assert_same_results,
    cluster,
    dry,
    ended,
    jobs,
    slurm,
    small,
    started,
    until,
)

BEFORE = {"known", "pool", "fit", "pool_large", "gram", "fit_large", "evaluate"}
BEFORE |= {"figure_recons"}  # what runs before the group `summary`


@pytest.fixture(scope="module")
def submitted(checkout):
    """The small study through SLURM, undisturbed, and what was printed."""
    run = small(checkout)
    done = run.snakemake(*PROFILE)
    return run, done.stdout + done.stderr


@cluster
def test_the_cluster_gives_the_bits_of_the_local_run(submitted, checkout):
    run, _ = submitted
    local = small(checkout)
    local.snakemake()
    assert_same_results(run, local)
    assert run.path("results/fig_sweeps.pdf").exists()


@cluster
def test_a_run_says_what_it_submits_what_waits_and_what_is_done(submitted):
    run, text = submitted
    lines = text.splitlines()
    study = lines.index("Study small: 2 sweeps, 7 cells, device auto.")
    assert study < 4
    assert lines[study + 1] == f"{len(jobs(run.folder))} submissions:"
    assert lines[study + 3].startswith("    2 to gpu, each: 1 core, 1 GPU, 3.0 GB, 5 to ")
    assert [line for line in lines if re.fullmatch(r"(\d running)?(, )?(\d pending(: \w+)?)?", line)]
    assert "evaluate fc of F32, N = 16, seed 1" in text
    used = text[text.index("Asked for and used, at most:") :]
    assert re.search(r"^  fit_large \(5\) +3\d\d\d MB, used +\d+; +\d+ min, used +0\.\d$", used, re.M)
    jobs_and_rules = sum(run.plan("--forceall", *PROFILE).values()) + used.count(" MB, used ")
    assert len(lines) < jobs_and_rules + 20  # a line for each, and few others
    names = {job["JobName"] for job in all_jobs(run.folder)}
    assert {"H8_seed1_cells_fit.koct", "F32_seed1_evaluate_fit_large_gram_pool_large.koct"} < names


@cluster
def test_partition_memory_time_and_gpus_are_what_the_formulas_say(submitted):
    """Groups: one core, the memory of the largest, the time of all, and five minutes at least."""
    run, _ = submitted
    sweep, known = (build(name, SMALL["sweeps"][name]) for name in ("F32", "H8"))
    cells = [(arch, N) for arch in sweep.archs for N in sweep.sizes_of(arch)]
    seed = [resources.pool(sweep), resources.gram(sweep)]
    seed += [stage(sweep, arch, N) for arch, N in cells for stage in (resources.fit, resources.evaluate)]

    def together(costs):
        memory, minutes = zip(*(request(cost, on_gpu=True) for cost in costs), strict=True)
        return "gpu", max(memory), max(5, sum(minutes)), "gres:gpu:1", "1"

    memory, minutes = request(resources.shared(known))
    summary = "summary_budget_calibrate_collect_collect_theory_figure_sweeps_planner_..."
    asked = {
        "F32_seed1_evaluate_fit_large_gram_pool_large": together(seed),
        "F32_seeds_figure_recons": together([resources.recons(sweep)]),
        "pools_known_pool": ("cpu", max(2000, memory), max(5, 1 + minutes), None, "1"),
        "cells_fit": ("cpu", 2000, 5, None, "1"),
        summary: ("cpu", 2000, len(run.plan("--forceall", *PROFILE).keys() - BEFORE), None, "1"),  # a minute each
    }

    def read(job):
        memory = job["MinMemoryNode"]
        mb = int(memory[:-1]) * {"M": 1, "G": 1024}[memory[-1]]
        hours, minutes, seconds = map(int, job["TimeLimit"].split(":"))
        return job["Partition"], mb, 60 * hours + minutes + seconds / 60, job.get("TresPerNode"), job["NumCPUs"]

    found = {name: read(job) for name, job in jobs(run.folder).items()}
    (long,) = (name for name in found if name.startswith("summary_"))
    found[summary] = found.pop(long)
    assert found == asked


@cluster
def test_a_job_sees_the_gpus_it_asked_for(submitted):
    run, _ = submitted
    for log in ("pools/F32/seed1.log", "grams/F32/seed1.log", "fits/F32/ko/N16_seed1.log", "fits/F32/fc/N4_seed1.log"):
        assert re.search(r"^device: .*CUDA_VISIBLE_DEVICES=\d\)$", run.path(f"results/logs/{log}").read_text(), re.M)


@cluster
def test_a_thousand_cells_are_26_submissions_and_their_pools_at_most_13(checkout):
    """Really submitted, to a partition that is down: nothing runs. Pools: 40 in a submission as well, at most 500."""
    many = {**SMALL["sweeps"]["H8"], "seeds": list(range(500))}
    config = {**SMALL, "studies": {"small": ["H8"]}, "sweeps": {"H8": many}}
    run, planned = small(checkout, config), Jobs(config)
    sweep = SimpleNamespace(sweep="H8")
    specs = {
        f"pools/H8/seed{seed}": planned.pool_spec(SimpleNamespace(sweep="H8", seed=seed)) for seed in many["seeds"]
    }
    for name, spec in {"known/H8": planned.problem_spec("known")(sweep), **specs}.items():  # so that none is made
        write_array(run.path(f"results/{name}.npy"), np.zeros(1), Stamp(json.loads(spec)))
    slurm("scontrol", "update", "PartitionName=cpu", "State=DOWN")
    process = started(run)
    try:
        until(lambda: len(jobs(run.folder)) or process.poll() is not None)
        count = lambda: slurm("squeue", "--noheader", "--format=%Z").split().count(str(run.folder))  # noqa: E731
        before = -1
        while before != (before := count()):
            time.sleep(3)
        assert before == math.ceil(1000 / 40)
        profile = (ROOT / "profiles/slurm/config.yaml").read_text()
        assert "  pools: 40\n" in profile
        assert before + math.ceil(500 / 40) + 1 <= 60  # and the summary
        assert "26 submissions:" in run.path("out.txt").read_text()
        until(lambda: "25 pending: PartitionDown" in run.path("out.txt").read_text())
        process.send_signal(signal.SIGTERM)  # as by scancel of a job that snakemake runs in
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)  # and somebody who does not wait
        until(lambda: count() == 0)  # an interrupted run takes its jobs with it
        assert process.wait(60) == 1
    finally:
        process.kill()
        listed = (line.split() for line in slurm("squeue", "--noheader", "--format=%A %Z").splitlines())
        left = [job for job, folder in listed if folder == str(run.folder)]
        if left:
            slurm("scancel", *left)
        slurm("scontrol", "update", "PartitionName=cpu", "State=UP")


# What SLURM would refuse


@cluster
@pytest.mark.parametrize(
    ("lines", "sentence", "fix"),
    [
        ({"cpu_partition": "cpux"}, "invalid partition specified: cpux", "Fix cpu_partition or gpu_partition"),
        (
            {"gpu_type": "a100-sxm"},
            "no node of gpu has 1 core, 3000 MB, 1 a100-sxm GPU",
            "Fix the partitions or gpu_type",
        ),
        ({"reservation": "mine"}, "Requested reservation is invalid", "Fix reservation"),
        ({"constraint": "skylake"}, "Invalid feature specification", "Fix constraint"),
    ],
)
def test_a_wrong_site_line_gets_a_sentence_and_no_submission(checkout, lines, sentence, fix):
    run = small(checkout, **lines)
    for arguments in (PROFILE, [*PROFILE, "--dry-run"]):
        done = run.snakemake(*arguments, check=False)
        text = done.stdout + done.stderr
        assert sentence in text
        assert fix in text
        assert done.returncode == 1
        assert "--dry-run" not in arguments or fix in done.stdout.splitlines()[-1]  # nothing is behind it
    assert not all_jobs(run.folder)


@cluster
def test_a_study_that_asks_for_more_time_than_a_partition_has_is_refused(checkout):
    own = {**SMALL["sweeps"]["H8"], "archs": ["mine/mean.py"]}  # which says no cost, and is given an hour
    run = small(checkout, {**SMALL, "studies": {"small": ["own"]}, "sweeps": {"own": own}})
    run.path("mine").mkdir()
    run.path("mine/mean.py").write_text(MEAN)
    slurm("scontrol", "update", "PartitionName=cpu", "MaxTime=30")
    try:
        done = run.snakemake(*PROFILE, check=False)
    finally:
        slurm("scontrol", "update", "PartitionName=cpu", "MaxTime=INFINITE")
    assert done.returncode == 1
    assert "a job there may take 30 min at most, and one of this study asks for 6" in done.stdout + done.stderr
    assert not all_jobs(run.folder)


@cluster
@pytest.mark.long
def test_a_full_queue_is_waited_for(checkout):
    """A user may have one job at a time: the others are submitted when it has ended."""
    run = small(checkout)
    limit = ("sacctmgr", "--immediate", "modify", "user", "root", "set")
    slurm(*limit, "MaxSubmitJobs=1")
    try:
        done = run.snakemake("results/cells.parquet", *PROFILE, "--retries", "0")
    finally:
        slurm(*limit, "MaxSubmitJobs=-1")
    assert "SLURM takes no more jobs of yours for now" in done.stdout + done.stderr
    assert "Attempt" not in done.stdout + done.stderr
    assert len(all_jobs(run.folder)) == 4


@cluster
def test_a_job_that_slurm_will_never_start_has_failed(checkout):
    """The partition changes under a run that has been checked."""
    run = small(checkout)
    slurm("scontrol", "update", "PartitionName=cpu", "State=DOWN")
    process = started(run, "--retries", "0")
    try:
        until(lambda: "pending: PartitionDown" in run.path("out.txt").read_text() or process.poll() is not None)
        slurm("scontrol", "update", "PartitionName=cpu", "MaxTime=1", "State=UP")
        status, text = ended(process, run, 120)
    finally:
        slurm("scontrol", "update", "PartitionName=cpu", "MaxTime=INFINITE", "State=UP")
    assert status == 1
    assert "SLURM will never start job" in text
    assert "PartitionTimeLimit" in text
    assert not [job for job in all_jobs(run.folder) if job["JobState"] in ("PENDING", "RUNNING")]


@cluster
def test_a_node_that_is_down_for_a_while_is_no_wrong_line(checkout):
    node = slurm("sinfo", "--noheader", "--format=%n", "--partition=gpu").strip()
    slurm("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    try:
        assert len(dry(small(checkout), "--config", "study=small")) == 4
    finally:
        slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


@cluster
def test_account_and_memory_reach_the_job(submitted, checkout):
    run = small(checkout, account="mine", memory="false")
    run.snakemake("results/cells/H8/ko/N4_seed1.json", *PROFILE)
    job = jobs(run.folder)["cells_fit"]
    assert (job["Account"], job["TimeLimit"]) == ("mine", "00:05:00")
    assert job["MinMemoryNode"] == "0"
    plain, _ = submitted
    job = jobs(plain.folder)["cells_fit"]
    assert (job["Account"], job["Requeue"], job["MinMemoryNode"]) == ("koct", "0", "2000M")  # the default account


@cluster
@pytest.mark.long
def test_jobs_that_left_the_queue_are_found_in_the_accounting(checkout):
    """The queue forgets them within a minute, as on a busy cluster; those of other tests too, so this is the last."""
    run = small(checkout)
    age = re.search(r"MinJobAge += (\d+)", slurm("scontrol", "show", "config"))[1]
    config = Path(os.environ.get("SLURM_CONF") or "/etc/slurm/slurm.conf")
    text = config.read_text()
    try:
        config.write_text(text.replace(f"MinJobAge={age}", "MinJobAge=2"))
        slurm("scontrol", "reconfigure")
        run.snakemake("results/pools/H8/seed1.npy", *PROFILE[:-1], "70")
    finally:
        config.write_text(text)
        slurm("scontrol", "reconfigure")
    assert not all_jobs(run.folder)
