"""Throw damaged and foreign inputs at every reader: each must be read, or refused with a sentence.

python -m tests.faults.fuzz --inputs 10000 --seed 1         so many in all
python -m tests.faults.fuzz --only labels --inputs 100      of one reader

Exit status 1 if anything but a KoctError comes out, if a reader takes too long, or if one that has a checksum to look
at accepts a changed file.
"""

import argparse
import atexit
import collections
import contextlib
import io
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import yaml

from koct.base.files import read_json
from koct.bound import theorem as bound
from koct.config import study_file as config
from koct.contracts import registry
from koct.errors import KoctError
from koct.forecast import pilot
from koct.problems import pools
from koct.report import labels
from koct.report import registry as products
from koct.report.text import compare_text as compare
from koct.report.text.bound_text import format_table
from koct.study import cells, results
from tests.conftest import ROOT, TINY
from tests.faults import mutations
from tests.faults.command_lines import Study

LIMIT = 30  # seconds that one input may take
MEMORY = 8 * 2**30  # bytes of addresses beyond those in use
CSV = "arch,N,seed,error\nko,4,1,0.2\nko,4,2,0.22\nko,16,1,0.1\nfc,16,2,0.11\nfc,64,1,0.05\nko,64,2,0.06\n"


class File(NamedTuple):
    """A reader of files. `make` writes a valid one to a path, `read` reads one; `share` is its part of the inputs.

    With `strict`, a file whose bytes have changed must be refused.
    """

    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    suffix: str
    strict: bool = False
    share: float = 1

    def prepare(self, folder):
        """(draw, read): functions of random numbers, and of what was drawn."""
        path, place = folder / f"valid{self.suffix}", folder / f"drawn{self.suffix}"
        self.make(path)
        self.read(path)
        valid = path.read_bytes()
        table = pq.ParquetFile(path).read() if self.suffix == ".parquet" else None

        def draw(rng):
            kind = rng.random()
            if table is not None and kind < 0.5:
                other = mutations.unstamped(table) if kind < 0.3 else table
                other = mutations.metadata(other, rng) if kind < 0.1 else other
                return mutations.table(rng, other) if kind < 0.4 else mutations.table(rng)
            found = mutations.foreign(rng) if kind < 0.6 else mutations.damaged(valid, rng)
            return draw(rng) if found == valid else found

        def read_bytes(data):
            place.write_bytes(data)
            return self.read(place)

        return draw, read_bytes


class Value(NamedTuple):
    """A reader of values as JSON has them."""

    make: Callable[[], Any]
    read: Callable[[Any], Any]
    share: float = 1
    strict: bool = False

    def prepare(self, folder):
        valid = self.make()
        self.read(valid)
        return lambda rng: mutations.changed(valid, rng), self.read


class Commands(NamedTuple):
    """Command lines."""

    share: float = 1
    strict: bool = False

    def prepare(self, folder):
        study = Study(folder, made=finished().parent)
        return study.draw, study.run_and_restore


def pilot_parquet(path):
    from pyarrow import csv

    pq.write_table(csv.read_csv(io.BytesIO(CSV.encode())), path)


