"""Rows from elsewhere stand in for fits that would be made from the same, and for no others."""

import json
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from conftest import ROOT
from test_sources import forget

from koct.base.files import read_json, write_json
from koct.base.stamps import Stamp
from koct.commands.stages import VERBS
from koct.networks.fc import FC
from koct.study import brought, paths
from koct.workflow.jobs import Jobs

POOL = {"train": 4, "val": 2, "test": 2}
OWN = """
import numpy as np
from koct.contracts import Problem
FACTOR = 1

class Own(Problem):
    x_shape, y_shape = (3,), (2,)

    def pairs(self, seed, sizes):
        rng = np.random.default_rng(seed)
        for part, count in (("train", sizes.train), ("val", sizes.val), ("test", sizes.test)):
            yield part, FACTOR * rng.standard_normal((count, 3)), rng.standard_normal((count, 2))
"""
METRIC = """
SYMBOL, UNIT, DESCRIPTION = "E", "", "the largest error"

def error(predicted, y):
    return float(abs(predicted - y).max()) * 1
"""


AFTER = """
from koct.networks.fc import FC

class After(FC):
    uses_lambdas, requires_cell = False, "fc"
"""
STARTED = """
from koct.networks.unet import ResidualUNet

class Started(ResidualUNet):
    uses_lambdas = True
"""


def write_data(seed):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(8), 2)
    np.savez("data.npz", x=rng.standard_normal((16, 3)), y=rng.standard_normal((16, 2)), group=group)


def config(problem, **changes):
    sweep = {"problem": problem, "archs": ["fc"], "seeds": [1, 2], "theory": False, "lambdas": [1.0], "metric": "mse"}
    sweep |= {"data": "data.npz", "x": "x", "y": "y", "group": "group"} if problem == "pairs" else {}
    study = {"study": "s", "studies": {"s": ["own"]}, "device": "cpu", "metrics": ["largest.py"]}
    return {**study, "sweeps": {"own": {**sweep, "N": [2, 3], "pool": POOL, **changes}}}


@pytest.fixture(params=["pairs", "problem.py"])
def study(folder, request, monkeypatch):
    """The config of a study whose rows are in results/brought; in half of the cases, N counts groups."""
    monkeypatch.setenv("KOCT_METRICS", "")
    forget()
    write_data(0)
    for name, text in {"problem.py": OWN, "largest.py": METRIC}.items():
        Path(name).write_text(text)
    jobs = Jobs(config(request.param))
    for name, value in jobs.environment().items():
        monkeypatch.setenv(name, value)
    for cell in jobs.study[0].grid():
        of, pool = SimpleNamespace(**cell), paths.pool("own", cell["seed"])
        VERBS["pool"][0](json.loads(jobs.pool_spec(of)), [], [pool])
        VERBS["fit"][0](json.loads(jobs.row_spec(of)), [pool], [paths.brought(**cell), paths.fit(**cell)])
    return request.param


def refused(study):
    """(rows that are taken, {reason: rows that are not})."""
    forget()
    jobs = Jobs(study)
    return len(jobs.brought), dict(jobs.refused)


def test_rows_of_the_same_study_are_taken_and_others_refused(study, monkeypatch):
    assert refused(config(study)) == (4, {})
    for pool in ({"train": 3}, {"val": 1}):
        assert refused(config(study, pool={**POOL, **pool})) == (0, {"other pairs": 4})
    assert refused(config(study, lambdas=[2.0])) == (0, {"other options": 4})
    with monkeypatch.context() as patch:
        patch.setattr(FC, "numbers", 2)
        assert refused(config(study)) == (0, {"a koct with other numbers": 4})
    Path("largest.py").write_text(METRIC.replace("* 1", "* 2"))
    assert refused(config(study)) == (0, {"another metric largest": 4})
    assert refused({**config(study), "metrics": []}) == (4, {})
    Path("largest.py").write_text(METRIC)
    if study == "pairs":
        write_data(1)
        assert refused(config(study)) == (0, {"other pairs": 4})
    else:
        Path("problem.py").write_text(OWN.replace("FACTOR = 1", "FACTOR = 2"))
        assert refused(config(study)) == (0, {"other code of yours": 4})


def test_a_row_without_the_metric_of_the_curves_is_refused(study):
    path = Path(paths.brought("own", "fc", 2, 1))
    row, stamp = read_json(path)
    del row["images"]["largest"]
    write_json(path, row, stamp)
    assert refused(config(study)) == (4, {})
    assert refused(config(study, metric="largest")) == (3, {"no metric largest": 1})


@pytest.mark.parametrize(
    ("text", "options"), [(AFTER, {}), (STARTED, {"starts_from": "first", "steps": 9})], ids=["required", "started"]
)
def test_the_strengths_of_the_fit_that_a_fit_reads_count(folder, text, options):
    Path("net.py").write_text(text)
    geometry = {"problem": "deblur", "H": 8, "blur": 0.5, "N": [2, 3], "seeds": [1], "pool": POOL, "theory": False}
    made = []
    for strength in (0.1, 10.0):
        first = {**geometry, "archs": ["fc", "net.py"], "lambdas": [strength], "metric": "mse"}
        sweeps = {"first": first} | ({"last": {**first, "lambdas": [1.0], "net": options}} if options else {})
        jobs = Jobs({"study": "s", "studies": {"s": list(sweeps)}, "device": "cpu", "sweeps": sweeps})
        spec = json.loads(jobs.fit_spec(SimpleNamespace(sweep=list(sweeps)[-1], arch="net", N="2", seed="1")))
        made.append(spec["origin"])
    assert made[0] != made[1]


def test_a_row_that_is_none_is_fitted(study):
    first, second, third, fourth = (Path(paths.brought("own", "fc", N, seed)) for seed in (1, 2) for N in (2, 3))
    row, stamp = read_json(first)
    write_json(first, {key: value for key, value in row.items() if key != "images"}, stamp)
    write_json(second, read_json(second)[0], Stamp({}))
    third.write_text("{}")
    shutil.copy(first, fourth)
    assert refused(config(study)) == (0, {"another format": 3, "another cell": 1})


def test_the_rows_of_the_benchmark_are_taken(folder, monkeypatch):
    """They were made before rows told their origin, by code that gives the same numbers."""
    with tarfile.open(ROOT / "results/reference/benchmark/rows.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall("results")
    settings = {**yaml.safe_load((ROOT / "config.yaml").read_text()), "study": "benchmark"}
    jobs = Jobs(settings)
    rows = {str(path) for path in Path("results/brought").rglob("*.json")}
    known = {row for row in rows if "/unet/" not in row}  # it sees more today
    assert set(jobs.cells) & rows == known
    assert jobs.refused == {"other options": len(rows) - len(known)}
    sweep = jobs.study[0]
    pool = settings["sweeps"][sweep.name]["pool"] = {"train": sweep.pool.train + 1, "val": sweep.pool.val}
    pool["test"] = sweep.pool.test
    assert set(Jobs(settings).refused) == {"unknown origin", "other options"}
    monkeypatch.setattr(brought, "NUMBERS", 2)
    assert not Jobs(settings).brought
