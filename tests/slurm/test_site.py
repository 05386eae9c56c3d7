"""The site lines of the profile and what is said before anything is submitted: no SLURM is needed."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import ROOT, planned

from koct.base import device
from koct.config.study_file import build
from koct.errors import KoctError
from koct.workflow import cluster as changes
from koct.workflow import groups, queue, resources
from koct.workflow.site import Site
from tests.slurm.lab import CONFIG, dry, small, told

SITE = Site({}, account="", qos="", reservation="", gpu_type="", memory=True, modules="", requeue=False)


# How much is submitted


@pytest.mark.parametrize(
    ("study", "device", "most"),
    [("paper", "auto", 20), ("paper", "cpu", 21), ("full", "auto", 50), ("full", "cpu", 63)],
)
def test_a_study_is_few_submissions(checkout, study, device, most):
    first, second, *kinds = dry(checkout(), "--config", f"study={study}", f"device={device}")
    assert first.startswith(f"Study {study}: ")
    assert first.endswith(f"device {device}.")
    assert int(second.split()[0]) <= most
    assert sum(int(line.split()[0]) for line in kinds) == int(second.split()[0])
    assert bool([line for line in kinds if " to gpu, each: 1 core, 1 GPU, " in line]) == (device == "auto")


def test_a_plain_dry_run_says_the_study_and_no_submissions(checkout):
    text = checkout().snakemake("--dry-run").stdout
    assert "\nStudy surrogate: 3 sweeps, 210 cells, device auto.\n" in text
    assert "submission" not in text


def test_long_fits_travel_alone_and_others_in_groups_of_two_hours(checkout):
    def parts(**options):
        sweep = build("s", {**CONFIG["sweeps"]["H512"], "archs": ["ko", "fc"], **options})
        return sweep, {on_gpu: groups.of_seed(sweep, on_gpu) for on_gpu in (True, False)}

    sweep, found = parts()
    assert set(found[True].values()) == {""}  # all with the pool
    assert len(set(found[False].values())) == 3
    for on_gpu, cells in found.items():
        for name in set(cells.values()):
            stages = [(arch, N) for (arch, N), part in cells.items() if part == name]
            costs = [resources.fit(sweep, sweep.arch(arch), N) for arch, N in stages]
            costs += [resources.evaluate(sweep, sweep.arch(arch), N) for arch, N in stages]
            assert sum(resources.minutes(cost, on_gpu) for cost in costs) <= groups.LONGEST
    _, slow = parts(ko={"solver": "adagrad", "lr": 0.02, "iterations": 200000, "batch": 1})
    assert slow[True]["ko", 4] == "_ko_N4"
    assert slow[True]["fc", 4] == ""


def test_a_fit_that_reads_one_that_travels_alone_does_so_too(tmp_path):
    """Else its group would wait for that fit, which waits for the pool in its group."""
    (tmp_path / "mine.py").write_text(
        "from koct.networks.fc import FC\n\n\nclass Mine(FC):\n    requires_cell = 'ko'\n"
    )
    slow = {"solver": "adagrad", "lr": 0.02, "iterations": 200000, "batch": 1}
    archs = {"archs": ["ko", str(tmp_path / "mine.py")], "ko": slow}
    found = groups.of_seed(build("s", {**CONFIG["sweeps"]["H512"], **archs}), True)
    assert found["ko", 4] == "_ko_N4"
    assert found["mine", 4] == "_mine_N4"


# Precedence: --config, --configfile, the profile, config.yaml


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
    assert plan["fit"] == 2
    assert plan["fit_large"] == plan["evaluate"] == 5  # two networks at two N, and the untrained chain
    assert told(text)[1] == "5 submissions:"


def test_a_plain_command_does_not_load_the_plugin(tmp_path):
    """It would bring pandas, half a second at every start. A folder may have any name."""
    folder = tmp_path / "slurm-tests" / "my.slurm"
    folder.mkdir(parents=True)
    (folder / "ask.py").write_text(
        "import importlib.util; print(importlib.util.find_spec('snakemake_executor_plugin_' + 'slurm') is not None)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "SNAKEMAKE_PROFILE"}

    def found(*words):
        command = [sys.executable, str(folder / "ask.py"), *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return done.stdout.strip() == "True"

    assert not found("--directory", str(folder), f"--config=x={folder}", "-d", "slurm", "--configfile", "slurm.yaml")
    for words in ("--profile slurm", "--profile=profiles/slurm", "--executor slurm-jobstep", "--profile slurm-site/"):
        assert found(*words.split())
    environment["SNAKEMAKE_PROFILE"] = "profiles/slurm"
    assert found()


# What a request is made of


def asked(**resources):
    return SimpleNamespace(resources=resources)


def test_gpus_are_asked_for_per_node_and_of_any_type():
    assert changes.gpu_option({"gpu": 4, "nodes": 2}, SITE) == " --gres=gpu:2"
    assert changes.gpu_option({"gpu": 1}, SITE._replace(gpu_type="a100-sxm4.80gb")) == " --gres=gpu:a100-sxm4.80gb:1"
    assert changes.gpu_option({"gpu": 0}, SITE._replace(gpu_type="a100")) == ""


def test_a_submission_asks_for_five_minutes_at_least_and_for_no_memory_where_that_is_forbidden():
    call = "sbatch --mem 2000 -t 1 -D /somewhere"
    assert changes.adapted(call, asked(runtime=1), SITE) == f"{call} --time=5"
    assert changes.adapted(call, asked(runtime=61), SITE) == f"{call} --time=61"
    again = SimpleNamespace(resources={"runtime": 2}, attempt=2)
    assert changes.adapted(call, again, SITE) == f"{call} --time=10"
    bare = changes.adapted(call, asked(runtime=1), SITE._replace(memory=False))
    assert bare == "sbatch -t 1 -D /somewhere --time=5"
    others = changes.adapted(call, asked(), SITE._replace(qos="long", reservation="my day"))
    assert others == f"{call} --qos=long --reservation='my day'"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], ""),
        (["RUNNING|None"] * 3 + ["PENDING|Resources"] * 12, "3 running, 12 pending: Resources"),
        (["PENDING|None", "PENDING|Priority"], "2 pending: Priority"),
        (["PENDING|QOSMaxJobs", "PENDING|Priority", "PENDING|Priority"], "3 pending: Priority, QOSMaxJobs"),
        (["COMPLETING|None", "RUNNING|None"], "1 running, 1 completing"),
        (["PENDING|Nodes required for job are DOWN, DRAINED or ..."], "1 pending: nodes are down, drained or reserved"),
    ],
)
def test_the_queue_in_words(lines, words):
    assert changes.in_words(lines) == words


def test_one_snakemake_runs_the_jobs_of_a_group_but_for_those_of_several_nodes():
    def group(**resources):
        return SimpleNamespace(is_group=lambda: True, jobs=[SimpleNamespace(threads=1, resources=resources)])

    command = f"python -m snakemake --cores all {changes.STEPS} --mode remote"
    alone = SimpleNamespace(is_group=lambda: False)
    one = "python -m snakemake --cores all --executor local --cores 1 --mode remote"
    assert changes.together(command, group()) == one
    assert changes.together(command, alone) == command
    assert changes.together(command, group(mpi="srun")) == command
    scripted = f"{command} --slurm-jobstep-pass-command-as-script"
    assert changes.together(scripted, group()) == scripted


def test_the_own_job_is_no_leftover(monkeypatch):
    name = "koct_0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
    text = f"{name} 11 /here\n{name} 12 /here\nkoct_main 13 /here\nother 14 /here\n"
    monkeypatch.setattr(queue.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=text))
    monkeypatch.setattr(queue, "OWN_JOB", "12")
    assert queue._mine() == [("11", "/here")]


def test_jobs_that_slurm_preempts_for_good_or_forgets_are_submitted_again(monkeypatch):
    now, lost = 1000.0, {}
    monkeypatch.setattr(changes.time, "monotonic", lambda: now)
    assert changes._never_back({"1": "RUNNING", "2": "RUNNING"}, lost, changes.PATIENCE) == []
    assert changes._never_back({"1": "PREEMPTED"}, lost, changes.PATIENCE) == []
    now += 300
    assert changes._never_back({"1": "PENDING"}, lost, changes.PATIENCE) == []  # requeued
    now += 400
    assert changes._never_back({"1": "PREEMPTED"}, lost, changes.PATIENCE) == ["2"]  # forgotten for long enough
    assert changes._never_back({"1": "PREEMPTED"}, {}, 0) == ["1"]  # SLURM was told not to requeue


def test_a_query_that_fails_forgets_no_job_and_a_cancelled_one_is_known_whoever_did_it(monkeypatch):
    answers = [(None, None), ({"7": "CANCELLED by 1000", "8": "RUNNING"}, 0.1)]

    async def ask(command, logger):
        return answers.pop(0)

    class Executor:
        next_seconds_between_status_checks = property()
        run_job = report_job_error = format_job_exec = None

    plugin = SimpleNamespace(Executor=Executor, query_job_status=ask, get_submit_command=None, SubmittedJobInfo=None)
    step = SimpleNamespace(Executor=Executor, get_cpu_setting=None)
    monkeypatch.setitem(sys.modules, "snakemake_executor_plugin_slurm", plugin)
    monkeypatch.setitem(sys.modules, "snakemake_executor_plugin_slurm_jobstep", step)
    changes.adapt(SITE, None)
    assert asyncio.run(plugin.query_job_status("sacct", None)) == ({}, 0.0)
    assert asyncio.run(plugin.query_job_status("sacct", None)) == ({"7": "CANCELLED", "8": "RUNNING"}, 0.1)


# A GPU that is held is used


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
    if fault:
        with pytest.raises(KoctError, match=fault):
            device.check_torch(modules)
    else:
        device.check_torch(modules)


def test_the_profile_names_every_site_line_that_docs_explain():
    profile = (ROOT / "profiles/slurm/config.yaml").read_text().partition("__definitions__")[0]
    lines = re.findall(r"^  (\w+): ", profile, re.M)
    text = (ROOT / "docs/cluster.md").read_text()
    assert len(lines) == 11
    assert [line for line in lines if f"`{line}`" not in text] == []
