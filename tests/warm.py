"""Snakemake without its start: a process that has imported it forks for each run, which saves more than a second.

All that happens in a run is as ever: its own process, its own folder, the koct of that folder.
"""

import atexit
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SNAKEMAKE = Path(sys.executable).with_name("snakemake")
# What a run imports, but for koct, which comes from the folder of the run.
MODULES = ("snakemake.cli", "snakemake.profiles", "snakemake.report", "snakemake.storage", "smart_open", "requests")
MODULES += ("snakemake.report.html_reporter", "yte", "numpy", "pandas", "pyarrow")


def snakemake(arguments, folder):
    """As subprocess.run(["snakemake", *arguments], cwd=folder, capture_output=True, text=True)."""
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        task = {"arguments": arguments, "folder": str(folder), "environment": dict(os.environ)}
        server = _server()
        server.stdin.write(json.dumps({**task, "out": out.name, "err": err.name}) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(["snakemake", *arguments], status, out.read(), err.read())


@functools.cache
def _server():
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)  # closes its input, and then it ends
    return server


def serve():
    sys.path[0] = str(SNAKEMAKE.parent)  # as for the command
    for name in MODULES:
        importlib.import_module(name)
    assert "koct" not in sys.modules
    for line in sys.stdin:
        if not (child := os.fork()):
            run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run(arguments, folder, environment, out, err):
    for number, path, how in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        os.dup2(os.open(path, how | os.O_CLOEXEC | (os.O_APPEND if number else 0)), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = sys.orig_argv = [str(SNAKEMAKE), *arguments]
    sys.exit(sys.modules["snakemake.cli"].main())


if __name__ == "__main__":
    serve()
