"""What a run shows on the terminal: little, but every failure, and all that Snakemake says to those who ask for it."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import TINY, TINY_SWEEP

COUNT = re.compile(r"^\[ *\d+/\d+\] ", re.M)
ONE_JOB = ["--force", "results/table_fullscale.tex"]


@pytest.fixture(scope="module")
def finished(checkout):
    """A small study, and what running it printed."""
    run = checkout()
    config = {**TINY, "sweeps": {"T4": {**TINY_SWEEP, "archs": ["ko", "fc"], "seeds": [1], "theory": False}}}
    run.path("config.yaml").write_text(yaml.safe_dump(config))
    return run, run.snakemake()


def test_a_plain_run_prints_one_short_line_for_each_job_and_where_the_results_are(finished):
    run, done = finished
    lines = done.stderr.splitlines()
    counted = [line for line in lines if COUNT.match(line)]
    jobs = len(counted)
    assert done.stdout == ""
    assert [line.partition("]")[0] for line in counted] == [f"[{i:2}/{jobs}" for i in range(1, jobs + 1)]
    fits = {f"fit {arch} of T4, N = {N}, seed 1" for arch in ("ko", "fc") for N in (4, 8)}
    assert fits <= {line.partition("] ")[2] for line in counted}
    assert len(lines) <= jobs + 15
    assert max(map(len, lines)) <= 200
    assert COUNT.search(done.stderr).start() > done.stderr.index("Study tiny: 1 sweep, 4 cells")
    result, log, time = lines[-3:]
    assert re.fullmatch(r"\[(\d+)/\1\] the study is complete: see results/", result)
    assert time.startswith("Elapsed time: ")
    complete = Path(log.removeprefix("Complete log(s): ")).read_text()
    for part in ("SNAKEMAKE", "Job stats:", "Select jobs", "Reason: Missing output files: results/pools/T4/seed1.npy"):
        assert part in complete
    assert not COUNT.search(complete)
    again = run.snakemake().stderr
    assert "Nothing to be done" in again
    assert len(again.splitlines()) <= 3


def test_who_says_how_much_to_print_gets_what_snakemake_prints(finished):
    run, _ = finished
    for flag in ("--quiet=host", "--printshellcmds"):
        told = run.snakemake(flag, *ONE_JOB).stderr
        assert "Building DAG of jobs..." in told
        assert "Finished jobid: 0 (Rule: table_fullscale)" in told
        assert not COUNT.search(told)
    assert len(run.snakemake("--quiet", "all", "--", *ONE_JOB[1:]).stderr.splitlines()) == 1  # of the profile


def test_a_dry_run_is_snakemakes_own_without_endless_lists(checkout):
    told = checkout().snakemake("--dry-run").stdout
    assert told.count("Job stats:\n") == 2
    assert len(re.findall("^ *Reason: ", told, re.M)) == int(re.search(r"^total +(\d+)$", told, re.M)[1])
    assert "\nReason: Missing output files: results/pools/H8/seed1.npy\n" in told
    assert "\nReasons:\n" in told
    assert re.search(r"see results/\nReason: Input files updated by another job: (\S+, ){5}and \d+ more\n", told)
    assert max(map(len, told.splitlines())) < 600
    assert not COUNT.search(told)


def test_a_terminal_shows_one_line_that_is_rewritten(finished):
    run, _ = finished
    ours, theirs = pty.openpty()
    command = [Path(sys.executable).with_name("snakemake"), *ONE_JOB]
    process = subprocess.Popen(command, cwd=run.folder, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    told = b""
    try:
        while part := os.read(ours, 4096):
            told += part
    except OSError:  # Linux ends a terminal so
        pass
    os.close(ours)
    assert process.wait() == 0
    line = "\r[{}/1] table results/table_fullscale.tex\033[K"
    assert line.format(0) + line.format(1) + "\r\n" in told.decode()
