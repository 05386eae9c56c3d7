"""What jobs know of the files that a problem reads."""

from __future__ import annotations

import os
from typing import Any

from koct.base.stamps import checksum_of, crc
from koct.contracts import Problem

MOST_FILES = 100  # that a spec lists one by one
LARGE_FILE = 10**8  # bytes of a user's file that is too large to be read whenever a run is planned


def checksums(problem: Problem) -> dict[str, Any]:
    """The checksums of the files that a problem reads; of a very large one, its size."""
    found = {}
    for path in problem.files():
        if os.path.isdir(path) or os.path.getsize(path) > LARGE_FILE:
            found[path] = str(os.path.getsize(path))
        else:
            with open(path, "rb") as file:
                found[path] = crc(file.read())
    if len(found) > MOST_FILES:  # the spec is an argument of a command
        found = {f"{len(found)} files": checksum_of(found)}
    return {"files": found} if found else {}
