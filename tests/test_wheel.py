"""What `make dist` builds: a wheel that has the workflow, and needs no clone."""

import os
import subprocess
import sys
import sysconfig

import pandas as pd
import pytest
from conftest import ROOT

pytestmark = pytest.mark.slow  # builds a wheel, and runs the study of `koct init`


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel in an environment that sees what koct depends on, but no koct of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KOCT"))}

    def run(program, *arguments, cwd=folder):
        command = [folder / "venv/bin" / program, *arguments]
        return subprocess.run(command, cwd=cwd, env=variables, check=True, capture_output=True, text=True).stdout

    place = run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    with open(os.path.join(place, "others.pth"), "w") as others:  # .pth files in that folder, of a clone, are not read
        others.write(sysconfig.get_path("purelib"))
    wheel = next(folder.glob("koct-*.whl"))
    subprocess.run([*pip, "--python", folder / "venv/bin/python", "install", "--no-deps", wheel], check=True)
    assert str(folder) in run("python", "-c", "import koct; print(koct.__file__)")
    return run


def test_a_study_of_init_runs_without_a_clone(installed, tmp_path):
    installed("koct", "init", "mine", cwd=tmp_path)
    installed("python", "-m", "snakemake", cwd=tmp_path / "mine")
    cells = pd.read_parquet(tmp_path / "mine/results/cells.parquet")
    assert set(cells["arch"]) == {"untrained", "ko", "fc", "network"}
    assert (tmp_path / "mine/results/fig_recons_pulses.pdf").stat().st_size > 1000


def test_the_studies_of_the_paper_are_planned_without_a_clone(installed, tmp_path):
    installed("koct", "init", "--paper", "paper", cwd=tmp_path)
    installed("python", "-m", "snakemake", "-n", "--config", "study=paper", cwd=tmp_path / "paper")
