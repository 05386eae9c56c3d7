"""What Snakemake prints on the terminal: a short line for each finished job, and every warning and failure in full.

Its own account, a dozen lines for each job, is complete in .snakemake/log.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import re
import time
from collections.abc import Callable
from typing import Any

from koct.errors import KoctError

# What Snakemake says of every run or job and nobody misses. Anything else is printed, however new it is.
HIDDEN_EVENTS = {"WORKFLOW_STARTED", "RESOURCES_INFO", "JOB_STARTED", "GROUP_INFO", "SHELLCMD"}
HIDDEN_MESSAGES = re.compile(
    "Assuming unrestricted shared filesystem usage|Building DAG of jobs|Using shell: |Select jobs to execute|"
    "Group jobs: inactive|Conda environments: ignored|SLURM run ID: |Cleaning up SLURM log files|"
    r"Job \S+ has been submitted with SLURM jobid|Trying to restart job|"
    "You are running snakemake in a SLURM job context|No SLURM account given"
)
STARTED = time.time()
SHOWN = 3  # failed jobs of a submission
LITTLE = 10**6  # bytes free on a disk that is called full
INPUTS_IN_REASON = re.compile("((?:Updated input files|Input files updated by another job): )([^;]+)")


def calm(workflow: Any) -> None:
    """Print less, unless the user has said how much. A Snakemake that is built otherwise prints what it always does."""
    with contextlib.suppress(Exception):
        asked = workflow.output_settings
        if asked.quiet or asked.verbose or asked.printshellcmds or asked.debug_dag or asked.log_handler_settings:
            return
        if workflow.is_main_process:  # and not one of those that it starts for jobs
            logger = workflow.logger_manager.logger
            (printer,) = (handler for handler in logger.handlers if handler.name == "DefaultStreamHandler")
            logger.addHandler(DryRun(printer) if asked.dryrun else Run(printer))
            logger.removeHandler(printer)


def in_dry_run(workflow: Any, announce: Callable[[], None]) -> None:
    """Call a function when the table of jobs has been printed: a dry run has no hook of its own."""
    with contextlib.suppress(Exception):
        if workflow.is_main_process and workflow.output_settings.dryrun:
            workflow.logger_manager.logger.addHandler(Announcement(workflow.logger_manager.logger, announce))


class Announcement(logging.Handler):
    def __init__(self, logger: Any, announce: Callable[[], None]) -> None:
        super().__init__()
        self.logger, self.announce = logger, announce

    def emit(self, record: Any) -> None:
        if _event(record) == "RUN_INFO":
            self.logger.removeHandler(self)  # Snakemake prints the table again at the end
            try:
                self.announce()
            except KoctError as error:
                self.logger.error(str(error))


class DryRun(logging.Handler):
    """Hands everything to Snakemake's printer, but cuts reasons that name thousands of input files."""

    def __init__(self, printer: Any) -> None:
        super().__init__()
        self.printer = printer

    def emit(self, record: Any) -> None:
        with contextlib.suppress(Exception):  # a record unlike those we know is printed as it is
            record = self.shown(record)
        if record is not None:
            self.printer.handle(record)

    def shown(self, record: Any) -> Any:
        """What to print for a record, None for nothing. The log file gets the same record, so only copies change."""
        if _event(record) != "JOB_INFO" or len(record.reason) < 500:
            return record
        cut = INPUTS_IN_REASON.sub(lambda found: found[1] + ", ".join(_few(found[2].split(", "))), record.reason)
        return _changed(record, reason=cut)


