"""Files that keep other processes out, where others may write too."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO


def open_lock(path: str | os.PathLike[str]) -> IO[str]:
    """Open a file to lock it, or make one; an OSError if it is a link, a pipe or a device."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    number = os.open(path, flags, 0o600)  # who can read a file can lock it
    about = os.fstat(number)
    if not stat.S_ISREG(about.st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "It is a pipe or a device", str(path))
    if about.st_uid == os.getuid() and about.st_mode & 0o077:  # made before, by an older koct
        os.fchmod(number, 0o600)
    return open(number, "r+")
