"""Which results are used and which are made again, by their stamps."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import TINY

from koct.base.files import write_json, write_text
from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.workflow import stale

SPEC = {"N": 4, "seed": 1, "code": "abc", "lambdas": [1.0], "problem": {"options": {"V": 10}}}
ROW, POOL = Path("results/row.json"), Path("results/pool.tex")


@pytest.fixture
def found(folder):
    """The stale outputs of a job that makes ROW from POOL, and what is said of them; it has the spec asked for."""
    write_text(POOL, "pairs\n", Stamp({"seed": 1}))
    write_json(ROW, {"mse": 0.5}, Stamp(SPEC, made_from(str(POOL))))

    def of(spec=SPEC, output=ROW):
        lines, params = [], {"spec": json.dumps(spec)} if spec else {}
        job = SimpleNamespace(params=params, output=[str(output)], input=[str(POOL), "mine/photo.npy"])
        outputs = stale.Stale(SimpleNamespace(info=lines.append)).outputs(job)
        assert len(outputs) == len(lines)
        return [line.removeprefix(f"{output} is made again: ") for line in lines]

    return of


def test_a_result_that_is_what_is_asked_for_is_used_and_others_are_made_again(found):
    assert found() == []
    assert found(spec=None) == []  # a rule without a spec is Snakemake's own matter
    assert found(output="results/none.json") == []
    assert found({**SPEC, "problem": {"options": {"V": 12}}}) == ["V changed."]
    assert found({**SPEC, "lambdas": [2.0], "code": "b"}) == ["lambdas changed and its code has changed."]
    assert found({**SPEC, "N": 8, "code": "b"}) == ["it is another cell's."]
    write_text(POOL, "other pairs\n", Stamp({"seed": 1}))
    assert found() == ["it was made from other inputs."]
    POOL.unlink()  # of what is not there nobody knows that it is another
    assert found() == []
    changed = ROW.read_bytes().replace(b"0.5", b"0.6")
    for content, reason in ((b"", "it is damaged"), (b"{}", "it is not of this version of koct"), (changed, "damaged")):
        ROW.write_bytes(content)
        assert reason in found()[0]


def test_what_is_no_file_is_left_to_its_owner(found):
    ROW.unlink()
    ROW.mkdir()
    with pytest.raises(KoctError, match=r"results/row.json is a folder, .*`rm -r results/row.json && snakemake`"):
        found()
    ROW.rmdir()
    ROW.symlink_to("/nowhere")
    with pytest.raises(KoctError, match="is a link that leads nowhere"):
        found()
    for path in (ROW, POOL):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(KoctError, match="is a pipe or a device"):  # and nobody waits for its other end
        found()
    ROW.unlink()
    assert found() == []


def test_what_the_targets_do_not_need_is_left_alone(checkout):
    """A result of another cell is made again, with what depends on it, where somebody asks for it."""
    tiny, table, cell = checkout(TINY), "results/cells.parquet", "results/cells/T4/ko/N4_seed1.json"
    tiny.snakemake(table)
    tiny.path(cell).write_bytes(tiny.path(cell.replace("seed1", "seed2")).read_bytes())
    assert tiny.plan("results/pools/T4/seed1.npy", cell.replace("N4", "N8")) == {}
    assert tiny.plan(table) == {"fit": 1, "collect": 1}
    tiny.snakemake(cell)
    assert json.loads(tiny.path(cell).read_bytes())["seed"] == 1
    assert tiny.plan(table) == {}  # the numbers are what they were
    tiny.path(table).unlink()
    tiny.path(table).mkdir()
    done = tiny.snakemake(table, check=False)
    assert done.returncode == 1
    assert f"`rm -r {table} && snakemake`" in done.stderr
    assert "Traceback" not in done.stderr
