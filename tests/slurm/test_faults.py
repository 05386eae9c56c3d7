"""What goes wrong on a cluster, really caused: one more command, or none, and the results are right."""

import json
import os
import re
import signal
import sys
import time

import pytest

from koct.base import stamps
from tests.conftest import until
from tests.slurm import lab

pytestmark = pytest.mark.slow
LONG = {  # the fits of KO take seconds: long enough to be stopped
    **lab.SMALL,
    "studies": {"small": ["F32"]},
    "sweeps": {"F32": {**lab.SMALL["sweeps"]["F32"], "ko": {**lab.SMALL["sweeps"]["F32"]["ko"], "iterations": 4000}}},
}
CELLS = [f"results/cells/F32/{arch}/N{N}_seed1.json" for arch in ("ko", "fc") for N in (4, 16)]
SEED = "F32_seed1"  # the group of a seed's jobs
KO = [f"results/fits/F32/ko/N{N}_seed1.npy" for N in (4, 16)]
FSDP_ROW = "results/cells/F32/fc-fsdp/N16_seed1.json"
FSDP_LOG = "results/logs/fits/F32/fc-fsdp/N16_seed1.log"
ERRORS = ("mse", "rrmse_peak", "rrmse_norm")
FSDP_JOB = "fit_torchrun_wildcards_F32_fc-fsdp_16_1"


@pytest.fixture(scope="module")
def local(checkout):
    run = lab.small(checkout, LONG)
    run.snakemake(*CELLS)
    return run


def first_fit(run):
    """Stop one fit of KO and wait until the other is there; (what is there, what is stopped, the seed's job id).

    However slow the machine is, nothing more is made until the test goes on.
    """

    def begun(fit):
        log = run.path(fit.replace("results/", "results/logs/").replace(".npy", ".log"))
        return lab.process_of(run.folder, fit) and log.exists() and log.read_text()

    def stop():
        """Of two fits that run, or of one whose sibling is there, stop one that has begun its log."""
        there = [path for path in KO if run.path(path).exists()]
        at_work = list(filter(begun, KO))
        last = next((path for path in reversed(at_work) if path not in there), None)
        return last if last and len({*there, *at_work}) == 2 and lab.tell(run.folder, last) else None

    stopped = until(stop)
    (kept,) = set(KO) - {stopped}
    until(run.path(kept).exists)
    return kept, stopped, until(lambda: lab.running(run.folder, SEED))


def assert_same_cells(first, second):
    """To the last bit, without what says how long they took."""
    one, two = ([stamps.check(run.path(cell)).content for cell in CELLS] for run in (first, second))
    assert one == two


def inode(run, path):
    return os.stat(run.path(path)).st_ino


@lab.cluster
@pytest.mark.long
def test_an_interrupted_and_edited_study_has_cells_of_the_new_config_alone(checkout):
    """Killed in mid-run; then other lambdas, and the same command."""
    run, local = lab.small(checkout, LONG), lab.small(checkout)
    process = lab.started(run, *CELLS)
    _, stopped, _ = first_fit(run)
    process.kill()
    process.wait()
    lab.tell(run.folder, stopped, signal.SIGCONT)
    time.sleep(2)  # the job goes on, and finishes cells that no snakemake sees
    sweep = LONG["sweeps"]["F32"]
    edited = {**LONG, "sweeps": {"F32": {**sweep, "lambdas": [3.0, 30.0], "ko": {**sweep["ko"], "iterations": 100}}}}
    for which in (run, local):
        which.configure(edited)
    run.snakemake(*CELLS, *lab.PROFILE)
    local.snakemake(*CELLS)
    assert_same_cells(run, local)
    rows = [json.loads(run.path(f"results/cells/F32/fc/N{N}_seed1.json").read_text()) for N in (4, 16)]
    assert {row["lam"] for row in rows} <= {3.0, 30.0}


@lab.cluster
@pytest.mark.long
def test_killed_interrupted_and_cancelled_one_more_command_gives_the_same_results(checkout, local):
    run = lab.small(checkout, LONG)
    process = lab.started(run, *CELLS)  # kill -9, with a job running
    until(lambda: any(lab.tell(run.folder, path) for path in KO))
    process.kill()
    process.wait()

    process = lab.started(run, *CELLS)  # Ctrl-C
    kept, other, _ = first_fit(run)
    before = inode(run, kept)
    process.send_signal(signal.SIGINT)
    status, text = lab.ended(process, run)
    assert status != 0
    assert "Cancelled 1 job that" in text
    until(lambda: not lab.running(run.folder, SEED))

    process = lab.started(run, *CELLS, "--retries", "0")  # scancel
    until(lambda: lab.tell(run.folder, other))
    lab.slurm("scancel", until(lambda: lab.running(run.folder, SEED)))
    status, text = lab.ended(process, run)
    assert status == 1
    assert "'CANCELLED'" in text
    assert not run.path(other).exists()

    run.snakemake(*CELLS, *lab.PROFILE)
    assert inode(run, kept) == before  # what was finished stays, though its group was not
    assert_same_cells(run, local)
    assert run.plan(*CELLS, *lab.PROFILE) == {}


