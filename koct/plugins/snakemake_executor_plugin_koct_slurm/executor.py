"""Snakemake's SLURM executor with what koct's submissions need beyond it.

- One Snakemake on a node runs the jobs of a submission one after the other, without a job step for each, and goes on
  behind a job that fails. A submission that is repeated has the unfinished jobs alone.
- What SLURM preempts or forgets, or loses with a node, is submitted again with the same request, and a cancelled job
  counts as failed, whoever cancelled it: the plugin waits for most of them for ever.
- Where SLURM takes no more jobs of a user, it is asked until it does. A job that it will never start has failed.
- An error while a job is being submitted ends its attempt; in the plugin it ends a thread, and the run hangs.
- Ctrl-C removes all jobs of the run, those included that are just being submitted, and so do SIGTERM and SIGHUP. A
  second Ctrl-C does not keep it from that.
- A job is named after its group or rule, and gets the variables that it needs instead of all.
- The queue is asked often enough for jobs of minutes. A failure is told in a few lines, and so is what runs and waits.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from snakemake.io import is_flagged
from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_executor_plugin_slurm.job_status_query import query_job_status
from snakemake_executor_plugin_slurm.utils import get_job_wildcards
from snakemake_executor_plugin_slurm.validation import validate_or_get_slurm_job_id
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
from snakemake_interface_executor_plugins.utils import encode_target_jobs_cli_args, format_cli_arg, join_cli_args

FAILED = {"CANCELLED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT"}
LOST = {"BOOT_FAIL", "NODE_FAIL"}  # with the node
OFTEN = 5  # times that a lost job is submitted again
PAUSE = 30  # seconds before SLURM is asked again to take a job
FULL = re.compile("(Max|Grp)SubmitJob")  # in what SLURM says where a user or a group may have no more jobs queued
# Reasons of a pending job that do not pass by themselves, and how many seconds they are given for it.
NEVER = re.compile(r"BadConstraints|InvalidAccount|InvalidQOS|PartitionTimeLimit|(QOS|Assoc)Max\w+PerJob(Limit)?")
STUCK = 30
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOWN = 3  # failed jobs of a submission
STARTED = time.time()
PATIENCE = 600  # seconds after which a job that SLURM no longer knows is submitted again


class Executor(SlurmExecutor):
    pause = 0  # seconds between two looks at the queue

    def __post_init__(self, *arguments: Any) -> None:
        super().__post_init__(*arguments)
        self.ended = threading.Event()
        self.submissions = ThreadPoolExecutor(2)  # threads: sbatch may wait for long
        self.queued: set[str] = set()  # the numbers of all jobs that may be in SLURM's queue
        self.lost: collections.Counter[Any] = collections.Counter()  # how often SLURM lost a job
        self.stuck: dict[str, float] = {}  # since when a job waits for what does not pass
        self.full = ""  # what SLURM said when it took no more jobs
        self.missing: dict[str, float] = {}  # since when SLURM does not know a job
        self.queue = ""  # as it was last told

    # What a submission runs

    def additional_general_args(self) -> str:
        """Return the executor of the Snakemake on a node: koct's own with its warm workers, if it is there."""
        name = "koct" if ExecutorPluginRegistry().is_installed("koct") else "local"
        return f"--executor {name} --keep-going"

    def get_job_args(self, job: Any, **others: Any) -> str:
        """Return the plugin's arguments, and what overrides them: unfinished jobs alone, on the cores of the widest."""
        members = [member for member in members_of(job) if not self.is_finished(member)] or members_of(job)
        targets = [target for member in members for target in member.get_target_spec()]
        return join_cli_args(
            [
                super().get_job_args(job, **others),
                format_cli_arg("--target-jobs", encode_target_jobs_cli_args(targets)),
                format_cli_arg("--cores", max(member.threads for member in members)),
            ]
        )

    def get_python_executable(self) -> str:
        return shlex.quote(sys.executable)

    def is_finished(self, job: Any) -> bool:
        """Return whether this run has made all outputs of a job, as its spec asks for."""
        with contextlib.suppress(OSError):
            return all(os.path.getmtime(path) >= STARTED and fits(path, job) for path in job.output)
        return False

    # Submitting

    def run_jobs(self, jobs: list[Any]) -> None:
        """Submit jobs. From the first ones on, the end of the terminal or of the job around this one is like Ctrl-C."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup
                    signal.signal(number, interrupt)
        for job in jobs:
            self.run_job_pre(job)
            self.submissions.submit(self.run_job, job)

    def run_job(self, job: Any) -> None:
        try:
            self.report_job_submission(self.submit(job))
        except Exception as error:  # in a thread, where nobody would see it
            self.report_job_error(SubmittedJobInfo(job), f"it could not be submitted: {error}")

    def submit(self, job: Any) -> SubmittedJobInfo:
        from koct.workflow.cluster import NEEDED, submit_command  # not before the Snakefile says which koct

        log = self.slurm_logdir / job.name / get_job_wildcards(job) / "%j.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        call = submit_command(
            job,
            self.workflow.executor_settings,
            job_name=f"{job.name}.koct",
            slurm_logfile=log,
            comment_str="_wildcards_".join(filter(None, [f"rule_{job.name}", get_job_wildcards(job)])),
        )
        call += f" --wrap={shlex.quote(self.format_job_exec(job))}"
        variables = {name: value for name, value in os.environ.items() if NEEDED.fullmatch(name)}
        variables |= self.envvars()
        while not self.ended.is_set():
            # in a session of its own, out of reach of Ctrl-C, so that no job is submitted and its number lost
            done = subprocess.run(
                call, shell=True, capture_output=True, text=True, env=variables, start_new_session=True
            )
            if not done.returncode or not FULL.search(done.stderr):
                break
            if self.full != done.stderr:
                self.full = done.stderr
                self.logger.info(f"SLURM takes no more jobs for now, and is asked again: {self.full.strip()}")
            self.ended.wait(PAUSE)
        else:
            raise WorkflowError("the run has ended")
        if done.returncode:
            raise WorkflowError(done.stderr.strip())
        number = validate_or_get_slurm_job_id(done.stdout.strip().partition(";")[0], done.stdout)
        self.queued.add(number)
        return SubmittedJobInfo(job, number, {"slurm_logfile": log.with_name(f"{number}.log"), "call": call})

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self.ended.set()
        first = set(self.queued)
        self.scancel(*first)
        self.submissions.shutdown(wait=True, cancel_futures=True)
        self.scancel(*self.queued - first)  # what was just being submitted

    def scancel(self, *numbers: str) -> None:
        if not numbers:
            return
        for _ in range(3):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(["scancel", *numbers], capture_output=True, timeout=60, start_new_session=True)
                return
        self.logger.error(f"SLURM does not answer, and jobs may be left in its queue: scancel {' '.join(numbers)}")

    def shutdown(self) -> None:
        self.submissions.shutdown()
        super().shutdown()

    # Watching

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncIterator[SubmittedJobInfo]:
        from koct.workflow.cluster import site_options

        states = await self.states(active_jobs) if active_jobs else None
        going_on = 0
        for info in active_jobs:
            number = info.external_jobid
            words = "UNKNOWN" if states is None else states.get(number, "")
            logs = [str(info.aux["slurm_logfile"])]
            state, _, reason = words.partition(" ")
            lost = state in LOST or self.is_lost(number, state)
            if state == "COMPLETED":
                self.report_job_success(info)
                info.aux["slurm_logfile"].unlink(missing_ok=True)
            elif state in FAILED:
                self.report_job_error(info, f"SLURM ended job {number}: '{state}'", logs)
            elif state == "PREEMPTED" or (lost and self.lost[info.job] < OFTEN):
                self.lost[info.job] += lost
                self.logger.info(f"SLURM preempted or lost job {number} ({info.job.name}); it is submitted again.")
                self.submissions.submit(self.run_job, info.job)
            elif lost:
                self.report_job_error(info, f"SLURM lost job {number} for the {OFTEN + 1}th time", logs)
            elif self.is_stuck(number, state, reason):
                self.scancel(number)
                request = (
                    f"{reason}\n  it asks for: {site_options(info.aux['call'])}; look at the site lines of your profile"
                )
                self.report_job_error(info, f"SLURM will never start job {number}: {request}")
            else:
                going_on += 1
                yield info
                continue
            self.queued.discard(number)
        wait = self.workflow.executor_settings.init_seconds_before_status_checks
        self.pause = min(self.pause + wait, 3 * wait) if going_on == len(active_jobs) else wait
        self.next_seconds_between_status_checks = self.pause

    async def states(self, active_jobs: list[SubmittedJobInfo]) -> dict[str, str] | None:
        """Return state and reason of each job that SLURM knows, None if it does not answer; say what runs and waits."""
        numbers = [info.external_jobid for info in active_jobs]
        answer, _ = await query_job_status("squeue --noheader --states=all --me '--format=%i|%T %r'", self.logger)
        if answer is None:
            return None
        text = queue_in_words(answer[number] for number in numbers if number in answer)
        if text not in ("", self.queue):
            self.queue = text
            self.logger.info(text)
        if gone := [number for number in numbers if number not in answer]:  # ended some minutes ago
            call = f"sacct --allocations --parsable2 --noheader --format=JobIdRaw,State --jobs={','.join(gone)}"
            older, _ = await query_job_status(call, self.logger)
            answer = {**(older or {}), **answer}
        for number in answer:
            self.missing.pop(number, None)
        return dict(answer)

    def is_lost(self, number: str, state: str) -> bool:
        return not state and time.monotonic() - self.missing.setdefault(number, time.monotonic()) > PATIENCE

    def is_stuck(self, number: str, state: str, reason: str) -> bool:
        if state != "PENDING" or not NEVER.fullmatch(reason):
            self.stuck.pop(number, None)
            return False
        return time.monotonic() - self.stuck.setdefault(number, time.monotonic()) > STUCK

    def report_job_error(self, job_info: Any, msg: str | None = None, aux_logs: Any = (), **others: Any) -> None:
        """Tell a failure, and delete what is outdated: with --keep-incomplete Snakemake would take it for made anew."""
        job = job_info.job
        unfinished = [member for member in members_of(job) if not self.is_finished(member)]
        for member in unfinished:
            for path in member.output:
                if os.path.isfile(path) and not fits(path, member) and not is_flagged(path, "update"):
                    os.remove(path)
        self.logger.error(failure(job, unfinished, msg, list(aux_logs)))
        self.workflow.scheduler.error_callback(job)


def interrupt(*_: Any) -> None:
    """Handle the first of all signals; others must not keep it from cancelling jobs."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def fits(path: str, job: Any) -> bool:
    """Return whether a file is what the spec of its job asks for."""
    from koct.base import stamps
    from koct.errors import KoctError
    from koct.workflow.stale import wanted

    with contextlib.suppress(OSError, ValueError, AttributeError, KoctError):
        return stamps.read(path).spec == wanted(path, job.params.spec)
    return False


