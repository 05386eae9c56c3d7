"""What the terminal shows of a job of a cluster that failed."""

from __future__ import annotations

import os
import re
import time
from typing import Any

STARTED = time.time()
SHOWN = 3  # failed jobs of a submission


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
