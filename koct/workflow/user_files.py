"""What jobs know of the files that a problem reads: digests of their contents, kept until a file changes."""

from __future__ import annotations

import contextlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from koct.base.failures import say
from koct.base.stamps import checksum_of, digest_of_file
from koct.contracts import Problem

MOST_FILES = 100  # that a spec lists one by one
LARGE = 10**7  # bytes of a file whose digest is kept
SLOW = 10**9  # bytes whose reading is announced
KEPT = ".snakemake/koct.digests.json"


def checksums(problem: Problem) -> dict[str, Any]:
    """Return the digests of the files that a problem reads, under `files`; of a folder, of all files below it."""
    found = _digests([path for path in problem.files() if not os.path.isdir(path)])
    for folder in filter(os.path.isdir, problem.files()):
        below = sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
        found[folder] = checksum_of(_digests(below))
    if len(found) > MOST_FILES:  # the spec is an argument of a command
        found = {f"{len(found)} files": checksum_of(found)}
    return {"files": found} if found else {}


def _digests(paths: list[str]) -> dict[str, str]:
    """Return the digest of every file. Those of large ones are kept, and computed again when anything of them differs.

    The time of a file's last change (ctime) is set by the system alone, whatever `cp -p`, `rsync -t` or `touch` say.
    """
    about = {path: os.stat(path) for path in paths}
    states = {
        path: [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        for path, found in about.items()
        if found.st_size > LARGE
    }
    kept = _kept() if states else {}
    found = {path: kept[path][1] for path, state in states.items() if kept.get(path, [None])[0] == state}
    missing = [path for path in paths if path not in found]
    size = sum(about[path].st_size for path in missing)
    if size > SLOW:
        say(f"reading {size / 1e9:.1f} GB of {', '.join(missing[:3])}{' …' * (len(missing) > 3)} for changes")
    with ThreadPoolExecutor() as threads:
        found |= zip(missing, threads.map(digest_of_file, missing), strict=True)
    if states.keys() - kept.keys() or any(kept[path][0] != state for path, state in states.items()):
        from koct.base.files import write_text  # which imports NumPy

        with contextlib.suppress(OSError):  # without them, the next run reads the files again
            write_text(KEPT, json.dumps({**kept, **{path: [state, found[path]] for path, state in states.items()}}))
    return {path: found[path] for path in paths}


def _kept() -> dict[str, Any]:
    """Return {path: (state, digest)} of what was computed before; nothing if that cannot be read."""
    try:
        with open(KEPT, encoding="utf-8") as file:
            kept = json.load(file)
        return {path: (state, str(digest)) for path, (state, digest) in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
