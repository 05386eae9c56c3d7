"""What a run may rely on: the planned code, one run at a time, results by their stamps, and other data are noticed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from conftest import ROOT, TINY
from PIL import Image
from test_executor import SPEC as WANTED
from test_sources import forget

from koct.base.files import write_json, write_text
from koct.base.stamps import Stamp, checksum_of, made_from
from koct.contracts import registry
from koct.contracts.spec import encode_problem
from koct.errors import KoctError
from koct.workflow import planned, queue, sources, stale
from koct.workflow.jobs import Jobs

POOL_SPEC = {**WANTED, "code": sources.code("pool", WANTED)}


def test_a_job_runs_the_code_that_was_planned(checkout, monkeypatch):
    """Changed code ends the job before it writes; a comment, or the old code with a new time, does not."""
    run = checkout(TINY)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    told = run.python("-c", "import json; from koct.workflow import planned as p; print(json.dumps(p.environment([])))")
    for name, value in json.loads(told.stdout).items():
        monkeypatch.setenv(name, value)

    def pool():
        return run.koct("pool", "--spec", json.dumps(POOL_SPEC), "--outputs", "pool.npy", check=False)

    module, out = run.path("koct/problems/surrogate.py"), run.path("pool.npy")
    text = module.read_text()
    assert pool().returncode == 0
    out.unlink()
    module.write_text(text.replace("0.08, 0.4", "0.08, 0.5"))
    done = pool()
    assert done.returncode == 2
    assert "koct: error: the code has changed since this run was planned; run snakemake again" in done.stderr
    assert not out.exists()
    module.write_text(text + "\n# a remark\n")
    assert pool().returncode == 0
    module.write_text(text)
    assert pool().returncode == 0


def test_code_that_changes_while_a_job_runs_is_noticed_before_it_writes(monkeypatch, tmp_path):
    """Even if it is as it was again, with its old time: nobody knows which of the two was loaded."""
    tmp_path = tmp_path / "12:30"
    tmp_path.mkdir()
    own, helper = tmp_path / "own.py", tmp_path / "helper.py"
    shutil.copy(ROOT / "koct/problems/surrogate.py", own)
    helper.write_text("x = 1\n")
    problem = {"source": str(own), "options": {"H": 4, "V": 5, "B": 4}}
    asked = {**POOL_SPEC, "problem": problem, "code": sources.code("pool", {"problem": problem})}
    for name, value in planned.environment([str(own), str(helper)]).items():
        monkeypatch.setenv(name, value)
    guard = planned.Guard("pool", asked)
    guard()
    helper.write_text("x = 2\n")  # no code of this stage
    guard()
    before, times = own.read_text(), os.stat(own)
    own.write_text(before.replace("0.08, 0.4", "0.08, 0.5"))
    own.write_text(before)
    os.utime(own, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(KoctError, match=r"own\.py was changed while this job ran; run snakemake again"):
        guard()
    planned.Guard("pool", asked)()  # a job that starts now loads the planned code
    with pytest.raises(KoctError, match="the code has changed since this run was planned"):
        planned.Guard("pool", {**asked, "code": "another"})()


def test_one_lock_for_all_which_ends_with_its_process(tmp_path):
    """For the folder, and for others that have its results by a link."""
    hold = "from koct.workflow import queue; queue.take_locks(); print('held', flush=True); input()"
    other = tmp_path / "other"
    other.mkdir()
    (other / "results").symlink_to("../results")
    holder = subprocess.Popen(
        [sys.executable, "-c", hold], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(KoctError, match=rf"another snakemake \(process {holder.pid} on .*\) runs in this folder"):
        queue.take_locks(tmp_path)
    with pytest.raises(KoctError, match=rf"another snakemake \(process {holder.pid} on .*\) runs with these results"):
        queue.take_locks(other)
    holder.kill()
    holder.wait()
    assert queue.take_locks(tmp_path)


def test_a_run_beside_another_is_refused_before_it_plans_and_a_dry_run_is_not(checkout):
    """Its plan would be of results that the other one is about to change."""
    tiny, pool = checkout(TINY), "results/pools/T4/seed1.npy"
    tiny.write(pool, "")  # which a plan remarks on
    assert queue.take_locks(tiny.folder)
    second = tiny.snakemake(pool, check=False)
    assert second.returncode == 1
    assert f"another snakemake (process {os.getpid()} on {os.uname().nodename}) runs in this folder" in second.stderr
    assert "is made again" not in second.stderr
    assert tiny.path(pool).read_text() == ""
    assert f"{pool} is made again" in tiny.snakemake(pool, "--dry-run").stdout


def test_temporary_files_of_dead_processes_are_removed(tmp_path):
    host, end = os.uname().nodename, [sys.executable, "-c", ""]
    dead = subprocess.Popen(end)
    dead.wait()
    zombie = subprocess.Popen(end, stdout=subprocess.PIPE)
    zombie.stdout.read()  # it has ended, and nobody has asked how
    time.sleep(0.1)
    folder = tmp_path / "results" / "fits"
    folder.mkdir(parents=True)
    temporary = ".koct-temporary."
    old = {f"{temporary}{host}.{process.pid}.N4_seed1.npy" for process in (zombie, dead)}
    old.add(f"{temporary}other.node.{dead.pid}.N8_seed1.npy")  # of long ago
    kept = {f"{temporary}{host}.{os.getpid()}.N4_seed1.npy", f"{temporary}other.node.{dead.pid}.N4_seed1.npy"}
    kept |= {".gitkeep", ".backup.20240101.tar.gz", f".{host}.{dead.pid}.N4_seed1.npy", "N4_seed1.npy"}
    for name in old | kept:
        (folder / name).touch()
        os.utime(folder / name, (time.time() - 2 * queue.DAY,) * 2)
    os.utime(folder / f"{temporary}other.node.{dead.pid}.N4_seed1.npy")  # perhaps at work elsewhere
    removed = queue.remove_temporaries(tmp_path / "results")
    zombie.wait()
    assert {os.path.basename(path) for path in removed} == old
    assert set(os.listdir(folder)) == kept


@pytest.mark.parametrize("name", [".snakemake", "results"])
def test_a_file_in_place_of_a_folder_is_one_sentence(folder, name):
    queue.check_folders()
    (folder / name).touch()
    with pytest.raises(KoctError, match=f"{name} is not a folder, and a run writes to a folder of this name"):
        queue.check_folders()


def test_a_folder_without_space_or_permission_is_one_sentence(folder, monkeypatch, capsys):
    with monkeypatch.context() as full:
        full.setattr(os, "statvfs", lambda path: SimpleNamespace(f_blocks=150, f_bavail=75, f_frsize=4096))
        with pytest.raises(SystemExit, match="1"):
            queue.check_folders()
    assert capsys.readouterr().err == "no space is left for .snakemake (300 KB); make room\n"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(
        KoctError, match=f"nothing can be written to {folder}, where a dry run writes too; allow it, or"
    ):
        queue.check_folders()


def test_an_edit_that_is_undone_within_a_second_is_not_run(tmp_path):
    """Python tells compiled files by size and whole seconds, unless they say what they were compiled from."""
    module = tmp_path / "mine.py"
    told = planned.environment([str(module)])
    compiling = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def value(text):
        module.write_text(f"value = {text}\n")
        os.utime(module, (1e9, 1e9))
        command = [sys.executable, "-c", "import mine; print(mine.value)"]
        return int(subprocess.run(command, cwd=tmp_path, capture_output=True, env=compiling, check=True).stdout)

    assert [value(1), value(2)] == [1, 1]  # as Python does it
    planned.compile_checked(told)
    assert [value(1), value(2), value(3)] == [1, 2, 3]


# Which results are used

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
        assert stale.Stale(SimpleNamespace(info=lines.append)).outputs(job) == [str(output)] * len(lines)
        return [line.removeprefix(f"{output} is made again: ") for line in lines]

    return of


def test_a_result_that_is_what_is_asked_for_is_used_and_others_are_made_again(found):
    assert found() == []
    assert found(spec=None) == []  # a rule without a spec is Snakemake's own matter
    assert found(output="results/none.json") == []
    assert found({**SPEC, "problem": {"options": {"V": 12}}}) == ["V changed."]
    assert found({**SPEC, "lambdas": [2.0], "code": "b"}) == ["lambdas changed and its code has changed."]
    assert found({**SPEC, "archs": ["fc"], "code": "b"}) == ["archs changed."]  # and so the code that they need
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


@pytest.mark.long
def test_what_the_targets_do_not_need_is_left_alone(checkout):
    """A result of another cell is made again, with what depends on it, where somebody asks for it."""
    tiny, table, cell = checkout(TINY), "results/cells.parquet", "results/cells/T4/ko/N4_seed1.json"
    tiny.snakemake(table)
    tiny.path(cell).write_bytes(tiny.path(cell.replace("seed1", "seed2")).read_bytes())
    assert tiny.plan("results/pools/T4/seed1.npy", cell.replace("N4", "N8")) == {}
    assert tiny.plan(table) == {"fit": 1, "collect": 1}
    tiny.snakemake(cell)
    assert json.loads(tiny.path(cell).read_bytes())["seed"] == 1
    assert tiny.plan(table) == {}  # the fit was there, and its row is what it was
    os.utime(tiny.path(cell), (1, 1))  # older than its pool, and right
    assert tiny.plan(table) == {}
    assert os.stat(tiny.path(cell)).st_mtime == 1  # a dry run changes nothing
    tiny.path(table).unlink()
    tiny.path(table).mkdir()
    done = tiny.snakemake(table, check=False)
    assert done.returncode == 1
    assert f"`rm -r {table} && snakemake`" in done.stderr
    assert "Traceback" not in done.stderr


# The files that a problem reads


def digests(*paths):
    """Of the files of a problem that reads these."""
    return sources.checksums(SimpleNamespace(files=lambda: paths)).get("files")


OWN = """
from koct.contracts import Problem, option

