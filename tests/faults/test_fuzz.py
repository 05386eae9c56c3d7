"""Damaged and foreign inputs for every reader: each is read, or refused with a sentence.

KOCT_FUZZ says how many inputs each reader gets (150 by default, 10,000 in `make faults`), KOCT_FAULTS_SEED which.
"""

import io
import json
import os
import random
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
import yaml
from pyarrow import csv

from koct.base.files import read_json
from koct.bound import theorem as bound
from koct.config import study_file as config
from koct.contracts import registry
from koct.errors import KoctError
from koct.forecast import pilot
from koct.problems import pools
from koct.report import labels, products
from koct.report.text import compare_text as compare
from koct.report.text.bound_text import format_table
from koct.study import cells, results
from tests.conftest import ROOT, TINY
from tests.faults import mutations
from tests.faults.command_lines import Study
from tests.faults.lab import SEED

INPUTS = int(os.environ.get("KOCT_FUZZ", "150"))
LIMIT = 300  # seconds that one input may take
MEMORY = 8 * 2**30  # bytes of addresses beyond those in use
PILOT = "arch,N,seed,error\nko,4,1,0.2\nko,4,2,0.22\nko,16,1,0.1\nfc,16,2,0.11\nfc,64,1,0.05\nko,64,2,0.06\n"
PROBLEM = {"H": 4, "V": 5, "B": 4, "tikhonov": 0.1}
CELLS = ROOT / "results" / "reference" / "cells.parquet"
ORIGIN = {
    "koct.archs": {"ko": {"label": "KO", "colour": "#0b6e4f", "marker": "o"}},
    "koct.sweeps": {"H8": {"label": "surrogate", "metric": "mse"}},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tiny study, and pilots."""
    study = Study(tmp_path_factory.mktemp("fuzz"))
    (study.folder / "mine.csv").write_text(PILOT)
    pq.write_table(csv.read_csv(io.BytesIO(PILOT.encode())), study.folder / "mine.parquet")
    return study


class File(NamedTuple):
    """A reader of files: a valid one in the results of the tiny study or elsewhere, and its function or product.

    With `strict`, a file whose bytes have changed must be refused. `share` is its part of the inputs.
    """

    valid: str | Path
    read: Callable[[Path], Any] | str
    strict: bool = False
    share: float = 1

    def prepare(self, made, folder):
        """(draw, read): functions of random numbers, and of what was drawn."""
        path = made.folder / "results" / self.valid
        place = folder / f"drawn{path.suffix}"
        valid = path.read_bytes()
        table = pq.ParquetFile(path).read() if path.suffix == ".parquet" else None

        def draw(rng):
            kind = rng.random()
            if table is not None and kind < 0.5:
                other = mutations.unstamped(table) if kind < 0.3 else table
                other = mutations.metadata(other, rng) if kind < 0.1 else other
                return mutations.table(rng, other) if kind < 0.4 else mutations.table(rng)
            data = mutations.foreign(rng) if kind < 0.6 else mutations.damaged(valid, rng)
            return draw(rng) if data == valid else data

        def read_bytes(data):
            place.write_bytes(data)
            if callable(self.read):
                return self.read(place)
            name, ending = os.path.splitext(self.read)
            files = [place if file == self.valid else path.with_name(file) for file in products.product(name).reads]
            return products.make(name, files, [folder / f"out{ending}"])

        read_bytes(valid)
        return draw, read_bytes


class Value(NamedTuple):
    """A reader of values as JSON has them."""

    valid: Any
    read: Callable[[Any], Any]
    strict: bool = False
    share: float = 1

    def prepare(self, made, folder):
        self.read(self.valid)
        return lambda rng: mutations.changed(self.valid, rng), self.read


class Commands(NamedTuple):
    """Command lines."""

    strict: bool = False
    share: float = 1

    def prepare(self, made, folder):
        return made.draw, made.run_and_restore


def read_labels(value):
    origin = value if isinstance(value, dict) else {"koct.archs": value}
    origin = {key: text if isinstance(text, str) else json.dumps(text) for key, text in origin.items()}
    names = labels.Names(origin)
    return names.arch("ko"), names.colour("ko"), names.marker("fc"), names.problem("H8", "x")


def read_pool(path):
    pool = pools.Pool(path, registry.problem("surrogate")(**PROBLEM), 1)
    return [(pool.x(part), pool.y(part)) for part in pools.PARTS]


def read_known(path):
    return cells.read_shared(str(path), registry.problem("surrogate")(**PROBLEM))


def compared(path):
    return compare.compare(path, CELLS, 0.005)


# Everything that reads what people, other programs or earlier runs have written.
READERS = {
    "pool": File("pools/T4/seed1.npy", read_pool, strict=True),
    "known operator": File("known/T4.npy", read_known, strict=True),
    "fit": File("fits/T4/ko/N4_seed1.npy", lambda path: cells.read_fit(str(path)), strict=True),
    "row": File("cells/T4/ko/N4_seed1.json", read_json, strict=True),
    "table of cells": File("cells.parquet", results.read),
    "pilot, CSV": File("../mine.csv", pilot.read_pilots),
    "pilot, Parquet": File("../mine.parquet", pilot.read_pilots),
    "pilot, cells": File("cells.parquet", lambda path: pilot.read_pilots(path, "rrmse_peak2", "T4")),
    "compare": File(CELLS, compared),
    "compare, stamped": File("cells.parquet", compared),
    "labels": Value(ORIGIN, read_labels),
    "network.yaml": File("../network.yaml", lambda path: format_table(bound.read_network(path), 256)),
    "config": Value(TINY, config.read),
    "config, all sweeps": Value(yaml.safe_load((ROOT / "config.yaml").read_text()), config.read, share=0.5),
    "table of calibration": File("calibration.parquet", "table_calibration.tex", share=0.5),
    "table of outcomes, curves": File("curves.parquet", "table_scaling.tex", share=0.5),
    "table of outcomes, calibration": File("calibration.parquet", "table_scaling.tex", share=0.5),
    "table of budgets": File("budget.parquet", "table_budget.tex", share=0.5),
    **{
        f"figure, {name}": File(f"{name}.parquet", "fig_sweeps.svg", share=0.05)
        for name in ("cells", "curves", "calibration", "theory")
    },
    "command lines": Commands(),
}


class TooLong(BaseException):
    """A reader takes longer than a person would wait."""


def _stop(number, frame):
    raise TooLong(f"more than {LIMIT} s")


@pytest.fixture
def bounded():
    """Time and memory have limits, and a warning of NumPy's is no answer."""
    before = signal.signal(signal.SIGALRM, _stop), resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1][1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield
    signal.signal(signal.SIGALRM, before[0])
    resource.setrlimit(resource.RLIMIT_AS, before[1])


@pytest.mark.parametrize("name", READERS)
def test_an_input_is_read_or_refused_with_a_sentence(name, made, tmp_path, bounded):
    reader, rng = READERS[name], random.Random(f"{SEED} {name}")
    draw, read = reader.prepare(made, tmp_path)
    refused, wrong = 0, {}  # what is wrong, with an input
    for _ in range(max(1, round(INPUTS * reader.share))):
        data = draw(rng)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        try:
            read(data)
            if reader.strict:
                wrong["a changed file was accepted"] = data
        except KoctError as error:
            refused += 1
            if not str(error).strip():
                wrong["an error without a sentence"] = data
        except (Exception, TooLong) as error:
            wrong[in_words(error)] = data
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert wrong == {}
    assert refused > 0


def in_words(error):
    """The exception, and the innermost line of koct that it passed through."""
    steps = [step for step in traceback.extract_tb(error.__traceback__) if "/koct/" in step.filename]
    where = f" at {Path(steps[-1].filename).name}:{steps[-1].lineno}" if steps else ""
    return f"{type(error).__name__}: {str(error)[:300]}{where}"
