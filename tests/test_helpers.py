"""Helper processes of whole runs: started if there is something to do for them, and gone with the run."""

import signal
import subprocess

import psutil
import pytest
import yaml
from conftest import TINY
from test_workers import gone, waited_for

from koct.base import stamps
from tests.warm import SNAKEMAKE


@pytest.fixture
def run(checkout):
    run = checkout()
    run.path("config.yaml").write_text(yaml.safe_dump(TINY))
    return run


def contents(run):
    """Of all results; the crate has times."""
    files = [path for path in run.path("results").rglob("*") if path.suffix in {".npy", ".json", ".parquet", ".tex"}]
    stamped = [path for path in files if path.name != "ro-crate-metadata.json"]
    return {str(path.relative_to(run.folder)): stamps.check(path).content for path in stamped}


FEW = ["results/table_budget.tex", "results/fig_factors.pdf"]  # and what they are made from


def test_a_study_has_the_same_results_with_and_without(run):
    run.snakemake(*FEW)
    made = contents(run)
    assert len(made) > 20
    assert run.plan(*FEW, "--config", "workers=false") == {}
    run.snakemake("--forceall", *FEW, "--config", "workers=false")
    assert contents(run) == made
    done = run.snakemake("--config", "workers=often", check=False)
    assert "config: workers = 'often' must be true or false" in done.stderr


def test_a_run_that_is_killed_leaves_no_helpers(run, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(run.folder))
    for number in (signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen([SNAKEMAKE], cwd=run.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        (folder,) = waited_for(lambda: list(run.folder.glob("koct-*")))
        waited_for(lambda: (folder / "cpu.ready").exists())  # noqa: B023
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        process.wait()
        waited_for(lambda: gone(started) and not folder.exists())  # noqa: B023
        process.stdout.close()


def test_nothing_is_started_that_is_not_needed_and_nothing_depends_on_it(run, monkeypatch):
    run.path("koct/workers/server.py").write_text("import sys; open(sys.argv[1] + '/../started', 'w'); sys.exit(1)")
    mark, cell = run.path("started"), "results/cells/T4/ko/N4_seed1.json"
    monkeypatch.setenv("TMPDIR", str(run.folder))
    run.plan()
    run.snakemake("results/cells.parquet", "--config", "workers=false")
    run.path(cell).unlink()
    run.snakemake(cell)
    assert not mark.exists()
    assert not list(run.folder.glob("koct-*"))
    run.snakemake("--forceall", "results/cells.parquet")
    assert mark.exists()
    assert not list(run.folder.glob("koct-*"))
