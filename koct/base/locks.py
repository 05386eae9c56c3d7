"""Files that keep other processes out, where others may write too."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO


def open_lock(path: str | os.PathLike[str]) -> IO[str]:
    """Open a file to lock it, or make one; an OSError if it is a link, a pipe or a device."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    number = os.open(path, flags, 0o644)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "It is a pipe or a device", str(path))
    return open(number, "r+")
