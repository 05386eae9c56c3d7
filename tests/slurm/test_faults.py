"""What goes wrong on a cluster, really caused: one more command, or none, and the results are right."""

import json
import os
import re
import signal
import sys
import time

import pytest
import yaml

from tests.slurm.lab import (
    PROFILE,
    SMALL,
    all_jobs,
    cluster,
    ended,
    go_on,
    jobs,
    process_of,
    running,
    slurm,
    small,
    started,
    stop_process,
    until,
)

LONG = {  # the fits of KO take seconds: long enough to be stopped
    **SMALL,
    "studies": {"small": ["F32"]},
    "sweeps": {"F32": {**SMALL["sweeps"]["F32"], "ko": {**SMALL["sweeps"]["F32"]["ko"], "iterations": 4000}}},
}
CELLS = [f"results/cells/F32/{arch}/N{N}_seed1.json" for arch in ("ko", "fc") for N in (4, 16)]
SEED = "F32_seed1"  # the group of a seed's jobs
KO = [f"results/fits/F32/ko/N{N}_seed1.npy" for N in (4, 16)]
FSDP_ROW = "results/cells/F32/fc-fsdp/N16_seed1.json"
FSDP_LOG = "results/logs/fits/F32/fc-fsdp/N16_seed1.log"
ERRORS = ("mse", "rrmse_peak", "rrmse_norm", "val_mse")
FSDP_JOB = "fit_torchrun_wildcards_F32_fc-fsdp_16_1"


@pytest.fixture(scope="module")
def local(checkout):
    run = small(checkout, LONG)
    run.snakemake(*CELLS)
    return run


def first_fit(run):
    """Stop one fit of KO and wait until the other is there; (what is there, what is stopped, the seed's job id).

    However slow the machine is, nothing more is made until the test goes on.
    """
    stopped = until(lambda: _stop_second(run))
    (kept,) = set(KO) - {stopped}
    until(lambda: run.path(kept).exists())
    return kept, stopped, until(lambda: running(run.folder, SEED))


def _stop_second(run):
    """Of two fits that run, or of one whose sibling is there, stop one that has begun its log."""
    there = [path for path in KO if run.path(path).exists()]
    at_work = [path for path in KO if process_of(run.folder, path) and _log(run, path)]
    last = next((path for path in reversed(at_work) if path not in there), None)
    if last and len({*there, *at_work}) == 2 and stop_process(run.folder, last):
        return last
    return None


def _log(run, fit):
    log = run.path(fit.replace("results/", "results/logs/").replace(".npy", ".log"))
    return log.exists() and log.read_text()


def assert_same_cells(first, second):
    for cell in CELLS:
        rows = [json.loads(run.path(cell).read_text()) for run in (first, second)]
        one, two = (
            {key: value for key, value in row.items() if key not in ("fit_seconds", "image_seconds", "stamp")}
            for row in rows
        )
        assert one == two


def inode(run, path):
    return os.stat(run.path(path)).st_ino


@cluster
@pytest.mark.long
def test_an_interrupted_and_edited_study_has_cells_of_the_new_config_alone(checkout):
    """Killed in mid-run; then other lambdas, and the same command."""
    run, local = small(checkout, LONG), small(checkout)
    process = started(run, *CELLS)
    _, stopped, _ = first_fit(run)
    process.kill()
    process.wait()
    go_on(run.folder, stopped)
    time.sleep(2)  # the job goes on, and finishes cells that no snakemake sees
    sweep = LONG["sweeps"]["F32"]
    edited = {**LONG, "sweeps": {"F32": {**sweep, "lambdas": [3.0, 30.0], "ko": {**sweep["ko"], "iterations": 100}}}}
    for which in (run, local):
        which.path("config.yaml").write_text(yaml.safe_dump(edited))
    run.snakemake(*CELLS, *PROFILE)
    local.snakemake(*CELLS)
    assert_same_cells(run, local)
    rows = [json.loads(run.path(f"results/cells/F32/fc/N{N}_seed1.json").read_text()) for N in (4, 16)]
    assert {row["lam"] for row in rows} <= {3.0, 30.0}


@cluster
def test_killed_interrupted_and_cancelled_one_more_command_gives_the_same_results(checkout, local):
    run = small(checkout, LONG)
    process = started(run, *CELLS)  # kill -9, with a job running
    until(lambda: any(stop_process(run.folder, path) for path in KO))
    process.kill()
    process.wait()

    process = started(run, *CELLS)  # Ctrl-C
    kept, other, _ = first_fit(run)
    before = inode(run, kept)
    process.send_signal(signal.SIGINT)
    status, text = ended(process, run)
    assert status != 0
    assert "Cancelled 1 job that" in text
    until(lambda: not running(run.folder, SEED))

    process = started(run, *CELLS, "--retries", "0")  # scancel
    until(lambda: stop_process(run.folder, other))
    slurm("scancel", until(lambda: running(run.folder, SEED)))
    status, text = ended(process, run)
    assert status == 1
    assert "'CANCELLED'" in text
    assert not run.path(other).exists()

    run.snakemake(*CELLS, *PROFILE)
    assert inode(run, kept) == before  # what was finished stays, though its group was not
    assert_same_cells(run, local)
    assert run.plan(*CELLS, *PROFILE) == {}


