"""The executor of koct: forked jobs leave what the process of a job would, and end as it would."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from conftest import ROOT, TINY, TINY_SWEEP, until

from koct.base import stamps
from koct.commands import VERBS
from koct.plugins import snakemake_executor_plugin_koct as plugin
from koct.workflow import planned
from koct.workflow.cluster import ask
from tests.faults.lab import SNAKEMAKE, Study, processes_in

pytestmark = pytest.mark.thorough
SIZES = {"train": 8, "val": 4, "test": 4}
SPEC = {"seed": 1, "problem": {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4}}, "sizes": SIZES}
OWN = {"source": "slow.py", "options": {}}
SLOW = '''"""A problem that says where it runs, and waits until it may go on."""
import os
import time

import numpy as np

from koct.contracts import Problem


class Slow(Problem):
    x_shape, y_shape = (2,), (3,)

    def pairs(self, seed, sizes):
        open(f"begun-{os.getpid()}", "w").close()
        until = time.time() + 60
        while not os.path.exists("go") and time.time() < until:
            time.sleep(0.01)
        np.save("draw.npy", np.random.rand(3))
        for part in ("train", "val", "test"):
            x = np.random.default_rng(seed).random((getattr(sizes, part), 2)) + len(part)
            yield part, x, x @ np.arange(6.0).reshape(2, 3)
'''


@pytest.fixture
def server(monkeypatch, folder):
    """Start servers in an empty folder, in the environment that the workflow makes."""
    for name in [name for name in os.environ if name.startswith("KOCT_")]:
        monkeypatch.delenv(name)
    variables = {**plugin.ONE_THREAD, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", **planned.environment(())}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    Path("slow.py").write_text(SLOW)
    started = []

    def start(kind="cpu"):
        started.append(plugin.Server(kind))
        return started[-1]

    yield start
    Path("go").touch()
    for one in started:
        one.close()
        assert one.process.poll() is not None


def pool(server, out="pool.npy", keep=False, **changed):
    """What a server answers to `koct pool`."""
    argv = ["pool", "--spec", json.dumps({**SPEC, **changed}), "--outputs", out]
    return server.run({"argv": argv, "log": "log", "environment": {}, "keep": keep})


def begun(background, server, **others):
    """A job of a user's file that waits, when it has begun: its answer to come, and its process."""
    known = set(Path().glob("begun-*"))
    answer = background.submit(pool, server, problem=OWN, **others)
    (mark,) = until(lambda: set(Path().glob("begun-*")) - known)
    return answer, psutil.Process(int(mark.name.partition("-")[2]))


