"""What a run may rely on: jobs run the planned code, one run at a time, nothing left of a dead one."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from conftest import ROOT, TINY

from koct.errors import KoctError
from koct.workflow import planned, queue, sources


def spec():
    problem = {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4}}
    sizes = {"train": 8, "val": 4, "test": 4}
    wanted = {"seed": 1, "problem": problem, "sizes": sizes}
    return {**wanted, "code": sources.code("pool", wanted)}


# The code


def test_a_job_runs_the_code_that_was_planned(checkout, monkeypatch):
    """Changed code ends the job before it writes; a comment, or the old code with a new time, does not."""
    run = checkout(TINY)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    told = run.python("-c", "import json; from koct.workflow import planned as p; print(json.dumps(p.environment([])))")
    for name, value in json.loads(told.stdout).items():
        monkeypatch.setenv(name, value)

    def pool():
        return run.koct("pool", "--spec", json.dumps(spec()), "--outputs", "pool.npy", check=False)

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
    own, helper = tmp_path / "own.py", tmp_path / "helper.py"
    shutil.copy(ROOT / "koct/problems/surrogate.py", own)
    helper.write_text("x = 1\n")
    problem = {"source": str(own), "options": {"H": 4, "V": 5, "B": 4}}
    asked = {**spec(), "problem": problem, "code": sources.code("pool", {"problem": problem})}
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


# One run at a time


def test_one_lock_for_all_which_ends_with_its_process(tmp_path):
    hold = "from koct.workflow import queue; lock = queue.take_lock(); print('held', flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(KoctError, match=rf"another snakemake \(process {holder.pid} on .*\) runs in this folder"):
        queue.take_lock(tmp_path)
    holder.kill()
    holder.wait()
    assert queue.take_lock(tmp_path)


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


def test_an_edit_that_is_undone_within_a_second_is_not_run(tmp_path):
    """Python tells compiled files by size and whole seconds, unless they say what they were compiled from."""
    module = tmp_path / "mine.py"
    told = {planned.OWN: str(module)}
    compiling = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def value(text):
        module.write_text(f"value = {text}\n")
        os.utime(module, (1e9, 1e9))
        command = [sys.executable, "-c", "import mine; print(mine.value)"]
        return int(subprocess.run(command, cwd=tmp_path, capture_output=True, env=compiling, check=True).stdout)

    assert [value(1), value(2)] == [1, 1]  # as Python does it
    planned.compile_checked(told)
    assert [value(1), value(2), value(3)] == [1, 2, 3]