@lab.cluster
@pytest.mark.long
def test_a_group_that_reaches_its_time_limit_goes_on_where_it_was_and_asks_for_more(checkout, local):
    run = lab.small(checkout, LONG)
    process = lab.started(run, *CELLS)
    kept, _, job = first_fit(run)
    before = inode(run, kept)
    lab.slurm("scontrol", "update", f"JobId={job}", "EndTime=now+1seconds")
    status, text = lab.ended(process, run)
    assert status == 0
    assert "'TIMEOUT'" in text
    assert re.search(r"fit ko of F32, N = \d+, seed 1.*:\n    (device|iteration)", text)  # what had begun, and its log
    assert "Attempt 1 of 3 failed; submitting it again with more memory and time." in text
    assert len(text.splitlines()) < 60
    _, second = (found for found in lab.all_jobs(run.folder) if SEED in found["Comment"])
    minutes = int(re.search(r"GB, (\d+) min", text)[1])
    assert second["TimeLimit"] == f"00:{2 * minutes}:00"
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


@pytest.mark.long
@lab.cluster
def test_a_job_that_takes_too_much_memory_gets_more(checkout):
    """Killed by the kernel in a control group; SLURM says so, and the second attempt asks for twice as much."""
    if "task/cgroup" not in lab.slurm("scontrol", "show", "config"):
        pytest.skip("this SLURM does not limit memory: there are no control groups of version 1")
    run = lab.with_own(checkout, GREEDY, requests="{fit: {mem_mb: 700}}")
    row = "results/cells/own/mine/N4_seed1.json"
    done = run.snakemake(row, *lab.PROFILE)
    text = done.stdout + done.stderr
    assert "'OUT_OF_MEMORY'" in text
    assert "Attempt 1 of 3 failed; submitting it again with more memory and time." in text
    tried = [(job["JobState"], job["MinMemoryNode"]) for job in lab.all_jobs(run.folder) if "fit" in job["Comment"]]
    assert tried == [("OUT_OF_MEMORY", "700M"), ("COMPLETED", "1400M")]
    assert run.path(row).exists()


def preempt(job):
    """Take the node of a job for one of a higher partition."""
    node = re.search(r" NodeList=(\S+)", lab.slurm("scontrol", "-o", "show", "job", job))[1]
    lab.slurm(
        "sbatch", "--partition=urgent", f"--nodelist={node}", "--exclusive", "--output=/dev/null", "--wrap=sleep 2"
    )


@lab.cluster
@pytest.mark.long
def test_a_preempted_study_finishes(checkout, local):
    """A job of a higher partition takes the node; no attempt is counted, so `--retries 0` does no harm."""
    run = lab.small(checkout, LONG)
    process = lab.started(run, *CELLS, "--retries", "0")
    kept, _, job = first_fit(run)
    before = inode(run, kept)
    preempt(job)
    status, text = lab.ended(process, run)
    assert status == 0, text
    assert f"SLURM preempted or lost job {job} " in text
    first, second = (found for found in lab.all_jobs(run.folder) if SEED in found["Comment"])
    assert (first["JobState"], second["JobState"]) == ("PREEMPTED", "COMPLETED")
    assert first["MinMemoryNode"] == second["MinMemoryNode"]
    logs = [path.read_text() for path in run.path(".snakemake/slurm_logs").rglob("*.log")]
    assert not [found for found in [text, *logs] if "never awaited" in found]  # as Python warns of a coroutine
    assert inode(run, kept) == before
    assert_same_cells(run, local)


