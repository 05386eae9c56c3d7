"""Helper processes that run jobs: the same results, logs and ends as without, whatever happens to them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import ROOT

from koct import cli, stamps
from koct.workers import client, zygote
from koct.workflow import helpers
from koct.workflow.helpers import Helpers

SIZES = {"train": 8, "val": 4, "test": 4}
SPEC = {"seed": 1, "problem": {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4}}, "sizes": SIZES}
SLOW = '''"""A problem that says where it runs, and waits until it may go on."""

import os
import time

import numpy as np

from koct.contracts import Problem


class Slow(Problem):
    @property
    def x_shape(self):
        return (2,)

    @property
    def y_shape(self):
        return (3,)

    def pairs(self, seed, sizes):
        with open(f"begun-{os.getpid()}", "w"):
            pass
        until = time.time() + 60
        while not os.path.exists("go") and time.time() < until:
            time.sleep(0.01)
        np.save("draw.npy", np.random.rand(3))
        for part in ("train", "val", "test"):
            x = np.random.default_rng(seed).random((getattr(sizes, part), 2)) + len(part)
            yield part, x, x @ np.arange(6.0).reshape(2, 3)
'''


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """As the workflow makes it, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("KOCT_")]:
        monkeypatch.delenv(name)
    for name, value in {**helpers.ONE_THREAD, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}.items():
        monkeypatch.setenv(name, value)
    Path("slow.py").write_text(SLOW)


@pytest.fixture
def running(environment):
    """A server, whose kind `gpu` keeps its workers, although there is no GPU here."""
    with server() as found:
        yield found


def server(*problems, kinds=("cpu", "report")):
    found = Server(list(problems))
    found.kinds = list(kinds)
    return found


class Server(Helpers):
    def start(self):
        with no_name():
            super().start()


@contextlib.contextmanager
def no_name():
    """Without the variable that says which test runs, and in which stage: helpers want to have all in common."""
    value = os.environ.pop("PYTEST_CURRENT_TEST", None)
    yield
    os.environ.update({} if value is None else {"PYTEST_CURRENT_TEST": value})


def job(*argv, python=("-m", "koct")):
    with no_name(), open("log", "w") as log:
        return subprocess.Popen([sys.executable, *python, *argv], stdout=log, stderr=subprocess.STDOUT)


def pool(out="pool.npy", **changed):
    return job("pool", "--spec", json.dumps({**SPEC, **changed}), "--out", out)


def slow(out="pool.npy"):
    """A job that waits, and the process that runs it."""
    known = set(Path().glob("begun-*"))
    started = pool(out, problem={"source": "slow.py", "options": {}})
    (begun,) = waited_for(lambda: set(Path().glob("begun-*")) - known)
    return started, psutil.Process(int(begun.name.partition("-")[2]))


def finish(started):
    return started.wait(60), Path("log").read_text()


def waited_for(condition, seconds=30):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)
    return found


