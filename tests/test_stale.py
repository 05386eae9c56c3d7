"""Which results are used and which are made again, by their stamps."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest
import yaml
from conftest import TINY

from koct.base.files import write_json, write_text
from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.workflow import stale

SPEC = {"N": 4, "seed": 1, "code": "abc", "lambdas": [1.0], "problem": {"options": {"V": 10}}}


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The stale outputs of a job that makes results/row.json from results/pool.tex: call it with the spec asked for."""
    monkeypatch.chdir(tmp_path)
    write_text("results/pool.tex", "pairs\n", Stamp({"seed": 1}))
    write_json("results/row.json", {"mse": 0.5}, Stamp(SPEC, made_from("results/pool.tex")))
    lines = []
    logger = SimpleNamespace(info=lines.append)

    def of(spec=SPEC, output=("results/row.json",), **others):
        params = {"spec": json.dumps(spec)} if spec else {}
        job = SimpleNamespace(params=params, output=list(output), input=["results/pool.tex", "mine/photo.npy"])
        return stale.Stale(logger).outputs(job)

    of.lines = lines
    return of


def test_a_result_that_is_what_is_asked_for_is_used(found):
    assert found() == []
    assert found(spec=None) == []  # a rule without a spec is Snakemake's own matter
    assert found(output=["results/none.json"]) == []
    assert found.lines == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"problem": {"options": {"V": 12}}}, "V changed"),
        ({"lambdas": [2.0], "code": "other"}, "lambdas changed and its code has changed"),
        ({"N": 8, "code": "other"}, "it is another cell's"),
    ],
)
def test_a_result_of_another_spec_is_made_again(found, change, reason):
    assert found({**SPEC, **change}) == ["results/row.json"]
    assert found.lines == [f"results/row.json is made again: {reason}."]


def test_a_result_of_other_inputs_is_made_again(found):
    write_text("results/pool.tex", "other pairs\n", Stamp({"seed": 1}))
    assert found() == ["results/row.json"]
    assert found.lines == ["results/row.json is made again: it was made from other inputs."]
    os.remove("results/pool.tex")  # of what is not there nobody knows that it is another
    assert found() == []


def test_a_file_that_is_no_result_is_made_again(found):
    with open("results/row.json", "rb") as file:
        changed = file.read().replace(b"0.5", b"0.6")
    for content, reason in ((b"", "it is damaged"), (b"{}", "it is not of this version of koct"), (changed, "damaged")):
        found.lines.clear()
        with open("results/row.json", "wb") as file:
            file.write(content)
        assert found() == ["results/row.json"]
        assert reason in found.lines[0]


def test_what_is_no_file_is_left_to_its_owner(found):
    os.remove("results/row.json")
    os.mkdir("results/row.json")
    with pytest.raises(KoctError, match=r"results/row.json is a folder, .*`rm -r results/row.json && snakemake`"):
        found()
    os.rmdir("results/row.json")
    os.symlink("/nowhere", "results/row.json")
    with pytest.raises(KoctError, match="is a link that leads nowhere"):
        found()
    for path in ("results/row.json", "results/pool.tex"):
        os.remove(path)
        os.mkfifo(path)
    with pytest.raises(KoctError, match="is a pipe or a device"):  # and nobody waits for its other end
        found()
    os.remove("results/row.json")
    assert found() == []


TABLE = "results/cells.parquet"
CELL = "results/cells/T4/ko/N4_seed1.json"


@pytest.fixture(scope="module")
def tiny(checkout):
    run = checkout()
    run.path("config.yaml").write_text(yaml.safe_dump(TINY))
    run.snakemake(TABLE)
    return run


def test_times_and_notes_decide_nothing(tiny):
    """Results are used where .snakemake is lost and every file is older than what it was made from."""
    for age, path in enumerate(sorted(tiny.path("results").rglob("*.*"))):
        os.utime(path, (10**9 - age, 10**9 - age))
    os.utime(tiny.path("results/known/T4.npy"))
    shutil.rmtree(tiny.path(".snakemake"))
    assert "Nothing to be done" in tiny.snakemake(TABLE).stderr


def test_what_the_targets_do_not_need_is_left_alone(tiny):
    """A result of another cell is made again, with what depends on it, where somebody asks for it."""
    tiny.path(CELL).write_bytes(tiny.path(CELL.replace("seed1", "seed2")).read_bytes())
    assert tiny.plan("results/pools/T4/seed1.npy", CELL.replace("N4", "N8")) == {}
    assert tiny.plan(TABLE) == {"fit": 1, "collect": 1}
    tiny.snakemake(CELL)
    assert json.loads(tiny.path(CELL).read_bytes())["seed"] == 1
    assert tiny.plan(TABLE) == {}  # the numbers are what they were
    tiny.path(TABLE).unlink()
    tiny.path(TABLE).mkdir()
    done = tiny.snakemake(TABLE, check=False)
    assert done.returncode == 1
    assert f"`rm -r {TABLE} && snakemake`" in done.stderr
    assert "Traceback" not in done.stderr
