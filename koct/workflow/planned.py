"""A job runs the code, and reads the data, that were planned: compared when it starts, and again before it writes."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from koct.base.imports import modules_in
from koct.errors import KoctError

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATE = "KOCT_SOURCES"  # variable of the environment: the state of all source files when the run was planned
DATA = (".json", ".csv", ".npz", ".html", ".css", ".js", ".md", ".tex")  # endings of data files beside modules
CHECKED = b"\3\0\0\0"  # flags of a compiled file with the hash of its source, which Python is to check: PEP 552
CHANGED = "the code has changed since this run was planned; run snakemake again"
OWN = "KOCT_OWN_SOURCES"  # and the users' files among them, as JSON
READERS = "KOCT_READERS"  # the problems that read files, as JSON, by a digest of `files` in their specs


def environment(own: Iterable[str]) -> dict[str, str]:
    """Return the variables that say to jobs what was planned; `own` are the source files of users."""
    paths = json.dumps(sorted(map(os.path.realpath, own)))
    return {OWN: paths, STATE: _summed(_files(paths))}


def unchanged() -> bool:
    """Return whether all source files are as they were when this run was planned."""
    return _summed(_files(os.environ.get(OWN) or "[]")) == os.environ.get(STATE)


def compile_checked(variables: Mapping[str, str]) -> None:
    """Compile modules of the package and of users so that Python compares the result with their source by content.

    `variables` is what `environment` returned. Python by itself compares size and whole seconds, and misses an edit
    that was undone at once.
    """
    for path in (path for path in (*_package(), *json.loads(variables[OWN])) if path.endswith(".py")):
        compiled = cache_from_source(path)
        with contextlib.suppress(OSError):
            checked = os.path.exists(compiled) and Path(compiled).read_bytes()[4:8] == CHECKED
            if not checked:
                import py_compile

                py_compile.compile(path, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


class Guard:
    """Call it when a job starts, and again before it writes: are its code and its data what its spec says?

    Hashes of syntax trees are compared only if a file was touched: a look at sizes and times takes a millisecond. A
    file that changed while the job ran may have been loaded as it was in between: the planned code is not enough then.
    Nor are the planned data.
    """

    def __init__(self, stage: str, spec: Mapping[str, Any]):
        self.stage, self.spec = stage, spec
        self.planned = os.environ.get(STATE)
        self.files: dict[str, str] | None = None  # as they were when the job started
        self.data: dict[str, Any] | None = None  # likewise; what problems read

    def __call__(self) -> None:
        self._check_data()
        if self.planned is None or "code" not in self.spec:
            return
        files, before = _files(os.environ.get(OWN) or "[]"), self.files
        self.files = files if before is None else before
        if files == before or (before is None and _summed(files) == self.planned):
            return
        from koct.workflow import sources

        if before is None:
            if any(self.spec[key] != value for key, value in sources.code_of(self.stage, self.spec).items()):
                raise KoctError(CHANGED)
            return
        changed = {path for path, _ in files.items() ^ before.items()}
        if used := sorted(changed & sources.files_of(self.stage, self.spec)):
            raise KoctError(f"{os.path.relpath(used[0])} was changed while this job ran; run snakemake again")

    def _check_data(self) -> None:
        """Raise a KoctError if a file that a problem reads has changed; a crate only repeats the digests of others."""
        sweeps = self.spec["sweeps"] if self.stage in ("collect", "collect-theory") else ()
        asked = [spec["files"] for spec in (self.spec, *sweeps) if "files" in spec and self.stage != "crate"]
        if not asked:
            return
        from koct.workflow import sources

        listed = [self._listed(files) for files in asked]  # again: there may be more of them
        states = sources.states(path for paths in listed for path in paths)
        if self.data is None:
            self.data = states  # before their contents are read
            for files, paths in zip(asked, listed, strict=True):
                self._compare(sources.summed(sources.contents(paths)), files, "after this run was planned")
        self._compare(states, self.data, "while this job ran")

    @staticmethod
    def _listed(files: Mapping[str, str]) -> list[str]:
        """Return the files that a problem reads now; without a run that says who reads them, those of the plan."""
        from koct.base.stamps import checksum_of
        from koct.contracts.spec import decode_problem

        reader = json.loads(os.environ.get(READERS) or "{}").get(checksum_of(files))
        return list(decode_problem(reader).files() if reader else filter(os.path.exists, files))

    @staticmethod
    def _compare(now: Mapping[str, Any], before: Mapping[str, Any], when: str) -> None:
        for path in sorted({*now, *before}):
            if now.get(path) != before.get(path):
                raise KoctError(f"{path} was changed {when}; run snakemake again")


def _files(own: str) -> dict[str, str]:
    """Return the size and the times of every source file; the time of its last change cannot be set back.

    Of other files that Python could import from the folders of users' files instead, only that they are there.
    """
    paths = json.loads(own)
    states = dict.fromkeys(_beside(paths), "")
    for path in [*_package(), *paths]:
        with contextlib.suppress(OSError):
            about = os.stat(path)
            states[path] = f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"
    return states


def _beside(paths: Iterable[str]) -> Iterator[str]:
    for folder in set(map(os.path.dirname, paths)):
        with contextlib.suppress(OSError):
            yield from map(str, modules_in(Path(folder)))


def _summed(files: Mapping[str, str]) -> str:
    return f"{zlib.crc32(repr(sorted(files.items())).encode()):08x}"


def _package() -> Iterator[str]:
    for place, folders, names in os.walk(PACKAGE):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(place, name) for name in names if name.endswith((".py", *DATA)))
