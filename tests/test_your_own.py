"""The example of docs/your-own.md, run through Snakemake from a folder outside the package: koct is not edited."""

import shutil

import matplotlib.cbook
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from test_own_files import PROBLEM

pytest.importorskip("torch", reason="torch is not installed: the example's CNN needs it")

PLAIN = PROBLEM.replace("length", "size").replace("minimum=8", "minimum=1").replace("above=0)", "default=1.5, above=0)")


@pytest.fixture(scope="module")
def own(checkout, tmp_path_factory):
    """A run, and beside it a folder of the user's with a problem, a network, a photograph and a config."""
    run, folder = checkout(), tmp_path_factory.mktemp("mine")
    for path in (ROOT / "docs/your-own").glob("*.py"):
        shutil.copy(path, folder)
    shutil.copy(matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False), folder / "photo.jpg")
    overlay = yaml.safe_load((ROOT / "docs/your-own/config.yaml").read_text())
    sweep = overlay["sweeps"]["photo"]
    sweep |= {"problem": str(folder / "deconvolution.py"), "images": str(folder / "photo.jpg"), "H": 8}
    sweep |= {"archs": ["ko", "fc", str(folder / "cnn.py")], "cnn": {"channels": 4, "steps": 20}}
    sweep |= {"pool": {"train": 16, "val": 8, "test": 8}, "N": [4, 16], "seeds": [1]}
    (folder / "own.yaml").write_text(yaml.safe_dump(overlay))
    run.snakemake("--configfile", folder / "own.yaml")
    return run, folder


@pytest.mark.long
def test_the_grid_is_fitted_and_counted(own):
    run, _ = own
    cells = pd.read_parquet(run.path("results/cells.parquet"))
    assert len(cells) == 3 * 2
    assert set(cells["problem"]) == {"deconvolution"}
    assert set(cells["H"]) == {8}
    assert cells[["V", "B"]].isna().all(axis=None)
    p = cells.groupby("arch")["p"].first()
    convolutions = (9 + 1) * 4 + (9 * 4 + 1) * 4 + (9 * 4 + 1)
    assert p.to_dict() == {"ko": 64, "fc": 64 * 64, "cnn": convolutions}
    assert cells["mse"].between(1e-5, 0.1).all()
    for name in ("fig_recons_photo.png", "fig_sweeps.pdf", "table_calibration.tex"):
        assert run.path(f"results/{name}").stat().st_size > 500
    assert "CNN" in run.path("results/table_calibration.tex").read_text()


@pytest.mark.long
def test_what_runs_again(own):
    """Each edit is made to what the ones before it left; tables and figures do not count."""
    run, folder = own

    def planned(name, old, new):
        content = (folder / name).read_bytes()
        assert old in content
        (folder / name).write_bytes(content.replace(old, new, 1))
        jobs = run.plan("--configfile", folder / "own.yaml")
        assert jobs == {} or jobs["collect"] == 1
        return {rule: count for rule, count in jobs.items() if rule in ("pool", "fit", "theory", "chains")}

    assert planned("cnn.py", b'"""', b'"""Another docstring: ') == {}
    assert planned("deconvolution.py", b"    def pairs", b"    # a comment\n    def pairs") == {}
    assert planned("cnn.py", b"nn.ReLU()", b"nn.SiLU()") == {"fit": 2, "chains": 1}
    assert planned("photo.jpg", b"", b"\0")["pool"] == 2
    assert planned("photo.jpg", b"\0", b"") == {"fit": 2, "chains": 1}
    all_of_them = {"pool": 2, "fit": 6, "theory": 2, "chains": 1}
    assert planned("deconvolution.py", b"rng([seed, number])", b"rng([number, seed])") == all_of_them
