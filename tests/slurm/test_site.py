"""The site lines of the profile and what is said before anything is submitted: no SLURM is needed."""

import asyncio
import contextlib
import itertools
import json
import re
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from conftest import CONFIG, planned

from koct.base import device
from koct.config.study_file import build
from koct.errors import KoctError
from koct.workflow import queue, resources
from koct.workflow.cluster import VARIABLE, submit_command
from tests.slurm.lab import dry, small, told

pytestmark = pytest.mark.slow

plugin = pytest.importorskip("snakemake_executor_plugin_koct_slurm.executor")


@pytest.mark.parametrize(
    ("study", "device", "most"), [("paper", "auto", 24), pytest.param("full", "cpu", 96, marks=pytest.mark.long)]
)
def test_a_study_is_few_submissions(checkout, study, device, most):
    first, second, *kinds = dry(checkout(), "--config", f"study={study}", f"device={device}")
    assert re.fullmatch(rf"Study {study}: .*device {device}\.", first)
    assert int(second.split()[0]) <= most
    assert sum(int(line.split()[0]) for line in kinds) == int(second.split()[0])
    assert bool([line for line in kinds if " to gpu, each: 1 core, 1 GPU, " in line]) == (device == "auto")


def test_fits_of_a_seed_travel_together_if_they_are_short_and_else_by_network(tmp_path):
    """No group is longer than two hours, but for a single fit, and no two wait for each other."""
    for name, on_gpu in itertools.product(CONFIG["studies"]["full"], (True, False)):
        sweep, asked = build(name, CONFIG["sweeps"][name]), defaultdict(list)  # the minutes of the fits of a group
        for (arch, N), group in resources.groups(sweep, on_gpu).items():
            asked[group].append(resources.minutes(resources.fit(sweep, sweep.arch(arch), N), on_gpu))
        assert all(len(minutes) == 1 or sum(minutes) <= resources.LONGEST for minutes in asked.values())
        if name == "H512":
            assert asked["_tv_N0"][0] // 60 == (7 if on_gpu else 78)  # hours, as docs/cluster.md says
    own = "from koct.contracts import Cost\nfrom koct.networks.fc import FC\n\n\nclass Mine(FC):\n"
    own += "    requires_cell = 'fc'\n\n    def cost(self, work):\n        return Cost(1e10, 2e9)\n"
    (tmp_path / "mine.py").write_text(own)
    sweep = build("s", {**CONFIG["sweeps"]["H8"], "N": [4, 8], "archs": [str(tmp_path / "mine.py")]})
    found = resources.groups(sweep, False)  # it reads a cheap fit, which reads a pool
    assert found == dict.fromkeys([("mine", 4), ("mine", 8)], "_mine")


@pytest.mark.long
def test_the_profile_is_below_the_command_line_and_above_config_yaml(checkout):
    run = small(checkout, CONFIG, gpu_partition='""')
    run.path("other.yaml").write_text("study: ridge\n")
    studies = {
        "": "Study paper: 5 sweeps, 290 cells, device cpu.",
        "--configfile other.yaml": "Study ridge: 2 sweeps, 80 cells, device cpu.",
        "--configfile other.yaml --config study=surrogate": "Study surrogate: 3 sweeps, 210 cells, device cpu.",
        "--config study=ridge": "Study ridge: 2 sweeps, 80 cells, device cpu.",
        "--config device=auto": "Study paper: 5 sweeps, 290 cells, device auto.",
    }
    target = "results/table_fullscale.tex"  # needs nothing: the other jobs of the study need not be planned
    assert {given: dry(run, target, *given.split())[0] for given in studies} == studies
    (kind,) = dry(run)[2:]
    assert " to cpu, each: 1 core, " in kind


def test_a_dry_run_needs_no_slurm(checkout, tmp_path, monkeypatch):
    run = small(checkout)
    for name in ("bash", "sh", "env", "which", "git", "uname"):
        if shutil.which(name):
            (tmp_path / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path))
    text = run.snakemake("--profile", "slurm", "--dry-run", "--config", "study=small").stdout
    plan = planned(text)
    assert plan["fit"] == 2 + 5  # two cheap ones; two networks at two N, and the untrained chain
    assert told(text)[1] == "5 submissions:"