def gone(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def background():
    with ThreadPoolExecutor() as threads:
        yield threads


def test_a_fork_leaves_what_the_process_of_the_job_would(server):
    command = f"{sys.executable} -m koct pool --spec - --outputs alone.npy > alone.log 2>&1"
    subprocess.run(command, shell=True, check=True, input=json.dumps(SPEC), text=True)
    forks = server()
    used = pool(forks)
    assert (used["status"], used["kept"]) == (0, False)
    assert 10 < used["max_rss"] < 1000
    assert 0 < used["cpu_seconds"] < 60
    assert Path("pool.npy").read_bytes() == Path("alone.npy").read_bytes()
    logs = [Path(name).read_text().rpartition("peak memory")[0] for name in ("log", "alone.log")]
    assert logs[0] == logs[1] != ""
    for argv in (["pool", "--spec", "no JSON", "--outputs", "x.npy"], ["no-such-verb"]):
        assert forks.run({"argv": argv, "log": "log", "environment": {}, "keep": False})["status"] == 2
        assert Path("log").read_text().count("koct: error: ") == 1


def test_a_users_file_reaches_no_other_job_and_other_code_than_planned_does_not_run(server, monkeypatch):
    Path("go").touch()
    imports = "import sys\nopen('seen', 'a').write(f'{int(\"colorsys\" in sys.modules)}')\nimport colorsys\n"
    Path("slow.py").write_text(imports + SLOW)
    forks, drawn = server(), []
    for _ in range(2):
        assert pool(forks, problem=OWN)["status"] == 0
        drawn.append(np.load("draw.npy"))
    assert not np.array_equal(*drawn)  # what nobody seeds differs
    assert Path("seen").read_text() == "00"  # a package may change others when it is imported
    monkeypatch.setenv(planned.STATE, "of other files")
    assert pool(server(), "other.npy") is None
    assert not Path("other.npy").exists()


def test_a_job_that_is_killed_harms_no_other_and_the_jobs_of_a_dead_server_end(server, background):
    forks = server()
    first, killed = begun(background, forks, out="one.npy")
    second, _ = begun(background, forks, out="two.npy")
    killed.kill()
    assert first.result()["status"] == -signal.SIGKILL
    third, interrupted = begun(background, forks, out="three.npy")
    interrupted.send_signal(signal.SIGINT)
    assert third.result()["status"] == 130
    Path("go").touch()
    assert second.result()["status"] == 0
    assert [path.name for path in sorted(Path().glob("*.npy"))] == ["draw.npy", "two.npy"]
    Path("go").unlink()
    fourth, process = begun(background, forks, out="four.npy")
    forks.process.kill()
    assert fourth.result() is None  # it is to run elsewhere
    until(lambda: gone(process))
    assert pool(forks) is None
    forks = server()
    fifth, _ = begun(background, forks, out="five.npy")
    forks.process.terminate()  # as at the time limit of a cluster, when everything ends
    assert fifth.result()["status"] == -signal.SIGTERM


def test_processes_with_a_gpu_are_kept_unless_a_job_fails_or_wants_its_own(server, background, monkeypatch):
    """There is no GPU here: they compute on the CPU."""
    pytest.importorskip("torch")
    monkeypatch.setattr(plugin, "IDLE", 600)
    forks = server("gpu")
    children = psutil.Process(forks.process.pid).children
    assert pool(forks, "one.npy", keep=True)["kept"]
    (kept,) = children()
    used = pool(forks, "two.npy", keep=True)
    assert children() == [kept]
    assert used["max_rss"] < 2000
    before = psutil.Process(forks.process.pid).cpu_times().user
    time.sleep(0.5)
    assert psutil.Process(forks.process.pid).cpu_times().user - before < 0.2  # the server has read what jobs told it
    assert pool(forks, "three.npy", keep=True, problem={"source": "unheard-of"})["status"] == 2
    until(lambda: gone(kept))
    assert pool(forks, "four.npy", keep=True)["status"] == 0
    (kept,) = until(lambda: [child for child in children() if not gone(child)])
    Path("go").touch()
    assert pool(forks, "own.npy", problem=OWN)["status"] == 0
    until(lambda: gone(kept))
    monkeypatch.setattr(plugin, "IDLE", 0.1)
    assert pool(forks, "five.npy", keep=True)["kept"]
    until(lambda: not forks.idle and all(map(gone, children())))
    assert Path("one.npy").read_bytes() == Path("two.npy").read_bytes() == Path("four.npy").read_bytes()


def test_which_commands_are_forked_and_where(monkeypatch):
    assert set(VERBS) >= plugin.COMPUTING
    spec = '{"label": "a \'b\'; $c"}'
    reads = f"<<< {shlex.quote(spec)} > logs/x.log 2>&1"
    fit = plugin.COMMAND.fullmatch(f"python -m koct fit --spec - --outputs d.json {reads}")
    assert fit["log"] == "logs/x.log"
    assert plugin.argv_of(fit) == ["fit", "--spec", spec, "--outputs", "d.json"]
    words = ["a && rm b", "$A", "*.npy", "<<< 'a'"]
    others = [f"python -m koct fit --spec - --outputs {word} {reads}" for word in words]
    others += [f"sh run.sh --spec - a {reads}", f"python -m koct budget - {reads}"]
    assert not any(map(plugin.COMMAND.fullmatch, others))

    monkeypatch.setenv(plugin.GPU_PROBLEMS, '["fanbeam"]')
    here, there = '{"source": "fanbeam"}', '{"source": "surrogate"}'
    monkeypatch.setattr(plugin, "NVIDIA", ("/",))
    assert plugin.kind_of(["fit", "--spec", here]) == ("gpu", True)
    assert plugin.kind_of(["fit", "--spec", here + '{"source": "my.py"}']) == ("gpu", False)
    assert plugin.kind_of(["figure-recons", "--spec", here]) == ("gpu", False)
    assert plugin.kind_of(["fit", "--spec", there]) == ("cpu", False)
    assert plugin.kind_of(["figure-sweeps", "--spec", "{}"]) == ("report", False)
    monkeypatch.setattr(plugin, "NVIDIA", ("/no/such/device",))
    assert plugin.kind_of(["fit", "--spec", here]) == ("cpu", False)


@pytest.fixture(scope="module")
def run(checkout):
    return Study(checkout(TINY).folder)


@pytest.mark.long
def test_a_study_has_the_same_results_in_forks_and_by_itself(run):
    few = ["results/table_budget.tex", "results/fig_factors.pdf"]
    run.snakemake(*few)
    made = run.contents()
    assert len(made) > 20
    forked = run.path("results/benchmarks/fits/T4/ko/N4_seed1.tsv").read_text().split()
    assert float(forked[12]) > 10  # the peak of its memory in MB
    run.snakemake("--forceall", *few, "--executor", "local")
    assert run.contents() == made


@pytest.mark.long
def test_a_study_of_300_sweeps_is_collected_by_every_executor(checkout):
    """Linux takes 131,072 bytes in an argument, and what is to be collected is more."""
    fc = {**TINY_SWEEP, "archs": ["fc"], "seeds": [1], "theory": False, "lambdas": [1.0 / (3 + i) for i in range(9)]}
    sweeps = {f"T{number}": fc for number in range(300)}
    run = checkout({"study": "many", "studies": {"many": list(sweeps)}, "sweeps": sweeps})
    file, made = run.path("results/cells.parquet"), set()
    slurm = [["--profile", "slurm", "--config", "study=many"]] if ask("sinfo", "--noheader") else []
    for executor in (["--executor", "koct"], ["--executor", "local"], *slurm):
        run.snakemake("--force", "results/cells.parquet", *executor)
        made.add(file.read_bytes())
    assert len(json.dumps(stamps.read(file).spec)) > 131072
    assert len(made) == 1


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.long) for one in (signal.SIGINT, signal.SIGTERM))]
)
def test_a_run_that_is_killed_leaves_no_processes(run, number):
    command = [SNAKEMAKE, "--force", "results/pools/T4/seed1.npy"]
    with subprocess.Popen(command, cwd=run.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        servers = lambda: [one for one, line in processes_in(run.folder).items() if "forked_jobs" in line]  # noqa: E731
        started = until(servers)
        process.send_signal(number)
    until(lambda: all(map(gone, started)))


def test_sigterm_does_not_wait_for_what_it_interrupts():
    """Snakemake's own handler does: it takes the lock of the scheduler, which the main thread may hold."""
    lock, taken = threading.Lock(), []
    executor = object.__new__(plugin.Executor)
    executor.signals_set = False
    before = signal.signal(signal.SIGTERM, lambda *arguments: taken.append(lock.acquire(timeout=5)))
    try:
        executor.run_jobs([])
        with lock:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        until(lambda: taken == [True])
    finally:
        signal.signal(signal.SIGTERM, before)
