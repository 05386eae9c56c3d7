"""`snakemake --profile slurm` on a real SLURM: tests/cluster/slurm.sh starts one on any Debian machine."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT, SMALL_FANBEAM
from test_requests import MEAN, request

from koct.files import write_array
from koct.stamps import Stamp
from koct.workflow import resources
from koct.workflow.config import build
from koct.workflow.jobs import Jobs

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
SMALL = {
    "study": "small",
    "studies": {"small": ["H8", "F32"]},
    "sweeps": {
        "H8": {**CONFIG["sweeps"]["H8"], "N": [4, 8], "seeds": [1], "archs": ["ko"]},
        "F32": {**SMALL_FANBEAM["sweeps"]["F32"], "N": [4, 16], "seeds": [1]},
    },
}
PROFILE = ["--profile", "slurm", "--config", "study=small", "--slurm-init-seconds-before-status-checks", "1"]


def slurm(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def answers():
    try:
        return bool(slurm("sinfo", "--noheader"))
    except (OSError, subprocess.SubprocessError):
        return False


cluster = pytest.mark.skipif(not answers(), reason="no SLURM answers here: run tests/cluster/slurm.sh start")


def jobs(folder):
    """What SLURM knows of a folder's jobs, by the rule and wildcards in their comments; of a repeated one the last."""
    records = (dict(re.findall(r"(\S+?)=(\S*)", line)) for line in slurm("scontrol", "-do", "show", "job").splitlines())
    return {job["Comment"].removeprefix("rule_"): job for job in records if job.get("WorkDir") == str(folder)}