def members_of(job: Any) -> list[Any]:
    return list(job.jobs) if job.is_group() else [job]


def queue_in_words(jobs: Iterable[str]) -> str:
    """Return '3 running, 12 pending: Resources' from the states and reasons of jobs; empty without one that goes on."""
    rows = [row.partition(" ")[::2] for row in jobs]
    counts = {word: sum(state == word.upper() for state, _ in rows) for word in ("running", "pending")}
    text = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    reasons = collections.Counter(reason for state, reason in rows if state == "PENDING" and reason != "None")
    return ": ".join(filter(None, [text, ", ".join(reason for reason, _ in reasons.most_common())]))


def failure(submitted: Any, unfinished: list[Any], message: str | None, logs: list[str]) -> str:
    """Return what happened to a submission: which unfinished jobs had begun, with the ends of their logs.

    `logs` are those of the submission itself, shown if none had begun.
    """
    lines = [f"{submitted.name}: {message or 'it failed'}"]
    begun = [job for job in unfinished if any(map(last_lines, job.log))]
    for job in begun[:SHOWN]:
        lines += [f"  {job.message or job.name}:", *(f"    {line}" for path in job.log for line in last_lines(path))]
    if len(begun) > SHOWN:
        lines.append(f"  and {len(begun) - SHOWN} more: see results/logs")
    if not begun:
        lines += [f"    {line}" for path in logs for line in last_lines(path)]
    if submitted.restart_times >= submitted.attempt:
        attempt = f"Attempt {submitted.attempt} of {submitted.restart_times + 1} failed"
        lines.append(f"  {attempt}; submitting it again with more memory and time.")
    return "\n".join(lines)


def last_lines(path: str, few: int = 5) -> list[str]:
    """Return the end of a log; nothing if there is no such file, or one of an earlier run."""
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        lines = [line for line in file.read().splitlines() if line.strip()]
        return lines[-few:] if os.path.getmtime(path) >= STARTED else []
    return []
