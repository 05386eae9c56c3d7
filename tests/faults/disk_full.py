"""Results on a disk that is full at different moments; with more space, one plain `snakemake` finishes.

The disk is a tmpfs, mounted where only one process and its children see it. Where nobody may mount, a limit on the
length of files takes its place.
"""

import errno
import functools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

from tests.conftest import ROOT
from tests.faults.lab import Study, artefacts, case, last_lines, problems, said, tracebacks

NAME = "disk-full"
TIMES = 12
SHORT = (6,)
PAGE = 4096
ROOM = "64m"  # of the disk that has become larger
OWN_LOG = 2**15  # bytes that Snakemake writes into a log of its own


def cause(lab, number):
    """One of `TIMES` sizes: each leaves more space than the one before, and none is enough."""
    share = (number % TIMES + 1) / (TIMES + 1)
    study = lab.copy(NAME, number)
    expected = lab.finished.results
    if namespace():
        needed = sum(-(-path.stat().st_size // PAGE) * PAGE for path in study.path("results").rglob("*.*"))
        size = int(share * needed / PAGE) * PAGE
        title, found = "a disk of too few bytes", on_disk(study, size, expected)
    else:
        longest = max(path.stat().st_size for path in artefacts(study.folder))
        size = OWN_LOG + int(share * (longest - OWN_LOG))
        title, found = "a limit on the length of files", with_limit(study, size, expected)
    return case(title, found, "named, then right", f"{size} bytes")


@functools.cache
def namespace():
    """The command that gives a process mounts of its own; nothing where that is not allowed."""
    with tempfile.TemporaryDirectory() as folder:
        for command in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
            trial = [*command, "mount", "-t", "tmpfs", "-o", "size=64k", "none", folder]
            if shutil.which("unshare") and subprocess.run(trial, capture_output=True).returncode == 0:
                return command
    return []


def on_disk(study, size, expected):
    """What is wrong with a run on a disk of so many bytes, and with the next one on a larger disk."""
    task = json.dumps({"folder": str(study.folder), "size": size, "expected": expected})
    command = [*namespace(), sys.executable, "-m", "tests.faults.disk_full"]
    done = subprocess.run(command, cwd=ROOT, input=task, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the trial itself failed:\n{done.stderr}")
    return json.loads(done.stdout)


def inside(folder, size, expected):
    """The same, in the process that sees the disk."""
    study = Study.at(folder)
    disk = study.path("results")
    shutil.rmtree(disk)
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], check=True)
    found = problems_when_full(study, study.run(), errno.ENOSPC)
    subprocess.run(["mount", "-o", f"remount,size={ROOM}", disk], check=True)
    return found + problems(study, expected, study.run())


def with_limit(study, size, expected):
    """The same, where no file may be longer than so many bytes."""
    shutil.rmtree(study.path("results"))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    found = problems_when_full(study, study.run(preexec_fn=limit), errno.EFBIG)
    return found + problems(study, expected, study.run())


def problems_when_full(study, run, number):
    """A run that has no space names a file and says so, in one line."""
    reason = os.strerror(number)
    if run.status == 0:
        return ["not full: the run needs less space"]
    found = []
    if not any(re.search(rf"results/\S+.*{reason}", line) for line in run.output.splitlines()):
        found.append(f"not named: no line names a file and says '{reason}':\n{last_lines(run)}")
    if traced := tracebacks(study, run):
        found.append(f"traceback when full: {', '.join(traced)}:\n{last_lines(run)}")
    if none := [name for name, text in said(study, run).items() if re.search(r"\bNone\b", text)]:
        found.append(f"None when full: {', '.join(none)}:\n{last_lines(run)}")
    return found


if __name__ == "__main__":
    print(json.dumps(inside(**json.load(sys.stdin))))