@pytest.mark.long
@lab.cluster
def test_one_failing_cell_does_not_keep_the_others_of_its_group_from_being_made(checkout):
    """A network of one's own that fails for one N."""
    text = "import koct.networks.ko as shipped\n\n\nclass Mine(shipped.KO):\n    def fit(self, data):\n"
    text += "        assert data.N != 4, 'no fit with four pairs'\n        yield from super().fit(data)\n"
    run = lab.with_own(checkout, text)
    own = {**lab.SMALL["sweeps"]["F32"], "archs": ["mine/mine.py", "fc"]}
    run.configure({**lab.SMALL, "studies": {"small": ["F32"]}, "sweeps": {"F32": own}})
    done = run.snakemake("results/cells.parquet", *lab.PROFILE, "--retries", "0", check=False)
    assert done.returncode == 1
    made = sorted(path.name for path in run.path("results/cells/F32").rglob("*.json"))
    assert made == ["N16_seed1.json", "N16_seed1.json", "N4_seed1.json"]
    assert "no fit with four pairs" in done.stdout + done.stderr


@lab.cluster
@pytest.mark.long
def test_snakemake_as_a_job_does_not_cancel_itself(checkout):
    """Where login nodes forbid long processes; its name ends as those of its jobs do."""
    run = lab.small(checkout)
    snakemake = os.path.join(os.path.dirname(sys.executable), "snakemake")
    target = "results/cells/H8/ko/N4_seed1.json"
    command = f"{snakemake} {' '.join(lab.PROFILE)} {target}"
    options = ["--parsable", "--job-name=main.koct", f"--chdir={run.folder}", "--output=out.txt", "--mem=1000"]
    show = ("scontrol", "show", "job", lab.slurm("sbatch", *options, f"--wrap={command}").strip())
    until(lambda: not re.search(r"JobState=(PENDING|RUNNING|COMPLETING)", lab.slurm(*show)))
    assert "JobState=COMPLETED" in lab.slurm(*show), run.path("out.txt").read_text()
    assert run.path(target).exists()


def with_fsdp(iterations, **others):
    fsdp = {"ranks": 2, "iterations": iterations, **others}
    wider = {**lab.SMALL["sweeps"]["F32"], "archs": ["fc", "fc-fsdp"], "fsdp": fsdp}
    return {**lab.SMALL, "studies": {"small": ["F32"]}, "sweeps": {"F32": wider}}


def fsdp_under_way(run, name=FSDP_JOB, through=()):
    log = run.path(FSDP_LOG)
    until(lambda: log.exists() and re.search(r"^iteration \d+ of", log.read_text(), re.M))
    return lab.jobs(run.folder, *through)[name]


@lab.cluster
@pytest.mark.long
@pytest.mark.parametrize("how", ["cancelled", "preempted"])
def test_an_fsdp_cell_that_is_ended_continues_from_its_checkpoint(checkout, how):
    """Two ranks with two GPUs, ended in mid-run. Submitted again as before, it has the bits of a local run."""
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    run, local = (lab.small(checkout, with_fsdp(300)) for _ in range(2))
    process = lab.started(run, FSDP_ROW)
    job = fsdp_under_way(run)
    assert (job["Partition"], job["TresPerNode"], job["NumCPUs"]) == ("gpu", "gres:gpu:2", "2")
    if how == "cancelled":
        lab.slurm("scancel", job["JobId"])
    else:
        preempt(job["JobId"])
    assert process.wait(900) == 0  # the profile submits it again
    first, second = lab.all_jobs(run.folder)[-3:-1]
    assert (first["TimeLimit"] == second["TimeLimit"]) == (how == "preempted")
    assert first["JobState"] == how.upper()
    text = run.path(FSDP_LOG).read_text()
    assert re.search(r"^device: .*CUDA_VISIBLE_DEVICES=\d,\d\)$", text, re.M)
    assert 0 < int(re.search(r"^resumed after iteration (\d+)", text, re.M)[1]) < 300
    assert not re.search(r"^iteration 6 of", text, re.M)  # its first line of progress: not from zero
    local.snakemake(FSDP_ROW)
    rows = [json.loads(which.path(FSDP_ROW).read_text()) for which in (run, local)]
    assert [rows[0][key] for key in ERRORS] == [rows[1][key] for key in ERRORS]


@lab.cluster
@pytest.mark.long
def test_an_fsdp_cell_writes_a_checkpoint_ahead_of_its_time_limit(checkout):
    """The signal comes 120 s ahead or up to a minute before; SLURM looks at time limits every half minute."""
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    run = lab.small(checkout, with_fsdp(20000))
    process = lab.started(run, FSDP_ROW, "--retries", "0")
    job = fsdp_under_way(run)["JobId"]
    lab.slurm("scontrol", "update", f"JobId={job}", "TimeLimit=3")
    status, text = lab.ended(process, run, 180)
    assert status == 1
    assert len(text.splitlines()) < 35
    assert list(run.path("results/fits/F32/fc-fsdp/N16_seed1.checkpoint").iterdir())