def test_a_site_line_that_yaml_reads_as_a_number_is_refused(checkout):
    run = small(checkout, account="012345")  # as it stands in the file: an octal number
    done = run.snakemake("--profile", "slurm", "--dry-run", "--config", "study=small", check=False)
    assert done.returncode == 1
    assert "account: YAML reads this as 5349, and not as text; write it in quotes" in done.stdout + done.stderr


def command(attempt=1, **asked):
    from snakemake.jobs import ResourceList

    return submit_command(SimpleNamespace(threads=1, resources=ResourceList(fromdict=asked), attempt=attempt))


def test_a_submission_asks_for_what_its_jobs_need(monkeypatch):
    assert command(gpu=4, nodes=2).endswith(" --gres=gpu:2")  # per node
    assert command(gpu=1, gpu_model="a100-sxm4.80gb").endswith(" --gres=gpu:a100-sxm4.80gb:1")
    assert "gres" not in command(gpu=0, gpu_model="a100")
    assert " -t 5 " in command(runtime=1)  # at least
    assert " -t 61 " in command(runtime=61)
    assert " --mem 2000 " in command(mem_mb=2000)
    assert " -t 10 --mem 4000 " in command(attempt=2, runtime=1, mem_mb=2000)
    monkeypatch.setenv(VARIABLE, json.dumps({"config": {}, "memory": False, "modules": ""}))
    assert "--mem" not in command(mem_mb=2000)  # where that is forbidden


POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"  # of any refusal
CALL = "sbatch --parsable --partition=cpu --time=99 --wrap=true"


class Job(NamedTuple):
    name: str
    wildcards: object = None

    def is_group(self):
        return False


@pytest.fixture
def executor():
    """An executor of three jobs that has not begun."""
    made = object.__new__(plugin.Executor)
    made.logger = SimpleNamespace(info=lambda *_, **__: None)
    made.workflow = SimpleNamespace(executor_settings=SimpleNamespace(init_seconds_before_status_checks=10))
    made.queue, made.missing, made.queued = "", {}, {"1", "2", "3"}
    made.lost, made.stuck, made.full = Counter(), {}, ""
    made.submitted, made.ended_well, made.failed, made.asked = [], [], [], []
    made.submissions = SimpleNamespace(submit=lambda _, job: made.submitted.append(job.name))
    made.report_job_success = lambda info: made.ended_well.append(info.job.name)
    made.report_job_error = lambda info, *_: made.failed.append(info.job.name)
    return made


def looked_at(executor, monkeypatch, squeue, sacct=None, call=CALL):
    """The jobs that go on after a look at the queue, in which SLURM answers like this."""

    async def answer(call, logger):
        executor.asked.append(call.split()[0])
        return (sacct if call.startswith("sacct") else squeue), 0.1

    async def look():
        return [info.job.name async for info in executor.check_active_jobs(active)]

    monkeypatch.setattr(plugin, "query_job_status", answer)
    active = [
        SimpleNamespace(job=Job(number), external_jobid=number, aux={"slurm_logfile": Path("no.log"), "call": call})
        for number in ("1", "2", "3")
    ]
    return asyncio.run(look())


def test_a_job_goes_on_until_slurm_says_otherwise_whoever_cancelled_it(executor, monkeypatch):
    assert looked_at(executor, monkeypatch, None) == ["1", "2", "3"]  # no answer
    states = {"1": "RUNNING None", "2": "COMPLETED None"}
    assert looked_at(executor, monkeypatch, states, {"3": "CANCELLED by 1000"}) == ["1"]
    assert (executor.ended_well, executor.failed, executor.submitted) == (["2"], ["3"], [])
    assert executor.asked == ["squeue", "squeue", "sacct"]  # a second call if a job has left the queue
    assert executor.queued == {"1"}
    assert executor.queue == "1 running"


def test_a_lost_node_costs_no_attempt_and_what_never_starts_fails_with_its_reason(executor, monkeypatch):
    said, cancelled, now = [], [], 0.0
    monkeypatch.setattr(plugin.time, "monotonic", lambda: now)
    executor.scancel = cancelled.append
    executor.report_job_error = lambda info, text, *_: said.append(text)
    states = {"1": "NODE_FAIL None", "2": "PENDING PartitionTimeLimit", "3": "PENDING Priority"}
    assert looked_at(executor, monkeypatch, states) == ["2", "3"]  # it may be about to change
    assert executor.queue == "2 pending: PartitionTimeLimit, Priority"
    now = plugin.STUCK + 1.0
    assert looked_at(executor, monkeypatch, {**states, "1": "RUNNING None"}) == ["1", "3"]
    assert (executor.submitted, cancelled) == (["1"], ["2"])
    assert said.pop().startswith("SLURM will never start job 2: PartitionTimeLimit\n  it asks for: --partition=cpu")
    for _ in range(5):
        looked_at(executor, monkeypatch, {"1": "NODE_FAIL None", "2": "RUNNING", "3": "RUNNING"})
    assert executor.submitted == ["1"] * 5
    assert said == ["SLURM lost job 1 for the 6th time"]