def until(condition, seconds=180):
    """Wait until a function returns something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{condition.__name__} did not come true in {seconds} s")


def small(checkout, config=SMALL):
    made = checkout()
    made.path("config.yaml").write_text(yaml.safe_dump(config))
    return made


def started(run, *arguments):
    """snakemake on the cluster, in the background."""
    with open(run.path("out.txt"), "a") as out:
        command = [Path(sys.executable).with_name("snakemake"), *arguments, *PROFILE]
        # Ctrl-C must reach it even if these tests were started in the background, where SIGINT is ignored
        return subprocess.Popen(
            command,
            cwd=run.folder,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def assert_same_results(first, second, names=("cells", "untrained", "curves", "calibration", "budget")):
    for name in names:
        tables = [pd.read_parquet(run.path(f"results/{name}.parquet")) for run in (first, second)]
        one, two = (table.drop(columns="fit_seconds", errors="ignore") for table in tables)
        pd.testing.assert_frame_equal(one, two, rtol=0, atol=0)


@pytest.fixture(scope="module")
def local(checkout):
    run = small(checkout)
    run.snakemake()
    return run


@pytest.fixture(scope="module")
def submitted(checkout):
    """The small study through SLURM, undisturbed, and what was printed."""
    run = small(checkout)
    return run, run.snakemake(*PROFILE)


# What is submitted


@cluster
def test_the_cluster_gives_the_bits_of_the_local_run(submitted, local):
    run, done = submitted
    assert_same_results(run, local)
    assert "Study small: 2 sweeps, 6 cells, device auto." in done.stdout + done.stderr
    assert run.path("results/fig_sweeps.pdf").exists()


@cluster
def test_partition_memory_time_and_gpus_are_what_the_formulas_say(submitted):
    run, _ = submitted
    sweep, known = (build(name, SMALL["sweeps"][name]) for name in ("F32", "H8"))
    on_gpu = {
        "pool_large_wildcards_F32_1": resources.pool(sweep),
        "gram_wildcards_F32_1": resources.gram(sweep),
        "untrained_large_wildcards_F32": resources.untrained(sweep),
        "figure_recons_wildcards_F32": resources.recons(sweep),
    }
    for arch in sweep.archs:
        on_gpu |= {f"fit_large_wildcards_F32_{arch.name}_{N}_1": resources.fit(sweep, arch, N) for N in sweep.N}
    asked = {name: ("gpu", *request(cost), "gres:gpu:1", "1") for name, cost in on_gpu.items()}
    # groups: one core, the memory of the largest, the time of all
    memory, minutes = request(resources.shared(known))
    asked["pools_known_pool"] = ("cpu", max(2000, memory), 1 + minutes, None, "1")
    asked["cells_fit_untrained"] = ("cpu", 2000, 3, None, "1")
    evaluations = [request(resources.evaluate(sweep, arch, N)) for arch in sweep.archs for N in sweep.N]
    memory, minutes = zip(*evaluations, strict=True)
    asked["evaluations_evaluate"] = ("cpu", max(memory), sum(minutes), None, "1")
    summary = "summary_budget_calibrate_collect_figure_sweeps_table_budget_table_calibration_..."
    asked[summary] = ("cpu", 2000, 8, None, "1")

    def read(job):
        memory = job["MinMemoryNode"]
        mb = int(memory[:-1]) * {"M": 1, "G": 1024}[memory[-1]]
        hours, minutes, seconds = map(int, job["TimeLimit"].split(":"))
        return job["Partition"], mb, 60 * hours + minutes + seconds / 60, job.get("TresPerJob"), job["NumCPUs"]

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
def test_a_large_problem_for_the_cpu_shares_a_run_with_one_for_the_gpu(checkout):
    """An architecture that does not say its cost is large; here it is quick."""
    own = {**SMALL["sweeps"]["H8"], "archs": ["mine/mean.py"]}
    sweeps = {"own": own, "F32": {**SMALL["sweeps"]["F32"], "archs": ["fc"]}}
    run = small(checkout, {**SMALL, "studies": {"small": list(sweeps)}, "sweeps": sweeps})
    run.path("mine").mkdir()
    run.path("mine/mean.py").write_text(MEAN)
    run.snakemake("results/cells.parquet", *PROFILE)
    found = {
        (name.partition("_wildcards_")[0], "own" in name): (job["Partition"], job.get("TresPerJob"))
        for name, job in jobs(run.folder).items()
    }
    assert found["fit_large", True] == ("cpu", None)
    assert found["fit_large", False] == found["pool_large", False] == ("gpu", "gres:gpu:1")
    assert {place for (name, _), place in found.items() if name.startswith("evaluations")} == {("cpu", None)}
    cells = pd.read_parquet(run.path("results/cells.parquet"))
    assert set(zip(cells["sweep"], cells["arch"], strict=True)) == {("own", "mean"), ("F32", "fc")}


def with_fsdp(iterations):
    wider = {**SMALL["sweeps"]["F32"], "archs": ["fc", "fc-fsdp"], "fsdp": {"ranks": 2, "iterations": iterations}}
    return {**SMALL, "studies": {"small": ["F32"]}, "sweeps": {"F32": wider}}


FSDP_ROW = "results/cells/F32/fc-fsdp/N16_seed1.json"
FSDP_LOG = "results/logs/fits/F32/fc-fsdp/N16_seed1.log"
FSDP_JOB = "fit_torchrun_wildcards_F32_fc-fsdp_16_1"


@cluster
def test_a_cancelled_fsdp_cell_continues_from_its_checkpoint(checkout):
    """Two ranks with two GPUs, cancelled in mid-run: submitted again, it ends as the local run does."""
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    run, local = (small(checkout, with_fsdp(300)) for _ in range(2))
    process = started(run, FSDP_ROW)
    log = run.path(FSDP_LOG)

    def under_way():
        return log.exists() and re.search(r"^iteration \d+ of 300", log.read_text(), re.M)

    until(under_way)
    job = jobs(run.folder)[FSDP_JOB]
    assert (job["Partition"], job["TresPerJob"], job["NumCPUs"]) == ("gpu", "gres:gpu:2", "2")
    slurm("scancel", job["JobId"])
    assert process.wait(300) == 0  # the profile submits it again
    text = log.read_text()
    assert re.search(r"^device: .*CUDA_VISIBLE_DEVICES=\d,\d\)$", text, re.M)
    assert 0 < int(re.search(r"^resumed after iteration (\d+)", text, re.M)[1]) < 300
    assert not re.search(r"^iteration 6 of 300", text, re.M)  # its first line of progress: not from zero
    local.snakemake(FSDP_ROW)
    rows = [json.loads(which.path(FSDP_ROW).read_text()) for which in (run, local)]
    for key in ("mse", "rrmse_peak", "rrmse_norm", "val_mse"):
        assert rows[0][key] == pytest.approx(rows[1][key], rel=1e-4)


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
        assert before == math.ceil((1000 + 1) / 40)  # 1,000 cells and the untrained network
        profile = (ROOT / "profiles/slurm/config.yaml").read_text()
        assert "  pools: 40\n" in profile
        assert before + math.ceil(500 / 40) + 1 <= 60  # and the summary
        process.send_signal(signal.SIGINT)
        until(lambda: count() == 0)  # an interrupted run takes its jobs with it
    finally:
        process.kill()
        listed = (line.split() for line in slurm("squeue", "--noheader", "--format=%A %Z").splitlines())
        left = [job for job, folder in listed if folder == str(run.folder)]
        if left:
            slurm("scancel", *left)
        slurm("scontrol", "update", "PartitionName=cpu", "State=UP")


# What goes wrong


@cluster
def test_killed_cancelled_and_timed_out_one_more_command_gives_the_same_results(checkout, local):
    run, target = small(checkout), "results/cells.parquet"

    # snakemake itself, by kill -9, with a job of it running
    process = started(run, target)
    until(lambda: any(job["JobState"] == "RUNNING" for job in jobs(run.folder).values()))
    process.kill()
    process.wait()
    left = [job["JobId"] for job in jobs(run.folder).values() if job["JobState"] in ("RUNNING", "PENDING")]
    assert left

    # one cell by scancel, one that hangs by its time limit; without retries both fail
    process = started(run, target, "--retries", "0")

    def running(name):
        return lambda: (job := jobs(run.folder).get(name)) and job["JobState"] == "RUNNING" and job["JobId"]

    def hang(job):
        """Stop the program of a cell, and let its job's time be over soon."""
        mark = "results/fits/F32/ko/N4_seed1.npy"
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text().split("\0")
                if mark in words and "koct" in words and os.readlink(folder / "cwd") == str(run.folder):
                    os.kill(int(folder.name), signal.SIGSTOP)
                    slurm("scontrol", "update", f"JobId={job}", "EndTime=now+1seconds")
                    return True
            except OSError:
                continue

    def cancelled():
        job = running("fit_large_wildcards_F32_ko_16_1")()
        return job and (slurm("scancel", job) or job)

    def hung():
        job = running("fit_large_wildcards_F32_ko_4_1")()
        return job and hang(job)

    waiting = [cancelled, hung]

    def all_disturbed():
        waiting[:] = [disturb for disturb in waiting if not disturb()]
        return not waiting

    until(all_disturbed)
    assert process.wait(300) == 1
    text = run.path("out.txt").read_text()
    assert f"Cancelled {len(left)} job" in text
    assert "'CANCELLED'" in text
    assert "'TIMEOUT'" in text
    assert not run.path("results/cells/F32/ko/N4_seed1.json").exists()
    assert run.path("results/fits/F32/fc/N16_seed1.npy").exists()  # the others went on
    assert run.path("results/cells/H8/ko/N8_seed1.json").exists()

    run.snakemake(target, *PROFILE)
    assert_same_results(run, local, ["cells", "untrained"])
    assert run.plan(target, *PROFILE) == {}


