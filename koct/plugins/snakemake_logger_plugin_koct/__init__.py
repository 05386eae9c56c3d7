"""What Snakemake prints on the terminal: a short line for each finished job, and every warning and failure in full.

Its own account, a dozen lines for each job, is complete in .snakemake/log. Who says how much to print, by --quiet,
--verbose, --printshellcmds or --debug-dag, gets what Snakemake prints.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import logging
import os
import re
import shutil
import sys
import time
from typing import Any

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase

# What Snakemake says of every run or job and nobody misses. Anything else is printed, however new it is.
HIDDEN_EVENTS = {"WORKFLOW_STARTED", "RESOURCES_INFO", "JOB_STARTED", "GROUP_INFO", "SHELLCMD"}
HIDDEN_MESSAGES = re.compile(
    "Assuming unrestricted shared filesystem usage|Building DAG of jobs|Using shell: |Select jobs to execute|"
    "Group jobs: inactive|Conda environments: ignored|SLURM run ID: |Cleaning up SLURM log files|"
    r"Job \S+ has been submitted with SLURM jobid|Trying to restart job|"
    "You are running snakemake in a SLURM job context|No SLURM account given|MinJobAge |"
    "Cannot restore .*: no backup found"  # of what a failed job would have made for the first time
)
LITTLE = 10**6  # bytes free on a disk that is called full
INPUTS_IN_REASON = re.compile("((?:Updated input files|Input files updated by another job): )([^;]+)")


class LogHandler(LogHandlerBase):
    """Hands to Snakemake's printer what is left to print, with its filter and its format."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = False
    has_formatter = False
    needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        self.printer = ColorizingTextHandler(nocolor=settings.nocolor, stream=stream)
        self.brief = not (settings.quiet or settings.verbose or settings.printshellcmds or settings.debug_dag)
        self.started: dict[int, tuple[str, str, str | None, float]] = {}  # message, rule, benchmark file, and when
        self.left: collections.Counter[str] = collections.Counter()  # jobs of each rule
        self.took: dict[str, list[float]] = {}  # seconds, of finished jobs of each rule
        self.began = time.monotonic()
        self.finished: list[str] = []  # messages of jobs that no count includes yet
        self.done = self.total = 0
        self.errors: collections.deque[str] = collections.deque(maxlen=20)  # texts printed last
        self.rewrites = self.printer.is_tty and os.environ.get("TERM") != "dumb"
        self.in_line = False  # whether the cursor is behind a line to rewrite

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        super().setFormatter(fmt)
        self.printer.setFormatter(fmt)

    def emit(self, record: Any) -> None:
        if self.brief:
            with contextlib.suppress(Exception):  # a record unlike those we know is printed as it is
                record = self.in_dry_run(record) if self.common_settings.dryrun else self.in_run(record)
        if record is not None:
            self.printer.emit(record)

    def in_dry_run(self, record: Any) -> Any:
        """Return what to print for a record, without reasons that name thousands of input files."""
        if _event(record) != "JOB_INFO" or len(record.reason) < 500:
            return record
        cut = INPUTS_IN_REASON.sub(lambda match: match[1] + ", ".join(_few(match[2].split(", "))), record.reason)
        return _changed(record, reason=cut)

    def in_run(self, record: Any) -> Any:
        """Return what to print for a record, None for nothing; a line for each finished job is printed here."""
        match _event(record):
            case "RUN_INFO":
                self.left = collections.Counter(record.stats)
                self.total = self.left.pop("total")
            case "JOB_INFO":
                message = record.rule_msg or record.rule_name
                self.started[record.jobid] = message, record.rule_name, record.benchmark, time.monotonic()
                if self.rewrites:
                    self.count(self.done, message)
            case "JOB_FINISHED" if record.job_id not in self.started:
                self.finished.append(record.msg)
            case "JOB_FINISHED":
                message, rule, benchmark, start = self.started.pop(record.job_id)
                self.left[rule] -= 1
                self.took.setdefault(rule, []).append(time.monotonic() - start)
                self.finished.append(message + _used(benchmark))
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
        """Return a failed job's record with the job's message, and without a command that has just been printed."""
        message = "; ".join(filter(None, [self.started.get(record.jobid, [""])[0], record.rule_msg, _full(record)]))
        printed = record.shellcmd and any(record.shellcmd in error for error in self.errors)
        command = None if printed else record.shellcmd
        return _changed(record, rule_msg=message, shellcmd=command, input=_few(record.input))

    def count(self, number: int, message: str) -> None:
        line, stream = f"[{number:{len(str(self.total))}}/{self.total}] {message}", self.printer.stream
        if self.rewrites:
            line = "; ".join(filter(None, [line, self.time_left()]))
            line = line[: (os.get_terminal_size(stream.fileno()).columns or 80) - 1]
        stream.write(f"\r{line}\033[K" if self.rewrites else f"{line}\n")
        stream.flush()
        self.in_line = self.rewrites

    def time_left(self) -> str:
        """Return about how long a run will still take, as jobs of the same rules took; nothing in its first seconds."""
        elapsed, took = time.monotonic() - self.began, [seconds for rule in self.took.values() for seconds in rule]
        if elapsed < 10 or not took:
            return ""
        means = {rule: sum(seconds) / len(seconds) for rule, seconds in self.took.items()}
        work = sum(count * means.get(rule, sum(took) / len(took)) for rule, count in self.left.items())
        seconds = work * elapsed / sum(took)  # as many jobs at once as so far
        return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"


def _used(benchmark: str | None) -> str:
    """Return the memory and the time that a job took, from the file of its benchmark."""
    with contextlib.suppress(OSError, ValueError, KeyError, StopIteration), open(benchmark or "") as file:
        row = next(csv.DictReader(file, delimiter="\t"))
        return f" ({float(row['max_rss']):.0f} MB, {float(row['s']):.1f} s)"
    return ""


def _full(record: Any) -> str | None:
    """Return why a job on a full disk failed, which it cannot write to its log."""
    with contextlib.suppress(OSError, AttributeError, TypeError, StopIteration):
        if shutil.disk_usage("results").free <= LITTLE:
            return f"{next(iter(record.output))}: No space left on device; make room and run snakemake again"
    return None


def _event(record: Any) -> str | None:
    return getattr(getattr(record, "event", None), "name", None)


def _changed(record: Any, **fields: Any) -> Any:
    return logging.makeLogRecord({**record.__dict__, **fields})


def _few(names: list[str], few: int = 5) -> list[str]:
    return names if len(names) <= 2 * few else [*names[:few], f"and {len(names) - few} more"]