@pytest.mark.parametrize(
    ("said", "often"), [("AssocMaxSubmitJobLimit", 4), ("QOSGrpSubmitJobsLimit", 4), ("QOSMinGRES", 1)]
)
def test_a_full_queue_uses_up_no_attempt(executor, monkeypatch, tmp_path, said, often):
    asked, waited = [], []

    def sbatch(call, **_):
        asked.append(call)
        taken = len(asked) == often and "Submit" in said
        return SimpleNamespace(returncode=not taken, stderr=f"sbatch: error: {said}\n{POLICY}", stdout="12")

    monkeypatch.setattr(plugin.subprocess, "run", sbatch)
    monkeypatch.setattr("koct.workflow.cluster.submit_command", lambda *_, **__: "sbatch")
    monkeypatch.setattr(plugin, "get_job_wildcards", lambda job: "N4")
    executor.slurm_logdir = tmp_path
    executor.format_job_exec = lambda job: "true"
    executor.envvars = dict
    executor.ended = SimpleNamespace(wait=waited.append, is_set=lambda: False)
    with contextlib.nullcontext() if "Submit" in said else pytest.raises(plugin.WorkflowError, match=said):
        assert executor.submit(Job("fit")).external_jobid == "12"
    assert len(asked) == often
    assert waited == [plugin.PAUSE] * (often - 1)


def test_a_job_that_slurm_preempts_or_forgets_is_submitted_again(executor, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(plugin.time, "monotonic", lambda: now)
    states = {"1": "PREEMPTED None", "2": "PENDING Resources"}
    assert looked_at(executor, monkeypatch, states) == ["2", "3"]  # the third may still appear
    assert executor.submitted == ["1"]
    states = {"1": "RUNNING None", "2": "RUNNING None"}
    assert looked_at(executor, monkeypatch, {**states, "3": "RUNNING None"}) == ["1", "2", "3"]
    for going_on in (["1", "2", "3"], ["1", "2"]):
        now += plugin.PATIENCE + 1
        assert looked_at(executor, monkeypatch, states) == going_on
    assert executor.submitted == ["1", "3"]
    assert not executor.failed


def test_the_own_job_is_no_leftover(monkeypatch):
    name = "cells_fit.koct"
    text = f"{name} 11 /here\n{name} 12 /here\nkoct_main 13 /here\nother 14 /here\n"
    monkeypatch.setattr(queue.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=text, returncode=0))
    monkeypatch.setattr(queue, "OWN_JOB", "12")
    assert queue._mine() == [("11", "/here")]


def test_a_job_that_holds_a_gpu_does_not_compute_on_the_cpu(monkeypatch, capsys):
    monkeypatch.delenv("KOCT_ALLOW_CPU")
    monkeypatch.setenv("KOCT_DEVICE", "auto")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(device, "_missing", lambda: "torch is not installed")
    with pytest.raises(KoctError, match=r"a GPU that it cannot use: torch is not installed; install .*device=cpu"):
        device.choose()
    monkeypatch.setenv("KOCT_ALLOW_CPU", "1")
    assert device.choose().name == "cpu"
    monkeypatch.delenv("KOCT_ALLOW_CPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert device.choose().name == "cpu"


@pytest.mark.parametrize(
    ("version", "modules", "fault"),
    [
        (None, "", "torch is not installed"),
        ("cuda: Optional[str] = None\n", "", "was built without CUDA"),
        ("cuda: Optional[str] = None\n", "module load torch", None),
        ("cuda: Optional[str] = '13.0'\n", "", None),
    ],
)
def test_no_gpus_are_asked_for_that_torch_could_not_use(monkeypatch, tmp_path, version, modules, fault):
    monkeypatch.delenv("KOCT_ALLOW_CPU")
    (tmp_path / "version.py").write_text(version or "")
    found = version and SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda _: found)
    with pytest.raises(KoctError, match=fault) if fault else contextlib.nullcontext():
        device.check_torch(modules)