# Where there is no SLURM


def test_a_dry_run_needs_no_slurm(checkout, tmp_path, monkeypatch):
    run = small(checkout)
    for name in ("bash", "sh", "env", "which", "git", "uname"):
        if shutil.which(name):
            (tmp_path / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = run.plan("--profile", "slurm", "--config", "study=small")
    assert plan["fit"] == 2
    assert plan["fit_large"] == plan["evaluate"] == 4
    done = run.snakemake("--profile", "slurm", "--dry-run", "--config", "study=small", "device=cpu")
    assert done.returncode == 0


def test_a_plain_command_does_not_load_the_plugin(tmp_path):
    """It would bring pandas, half a second at every start."""
    ask = "import importlib.util, sys; print(importlib.util.find_spec('snakemake_executor_plugin_' + sys.argv[1][2:]))"
    (tmp_path / "ask.py").write_text(ask)
    environment = {key: value for key, value in os.environ.items() if key != "SNAKEMAKE_PROFILE"}

    def found(*words):
        command = [sys.executable, "ask.py", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True)
        return done.stdout.strip() != "None"

    assert found("--slurm")
    environment["SNAKEMAKE_PROFILE"] = "profiles/slurm"
    assert found("--slurm")
    del environment["SNAKEMAKE_PROFILE"]
    (tmp_path / "ask.py").write_text(ask.replace("sys.argv[1][2:]", "'slu' + 'rm'"))
    assert not found()