@cache
def finished():
    """The results of the tiny study, in a folder that lasts as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="koct-fuzz-")
    atexit.register(folder.cleanup)
    return Study(Path(folder.name)).folder / "results"


def from_study(name):
    return lambda path: shutil.copy(finished() / name, path)


def product(name, changed, ending=".tex"):
    """Return a reader of a file: a product that is made from it, and from other files of the study."""

    def read_it(path):
        given = [path if file == changed else finished() / file for file in products.product(name).reads]
        products.make(name, given, [path.parent / f"out{ending}"])

    return read_it


DRAWN = ("cells", "curves", "calibration", "theory")


def described():
    origin = {"koct.archs": {"ko": {"label": "KO", "colour": "#0b6e4f", "marker": "o"}}}
    return origin | {"koct.sweeps": {"H8": {"label": "surrogate", "metric": "mse"}}}


def read_labels(value):
    origin = value if isinstance(value, dict) else {"koct.archs": value}
    origin = {key: text if isinstance(text, str) else json.dumps(text) for key, text in origin.items()}
    names = labels.Names(origin)
    return names.arch("ko"), names.colour("ko"), names.marker("fc"), names.problem("H8", "x")


def whole_config():
    return yaml.safe_load((ROOT / "config.yaml").read_text())


def small_config():
    return TINY


def read_pool(path):
    pool = pools.Pool(path, registry.problem("surrogate")(**PROBLEM), 1)
    return [(pool.x(part), pool.y(part)) for part in pools.PARTS]


def read_known(path):
    return cells.read_shared(str(path), registry.problem("surrogate")(**PROBLEM))


PROBLEM = {"H": 4, "V": 5, "B": 4, "tikhonov": 0.1}
CELLS = ROOT / "results" / "reference" / "cells.parquet"

# Everything that reads what people, other programs or earlier runs have written.
READERS = {
    "pool": File(from_study("pools/T4/seed1.npy"), read_pool, ".npy", strict=True),
    "known operator": File(from_study("known/T4.npy"), read_known, ".npy", strict=True),
    "fit": File(from_study("fits/T4/ko/N4_seed1.npy"), lambda path: cells.read_fit(str(path)), ".npy", strict=True),
    "row": File(from_study("cells/T4/ko/N4_seed1.json"), read_json, ".json", strict=True),
    "table of cells": File(from_study("cells.parquet"), results.read, ".parquet"),
    "pilot, CSV": File(lambda path: path.write_text(CSV), pilot.read_pilots, ".csv", share=2),
    "pilot, Parquet": File(pilot_parquet, pilot.read_pilots, ".parquet", share=2),
    "pilot, cells": File(
        from_study("cells.parquet"), lambda path: pilot.read_pilots(path, "rrmse_peak2", "T4"), ".parquet"
    ),
    "compare": File(
        lambda path: shutil.copy(CELLS, path), lambda path: compare.compare(path, CELLS, 0.005), ".parquet", share=2
    ),
    "compare, stamped": File(from_study("cells.parquet"), lambda path: compare.compare(path, CELLS, 0.005), ".parquet"),
    "labels": Value(described, read_labels, share=2),
    "network.yaml": File(
        lambda path: shutil.copy(ROOT / "docs" / "network.yaml", path),
        lambda path: format_table(bound.read_network(path), 256),
        ".yaml",
        share=2,
    ),
    "config": Value(small_config, config.read, share=2),
    "config, all sweeps": Value(whole_config, config.read, share=0.5),
    "table of calibration": File(
        from_study("calibration.parquet"),
        product("table_calibration", "calibration.parquet"),
        ".parquet",
        share=0.5,
    ),
    "table of outcomes, curves": File(
        from_study("curves.parquet"),
        product("table_scaling", "curves.parquet"),
        ".parquet",
        share=0.5,
    ),
    "table of outcomes, calibration": File(
        from_study("calibration.parquet"),
        product("table_scaling", "calibration.parquet"),
        ".parquet",
        share=0.5,
    ),
    "table of budgets": File(
        from_study("budget.parquet"), product("table_budget", "budget.parquet"), ".parquet", share=0.5
    ),
    "table of norms": File(from_study("norms.json"), product("table_structural", "norms.json"), ".json", strict=True),
    **{
        f"figure, {name}": File(
            from_study(f"{name}.parquet"),
            product("fig_sweeps", f"{name}.parquet", ".svg"),
            ".parquet",
            share=0.05,
        )
        for name in DRAWN
    },
    "command lines": Commands(share=4),
}


class Tally:
    """What became of the inputs of a reader."""

    def __init__(self):
        self.inputs = self.accepted = self.refused = 0
        self.others = []  # (text, input)
        self.seconds = 0.0

    def line(self, name):
        counts = f"{self.inputs:7,} {self.accepted:9,} {self.refused:8,} {len(self.others):6,}"
        return f"{name:32} {counts} {self.seconds:7.1f} s"


HEAD = f"{'reader':32} {'inputs':>7} {'accepted':>9} {'refused':>8} {'other':>6} {'time':>9}"


class TooLong(BaseException):
    """A reader takes longer than a person would wait."""


def _stop(number, frame):
    raise TooLong(f"more than {LIMIT} s")


@contextlib.contextmanager
def bounded():
    """Time and memory have limits, and a warning of NumPy's is no answer."""
    before = signal.signal(signal.SIGALRM, _stop), resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1][1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            yield
    finally:
        signal.signal(signal.SIGALRM, before[0])
        resource.setrlimit(resource.RLIMIT_AS, before[1])


def fuzz(name, count, seed, folder):
    """Throw inputs at a reader."""
    reader, rng, tally = READERS[name], random.Random(f"{seed} {name}"), Tally()
    folder.mkdir()
    draw, take = reader.prepare(folder)
    started = time.perf_counter()
    with bounded():
        for _ in range(count):
            given = draw(rng)
            tally.inputs += 1
            signal.setitimer(signal.ITIMER_REAL, LIMIT)
            try:
                take(given)
                tally.accepted += 1
                if reader.strict:
                    tally.others.append(("a changed file was accepted", given))
            except KoctError as error:
                tally.refused += 1
                if not str(error).strip():
                    tally.others.append(("an error without a sentence", given))
            except (Exception, TooLong) as error:
                tally.others.append((_told(error), given))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    tally.seconds = time.perf_counter() - started
    return tally


def _told(error):
    """The exception, and the innermost line of koct that it passed through."""
    steps = [step for step in traceback.extract_tb(error.__traceback__) if "/koct/" in step.filename]
    where = f" at {Path(steps[-1].filename).name}:{steps[-1].lineno}" if steps else ""
    return f"{type(error).__name__}: {str(error)[:300]}{where}"


def shares(names, inputs):
    """How many inputs each reader gets."""
    return {name: max(1, round(inputs * min(1, READERS[name].share))) for name in names}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--inputs", type=int, default=10_000, metavar="N", help="for a reader, fewer for a slow one (default: 10000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="decides all that is random (default: 1)")
    parser.add_argument("--only", action="append", choices=READERS, help="this reader; may be given again")
    options = parser.parse_args()
    names = options.only or list(READERS)
    started, found = time.perf_counter(), {}
    print(HEAD, "-" * len(HEAD), sep="\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="koct-fuzz-") as folder:
        for i, (name, count) in enumerate(shares(names, options.inputs).items()):
            found[name] = fuzz(name, count, options.seed, Path(folder, str(i)))
            print(found[name].line(name), flush=True)
    total = Tally()
    for tally in found.values():
        total.inputs, total.accepted = total.inputs + tally.inputs, total.accepted + tally.accepted
        total.refused, total.others = total.refused + tally.refused, total.others + tally.others
        total.seconds += tally.seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print("-" * len(HEAD), total.line("all"), sep="\n")
    print(f"seed {options.seed}, {time.perf_counter() - started:.0f} s, peak memory {peak:.1f} GiB")
    for name, tally in found.items():
        kinds = collections.Counter(text for text, _ in tally.others)
        examples = {text: given for text, given in reversed(tally.others)}
        for text, times in kinds.most_common(10):
            print(f"\n{name}, {times} times: {text}\n    {str(examples[text])[:400]}")
    return 1 if total.others else 0


if __name__ == "__main__":
    sys.exit(main())
