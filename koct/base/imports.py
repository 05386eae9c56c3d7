"""Which files of a folder Python can import, and that it looks for them there."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib import machinery
from pathlib import Path

SUFFIXES = tuple(machinery.all_suffixes())  # source, compiled, extensions


def import_from(folder: Path) -> None:
    """Let Python find modules in a user's folder, where they hide nothing of Python's own."""
    if str(folder) not in sys.path:
        installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        places = [i for i, entry in enumerate(sys.path) if entry in installed] or [len(sys.path)]
        sys.path.insert(places[0], str(folder))


def modules_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that Python can import as modules and packages."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from files_of_module(Path(entry.path, "__init__"))
            elif entry.name.endswith(SUFFIXES):
                yield Path(entry.path)


def files_of_module(stem: Path) -> Iterator[Path]:
    """Yield the files that Python can import as the module of this path, which has no ending."""
    yield from (path for end in SUFFIXES if (path := Path(f"{stem}{end}")).is_file())


@cache
def not_theirs(name: str) -> bool:
    """Whether `import NAME` finds koct or what Python has here, and no file of a user's folder.

    Some names of the standard library are those of other systems.
    """
    places = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    places |= {os.path.join(place, "lib-dynload") for place in places}
    there = name in sys.stdlib_module_names and machinery.PathFinder.find_spec(name, sorted(places))
    return name == "koct" or name in sys.builtin_module_names or bool(there)
