"""Histories of a study: edits, kills, damage, copies and rows between two clones, in any order.

After a run that raised no error, the table equals that of a clean run of the same data, helper and config in an empty
folder. The helper is a file that the user's problem imports, by a name that Python has on other systems.
What Snakemake does with the answers of `koct.workflow.stale` is written out once more, so that a history takes
milliseconds. KOCT_HISTORIES says how many are tried.
"""

import contextlib
import functools
import importlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from koct.base import stamps
from koct.base.files import temporary_name
from koct.base.stamps import VOLATILE
from koct.commands import stages
from koct.contracts import registry
from koct.errors import KoctError
from koct.study import paths, results
from koct.workflow import queue, resources, sources, stale
from koct.workflow.jobs import Jobs
from koct.workflow.planned import Guard

pytestmark = pytest.mark.thorough
HISTORIES = int(os.environ.get("KOCT_HISTORIES", "25"))
FAST = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a file system in memory
TABLE, IMAGES = "results/cells.parquet", "results/images.parquet"
GRIDS, LAMBDAS, DATA = ([2, 3], [2, 4]), ([1.0], [10.0, 100.0]), (0, 1)
POOLS = {"train": 5, "val": 2, "test": 2}, {"train": 4, "val": 2, "test": 3}  # as many pairs, others to train with
FOLDERS = ["pools", "grams", "cells", "fits"]
PROBLEM = """
from nt import FACTOR
from koct.problems.pairs import PairsProblem

class Own(PairsProblem):
    def pairs(self, seed, sizes):
        for part, x, y in super().pairs(seed, sizes):
            yield part, x, FACTOR * y
"""


def config(chosen):
    grid, lambdas, pool = (choices[i] for choices, i in zip((GRIDS, LAMBDAS, POOLS), chosen, strict=True))
    sweep = {"problem": "own.py", "x": "x.npy", "y": "y.npy", "archs": ["fc"], "seeds": [1, 2], "theory": False}
    sweep |= {"N": grid, "lambdas": lambdas, "metric": "mse", "pool": pool}
    return {"study": "s", "studies": {"s": ["own"]}, "sweeps": {"own": sweep}, "device": "cpu"}


def write_data(seed):
    rng = np.random.default_rng(seed)
    np.save("x.npy", rng.standard_normal((9, 6)))
    np.save("y.npy", rng.standard_normal((9, 2)))


def write_helper(number):
    Path("nt.py").write_text(f"FACTOR = {1 + number}\n")


def import_again():
    """Import the user's files as a new process does, if the helper is not the one that was imported."""
    helper = sys.modules.get("nt")
    if helper and f"FACTOR = {helper.FACTOR}\n" == Path("nt.py").read_text():
        return
    for known in (registry._load, registry.import_file, sources.digest, sources.own_digest, sources._read):
        known.cache_clear()
    registry._HELPERS.clear()
    sys.modules.pop("nt", None)
    sys.path[:] = [place for place in sys.path if not os.path.isfile(os.path.join(place, "nt.py"))]
    importlib.invalidate_caches()


@mock.patch.object(resources, "shares_gram", lambda sweep: True)  # noqa: PT008  # as large pools do
def planned(chosen):
    """The jobs of a study, each behind those whose outputs it reads."""
    import_again()
    jobs = Jobs(config(chosen))
    os.environ.update(jobs.environment())
    (sweep,) = jobs.study
    pools, grams, fits = [], [], []
    for seed in sweep.seeds:
        of, pool, gram = SimpleNamespace(sweep="own", seed=seed), paths.pool("own", seed), paths.gram("own", seed)
        pools.append(job("pool", jobs.pool_spec(of), [], [pool]))
        grams.append(job("gram", jobs.problem_spec("gram")(of), [pool], [gram]))
        for N in sweep.N:
            cell = {"sweep": "own", "arch": "fc", "N": N, "seed": seed}
            made = [paths.cell(**cell), paths.fit(**cell)]
            if made[1] not in jobs.brought:
                fits.append(job("fit", jobs.row_spec(SimpleNamespace(**cell)), [pool, gram], made))
    return [*pools, *grams, *fits, job("collect", jobs.study_spec(), jobs.cells, [TABLE, IMAGES])]


