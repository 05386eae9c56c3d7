"""Bytes of memory that a process may take, of the machine and of the control groups that it is in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import PurePosixPath


def total_memory(root: str = "/") -> int | None:
    """What this machine has, or the control group of this process; None if nobody says."""
    found = list(_group_limits(root))
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((size for size in found if size > 0), default=None)


def free_memory(root: str = "/") -> int:
    """What is free on this machine, or all that the control group of this process may take, if that is less."""
    lines = (line.split() for line in _text(root, "proc/meminfo").splitlines())
    free = next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")
    return min([free, *_group_limits(root)])


def _group_limits(root: str) -> Iterator[int]:
    """Of the groups, one in the other, of this process: version 2 and version 1."""
    for line in _text(root, "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        for place in (PurePosixPath(group), *PurePosixPath(group).parents):
            text = _text(root, "sys/fs/cgroup", folder, str(place).lstrip("/"), name).strip()
            if text.isdigit():
                yield int(text)


def _text(*parts: str) -> str:
    try:
        with open(os.path.join(*parts), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