def gone(processes):
    """Whether processes have ended; those that nobody has waited for, too."""

    def ended(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.status() == psutil.STATUS_ZOMBIE
        return True

    return all(map(ended, processes))


def below(found):
    return psutil.Process(found.process.pid).children(recursive=True)


def zygote_of(found):
    """The zygote of the first kind, when it is ready."""
    waited_for(lambda: os.path.exists(os.path.join(found.folder, "cpu.ready")))
    return psutil.Process(found.process.pid).children()[0]


# What a job leaves


def test_a_worker_leaves_what_the_process_of_the_job_would(environment):
    status, log = finish(pool("alone.npy"))
    assert status == 0
    with server() as found:
        assert finish(pool()) == (0, LogLike(log))
        assert set(os.listdir(found.folder)) == {"cpu", "cpu.ready", "report"}
    assert stamps.check("pool.npy").content == stamps.check("alone.npy").content
    assert Path("pool.npy").read_bytes() == Path("alone.npy").read_bytes()
    assert not os.path.exists(found.folder)


class LogLike(str):
    """A log is equal to one of another process but for the peak of its memory."""

    def __eq__(self, other):
        mine, theirs = (text.rpartition("koct: peak memory ") for text in (self, other))
        return mine[:2] == theirs[:2] and int(theirs[2].removesuffix(" MiB\n")) > 10

    __hash__ = str.__hash__


def test_mistakes_are_told_as_ever(running):
    wrong = [("pool", "--spec", "{}", "--out", "x.npy"), ("pool", "--no-such-option"), ("no-such-verb",)]
    for argv in wrong:
        status, log = finish(job(*argv))
        assert (status, log.count("koct: error: ")) == (2, 1), log
    assert finish(job("--version"))[0] == 0


def test_a_job_has_the_folder_the_mask_and_the_variables_of_its_client(running):
    os.makedirs("below")
    command = f"cd below; umask 077; {sys.executable} -m koct pool --spec '{json.dumps(SPEC)}' --out pool.npy"
    with no_name():
        assert subprocess.run(["bash", "-c", command], capture_output=True).returncode == 0
    assert os.stat("below/pool.npy").st_mode & 0o777 == 0o600


def test_what_nobody_seeds_differs_from_job_to_job(running):
    import numpy as np

    Path("go").touch()
    drawn = []
    for _ in range(2):
        assert finish(pool(problem={"source": "slow.py", "options": {}}))[0] == 0
        drawn.append(np.load("draw.npy"))
    assert not np.array_equal(*drawn)


# What happens to processes


def test_a_job_dies_with_its_client(running):
    for number, status in ((signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGHUP, -1)):
        started, process = slow()
        assert process.pid != started.pid
        started.send_signal(number)
        assert finish(started) == (status, "")
        waited_for(lambda: gone([process]))  # noqa: B023
    assert not os.path.exists("pool.npy")


def test_control_c_reaches_the_job(running):
    started, process = slow()
    started.send_signal(signal.SIGINT)
    status, log = finish(started)
    assert status == 130
    assert log.startswith("koct: interrupted\nkoct: peak memory ")
    waited_for(lambda: gone([process]))


def test_a_worker_that_is_killed_ends_its_client_in_the_same_way(running):
    for number in (signal.SIGKILL, signal.SIGTERM):
        started, process = slow()
        process.send_signal(number)
        assert finish(started) == (-number, "")


def test_a_job_whose_zygote_dies_starts_again_and_the_zygote_is_replaced(running):
    started, process = slow()
    first = zygote_of(running)
    first.kill()
    waited_for(lambda: gone([process]))
    Path("go").touch()
    status, log = finish(started)
    assert status == 0
    assert log.startswith("koct: the worker of this job was lost; the job starts again without one\n")
    assert len(list(Path().glob("begun-*"))) == 2
    waited_for(lambda: not os.path.exists(os.path.join(running.folder, "cpu.ready")))
    assert finish(pool("other.npy"))[0] == 0
    assert zygote_of(running) != first


def test_a_server_that_dies_is_replaced(running):
    zygote_of(running)
    before = [psutil.Process(running.process.pid), *below(running)]
    before[0].kill()
    waited_for(lambda: gone(before))
    assert finish(pool())[0] == 0
    waited_for(lambda: running.process.pid != before[0].pid)
    zygote_of(running)
    started, process = slow()
    assert process.pid != started.pid
    Path("go").touch()
    assert finish(started)[0] == 0


def test_a_job_does_not_wait_for_what_hangs(running):
    """And it is not run a second time when the zygote goes on."""
    first = zygote_of(running)
    psutil.Process(running.process.pid).suspend()
    first.suspend()
    impatient = "from koct.workers import client; client.PATIENCE = 0.5; import koct.__main__"
    Path("go").touch()
    spec = json.dumps({**SPEC, "problem": {"source": "slow.py", "options": {}}})
    assert finish(job("pool", "--spec", spec, "--out", "pool.npy", python=("-c", impatient)))[0] == 0
    assert os.path.exists(os.path.join(running.folder, "cpu.hung"))
    assert finish(pool("at once.npy"))[0] == 0
    first.resume()
    psutil.Process(running.process.pid).resume()
    waited_for(lambda: os.path.exists(os.path.join(running.folder, "cpu")))
    waited_for(lambda: gone([first]))
    assert finish(pool("again.npy"))[0] == 0
    assert len(list(Path().glob("begun-*"))) == 1


def test_helpers_let_the_last_jobs_finish_and_go(environment):
    with server() as found:
        started, process = slow()
        processes = [psutil.Process(found.process.pid), *below(found)]
        found.process.stdin.close()  # as when snakemake is killed
        time.sleep(0.2)
        assert process.is_running()
        Path("go").touch()
        assert finish(started)[0] == 0
        waited_for(lambda: gone(processes))
        assert not os.path.exists(found.folder)


# Which jobs a worker takes


def test_jobs_of_another_version_run_by_themselves(environment, monkeypatch, checkout):
    run = checkout()
    monkeypatch.setenv("PYTHONPATH", str(run.folder))
    with server():
        Path("go").touch()

        def by_worker():
            known = set(Path().glob("begun-*"))
            started = pool(problem={"source": "slow.py", "options": {}})
            assert finish(started)[0] == 0
            (begun,) = set(Path().glob("begun-*")) - known
            return begun.name != f"begun-{started.pid}"

        assert by_worker()
        with monkeypatch.context() as changed:
            changed.setenv("OMP_NUM_THREADS", "2")
            assert not by_worker()
        with monkeypatch.context() as changed:
            changed.setenv("TMPDIR", str(run.folder))
            changed.setenv("KOCT_DEVICE", "cpu")
            assert by_worker()
        os.utime(run.path("koct/errors.py"))
        assert not by_worker()


def test_workers_of_a_gpu_are_kept_but_never_for_a_file_of_a_user(environment):
    """Which is told by its problem; there is none here, so these compute on the CPU."""
    pytest.importorskip("torch")
    assert finish(pool("alone.npy"))[0] == 0
    with server("surrogate", "slow.py", kinds=("cpu", "report", "gpu")) as found:
        zygotes = psutil.Process(found.process.pid)

        def left(out):
            """The zygote of the GPU and the worker that a job has left it; None if it was idle for too long."""
            status, log = finish(pool(out))
            assert status == 0
            assert 10 < int(log.split()[-2]) < 2000
            return [(zygote, one) for zygote in zygotes.children() for one in zygote.children()]

        def kept():
            """The same worker after two jobs: tried again, since a slow machine lets workers end in between."""
            return (first := left("one.npy")) and first == left("two.npy") and first[0]

        gpu, _ = waited_for(kept, 120)
        assert finish(pool("three.npy", problem={}))[0] == 2  # a mistake, and its worker goes
        waited_for(lambda: gpu.children() == [])
        _, one = waited_for(kept, 120)
        Path("go").touch()
        assert finish(pool("own.npy", problem={"source": "slow.py", "options": {}}))[0] == 0
        waited_for(lambda: gone([one]) and gpu.children() == [])
        left("two.npy")
        waited_for(lambda: gpu.children() == [])  # since nobody wants it
    assert Path("one.npy").read_bytes() == Path("two.npy").read_bytes() == Path("alone.npy").read_bytes()


def test_verbs_and_variables(monkeypatch):
    assert client.COMPUTING == cli.CONTINUED
    monkeypatch.setenv(client.GPU_PROBLEMS, "fanbeam")
    here, there = '{"source": "fanbeam"}', '{"source": "surrogate"}'
    assert client._kinds(["fit", "--spec", here]) == (["gpu", "cpu"], False)
    assert client._kinds(["fit", "--spec", here + '{"source": "my.py"}']) == (["gpu", "cpu"], True)
    assert client._kinds(["figure-recons", "--spec", here]) == (["gpu", "report"], True)
    assert client._kinds(["fit", "--spec", there]) == (["cpu"], True)
    assert client._kinds(["figure-sweeps", "--spec", "{}"]) == (["report"], True)
    assert set(zygote.surroundings({"PATH": "x", "SHLVL": "1", "KOCT_DEVICE": "cpu"})) == {"PATH"}


def test_a_client_imports_next_to_nothing(running):
    zygote_of(running)
    argv = "pool", "--spec", json.dumps(SPEC), "--out", "x.npy"
    _, log = finish(job(*argv, python=("-X", "importtime", "-m", "koct")))
    imported = {line.rpartition("|")[2].strip() for line in log.splitlines() if "|" in line}
    assert {name for name in imported if name.startswith("koct")} == {"koct", "koct.workers", "koct.workers.client"}
    assert not imported & {"argparse", "json", "socket", "signal", "re", "enum", "numpy"}


# Benchmarks


def test_benchmarks_measure_the_worker(running):
    from snakemake.benchmark import BenchmarkRecord, BenchmarkTimer

    started, process = slow()
    record = BenchmarkRecord()
    timer = BenchmarkTimer(started.pid, record)
    timer.work()
    alone = record.max_rss
    timer.main = helpers._measured(timer.main, record)
    assert [child.pid for child in timer.main.children(recursive=True)] == [process.pid]
    timer.work()
    assert record.errors == []
    assert record.max_rss > alone + 10
    assert 0 < record.cpu_time < 5
    Path("go").touch()
    assert finish(started)[0] == 0