@cluster
@pytest.mark.long
def test_a_group_that_reaches_its_time_limit_goes_on_where_it_was_and_asks_for_more(checkout, local):
    run = small(checkout, LONG)
    process = started(run, *CELLS)
    kept, _, job = first_fit(run)
    before = inode(run, kept)
    slurm("scontrol", "update", f"JobId={job}", "EndTime=now+1seconds")
    status, text = ended(process, run)
    assert status == 0
    assert "'TIMEOUT'" in text
    assert re.search(r"fit ko of F32, N = \d+, seed 1.*:\n    (device|iteration)", text)  # what had begun, and its log
    assert "Attempt 1 of 3 failed; submitting it again with more time." in text
    assert len(text.splitlines()) < 60
    first, second = (found for found in all_jobs(run.folder) if SEED in found["Comment"])
    assert second["MinMemoryNode"] == first["MinMemoryNode"]
    assert second["TimeLimit"] == "00:40:00"  # twice what the first asked for
    assert inode(run, kept) == before
    assert_same_cells(run, local)


GREEDY = """
from koct.networks.fc import FC


class Mine(FC):
    def fit(self, data):
        held = b"1" * 700_000_000
        yield from super().fit(data)
        del held
"""


@cluster
def test_a_job_that_takes_too_much_memory_gets_more(checkout):
    """Killed by the kernel in a control group; SLURM says so, and the second attempt asks for twice as much."""
    if "task/cgroup" not in slurm("scontrol", "show", "config"):
        pytest.skip("this SLURM does not limit memory: there are no control groups of version 1")
    own = {**SMALL["sweeps"]["H8"], "archs": ["mine/mine.py"]}
    config = {**SMALL, "studies": {"small": ["own"]}, "sweeps": {"own": own}}
    run = small(checkout, config, requests="{fit: {mem_mb: 700}}")
    run.path("mine").mkdir()
    run.path("mine/mine.py").write_text(GREEDY)
    row = "results/cells/own/mine/N4_seed1.json"
    done = run.snakemake(row, *PROFILE)
    text = done.stdout + done.stderr
    assert "'OUT_OF_MEMORY'" in text
    assert "Attempt 1 of 3 failed; submitting it again with more memory." in text
    tried = [(job["JobState"], job["MinMemoryNode"]) for job in all_jobs(run.folder) if "fit" in job["Comment"]]
    assert tried == [("OUT_OF_MEMORY", "700M"), ("COMPLETED", "1400M")]
    assert run.path(row).exists()


def preempt(job):
    """Take the node of a job for one of a higher partition."""
    node = re.search(r" NodeList=(\S+)", slurm("scontrol", "-o", "show", "job", job))[1]
    slurm("sbatch", "--partition=urgent", f"--nodelist={node}", "--exclusive", "--output=/dev/null", "--wrap=sleep 2")


@cluster
@pytest.mark.long
def test_a_preempted_study_finishes(checkout, local):
    """A job of a higher partition takes the node; no attempt is counted, so `--retries 0` does no harm."""
    run = small(checkout, LONG)
    process = started(run, *CELLS, "--retries", "0")
    kept, _, job = first_fit(run)
    before = inode(run, kept)
    preempt(job)
    status, text = ended(process, run)
    assert status == 0, text
    assert f"SLURM preempted or lost job {job} " in text
    first, second = (found for found in all_jobs(run.folder) if SEED in found["Comment"])
    assert (first["JobState"], second["JobState"]) == ("PREEMPTED", "COMPLETED")
    assert first["MinMemoryNode"] == second["MinMemoryNode"]
    logs = [path.read_text() for path in run.path(".snakemake/slurm_logs").rglob("*.log")]
    assert not [found for found in [text, *logs] if "never awaited" in found]  # as Python warns of a coroutine
    assert inode(run, kept) == before
    assert_same_cells(run, local)


