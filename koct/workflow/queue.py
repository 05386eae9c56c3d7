"""One run at a time in a folder, and what a crashed one left: temporary files, and jobs in SLURM's queue."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import time
from typing import IO

from koct.errors import KoctError

LOCK = ".snakemake/koct.lock"
NAME = re.compile(r"\S+\.koct ")  # of a job, as the executor koct-slurm gives it
TEMPORARY = re.compile(
    r"\.koct-temporary\.(?P<host>.+?)\.(?P<pid>[0-9]+)\..+"
)  # as koct.base.files.temporary_name makes them
DAY = 86400
OWN_JOB = os.environ.get("SLURM_JOB_ID")  # if snakemake is a job itself; the SLURM plugin removes this variable
LEFT = "PENDING,RUNNING,CONFIGURING,SUSPENDED,COMPLETING"


def check_folders(*names: str) -> None:
    """Refuse a working folder where something else is in place of the folders that a run writes to."""
    for name in names or (".snakemake", "results"):
        if os.path.lexists(name) and not os.path.isdir(name):
            raise KoctError(f"{name} is not a folder, and a run writes to a folder of this name; move it away")


def take_lock(folder: str | os.PathLike[str] = ".") -> IO[str] | None:
    """An open file that keeps other runs out until its process ends, however it ends; None where files cannot lock."""
    path = os.path.join(folder, LOCK)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = open(path, "a+")  # noqa: SIM115 (open for as long as the run)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        raise KoctError(f"another snakemake ({owner}) runs in this folder: wait for it or end it") from None
    except OSError:  # a file system without locks
        return None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {os.uname().nodename}")
    file.flush()
    return file


_held: list[IO[str]] = []  # the lock of this process


def lock() -> bool:
    """Keep other runs out of this folder until this process ends; whether files can lock here."""
    _held.extend(filter(None, [take_lock()]))
    return bool(_held)


def remove_temporaries(folder: str | os.PathLike[str] = "results") -> list[str]:
    """Remove the temporary files of dead processes, here or a day ago elsewhere; returns their paths."""
    removed = []
    for place, _, names in os.walk(folder):
        for name in names:
            found = TEMPORARY.fullmatch(name)
            if found:
                path = os.path.join(place, name)
                with contextlib.suppress(OSError):
                    if _is_dead(path, found["host"], int(found["pid"])):
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
        left = set(ids)
        for _ in range(60):
            left &= {job for job, _ in _mine()}
            if not left:
                break
            time.sleep(1)
    return ids


def _mine() -> list[tuple[str, str]]:
    """(id, folder) of my jobs of this workflow that are not over, but for the one that this process is part of."""
    ask = ["squeue", "--noheader", "--me", f"--states={LEFT}", "--format=%j %A %Z"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = (line.split(" ", 2) for line in done.stdout.splitlines() if NAME.match(line))
    return [(job, workdir) for _, job, workdir in lines if job != OWN_JOB]