class Run(DryRun):
    """Prints a line for each finished job or, on a terminal, one line that is rewritten."""

    def __init__(self, printer: Any):
        super().__init__(printer)
        self.messages: dict[int, str] = {}  # of jobs that have started
        self.finished: list[str] = []  # messages of jobs that no count includes yet
        self.done = self.total = 0
        self.errors: collections.deque[str] = collections.deque(maxlen=20)  # texts printed last
        self.rewrites = printer.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.in_line = False  # whether the cursor is behind a line to rewrite
        self.queue = ""  # what runs and waits on a cluster

    def shown(self, record: Any) -> Any:
        if hasattr(record, "koct_queue") and self.rewrites:
            self.queue = record.koct_queue
            self.count(self.done, "")
            return None
        match _event(record):
            case "RUN_INFO":
                self.total = record.stats["total"]
            case "JOB_INFO":
                self.messages[record.jobid] = record.rule_msg or record.rule_name
                if self.rewrites:
                    self.count(self.done, self.messages[record.jobid])
            case "JOB_FINISHED":
                self.finished.append(self.messages.pop(record.job_id, record.msg))
            case "PROGRESS":
                finished, self.finished = self.finished, []
                self.done, self.total = record.done, record.total
                for number, message in enumerate(finished, self.done - len(finished) + 1):
                    self.count(number, message)
            case event if event not in HIDDEN_EVENTS and not (
                record.levelno <= logging.WARNING and HIDDEN_MESSAGES.match(str(record.msg))
            ):
                self.printer.stream.write("\n" * self.in_line)
                self.in_line = False
                if event == "ERROR":
                    self.errors.append(record.getMessage())
                return self.failure(record) if event == "JOB_ERROR" else record
        return None

    def failure(self, record: Any) -> Any:
        """A failed job's record with the job's message, and without a command that has just been printed."""
        message = "; ".join(filter(None, [self.messages.get(record.jobid), record.rule_msg, _full(record)]))
        command = record.shellcmd
        if command and any(command in error for error in self.errors):
            command = None
        return _changed(record, rule_msg=message, shellcmd=command, input=_few(record.input))

    def count(self, number: int, message: str) -> None:
        line, stream = f"[{number:{len(str(self.total))}}/{self.total}] {message}", self.printer.stream
        if self.rewrites:
            line = "; ".join(filter(None, [line.rstrip(), self.queue]))
            line = line[: (os.get_terminal_size(stream.fileno()).columns or 80) - 1]
        stream.write(f"\r{line}\033[K" if self.rewrites else f"{line}\n")
        stream.flush()
        self.in_line = self.rewrites


def failure(submitted: Any, unfinished: list[Any], message: str | None, logs: list[str]) -> str:
    """What happened to a job or group of a cluster: which unfinished jobs had begun, with the ends of their logs.

    `logs` are those of the submission itself, shown if none had begun.
    """
    said = re.split(" Detailed failure reason unavailable|\n    sbatch call:", message or "it failed")[0].strip()
    lines = [f"{submitted.name}: {said}"]
    begun = [job for job in unfinished if any(map(_end, job.log))]
    for job in begun[:SHOWN]:
        lines += [f"  {job.message or job.name}:", *(f"    {line}" for path in job.log for line in _end(path))]
    if len(begun) > SHOWN:
        lines.append(f"  and {len(begun) - SHOWN} more: see results/logs")
    if not begun:
        lines += [f"    {line}" for path in logs for line in _end(path)]
    if submitted.restart_times >= submitted.attempt:
        attempt = f"Attempt {submitted.attempt} of {submitted.restart_times + 1} failed"
        lines.append(f"  {attempt}; submitting it again with a larger request.")
    return "\n".join(lines)


def _end(path: str, few: int = 5) -> list[str]:
    """The last lines of a log; none if there is no such file, or one of an earlier run."""
    try:
        if os.path.getmtime(path) < STARTED:
            return []
        with open(path, errors="replace") as file:
            return [line for line in file.read().splitlines() if line.strip()][-few:]
    except OSError:
        return []


def _full(record: Any) -> str | None:
    """A job on a full disk cannot write to its log why it failed."""
    try:
        place = os.statvfs("results")
        outputs = list(record.output)
    except (OSError, AttributeError, TypeError):
        return None
    if place.f_bavail * place.f_frsize > LITTLE or not outputs:
        return None
    return f"{outputs[0]}: No space left on device; make room and run snakemake again"


def _event(record: Any) -> str | None:
    return getattr(getattr(record, "event", None), "name", None)


def _changed(record: Any, **fields: Any) -> Any:
    return logging.makeLogRecord({**record.__dict__, **fields})


def _few(names: list[str], few: int = 5) -> list[str]:
    return names if len(names) <= 2 * few else [*names[:few], f"and {len(names) - few} more"]
