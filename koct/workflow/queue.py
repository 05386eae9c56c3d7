"""One run at a time in a folder, what a crashed one left in it and in SLURM's queue, and what happens at its events.

Snakemake has no hook for some events: they are told by the records that it logs. Snakemake 9 makes its settings known
behind the Snakefile, and reads them when a run has started. They are plain dataclasses of its public interface.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import logging
import os
import re
import subprocess
import time
from collections.abc import Callable
from typing import IO, Any

from koct.base.failures import say
from koct.base.locks import open_lock
from koct.errors import KoctError
from koct.workflow import stale
from koct.workflow.cluster import ask

LOCKS = {".snakemake/koct.lock": "in this folder", "results/.snakemake-koct.lock": "with these results"}
NAME = re.compile(r"\S+\.koct ")  # of a job, as the executor koct-slurm gives it
# as koct.base.files.temporary_name makes them
TEMPORARY = re.compile(r"\.koct-temporary\.(?P<host>.+?)\.(?P<pid>[0-9]+)\..+")
DAY = 86400
LEAST_SPACE = 2**20  # bytes that Snakemake needs for its own records
OWN_JOB = os.environ.get("SLURM_JOB_ID")  # if snakemake is a job itself; the SLURM plugin removes this variable
LEFT = "PENDING,RUNNING,CONFIGURING,SUSPENDED,COMPLETING"
LIMIT = (100, 1)  # jobs in so many seconds: Snakemake's default
_held: list[IO[str]] = []  # the locks of this process


def check_folders() -> None:
    """Refuse a working folder that cannot be written to, or with something else in place of the folders of a run."""
    for name in (".snakemake", "results"):
        if os.path.lexists(name) and not os.path.isdir(name):
            raise KoctError(f"{name} is not a folder, and a run writes to a folder of this name; move it away")
    place = ".snakemake" if os.path.isdir(".snakemake") else "."
    if not os.access(place, os.W_OK | os.X_OK):
        fix = "allow it, or give another folder with --directory"
        raise KoctError(f"nothing can be written to {os.path.realpath(place)}, where a dry run writes too; {fix}")
    about = os.statvfs(place)
    if about.f_blocks and about.f_bavail * about.f_frsize < LEAST_SPACE:
        say(f"no space is left for .snakemake ({about.f_bavail * about.f_frsize >> 10} KB); make room")
        raise SystemExit(1)  # Snakemake would try to write the sentence to a log there


def take_locks(folder: str | os.PathLike[str] = ".") -> bool:
    """Keep other runs out until this process ends, however it ends; False where files cannot lock.

    Others may have a link to the results, and the results may be removed while a run is on.
    """
    return all([_lock(os.path.join(folder, path), where) for path, where in LOCKS.items()])


def _lock(path: str, where: str) -> bool:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open_lock(path)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise KoctError(f"{path}, which a run locks, cannot be written: {why}; remove it, or allow it") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = file.read().strip() or "unknown"
        raise KoctError(f"another snakemake ({owner}) runs {where}: wait for it or end it") from None
    except OSError:  # a file system without locks
        return False
    _held.append(file)
    with contextlib.suppress(OSError):  # a full disk
        file.truncate(0)
        file.write(f"process {os.getpid()} on {os.uname().nodename}")
        file.flush()
    return True


def remove_temporaries(folder: str | os.PathLike[str] = "results") -> list[str]:
    """Remove the temporary files of dead processes, here or a day ago elsewhere; returns their paths."""
    removed = []
    for place, _, names in os.walk(folder):
        for name in names:
            if parts := TEMPORARY.fullmatch(name):
                path = os.path.join(place, name)
                with contextlib.suppress(OSError):
                    if _is_dead(path, parts["host"], int(parts["pid"])):
                        os.remove(path)
                        removed.append(path)
    return removed


def _is_dead(path: str, host: str, pid: int) -> bool:
    if host != os.uname().nodename:
        return time.time() - os.path.getmtime(path) > DAY
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"  # it was killed, and nobody has asked for its status
    return False


def cancel_leftovers(folder: str | os.PathLike[str] = ".") -> list[str]:
    """Cancel what an earlier run of this folder left in the queue and wait until it is gone; returns the job ids.

    Nobody waits for these jobs, and each begins by deleting what this run is about to make.
    """
    here = os.path.realpath(folder)
    ids = [job for job, workdir in _mine() if os.path.realpath(workdir) == here]
    if ids:
        subprocess.run(["scancel", *ids], check=False, capture_output=True)
        for _ in range(60):
            if not {job for job, _ in _mine()}.intersection(ids):
                break
            time.sleep(1)
    return ids


def _mine() -> list[tuple[str, str]]:
    """(id, folder) of my jobs of this workflow that are not over, but for the one that this process is part of."""
    queue = ask("squeue", "--noheader", "--me", f"--states={LEFT}", "--format=%j %A %Z")
    lines = (line.split(" ", 2) for line in queue if NAME.match(line))
    return [(job, workdir) for _, job, workdir in lines if job != OWN_JOB]


# Events


def listen(
    workflow: Any, logger: logging.Logger, large: Callable[[], set[str]], plan: Callable[[], str | None]
) -> None:
    """Keep other runs out when a run starts and adjust Snakemake's settings, before its jobs are determined.

    `large` names groups. In a dry run, call `plan` when the jobs are known, and print what it returned at the very end.
    """
    dry = workflow.output_settings.dryrun

    def start() -> None:
        if not dry:
            _keep_others_out(workflow, logger)
        _adjust(workflow, logger, large)

    def plan_run() -> None:
        if (line := plan()) and not workflow.output_settings.quiet:
            atexit.register(print, line)

    if workflow.is_main_process:  # and not one of those that it starts for jobs
        Once(logger, "WORKFLOW_STARTED", start)
        if dry:
            Once(logger, "RUN_INFO", plan_run)


class Once(logging.Handler):
    """Calls a function at the first record of an event; what it complains of ends the run."""

    def __init__(self, logger: logging.Logger, event: str, function: Callable[[], Any]):
        super().__init__()
        self.logger, self.event, self.function = logger, event, function
        logger.addHandler(self)

    def emit(self, record: Any) -> None:
        if self.event and self.event == getattr(getattr(record, "event", None), "name", None):
            self.event = ""
            try:
                self.function()
            except KoctError as error:
                self.logger.error(str(error))
                raise SystemExit(1) from None


def _keep_others_out(workflow: Any, logger: logging.Logger) -> None:
    """Take the locks, and cancel what an earlier run left on a cluster: a plan is right as long as nobody else writes.

    Only what executes jobs gets here: `--unlock`, `--summary`, `--report` and the like start no workflow.
    """
    if not take_locks():
        logger.info("This file system has no locks: start one run at a time here.")
    elif workflow.resource_settings.nodes is not None and (left := cancel_leftovers()):
        count = "1 job" if len(left) == 1 else f"{len(left)} jobs"
        logger.info(f"Cancelled {count} that an earlier run left in the queue.")


def _adjust(workflow: Any, logger: Any, large: Callable[[], set[str]]) -> None:
    """Set what no key of a profile can.

    To keep its default limit of 100 jobs per second, Snakemake 9 starts a one-second timer at every scheduling step,
    and each timer makes one more step: hundreds of small jobs then wait for the scheduler. No limit, no timers.
    """
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    if limit is not None and (limit.max_jobs, limit.timespan) == LIMIT:
        workflow.scheduling_settings.max_jobs_per_timespan = None
    components = workflow.group_settings.group_components
    if "large" in components:  # which stands for all of their names
        workflow.group_settings.group_components = {**dict.fromkeys(large(), components["large"]), **components}
    dag = workflow.dag_settings
    if dag.forceall or dag.forcetargets or dag.forcerun:
        os.environ["KOCT_REFIT"] = "1"  # for jobs: a fit that is there does not count (koct/study/evaluation.py)
    if not dag.forceall:
        dag.forcerun = {*dag.forcerun, *stale.outdated(workflow, logger)}