class Own(Problem):
    x_shape = y_shape = (1,)
    layer: str = option("a file of the known layers", pairs=False)

    def pairs(self, seed, sizes): ...
    def files(self): return ["x.npy", self.layer]
"""


@pytest.mark.parametrize("most", [sources.MOST_FILES, 1])
@pytest.mark.parametrize("stage", ["pool", "fit", "collect"])
def test_data_that_change_after_planning_are_noticed_before_a_job_starts_and_before_it_writes(
    folder, monkeypatch, stage, most
):
    """Even if they are as they were again at the end; what a spec has of the problem itself is what its pairs need."""
    monkeypatch.setattr(sources, "MOST_FILES", most)
    for name, text in (("own.py", OWN), ("x.npy", "1"), ("layer.npy", "1")):
        (folder / name).write_text(text)
    files = sources.checksums(registry.problem("own.py")(layer="layer.npy"))
    reader = encode_problem(registry.problem("own.py")(layer="layer.npy"), layers=True)
    monkeypatch.setenv(planned.READERS, json.dumps({checksum_of(files["files"]): reader}))
    spec = {"sweeps": [{"name": "one"}, files]} if stage == "collect" else files
    for name in ("x.npy", "layer.npy"):
        guard = planned.Guard(stage, spec)
        guard()
        guard()
        (folder / name).write_text("2")
        with pytest.raises(KoctError, match=f"{name} was changed while this job ran; run snakemake again"):
            guard()
        with pytest.raises(KoctError, match=r"(npy|2 files) was changed after this run was planned"):
            planned.Guard(stage, spec)()
        (folder / name).write_text("1")
        with pytest.raises(KoctError, match=f"{name} was changed while this job ran"):
            guard()
        planned.Guard(stage, spec)()


@pytest.mark.parametrize("most", [sources.MOST_FILES, 1])
@pytest.mark.parametrize("name", ["b.png", "c.png"])
def test_a_file_that_comes_to_the_data_while_a_run_is_on_is_noticed(folder, monkeypatch, name, most):
    """Jobs ask their problem again which files it reads; one that comes and goes within a job is noticed, too."""
    monkeypatch.setattr(sources, "MOST_FILES", most)
    forget()
    for number in range(12):
        Image.fromarray(np.full((4, 4), 10 * number, np.uint8)).save(folder / f"a{number}.png")
    geometry = {"problem": "pairs", "data": ".", "H": 4, "V": 5, "B": 4, "pool": {"train": 6, "val": 2, "test": 3}}
    sweep = {**geometry, "N": [3, 6], "seeds": [1], "archs": ["fc"], "theory": False, "metric": "mse"}
    jobs = Jobs({"study": "s", "studies": {"s": ["own"]}, "device": "cpu", "sweeps": {"own": sweep}})
    monkeypatch.setenv(planned.READERS, jobs.environment()[planned.READERS])
    spec = {"files": json.loads(jobs.pool_spec(SimpleNamespace(sweep="own", seed="1")))["files"]}
    for stage, specs in (("pool", spec), ("collect", {"sweeps": [spec]})):
        guard = planned.Guard(stage, specs)
        guard()
        shutil.copy("a3.png", name)
        with pytest.raises(KoctError, match=f"{name} was changed while this job ran; run snakemake again"):
            guard()
        with pytest.raises(KoctError, match="was changed after this run was planned"):
            planned.Guard(stage, specs)()
        os.remove(name)
        guard()
        planned.Guard(stage, specs)()


@pytest.mark.parametrize("name", ["helper/__init__.py", "helper.pyc", "optional.py"])
def test_a_module_that_comes_while_a_run_is_on_and_would_be_imported_is_noticed(folder, monkeypatch, name):
    forget()
    shutil.copy(ROOT / "koct/problems/surrogate.py", "own.py")
    with open("own.py", "a") as own:
        own.write("import helper\ntry:\n    import optional\nexcept ImportError:\n    pass\n")
    Path("helper.py").write_text("FACTOR = 1")
    problem = {"source": "own.py", "options": {"H": 4, "V": 5, "B": 4}}
    asked = {**POOL_SPEC, "problem": problem, "code": sources.code("pool", {"problem": problem})}
    for variable, value in planned.environment(["own.py", os.path.abspath("helper.py")]).items():
        monkeypatch.setenv(variable, value)
    guard = planned.Guard("pool", asked)
    guard()
    Path("unused.py").write_text("FACTOR = 7")
    guard()
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("FACTOR = 7")
    forget()
    with pytest.raises(KoctError, match=f"{name} was changed while this job ran; run snakemake again"):
        guard()
    with pytest.raises(KoctError, match="the code has changed since this run was planned"):
        planned.Guard("pool", asked)()
    os.remove(name)
    forget()
    planned.Guard("pool", asked)()


@pytest.fixture
def large(folder, monkeypatch):
    """A file whose digest is kept, and another of the same size and times."""
    monkeypatch.setattr(sources, "SETTLED", -1)
    for name, letter in (("x.npy", b"a"), ("other.npy", b"b")):
        (folder / name).write_bytes(letter * 5000)
        os.utime(folder / name, (10**9, 10**9))
    return "x.npy"


@pytest.mark.parametrize("replace", [os.replace, shutil.copy2], ids=["mv", "cp -p"])
def test_another_large_file_of_equal_size_and_age_is_noticed(large, replace):
    before = digests(large)
    replace("other.npy", large)
    assert os.stat(large).st_mtime == 10**9
    assert digests(large) != before


def test_a_large_file_is_read_once_and_again_when_it_changes(large, monkeypatch):
    before = digests(large, "other.npy")
    read = mock.Mock(wraps=sources.digest_of_file)
    monkeypatch.setattr(sources, "digest_of_file", read)
    assert digests(large, "other.npy") == before
    assert not read.called
    os.utime(large)
    assert digests(large, "other.npy") == before
    read.assert_called_once_with(large)
    Path(sources.DIGESTS).write_text('{"x.npy": 3}')  # damaged
    assert digests(large) == {large: before[large]}


def test_of_a_folder_every_file_counts_also_behind_links_and_a_pipe_is_refused(folder):
    os.makedirs("data/deep")
    os.makedirs("elsewhere/deeper")
    os.symlink("../elsewhere", "data/link")
    os.symlink("../..", "elsewhere/deeper/circle")
    os.symlink("nowhere", "data/dead")
    for file in ("data/deep/a", "elsewhere/deeper/a"):
        (folder / file).write_text("1")
        before = digests("data")
        (folder / file).write_text("2")
        assert digests("data") != before
    os.mkfifo("pipe")
    with pytest.raises(KoctError, match="pipe is a pipe or a device; put a file there"):
        digests("pipe")