@cluster
def test_one_failing_cell_does_not_keep_the_others_of_its_group_from_being_made(checkout):
    """A network of one's own that fails for one N."""
    run = small(checkout)
    run.path("mine").mkdir()
    text = "import koct.networks.ko as shipped\n\n\nclass Mine(shipped.KO):\n    def fit(self, data):\n"
    text += "        assert data.N != 4, 'no fit with four pairs'\n        yield from super().fit(data)\n"
    run.path("mine/mine.py").write_text(text)
    config = {**SMALL, "studies": {"small": ["F32"]}}
    config["sweeps"] = {"F32": {**SMALL["sweeps"]["F32"], "archs": ["mine/mine.py", "fc"]}}
    run.path("config.yaml").write_text(yaml.safe_dump(config))
    done = run.snakemake("results/cells.parquet", *PROFILE, "--retries", "0", check=False)
    assert done.returncode == 1
    made = sorted(path.name for path in run.path("results/cells/F32").rglob("*.json"))
    assert made == ["N16_seed1.json", "N16_seed1.json", "N4_seed1.json"]
    assert "no fit with four pairs" in done.stdout + done.stderr


@cluster
@pytest.mark.long
def test_snakemake_as_a_job_does_not_cancel_itself(checkout):
    """Where login nodes forbid long processes; its name ends as those of its jobs do."""
    run = small(checkout)
    snakemake = os.path.join(os.path.dirname(sys.executable), "snakemake")
    target = "results/cells/H8/ko/N4_seed1.json"
    command = f"{snakemake} {' '.join(PROFILE)} {target}"
    options = ["--parsable", "--job-name=main.koct", f"--chdir={run.folder}", "--output=out.txt", "--mem=1000"]
    job = slurm("sbatch", *options, f"--wrap={command}").strip()
    done = until(lambda: (state := _state(job)) not in ("PENDING", "RUNNING", "COMPLETING") and state)
    assert done == "COMPLETED", run.path("out.txt").read_text()
    assert run.path(target).exists()


def _state(job):
    return re.search(r"JobState=(\S+)", slurm("scontrol", "show", "job", job))[1]


def with_fsdp(iterations, **others):
    fsdp = {"ranks": 2, "iterations": iterations, **others}
    wider = {**SMALL["sweeps"]["F32"], "archs": ["fc", "fc-fsdp"], "fsdp": fsdp}
    return {**SMALL, "studies": {"small": ["F32"]}, "sweeps": {"F32": wider}}


def fsdp_under_way(run):
    log = run.path(FSDP_LOG)
    until(lambda: log.exists() and re.search(r"^iteration \d+ of", log.read_text(), re.M))
    return jobs(run.folder)[FSDP_JOB]


@cluster
@pytest.mark.long
@pytest.mark.parametrize("how", ["cancelled", "preempted"])
def test_an_fsdp_cell_that_is_ended_continues_from_its_checkpoint(checkout, how):
    """Two ranks with two GPUs, ended in mid-run. Submitted again as before, it has the bits of a local run."""
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    run, local = (small(checkout, with_fsdp(300)) for _ in range(2))
    process = started(run, FSDP_ROW)
    job = fsdp_under_way(run)
    assert (job["Partition"], job["TresPerNode"], job["NumCPUs"]) == ("gpu", "gres:gpu:2", "2")
    if how == "cancelled":
        slurm("scancel", job["JobId"])
    else:
        preempt(job["JobId"])
    assert process.wait(900) == 0  # the profile submits it again
    first, second = all_jobs(run.folder)[-3:-1]
    assert [first[key] == second[key] for key in ("JobName", "TimeLimit", "MinMemoryNode")] == [True] * 3
    assert first["JobState"] == how.upper()
    text = run.path(FSDP_LOG).read_text()
    assert re.search(r"^device: .*CUDA_VISIBLE_DEVICES=\d,\d\)$", text, re.M)
    assert 0 < int(re.search(r"^resumed after iteration (\d+)", text, re.M)[1]) < 300
    assert not re.search(r"^iteration 6 of", text, re.M)  # its first line of progress: not from zero
    local.snakemake(FSDP_ROW)
    rows = [json.loads(which.path(FSDP_ROW).read_text()) for which in (run, local)]
    assert [rows[0][key] for key in ERRORS] == [rows[1][key] for key in ERRORS]


@cluster
@pytest.mark.long
def test_an_fsdp_cell_writes_a_checkpoint_ahead_of_its_time_limit(checkout):
    """The signal comes 120 s ahead or up to a minute before; SLURM looks at time limits every half minute."""
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    run = small(checkout, with_fsdp(20000))
    process = started(run, FSDP_ROW, "--retries", "0")
    job = fsdp_under_way(run)["JobId"]
    slurm("scontrol", "update", f"JobId={job}", "TimeLimit=3")
    status, text = ended(process, run, 180)
    assert status == 1
    assert "'TIMEOUT'" in text  # though SLURM calls it failed
    assert len(text.splitlines()) < 35
    assert list(run.path("results/fits/F32/fc-fsdp/N16_seed1.checkpoint").iterdir())
