"""Which results are used and which are made again, by their stamps; how Snakemake is told."""

import asyncio
import json
import os
from types import SimpleNamespace

import pytest

from koct.base.files import write_json, write_text
from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.workflow import stale

SPEC = {"N": 4, "seed": 1, "code": "abc", "lambdas": [1.0], "problem": {"options": {"V": 10}}}


class Logger:
    def __init__(self):
        self.lines = []

    def info(self, line):
        self.lines.append(line)


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The stale outputs of a job that makes results/row.json from results/pool.tex: call it with the spec asked for."""
    monkeypatch.chdir(tmp_path)
    write_text("results/pool.tex", "pairs\n", Stamp({"seed": 1}))
    write_json("results/row.json", {"mse": 0.5}, Stamp(SPEC, made_from("results/pool.tex")))
    logger = Logger()

    def of(spec=SPEC, output=("results/row.json",), **others):
        params = {"spec": json.dumps(spec)} if spec else {}
        job = SimpleNamespace(params=params, output=list(output), input=["results/pool.tex", "mine/photo.npy"])
        return stale.Stale(logger).outputs(job)

    of.lines = logger.lines
    return of


def test_a_result_that_is_what_is_asked_for_is_used(found):
    assert found() == []
    assert found(spec=None) == []  # a rule without a spec is Snakemake's own matter
    assert found(output=["results/none.json"]) == []
    assert found.lines == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"code": "other"}, "its code has changed"),
        ({"lambdas": [2.0]}, "lambdas changed"),
        ({"problem": {"options": {"V": 12}}}, "V changed"),
        ({"lambdas": [2.0], "code": "other"}, "lambdas changed and its code has changed"),
        ({"seed": 2}, "it is another cell's"),
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


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "it is damaged"), (b"{}", "it is not of this version of koct"), (None, "it is damaged")],
)
def test_a_file_that_is_no_result_is_made_again(found, content, reason):
    with open("results/row.json", "r+b") as file:
        data = file.read()
        file.seek(0)
        file.truncate()
        file.write(data.replace(b"0.5", b"0.6") if content is None else content)
    assert found() == ["results/row.json"]
    assert reason in found.lines[0]


def test_a_changed_bit_of_a_large_page_is_noticed(found):
    """No job reads a page, so nobody else would notice."""
    write_text("results/planner.html", "<p>" + "x" * 2**20, Stamp(SPEC, made_from("results/pool.tex")))
    assert found(output=["results/planner.html"]) == []
    with open("results/planner.html", "r+b") as file:
        file.seek(2**19)
        file.write(b"y")
    assert found(output=["results/planner.html"]) == ["results/planner.html"]


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


def test_a_reason_is_told_once_and_few_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger = Logger()
    teller = stale.Stale(logger)
    for i in range(30):
        teller.tell(f"results/{i}", f"reason {i % 10}")
    assert len(logger.lines) == stale.SHOWN
    assert sum(teller.reasons.values()) == 30


def test_another_snakemake_is_refused(monkeypatch):
    """It would use outdated results without a word."""
    import snakemake
    from snakemake.persistence import PersistenceBase

    with monkeypatch.context() as changed:
        changed.delattr(PersistenceBase, "incomplete")
        with pytest.raises(KoctError, match="would not notice outdated results; `make setup` installs"):
            stale.watch(SimpleNamespace(is_main_process=True), Logger())
    monkeypatch.setattr(snakemake, "__version__", "10.0.0")
    with pytest.raises(KoctError, match=r"Snakemake 10\.0\.0 is built otherwise"):
        stale.watch(SimpleNamespace(is_main_process=True), Logger())


def test_snakemake_is_told(tmp_path, monkeypatch):
    """The two methods that are replaced, and that nothing is replaced in a process that Snakemake starts for a job."""
    from snakemake.io import _IOFile
    from snakemake.persistence import PersistenceBase

    before = _IOFile.is_newer, PersistenceBase.incomplete
    monkeypatch.setattr(_IOFile, "is_newer", before[0])  # so that both are restored
    monkeypatch.setattr(PersistenceBase, "incomplete", before[1])
    stale.watch(SimpleNamespace(is_main_process=False), Logger())
    assert (_IOFile.is_newer, PersistenceBase.incomplete) == before
    stale.watch(SimpleNamespace(is_main_process=True), Logger())
    assert (_IOFile.is_newer, PersistenceBase.incomplete) != before

    monkeypatch.chdir(tmp_path)
    write_json("results/row.json", {"mse": 0.5}, Stamp(SPEC))
    settings = SimpleNamespace(force_incomplete=False)
    persistence = SimpleNamespace(dag=SimpleNamespace(workflow=SimpleNamespace(dag_settings=settings)))
    job = SimpleNamespace(
        params={"spec": json.dumps({**SPEC, "code": "new"})}, output=["results/row.json"], input=["results/gone.npy"]
    )
    assert asyncio.run(PersistenceBase.incomplete(persistence, job)) == ["results/row.json"]
    assert settings.force_incomplete
    assert asyncio.run(_IOFile.is_newer("results/row.json", 0)) is False  # no look at the clock
