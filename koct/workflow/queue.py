"""One run at a time in a folder, and what a crashed one left in SLURM's queue."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from typing import IO

from koct.errors import KoctError

LOCK = ".snakemake/koct.lock"
PREFIX = "koct_"  # of job names: slurm-jobname-prefix in profiles/slurm
LEFT = "PENDING,RUNNING,CONFIGURING,SUSPENDED,COMPLETING"


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
    """(id, folder) of my jobs of this workflow that are not over."""
    ask = ["squeue", "--noheader", "--me", f"--states={LEFT}", "--format=%j %A %Z"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = (line.split(" ", 2) for line in done.stdout.splitlines() if line.startswith(PREFIX))
    return [(job, workdir) for _, job, workdir in lines]
