"""A copy of the repository to run the real workflow in, and training data without files."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of workers that share the cores take four times as long

import fcntl
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import settings

from koct import cli
from koct.base.device import CPU
from koct.contracts import Training, registry
from tests import warm

settings.register_profile("koct", deadline=None)  # a busy machine is no error
settings.load_profile("koct")

ROOT = Path(__file__).resolve().parents[1]
PARTS = ["Snakefile", "rules", "envs", "profiles", "slurm", "koct", "config.yaml"]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
FREE = len(CONFIG["sweeps"]["H8"]["archs"]) - 2  # networks that need no sample
# Ten cells of milliseconds, and fan beams that take seconds.
TINY_SWEEP = yaml.safe_load("""
{problem: surrogate, H: 4, V: 5, B: 4, tikhonov: 0.1, pool: {train: 8, val: 4, test: 4}, N: [4, 8], seeds: [1, 2],
archs: [untrained, ko, fc], lambdas: [1.0e-4, 1.0], metric: mse, targets: [0.01]}
""")
TINY = {"study": "tiny", "studies": {"tiny": ["T4"]}, "sweeps": {"T4": TINY_SWEEP}}
SMALL_FANBEAM = yaml.safe_load("""
study: small
studies: {small: [F32, F32-exact]}
sweeps:
  F32: &F32
    {problem: fanbeam, rays: printed, H: 32, V: 20, B: 32, pool: {train: 64, val: 8, test: 8}, N: [4, 16, 64],
    seeds: [1, 2], archs: [untrained, ko, fc], lambdas: [1.0e-4, 0.01, 1.0, 1.0e+2, 1.0e+4],
    ko: {solver: adagrad, lr: 0.02, iterations: 200, batch: 4}, metric: rrmse_peak2, targets: [0.01]}
  F32-exact: {<<: *F32, rays: exact, seeds: [1]}
""")


def changed_sweeps(**sweeps):
    """The config of a study of these sweeps of config.yaml, each with some options changed."""
    changed = {sweep: CONFIG["sweeps"][sweep] | options for sweep, options in sweeps.items()}
    studies = CONFIG["studies"] | {"surrogate": list(sweeps)}
    return {**CONFIG, "studies": studies, "sweeps": CONFIG["sweeps"] | changed}


class Pairs(Training):
    """Training data from arrays in memory; what else a fit asks for is given by name."""

    nonnegative = False
    gram = None
    device = CPU
    seed = 1

    def __init__(self, x, y, **others):
        self.x, self.y, self.N = x, y, len(x)
        for name, value in others.items():
            setattr(self, name, value)


def checked(done, check):
    assert not check or done.returncode == 0, f"{done.args} failed:\n{done.stdout}\n{done.stderr}"
    return done


class Checkout:
    """A working copy of the workflow with results of its own."""

    def __init__(self, folder, config=None):
        self.folder = Path(folder)
        if not self.folder.exists():  # else it is there already
            self.folder.mkdir(parents=True)
            subprocess.run(["cp", "-a", *(ROOT / part for part in PARTS), self.folder], check=True)
        if config:
            self.configure(config)

    def write(self, name, text):
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def replace(self, name, old, new):
        text = self.path(name).read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} times {old!r}"
        self.path(name).write_text(text.replace(old, new))

    def configure(self, config):
        self.write("config.yaml", yaml.safe_dump(config))

    def table(self, name):
        return pd.read_parquet(self.path(f"results/{name}.parquet"))

    def snakemake(self, *arguments, check=True):
        return checked(warm.snakemake([*map(str, arguments)], self.folder), check)

    def plan(self, *arguments):
        """How many jobs of each rule a dry run would start, `all` left out."""
        return planned(self.snakemake("--dry-run", *arguments).stdout)

    def koct(self, *arguments, check=True):
        return self.python("-m", "koct", *arguments, check=check)

    def python(self, *arguments, check=True):
        """Run Python in the folder, with the package that is there."""
        command = [sys.executable, *map(str, arguments)]
        here = {**os.environ, "PYTHONPATH": str(self.folder)}
        return checked(subprocess.run(command, cwd=self.folder, capture_output=True, text=True, env=here), check)

    def path(self, name):
        return self.folder / name

    def copy(self, folder):
        """Another one with the same results, in which nothing has to run again."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return type(self)(folder)


