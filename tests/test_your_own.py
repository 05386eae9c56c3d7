"""The example of docs/your-own.md, run through Snakemake from a folder outside the package: koct is not edited."""

import shutil

import matplotlib.cbook
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from test_own_files import PROBLEM

from koct import cli

pytest.importorskip("torch", reason="torch is not installed: the example's CNN needs it")

PLAIN = PROBLEM.replace("length", "size").replace("minimum=8", "minimum=1").replace("above=0)", "default=1.5, above=0)")


class Own:
    """A checkout, and beside it a folder of the user's with a problem, a network, a photograph and a config."""

    def __init__(self, checkout, folder):
        self.checkout, self.folder = checkout, folder
        for name in ("deconvolution.py", "cnn.py"):
            shutil.copy(ROOT / "docs/your-own" / name, folder)
        photo = matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
        shutil.copy(photo, folder / "photo.jpg")
        overlay = yaml.safe_load((ROOT / "docs/your-own/config.yaml").read_text())
        overlay["sweeps"]["photo"] |= {"problem": str(folder / "deconvolution.py"), "images": str(folder / "photo.jpg")}
        overlay["sweeps"]["photo"] |= {
            "archs": ["ko", "fc", str(folder / "cnn.py")],
            "H": 8,
            "N": [4, 16],
            "seeds": [1],
        }
        overlay["sweeps"]["photo"] |= {"cnn": {"channels": 4, "steps": 20}, "pool": {"train": 16, "val": 8, "test": 8}}
        (folder / "own.yaml").write_text(yaml.safe_dump(overlay))
        checkout.snakemake("--configfile", folder / "own.yaml")

    def plan(self):
        """How many jobs that compute something a dry run would start, tables and figures aside."""
        jobs = self.checkout.plan("--configfile", self.folder / "own.yaml")
        assert jobs == {} or jobs["collect"] == 1
        return {rule: count for rule, count in jobs.items() if rule in ("pool", "fit", "theory", "chains")}


@pytest.fixture(scope="module")
def own(checkout, tmp_path_factory):
    return Own(checkout(), tmp_path_factory.mktemp("mine"))


def test_the_grid_is_fitted_and_counted(own):
    cells = pd.read_parquet(own.checkout.path("results/cells.parquet"))
    assert len(cells) == 3 * 2
    assert set(cells["problem"]) == {"deconvolution"}
    assert set(cells["H"]) == {8}
    assert cells[["V", "B"]].isna().all(axis=None)
    p = cells.groupby("arch")["p"].first()
    convolutions = (9 + 1) * 4 + (9 * 4 + 1) * 4 + (9 * 4 + 1)
    assert p.to_dict() == {"ko": 64, "fc": 64 * 64, "cnn": convolutions}
    assert cells["mse"].between(1e-5, 0.1).all()
    for name in ("fig_recons_photo.png", "fig_sweeps.pdf", "table_calibration.tex"):
        assert own.checkout.path(f"results/{name}").stat().st_size > 500
    assert "CNN" in own.checkout.path("results/table_calibration.tex").read_text()


def test_what_runs_again(own):
    """Each edit is made to what the ones before it left."""

    def planned(name, old, new):
        path = own.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))
        return own.plan()

    assert planned("cnn.py", '"""', '"""Another docstring: ') == {}
    assert planned("deconvolution.py", "    def pairs", "    # a comment\n    def pairs") == {}
    assert planned("cnn.py", "nn.ReLU()", "nn.SiLU()") == {"fit": 2, "chains": 1}
    all_of_them = {"pool": 2, "fit": 6, "theory": 2, "chains": 1}
    assert planned("deconvolution.py", "default_rng([seed, number])", "default_rng([number, seed])") == all_of_them
    assert planned("deconvolution.py", "default_rng([number, seed])", "default_rng([seed, number])")["fit"] == 2
    photo = own.folder / "photo.jpg"  # a file that the problem reads is an input
    photo.write_bytes(photo.read_bytes() + b"\0")
    assert own.plan()["pool"] == 2


@pytest.mark.slow
def test_a_study_of_init_runs(checkout):
    run = checkout()
    assert cli.main(["init", str(run.path("mine"))]) == 0
    run.snakemake("--directory", "mine")
    cells = pd.read_parquet(run.path("mine/results/cells.parquet"))
    assert set(cells["arch"]) == {"untrained", "ko", "fc", "network"}
    assert run.path("mine/results/fig_recons_pulses.pdf").stat().st_size > 1000
