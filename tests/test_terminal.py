"""What a run shows on the terminal: little, but every failure, and all that Snakemake says to those who ask for it."""

import io
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import CONFIG, TINY, TINY_SWEEP

from koct.config import study_file
from koct.plugins import snakemake_logger_plugin_koct as plugin
from koct.workflow import resources
from tests.faults.lab import OnTerminal

COUNT = re.compile(r"^\[ *\d+/\d+\] ", re.M)
ONE_JOB = ["--force", "results/table_fullscale.tex"]


@pytest.fixture(scope="module")
def finished(checkout):
    """A small study, and what running it printed."""
    sweep = {**TINY_SWEEP, "archs": ["ko", "fc"], "seeds": [1], "theory": False}
    run = checkout({**TINY, "sweeps": {"T4": sweep}})
    return run, run.snakemake()


def test_a_plain_run_prints_one_short_line_for_each_job_and_where_the_results_are(finished):
    run, done = finished
    lines = done.stderr.splitlines()
    counted = [line for line in lines if COUNT.match(line)]
    jobs = len(counted)
    assert done.stdout == ""
    assert [line.partition("]")[0] for line in counted] == [f"[{i:2}/{jobs}" for i in range(1, jobs + 1)]
    fits = {f"fit {arch} of T4, N = {N}, seed 1" for arch in ("ko", "fc") for N in (4, 8)}
    used = re.compile(r" \(\d+ MB, \d+\.\d s\)$")  # by the job, not what was asked for
    assert fits <= {used.sub("", line.partition("] ")[2]) for line in counted if used.search(line)}
    assert len(lines) <= jobs + 15
    assert max(map(len, lines)) <= 200
    assert COUNT.search(done.stderr).start() > done.stderr.index("Study tiny: 1 sweep, 4 cells")
    assert re.fullmatch(r"\[(\d+)/\1\] the study is complete: see results/", lines[-3])
    complete = Path(lines[-2].removeprefix("Complete log(s): ")).read_text()
    assert "Reason: Missing output files: results/pools/T4/seed1.npy" in complete
    assert not COUNT.search(complete)
    again = run.snakemake().stderr
    assert "Nothing to be done" in again
    assert len(again.splitlines()) <= 3


@pytest.mark.long
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
    total = re.search(r"^total +(\d+)$", told, re.M)[1]
    assert len(re.findall("^ *Reason: ", told, re.M)) == int(total)
    assert re.search(r"see results/\nReason: Input files updated by another job: (\S+, ){5}and \d+ more\n", told)
    assert max(map(len, told.splitlines())) < 600
    assert not COUNT.search(told)
    last = told.splitlines()[-1]
    assert re.fullmatch(rf"\d+ cells in {total} jobs, about \d+ (s|min) on \d+ cores?, about \d+ MB in results/", last)


def test_an_estimate_counts_the_files_of_a_study():
    """A pool has as many bytes as its pairs of float64; two cores take half the time of one."""
    sweeps = {sweep.name: sweep for sweep in study_file.read(CONFIG)}
    rule = SimpleNamespace(name="drawn", shellcmd="python -m koct pool --spec - --outputs {output}")
    pool = SimpleNamespace(rule=rule, wildcards=SimpleNamespace(sweep="H32", seed="1"))
    size = 6000 * 416 * (1280 + 1024) * 8 / 1e9
    one, two = (resources.in_words([pool] * 6000, sweeps, "cpu", cores) for cores in (1, 2))
    assert one.endswith(f"about {size:.1f} GB in results/")
    minutes = [float(re.search(r"about (\d+) min", told)[1]) for told in (one, two)]
    assert minutes[1] == pytest.approx(minutes[0] / 2, abs=1)


def test_a_terminal_shows_one_line_that_is_rewritten(finished):
    on_terminal = OnTerminal(finished[0].folder, *ONE_JOB)
    assert not on_terminal.watch(300)
    table = r"table results/table_fullscale\.tex"
    lines = rf"\r\[0/1\] {table}\x1b\[K\r\[1/1\] {table} \(\d+ MB, \d+\.\d s\)(; about 0 s left)?\x1b\[K\r\n"
    assert re.search(lines, on_terminal.end().output)


def test_the_time_left_is_that_of_jobs_of_the_same_rule(monkeypatch):
    """Ten fits of 4 s, two at a time, and a table of which nothing is known yet."""
    run = handler()
    run.began, run.left = 0.0, {"fit": 10, "table": 1}
    run.took = {"fit": [4.0] * 6, "pool": [16.0]}
    monkeypatch.setattr(plugin.time, "monotonic", lambda: 20.0)
    assert run.time_left() == f"about {(10 * 4 + 40 / 7) * 20 / 40:.0f} s left"
    monkeypatch.setattr(plugin.time, "monotonic", lambda: 5.0)
    assert run.time_left() == ""


def handler(dryrun=False):
    """The logger of koct, which prints into a text."""
    flags = dict.fromkeys(["quiet", "verbose", "printshellcmds", "debug_dag", "stdout", "nocolor"])
    made = plugin.LogHandler(SimpleNamespace(**flags, dryrun=dryrun), None)
    made.printer.setStream(io.StringIO())
    made.setFormatter(logging.Formatter())
    return made


@pytest.mark.parametrize("dryrun", [False, True])
def test_a_record_unlike_those_we_know_is_printed_as_it_is(dryrun):
    printed = handler(dryrun)
    logger = logging.Logger("snakemake")
    logger.addHandler(printed)
    for event in ("JOB_INFO", "JOB_ERROR", "PROGRESS", "NEW"):
        logger.error(f"a new {event}", extra={"event": SimpleNamespace(name=event)})
    logger.warning("a warning")
    told = printed.printer.stream.getvalue()
    assert told == "a new JOB_INFO\na new JOB_ERROR\na new PROGRESS\na new NEW\na warning\n"