def until(condition, seconds=600, pause=0.05):
    """What a function returns, as soon as that is something."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"waited for {seconds} s in vain"
        time.sleep(pause)
    return value


def planned(text):
    """The jobs in what a dry run printed."""
    table = text.partition("Job stats:")[2].partition("total")[0]
    jobs = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}
    jobs.pop("all", None)
    return jobs


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """Make checkouts: call it for a fresh one, with a config of its own or that of the repository."""
    return lambda config=None: Checkout(tmp_path_factory.mktemp("checkout") / "copy", config)


def finished(tmp_path_factory, name, config=None):
    """A study, really run, once for all workers; each gets a copy of its own, in which nothing has to run again."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    original = shared / name
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not original.exists():
            made = tmp_path_factory.mktemp("making") / name
            run = Checkout(made, config)
            started = time.perf_counter()
            run.snakemake()
            run.path("seconds").write_text(str(time.perf_counter() - started))
            made.rename(original)
    return Checkout(original).copy(tmp_path_factory.mktemp("checkout") / name)


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """The default study with fewer sizes, N and seeds. Tests leave it as they found it."""
    few = {"N": [4, 8, 16], "seeds": [1, 2, 3]}
    return finished(tmp_path_factory, "study", changed_sweeps(H8=few, H16=few))


@pytest.fixture(scope="session")
def default_study(tmp_path_factory):
    """The default study, run on all cores: its tests are slow. They leave it as they found it."""
    return finished(tmp_path_factory, "default_study")


@pytest.fixture(scope="session")
def small_fanbeam(tmp_path_factory):
    """A fan-beam study of seconds. Tests leave it as they found it."""
    return finished(tmp_path_factory, "small_fanbeam", SMALL_FANBEAM)


@pytest.fixture(autouse=True)
def own_files_are_imported_anew():
    """pytest may give the folder of a test that has passed to the next one, whose files then have the same paths."""
    registry.import_file.cache_clear()
    registry._load.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The study of the faults, which nothing has disturbed: its results, and the seconds that it took."""
    from tests.faults.lab import CELLS, CONFIG, Study

    study = Study(finished(tmp_path_factory, "faults", CONFIG).folder)
    study.seconds, study.results = float(study.path("seconds").read_text()), study.contents()
    assert len(study.rows()) == len(study.finished_rows()) == CELLS
    assert "unreadable" not in study.results.values()
    return study


@pytest.fixture
def disturbed(undisturbed, tmp_path):
    """A copy of it to disturb, with its metadata and all times; what still runs there at the end is ended."""
    from tests.faults.lab import end_all_in

    yield undisturbed.copy(tmp_path / "study")
    end_all_in(tmp_path)


@pytest.fixture
def rng(request):
    """A generator of its own for every fault, so that one can be repeated without the others."""
    from tests.faults.lab import SEED

    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def koct(capsys, folder, monkeypatch):
    """(status, stdout, stderr) of a command in an empty folder."""
    monkeypatch.delenv("KOCT_TRACEBACK", raising=False)

    def run(*arguments):
        try:
            status = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


STUDIES = {"checkout", "study", "default_study", "small_fanbeam", "lab"}  # fixtures that start Snakemake


def pytest_collection_modifyitems(items):
    """Mark what starts Snakemake; the files that take longest come first, so that no worker ends with one."""
    for item in items:
        if "default_study" in item.fixturenames:
            item.add_marker("slow")
        if STUDIES & set(item.fixturenames):
            item.add_marker("workflow")
    slow = ["slurm", "faults", *map("test_{}".format, ("fsdp", "reruns", "budget", "your_own", "workflow", "report"))]
    place = {name: number for number, name in enumerate(slow)}
    items.sort(key=lambda item: min(place.get(name, len(slow)) for name in (item.path.parent.name, item.path.stem)))


def pytest_xdist_auto_num_workers(config):
    """One more than there are cores: the worker of the cluster waits most of the time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_xdist_make_scheduler(config, log):
    """One worker runs a file, or all files on the cluster of one node: they would disturb one another's jobs."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "one node" if file in ("tests/slurm/test_faults.py", "tests/slurm/test_submissions.py") else file

    return Scheduling(config, log)
