"""Damaged and foreign inputs for every reader: each is read, or refused with a sentence.

KOCT_FUZZ says how many inputs each reader gets (150 by default, 10,000 in `make faults`), KOCT_FAULTS_SEED which.
"""

import copy
import gzip
import os
import random
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from koct.base.files import read_json
from koct.bound import theorem as bound
from koct.config import study_file as config
from koct.contracts import registry
from koct.errors import KoctError
from koct.forecast import pilot
from koct.problems import pools
from koct.report.text import compare_text as compare
from koct.report.text.bound_text import format_table
from koct.study import cells, results
from tests.conftest import CONFIG, ROOT, TINY
from tests.faults.lab import SEED

pytestmark = pytest.mark.slow
INPUTS = int(os.environ.get("KOCT_FUZZ", "150"))
PROBLEM = registry.problem("surrogate")(H=4, V=5, B=4, tikhonov=0.1)
REFERENCE = ROOT / "results" / "reference" / "cells.parquet"
TOKENS = ["nan", "inf", "-inf", "1e999", "-1", "0", "", "0,05", "1_000", "٣", "9" * 60, "1e-400", "null", "true", "x"]
TOKENS += ["=1+1", '"', "'", ";", "\t", "\0", "\r", "\ufeff", "{", "[", "&a", "*a", "!!python/object:x"]
FOREIGN = [b"", b"{}", b"[]", b"N,error\n4,0.1\n", "N,error\n4,0.1\n".encode("utf-16"), bytes(1000), b"%PDF-1.4\n"]
FOREIGN += [gzip.compress(b"N,error\n4,0.1\n"), b"\x89PNG\r\n\x1a\n" + bytes(20), b"x" * 300_000]
JUNK = [None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**30, "", "x", "1", "\0", [], {}, [1, 1], {"x": 1}]


def damaged(data, rng):
    """Bytes with one kind of damage."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice([1, 4, 30, 500]))
    match rng.choice(["flip", "cut", "repeat", "token", "truncate", "foreign"]):
        case "flip" if data:
            data = bytearray(data)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(data)
        case "cut":
            return data[:start] + data[end:]
        case "repeat":
            return data[:end] + data[start:end] + data[end:]
        case "token":  # something that a person or a spreadsheet might write, often in place of a number
            digits = [i for i, letter in enumerate(data[:20_000]) if chr(letter).isdigit()]
            start = rng.choice(digits) if digits else start
            return data[:start] + rng.choice(TOKENS).encode() + data[start + 1 :]
        case "truncate":
            return data[:start]
    return rng.choice(FOREIGN)


def other_table(data, rng):
    """A Parquet file without a stamp in which a column is missing, or of another type."""
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    kept = {key: text for key, text in (table.schema.metadata or {}).items() if key != b"koct.stamp"}
    table, at = table.replace_schema_metadata(kept), rng.randrange(table.num_columns)
    value = rng.choice(["a", None, -1, float("nan"), 1e300, [1], "drop"])
    name, changed = table.column_names[at], table.remove_column(at)
    if value != "drop":
        changed = changed.add_column(at, name, pa.array([value] * table.num_rows))
    sink = pa.BufferOutputStream()
    pq.write_table(changed, sink)
    return sink.getvalue().to_pybytes()


def changed(old, rng):
    """A mapping in which a value is missing, or something else."""
    holder = new = copy.deepcopy(old)
    while True:
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        if not holder[key] or not isinstance(holder[key], dict | list) or rng.random() < 0.3:
            break
        holder = holder[key]
    if rng.random() < 0.3:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(rng.choice(JUNK))
    return new


def read_pool(path):
    pool = pools.Pool(path, PROBLEM, 1)
    return [(pool.x(part), pool.y(part)) for part in pools.PARTS]


# Everything that reads what people, other programs or earlier runs have written: a valid file, and what reads it.
FILES = {
    "pool": ("results/pools/T4/seed1.npy", read_pool),
    "known operator": ("results/known/T4.npy", lambda path: cells.read_shared(str(path), PROBLEM)),
    "fit": ("results/fits/T4/ko/N4_seed1.npy", lambda path: cells.read_fit(str(path))),
    "row": ("results/cells/T4/ko/N4_seed1.json", read_json),
    "cells": ("results/cells.parquet", results.read),
    "pilot, CSV": (ROOT / "docs/pilot.csv", lambda path: pilot.PilotFile(path).pilots()),
    "pilot, cells": ("results/cells.parquet", lambda path: pilot.PilotFile(path).pilots("rrmse_peak2", "T4")),
    "compare": (REFERENCE, lambda path: compare.compare(path, REFERENCE, 0.005)),
    "network": (ROOT / "docs/network.yaml", lambda path: format_table(bound.read_network(path), 256)),
}
STRICT = {"pool", "known operator", "fit", "row"}  # of which any changed byte is refused


def refused(read, inputs, strict=False):
    """Return how many inputs are refused with a sentence; others are read, and `strict` readers read none."""
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # which is no answer
        for number, data in enumerate(inputs):
            try:
                read(data)
                assert not strict, f"input {number} was accepted"
            except KoctError as error:
                count += bool(str(error).strip())
    return count


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_or_refused_with_a_sentence(name, undisturbed, tmp_path):
    place, read = FILES[name]
    valid, path, rng = undisturbed.path(place).read_bytes(), tmp_path / os.path.basename(place), random.Random(SEED)

    def read_bytes(data):
        path.write_bytes(data)
        return read(path)

    def draw():
        if path.suffix == ".parquet" and rng.random() < 0.5:
            return other_table(valid, rng)
        data = damaged(valid, rng)
        return draw() if data == valid else data

    read_bytes(valid)
    assert refused(read_bytes, (draw() for _ in range(INPUTS)), name in STRICT)


@pytest.mark.parametrize("valid", [TINY, CONFIG], ids=["one sweep", "all sweeps"])
def test_a_config_is_read_or_refused_with_a_sentence(valid):
    rng = random.Random(SEED)
    config.read(valid)
    assert refused(config.read, (changed(valid, rng) for _ in range(INPUTS)))
