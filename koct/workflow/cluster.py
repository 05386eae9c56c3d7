"""What koct changes in Snakemake's SLURM plugin (2.8), each for a fault that was met.

- GPUs are asked for per node and of any type: `--gpus=4 --nodes=2` may be split 3 + 1, and types with a hyphen fail.
- A submission asks for five minutes at least, for no memory if the site wants that, and for the profile's account
  alone: the plugin guesses one.
- Four cases in which the plugin waits for ever: a preempted job that SLURM does not start again, and one that it no
  longer knows, are submitted again; a cancelled job is recognised if sacct adds who did it; and after a query that
  failed the jobs are asked for again.
- An error before a group is submitted ends its attempt; in the plugin it ends a thread, and the run hangs.
- Ctrl-C removes all jobs of the run, those included that are just being submitted.
- On a node the plugin starts a Snakemake for each job of a group, with srun, and asks for the GPUs and cores of all at
  once. Here one Snakemake runs them one after the other.
- The queue is asked at least every 30 s, or three times slurm-init-seconds-before-status-checks; the plugin lets up to
  three minutes pass, which is longer than most of our jobs.
- A failure is told in a few lines, and what runs and what waits whenever the plugin asks for it.
"""

from __future__ import annotations

import asyncio
import collections
import math
import os
import re
import shlex
import subprocess
import sys
import time
from typing import Any

from koct.workflow.site import Site
from koct.workflow.stale import Stale
from koct.workflow.terminal import failure

CONTINUE = "KOCT_CONTINUE"  # variable of the environment
SHORTER = "nodes are down, drained or reserved"  # than what SLURM says
PATIENCE = 600  # seconds after which a job that SLURM has forgotten, or preempted for good, is submitted again
SUBMIT_AGAIN = 30  # seconds after a submission that SLURM did not take
STEPS = "--executor slurm-jobstep --jobs 1"  # of the plugin's command
SHORTEST = 5  # minutes of a submission: the first start on a node can take long


def adapt(site: Site, logger: Any) -> None:
    """Change the plugin, if this command has loaded it."""
    plugin: Any = sys.modules.get("snakemake_executor_plugin_slurm")
    step: Any = sys.modules.get("snakemake_executor_plugin_slurm_jobstep")
    if plugin is None or step is None:
        return
    ask, run, submit = plugin.query_job_status, plugin.Executor.run_job, plugin.get_submit_command
    command = plugin.Executor.format_job_exec
    wait, cores = plugin.Executor.next_seconds_between_status_checks, step.get_cpu_setting
    preempted: set[str] = set()
    unsubmitted: set[int] = set()
    lost: dict[str, float] = {}  # since when a job that was seen is preempted or not in an answer
    said = ""

    async def status(command: str, plugins_logger: Any) -> tuple[dict[str, str], float]:
        nonlocal said
        answer, seconds = await ask(command, plugins_logger)
        if answer is None:
            return {}, 0.0
        found = {job: state.partition(" ")[0] for job, state in answer.items()}
        if "--name" in command:
            text = await _queue(command.partition("--name")[2].split()[0])
            if text not in ("", said):
                said = text
                logger.info(text, extra={"koct_queue": text})
        preempted.update(_never_back(found, lost, 0 if not site.requeue else PATIENCE))
        return found | dict.fromkeys(preempted, "CANCELLED"), seconds

    def report_job_error(self: Any, job_info: Any, msg: str | None = None, **others: Any) -> None:
        job = job_info.job
        if job_info.external_jobid in preempted:
            job.attempt -= 1  # it is no failure, and the next one asks for as much
            logger.info(f"SLURM preempted or lost job {job_info.external_jobid} ({job.name}); it is submitted again.")
        else:
            if job_info.external_jobid is None:
                unsubmitted.add(id(job))
            unfinished = [member for member in _members(job) if not Stale(logger).complete(member)]
            logger.error(failure(job, unfinished, msg, others.get("aux_logs") or []))
        self.workflow.scheduler.error_callback(job)

    def run_job(self: Any, job: Any) -> None:
        if id(job) in unsubmitted:
            unsubmitted.discard(id(job))
            time.sleep(SUBMIT_AGAIN)
        try:
            run(self, job)
        except Exception as error:
            self._report_job_error_threadsafe(plugin.SubmittedJobInfo(job), f"it could not be submitted: {error}")

    def cancel_jobs(self: Any, active_jobs: Any) -> None:
        self._job_submission_executor.shutdown(wait=True, cancel_futures=True)
        subprocess.run(["scancel", f"--name={self.run_uuid}"], check=False, capture_output=True, timeout=60)

    def account(self: Any, job: Any) -> Any:
        yield account_option(site)

    plugin.get_submit_command = lambda job, *given, **others: adapted(submit(job, *given, **others), job, site)
    plugin.set_gres_string = lambda job: gpu_option(job.resources, site)
    plugin.Executor.format_job_exec = lambda self, job: together(command(self, job), job)
    plugin.Executor.get_account_arg = account
    plugin.Executor.run_job = run_job
    plugin.Executor.cancel_jobs = cancel_jobs
    plugin.Executor.report_job_error = report_job_error
    plugin.query_job_status = status
    plugin.Executor.next_seconds_between_status_checks = wait.setter(_wait)
    step.get_cpu_setting = lambda job, gpu: f"--cpus-per-task={_widest(job)}" if job.is_group() else cores(job, gpu)
    step.get_gpu_setting = lambda job: ""
    for executor in (plugin.Executor, step.Executor):
        executor.get_python_executable = lambda self: shlex.quote(sys.executable)