def job(verb, spec, read, written):
    return SimpleNamespace(verb=verb, params={"spec": spec}, input=read, output=written)


def needed(jobs):
    """What Snakemake runs: what is outdated or asked for and missing, what that reads, and all that reads of it."""
    teller = stale.Stale(SimpleNamespace(info=lambda line: None))
    missing = [one for one in jobs if not all(map(os.path.exists, one.output))]
    found = [one for one in jobs if teller.outputs(one) or (one in missing and not one.output[0].endswith(".npy"))]
    while True:
        read = {path for one in found for path in one.input}
        made = {path for one in found for path in one.output}
        more = [one for one in missing if one not in found and read & set(one.output)]
        more += [one for one in jobs if one not in found + more and made & set(one.input)]
        if not more:
            return [one for one in jobs if one in found]
        found += more


def run(jobs, stop=None, events=None):
    """Run what is needed, or as many jobs; whether all of it was run. Events happen before the job of a number."""
    queue.remove_temporaries()
    for number, one in enumerate(needed(jobs)):
        if events and number in events:
            events[number]()
        updated = {"fit": 1, "collect": 2}.get(one.verb, 0)  # outputs that Snakemake leaves there: update()
        for path in one.output[: len(one.output) - updated]:
            Path(path).unlink(missing_ok=True)
        if number == stop:
            left = Path(one.output[0])
            left.parent.mkdir(parents=True, exist_ok=True)
            left.with_name(temporary_name(left.name)).write_bytes(b"half")
            return False
        spec = json.loads(one.params["spec"])
        import_again()
        with mock.patch.object(stamps, "guard", Guard(one.verb, spec)) as guard:
            guard()
            stages.VERBS[one.verb][0](spec, one.input, one.output)
    return True


def rows():
    found = results.read(TABLE)[0]
    return [{key: value for key, value in row.items() if key not in VOLATILE} for row in found]


