"""Runs on a real SLURM, and what it knows of them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from conftest import CONFIG, SMALL_FANBEAM

pytest.importorskip("snakemake_executor_plugin_slurm", reason="no SLURM plugin here: run make slurm")
os.environ["KOCT_ALLOW_CPU"] = "1"  # the GPUs of these clusters only schedule
SMALL = {  # without predictions: their jobs are like others, and these tests count jobs
    "study": "small",
    "studies": {"small": ["H8", "F32"]},
    "sweeps": {
        "H8": {**CONFIG["sweeps"]["H8"], "N": [4, 8], "seeds": [1], "archs": ["ko"], "theory": False},
        "F32": {**SMALL_FANBEAM["sweeps"]["F32"], "N": [4, 16], "seeds": [1], "theory": False},
    },
}
PROFILE = ["--profile", "slurm", "--config", "study=small", "--koct-slurm-init-seconds-before-status-checks", "1"]


def slurm(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def answers(*through):
    try:
        return bool(slurm(*through, "sinfo", "--noheader"))
    except (OSError, subprocess.SubprocessError):
        return False


cluster = pytest.mark.skipif(not answers(), reason="no SLURM answers here: run tests/cluster/slurm.sh start")


def all_jobs(folder, *through):
    """What SLURM knows of a folder's jobs, the oldest first; `through`: a command that runs others on another node."""
    text = slurm(*through, "scontrol", "-do", "show", "job")
    records = (dict(re.findall(r"(\S+?)=(\S*)", line)) for line in text.splitlines())
    mine = [job for job in records if job.get("WorkDir") == str(folder) and "Comment" in job]
    copied = datetime.fromtimestamp(Path(folder, "Snakefile").stat().st_ctime).isoformat(timespec="seconds")
    mine = [job for job in mine if job["SubmitTime"] >= copied]  # the others: an earlier folder of the same name
    return sorted(mine, key=lambda job: int(job["JobId"]))


def jobs(folder, *through):
    """The same by the rule and wildcards in their comments; of a repeated one the last."""
    return {job["Comment"].removeprefix("rule_"): job for job in all_jobs(folder, *through)}


def running(folder, name, *through):
    """The id of a job whose name begins so and that runs."""
    for job in all_jobs(folder, *through):
        if job["Comment"].removeprefix("rule_").startswith(name) and job["JobState"] == "RUNNING":
            return job["JobId"]
    return None


def small(checkout, config=SMALL, **lines):
    """A checkout with this config, and with other site lines in its profile."""
    made = checkout(config)
    set_lines(made, **lines)
    return made


def with_own(checkout, code, **lines):
    """The same with one sweep, `own`, and a network of one's own."""
    own = {**SMALL["sweeps"]["H8"], "archs": ["mine/mine.py"]}
    made = small(checkout, {**SMALL, "studies": {"small": ["own"]}, "sweeps": {"own": own}}, **lines)
    made.write("mine/mine.py", code)
    return made


@contextlib.contextmanager
def meanwhile(command, during, after):
    """A command of SLURM with these options now, and with others at the end."""
    slurm(*command.split(), *during.split())
    try:
        yield
    finally:
        slurm(*command.split(), *after.split())


def partition(options):
    """The partition `cpu` with other options, for a while."""
    return meanwhile("scontrol update PartitionName=cpu", options, "MaxTime=INFINITE State=UP")


def set_lines(run, **lines):
    """Write other site lines into a profile."""
    profile = run.path("profiles/slurm/config.yaml")
    text = profile.read_text()
    for key, value in lines.items():
        text, count = re.subn(rf"^  {key}: \S+", f"  {key}: {value}", text, flags=re.M)
        assert count == 1
    profile.write_text(text)


def dry(run, *arguments):
    """The lines of a dry run that say what would be submitted."""
    return told(run.snakemake("--profile", "slurm", "--dry-run", *arguments).stdout)


def told(text):
    return re.search(r"^Study .*\n(\d+ submissions?:\n(?:  +\d+ to .*\n)+)?", text, re.M)[0].splitlines()


def started(run, *arguments, through=()):
    """snakemake on the cluster, in the background."""
    with open(run.path("out.txt"), "a") as out:
        command = [*through, Path(sys.executable).with_name("snakemake"), *arguments, *PROFILE]
        # Ctrl-C must reach it even if these tests were started in the background, where SIGINT is ignored
        how = {"start_new_session": True, "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
        return subprocess.Popen(command, cwd=run.folder, stdout=out, stderr=out, **how)


def ended(process, run, seconds=900):
    """The exit status of a run, and what it printed."""
    try:
        return process.wait(seconds), run.path("out.txt").read_text()
    finally:
        process.kill()


def assert_same_results(first, second, names=("cells", "curves", "calibration", "budget")):
    for name in names:
        tables = [run.table(name) for run in (first, second)]
        one, two = (table.drop(columns=["fit_seconds", "image_seconds"], errors="ignore") for table in tables)
        pd.testing.assert_frame_equal(one, two, rtol=0, atol=0)


def process_of(folder, path):
    """The id of the process that makes a file, whose output goes to the log of that file; None if there is none."""
    log = str(folder / path.replace("results", "results/logs", 1)).replace(".npy", ".log")
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(place / "fd/1") == log:
                return int(place.name)
    return None


def tell(folder, path, what=signal.SIGSTOP):
    """Send that process a signal, to stop or to go on; whether there was one."""
    found = process_of(folder, path)
    try:
        if found:
            os.kill(found, what)
    except ProcessLookupError:
        return False
    return found is not None