def _never_back(found: dict[str, str], lost: dict[str, float], patience: float) -> list[str]:
    """Preempted jobs that SLURM does not start again, and jobs that it no longer knows. `lost` is updated."""
    now = time.monotonic()
    lost.update({job: math.inf for job, state in found.items() if state != "PREEMPTED"})  # they are there
    for job in {*found, *lost}:
        if found.get(job) in (None, "PREEMPTED"):
            lost[job] = min(lost.get(job, math.inf), now)
    return [job for job, since in lost.items() if now - since >= (patience if job in found else PATIENCE)]


def _wait(executor: Any, seconds: int) -> None:
    """Until the queue is asked again."""
    longest = 3 * executor.workflow.executor_settings.init_seconds_before_status_checks
    executor._next_seconds_between_status_checks = min(seconds, longest)


def _widest(group: Any) -> int:
    """Cores of a group whose jobs run one after the other."""
    return max(job.threads for job in group.jobs)


def together(command: str, job: Any) -> str:
    """What a submission runs: of a group, one Snakemake that runs its jobs itself, instead of one for each of them."""
    if not job.is_group() or any("mpi" in member.resources.keys() for member in job.jobs):  # noqa: SIM118
        return command
    if command.count(STEPS) != 1 or command.count("slurm-jobstep") != 1:  # a plugin, or an option of it, unknown here
        return command
    return command.replace(STEPS, f"--executor local --cores {_widest(job)}")


def _members(job: Any) -> list[Any]:
    return list(job.jobs) if job.is_group() else [job]


def adapted(call: str, job: Any, site: Site) -> str:
    """The plugin's sbatch command with what it has no option for; of an option that is given twice, the last counts."""
    minutes = job.resources.get("runtime")
    if minutes:
        call += f" --time={max(SHORTEST * getattr(job, 'attempt', 1), int(minutes))}"
    for option in ("qos", "reservation"):
        if getattr(site, option):
            call += f" --{option}={shlex.quote(getattr(site, option))}"
    return call if site.memory else re.sub(r" --mem(-per-cpu)? \S+", "", call)


def account_option(site: Site) -> str:
    return f" --account={shlex.quote(site.account)}" if site.account else ""


def gpu_option(resources: Any, site: Site) -> str:
    """GPUs per node."""
    gpus, nodes = resources.get("gpu") or 0, resources.get("nodes") or 1
    if not gpus:
        return ""
    return " --gres=" + shlex.quote(":".join(filter(None, ["gpu", site.gpu_type, str(-(-gpus // nodes))])))


async def _queue(name: str) -> str:
    """What the jobs of a name do now, in words."""
    ask = ["squeue", "--noheader", f"--name={name}", "--format=%T|%r"]
    try:
        process = await asyncio.create_subprocess_exec(
            *ask, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    except (TimeoutError, OSError):
        return ""
    return in_words(out.decode().splitlines())


def in_words(lines: list[str]) -> str:
    """'3 running, 12 pending: Resources' from lines of STATE|REASON; empty if there is nothing to say."""
    states = collections.Counter(line.partition("|")[0].lower() for line in lines)
    given = (line.partition("|")[2] for line in lines if line.startswith("PENDING|"))
    reasons = collections.Counter(
        SHORTER if reason.startswith("Nodes required for job are") else reason for reason in given
    )
    reasons.pop("None", None)
    listed = sorted(states, key=lambda state: (state == "pending", state != "running", state))
    text = ", ".join(f"{states[state]} {state}" for state in listed)
    return f"{text}: {', '.join(reason for reason, _ in reasons.most_common())}" if reasons else text


# Groups that are started again


def allow_continuing(workflow: Any) -> None:
    """Tell jobs that they may keep what an earlier attempt has made, unless it is to be made again by all means."""
    asked = workflow.dag_settings
    os.environ.pop(CONTINUE, None)
    if not (asked.forceall or asked.forcetargets or asked.forcerun):
        os.environ[CONTINUE] = "1"


def keep_finished(workflow: Any, logger: Any) -> None:
    """Let a group that is started again keep what its jobs had finished, and go on behind a job that fails.

    Snakemake deletes what a job is about to make, and what any job of a failed group has made. Here a file stays if its
    stamp says that it is what is asked for; the command that would make it then sees that it has nothing to do.
    """
    try:
        from snakemake.jobs import Job
        from snakemake.scheduling.job_scheduler import JobScheduler

        remove, clean_up, schedule = Job.remove_existing_output, Job.cleanup, JobScheduler.schedule
    except (ImportError, AttributeError):
        return

    async def remove_existing_output(self: Any) -> None:
        if not Stale(logger).complete(self):
            await remove(self)

    async def cleanup(self: Any, skip_outputs: Any) -> None:
        complete = Stale(logger).complete(self)
        await clean_up(self, {*skip_outputs, *(self.output if complete else ())})

    def keep_going(self: Any) -> Any:
        self.keepgoing = True
        return schedule(self)

    Job.cleanup = cleanup
    if not workflow.is_main_process and os.environ.get(CONTINUE):
        Job.remove_existing_output = remove_existing_output
        JobScheduler.schedule = keep_going
