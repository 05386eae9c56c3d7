"""Rows enter a table only if each is the row of the cell that was asked for."""

import contextlib
import itertools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import conftest
import numpy as np
import pytest
from conftest import TINY, TINY_SWEEP

from koct import cli
from koct.base.files import read_json, write_json
from koct.errors import KoctError
from koct.study import aggregation, paths, results
from koct.workflow.jobs import Jobs

ROW = "results/cells/T4/ko/N4_seed1.json"
CELLS = [*itertools.product(("ko", "fc"), (4, 8), (1, 2)), ("untrained", 0, 1), ("untrained", 0, 2)]
OTHER = "results/cells/T4/ko/N8_seed1.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The rows of a study, from the jobs that the workflow would start."""
    folder, jobs = tmp_path_factory.mktemp("made"), Jobs(TINY)
    with contextlib.chdir(folder):
        one = SimpleNamespace(sweep="T4")
        job("known", jobs.problem_spec("known")(one), "--outputs", paths.shared("T4"))
        for seed in (1, 2):
            job("pool", jobs.pool_spec(SimpleNamespace(sweep="T4", seed=seed)), "--outputs", paths.pool("T4", seed))
        for arch, N, seed in CELLS:
            cell = SimpleNamespace(sweep="T4", arch=arch, N=N, seed=seed)
            inputs = [paths.pool("T4", seed), *(path.format(**vars(cell)) for path in jobs.extra_input(cell))]
            outputs = paths.cell(**vars(cell)), paths.fit(**vars(cell))
            job("fit", jobs.row_spec(cell), "--inputs", *inputs, "--outputs", *outputs)
    return folder


def job(verb, spec, *arguments):
    for path in (path for path in arguments if path.startswith("results/")):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    assert not cli.main([verb, "--spec", spec, *arguments])


@pytest.fixture
def collect(made, monkeypatch, tmp_path):
    """Collect the rows of a copy for a study."""
    shutil.copytree(made / "results/cells", tmp_path / "results/cells")
    monkeypatch.chdir(tmp_path)

    def run(config=TINY):
        aggregation.collect(json.loads(Jobs(config).study_spec()), "cells.parquet", "images.parquet")
        return results.read("cells.parquet")[0]

    return run


def test_rows_as_they_were_made_are_collected(collect):
    rows = collect()
    assert {(row["arch"], row["N"], row["seed"]) for row in rows} == set(CELLS)
    tested = results.Images("images.parquet")
    for row in rows:
        assert row.items() <= read_json(paths.cell("T4", row["arch"], row["N"], row["seed"]))[0].items()
        errors = tested.errors("T4", row["arch"], row["N"], "mse")  # each seed of the surrogate has images of its own
        assert errors.values[errors.seeds.index(row["seed"]), 0] == pytest.approx(row["mse"], rel=1e-6)


def test_a_fit_refuses_a_pool_that_was_drawn_for_another_study(made, monkeypatch, capsys):
    """As it is where two folders share their results, or parts of these, by a link."""
    monkeypatch.chdir(made)
    cell, other = SimpleNamespace(sweep="T4", arch="fc", N=4, seed=1), {**TINY_SWEEP["pool"], "val": 3}
    spec = Jobs({**TINY, "sweeps": {"T4": {**TINY_SWEEP, "pool": other}}}).row_spec(cell)
    assert cli.main(["fit", "--spec", spec, "--inputs", paths.pool("T4", 1), "--outputs", "row.json", "fit.npy"]) == 2
    assert f"{paths.pool('T4', 1)} was drawn for another study" in capsys.readouterr().err


def resealed(**changes):
    """Change a row and stamp it again, as a program would that means well."""
    row, stamp = read_json(ROW)
    write_json(ROW, {**row, **changes}, stamp)


def edit(old, new):
    text = Path(ROW).read_text()
    assert old in text
    Path(ROW).write_text(text.replace(old, new, 1))


WRONG = {
    "edited by hand": (lambda: edit('"mse": 0', '"mse": 1'), "is damaged: its checksum is wrong"),
    "another cell's": (lambda: shutil.copy(OTHER, ROW), r"is the row of another cell \(N differ\)"),
    "NaN": (lambda: resealed(mse=float("nan")), "has mse = nan, which is no error"),
    "negative": (lambda: resealed(rrmse_peak=-1), "has rrmse_peak = -1, which is no error"),
    "no score": (lambda: resealed(psnr=float("inf")), "has psnr = inf, which is no score"),
    "text": (lambda: resealed(mse="0.5"), "has mse = 0.5, which is no error"),
    "missing": (lambda: shutil.move(ROW, "elsewhere"), f" is missing; `snakemake {ROW}` makes it"),
    "empty": (lambda: Path(ROW).write_text(""), "has no stamp"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_row_is_named_and_the_tables_stay(collect, tmp_path, change, message):
    collect()
    before = (tmp_path / "cells.parquet").read_bytes()
    change()
    with pytest.raises(KoctError, match=f"^{ROW}.*{message}"):
        collect()
    assert (tmp_path / "cells.parquet").read_bytes() == before


@pytest.mark.parametrize("change", [{"lambdas": [1e-3, 1.0]}, {"V": 6}], ids=str)
def test_rows_of_another_config_are_refused(collect, change):
    message = r"^results/cells/T4/\S+_seed1.json was made with other options or other code than those of this study"
    with pytest.raises(KoctError, match=message):
        collect({**TINY, "sweeps": {"T4": {**TINY_SWEEP, **change}}})


@pytest.mark.long
def test_a_failing_collect_keeps_the_tables_of_the_workflow(tmp_path_factory):
    """Snakemake deletes what a job is about to write; these files are kept until there are new ones."""
    finished = conftest.finished(tmp_path_factory, "tiny", TINY)
    before = {name: finished.path(f"results/{name}").read_bytes() for name in ("cells.parquet", "table_scaling.tex")}
    module = finished.path("koct/study/aggregation.py")
    text = module.read_text()
    module.write_text(text.replace("    rows, contents = [], []\n", '    raise KoctError("not today")\n'))
    done = finished.snakemake("results/table_scaling.tex", check=False)
    assert done.returncode == 1
    assert "koct: error: not today" in done.stderr
    assert {name: finished.path(f"results/{name}").read_bytes() for name in before} == before
    module.write_text(text)
    finished.snakemake("results/table_scaling.tex")
    assert finished.path("results/table_scaling.tex").read_bytes() == before["table_scaling.tex"]


def test_a_row_from_elsewhere_may_lack_a_metric_and_one_of_here_may_not(collect):
    row, stamp = read_json(ROW)
    row["images"].pop("rrmse_norm"), row.pop("rrmse_norm")
    write_json(ROW, row, stamp)
    with pytest.raises(KoctError, match=f"^{ROW} lacks rrmse_norm"):
        collect()
    place = Path(paths.brought("T4", "ko", 4, 1))
    place.parent.mkdir(parents=True)
    shutil.move(ROW, place)
    (found,) = (row for row in collect() if (row["arch"], row["N"], row["seed"]) == ("ko", 4, 1))
    assert found["rrmse_norm"] is None
    assert found["mse"] == row["mse"]
    images = results.Images("images.parquet").columns
    of_cell = (images["arch"] == "ko") & (images["N"] == 4) & (images["seed"] == 1)
    assert np.isnan(images["rrmse_norm"][of_cell]).all()
    assert np.isfinite(images["mse"][of_cell]).all()