@functools.cache
def clean(data, helper, *chosen):
    """(rows, files) of a run in an empty folder."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder, contextlib.chdir(folder):
        Path("own.py").write_text(PROBLEM)
        write_data(data)
        write_helper(helper)
        run(planned(chosen))
        return rows(), {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


clones = st.integers(0, 1)
some = st.integers(0, 10**6)


class Histories(RuleBasedStateMachine):
    """Two clones that begin with complete results, of the same config and of other data or another helper."""

    def __init__(self):
        super().__init__()
        self.stack = contextlib.ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(dir=FAST)))
        for context in (contextlib.chdir(self.folder), mock.patch.dict(os.environ)):
            self.stack.enter_context(context)
        self.stack.enter_context(mock.patch.object(stale, "SMALL", 0))  # the jobs that read arrays notice damage
        self.stack.enter_context(mock.patch.object(sys, "dont_write_bytecode", True))
        self.shared = False  # whether both have the same results

    @initialize(what=clones)
    def begin(self, what):
        self.states = [[0] * 5, [0] * 5]  # of each clone: its data, its helper, and what was chosen of the config
        self.states[1][what] = 1
        for clone in (0, 1):
            for path, content in clean(*self.states[clone])[1].items():
                place = self.folder / str(clone) / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

    def teardown(self):
        """Every history ends with a run of each clone, and a second one if the first says what is wrong."""
        with self.stack:
            for clone in (0, 0, 1, 1):
                self.run_it(clone, None)

    def enter(self, clone):
        os.chdir(self.folder / str(clone))

    def file(self, clone, number):
        """One of a clone's results, or a folder if there are none."""
        self.enter(clone)
        found = sorted(path for path in Path("results").rglob("*") if path.is_file())
        return found[number % len(found)] if found else Path()

    @rule(clone=clones, data=st.sampled_from(DATA), keep=st.booleans())
    def edit_data(self, clone, data, keep):
        """With a new time, or with the old one."""
        self.enter(clone)
        about = os.stat("x.npy")
        write_data(data)
        if keep:
            for name in ("x.npy", "y.npy"):
                os.utime(name, ns=(about.st_atime_ns, about.st_mtime_ns))
        self.states[clone][0] = data

    @rule(clone=clones, helper=st.sampled_from(DATA))
    def edit_helper(self, clone, helper):
        self.enter(clone)
        write_helper(helper)
        self.states[clone][1] = helper

    @rule(clone=clones, grid=st.integers(0, 1), lambdas=st.integers(0, 1), pool=st.integers(0, 1))
    def edit_config(self, clone, grid, lambdas, pool):
        self.states[clone][2:] = [grid, lambdas, pool]

    @rule(clone=clones, number=some, place=some, cut=st.booleans())
    def damage(self, clone, number, place, cut):
        """Change a byte of a file, or cut the file off there."""
        path = self.file(clone, number)
        if path.is_file() and (data := bytearray(path.read_bytes())):
            place %= len(data)
            data[place] ^= 1 + place % 255
            path.write_bytes(data[:place] if cut else data)

    @rule(clone=clones, what=some | st.sampled_from(FOLDERS))
    def remove(self, clone, what):
        """Remove a file or a folder."""
        if isinstance(what, str):
            self.enter(clone)
            shutil.rmtree(os.path.join("results", what), ignore_errors=True)
        elif (path := self.file(clone, what)).is_file():
            path.unlink()

    @rule(clone=clones, number=some, other=some)
    def swap(self, clone, number, other):
        one, two = self.file(clone, number), self.file(clone, other)
        if one != two:
            one.rename("aside")
            two.rename(one)
            Path("aside").rename(two)

    @rule(clone=clones, what=some | st.sampled_from([*FOLDERS, "."]))
    def copy(self, clone, what):
        """Copy a file or a folder of the other clone, with its times."""
        if self.shared:
            return
        path = Path("results", what) if isinstance(what, str) else self.file(1 - clone, what)
        self.enter(clone)
        here, there = path, self.folder / str(1 - clone) / path
        if there.is_file():
            here.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(there, here)
        elif there.exists() and isinstance(what, str):
            shutil.copytree(there, here, dirs_exist_ok=True)

    @rule(clone=clones, own=st.booleans())
    def borrow(self, clone, own):
        """Bring the rows of the other clone, and remove its own if they are not wanted."""
        self.enter(clone)
        if (there := self.folder / str(1 - clone) / "results/cells").is_dir():
            shutil.copytree(there, paths.BROUGHT, dirs_exist_ok=True)
        if not own:
            shutil.rmtree("results/cells", ignore_errors=True)

    @rule()
    def share(self):
        """Let one clone have the results of the other, by a link."""
        if not self.shared:
            self.enter(1)
            shutil.rmtree("results", ignore_errors=True)
            os.symlink("../0/results", "results")
        self.shared = True

    @rule(clone=clones, number=some, seconds=st.integers(0, 2 * 10**9))
    def set_the_clock(self, clone, number, seconds):
        os.utime(self.file(clone, number), (seconds, seconds))

    @rule(clone=clones, first=st.integers(0, 9), then=st.integers(1, 9), value=st.sampled_from(DATA), what=clones)
    def edit_while_it_runs(self, clone, first, then, value, what):
        """Other data, or another helper, before a job, and these or the old ones before a later one."""

        def write(value):
            (write_data, write_helper)[what](value)
            self.states[clone][what] = value

        other = 1 - self.states[clone][what]
        self.run_it(clone, None, {first: lambda: write(other), first + then: lambda: write(value)})

    @rule(clone=clones, stop=st.none() | st.integers(0, 8))
    def run_it(self, clone, stop, events=None):
        """To the end, or until it is killed. A helper edited when only rows are left to collect is the next run's."""
        self.enter(clone)
        helper, jobs, ended = self.states[clone][1], planned(self.states[clone][2:]), False
        with contextlib.suppress(KoctError):
            ended = run(jobs, stop, events)
        data, _, *chosen = self.states[clone]
        assert not ended or rows() == clean(data, helper, *chosen)[0]


Histories.TestCase.settings = settings(
    max_examples=HISTORIES, stateful_step_count=6, deadline=None, suppress_health_check=list(HealthCheck)
)
TestHistories = Histories.TestCase
