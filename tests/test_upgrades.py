"""Results of an older koct: pools, fits and rows are recognised and made again, Parquet tables are still read.

`old_results` is a small study as koct made it before files had stamps; stamps of the first format, with a CRC-32, are
written here.
"""

import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest

from koct.base import stamps
from koct.workflow.stale import Stale

OLD = Path(__file__).with_name("old_results")
FINAL = ("cells", "curves", "calibration")


@pytest.fixture(scope="module")
def upgraded(checkout):
    """A run in a folder with old results, and what it printed."""
    run = checkout()
    config = (OLD / "config.yaml").read_text()
    run.path("config.yaml").write_text(config + "    theory: false\n")  # which there was not
    shutil.copytree(OLD / "results", run.path("results"))
    return run, run.snakemake()


def test_old_results_are_made_again_and_named(upgraded):
    run, done = upgraded
    assert "is made again: it is not of this version of koct." in done.stderr
    assert run.plan() == {}


@pytest.mark.parametrize("name", FINAL)
def test_the_numbers_are_the_same(upgraded, name):
    run, _ = upgraded
    old, new = (
        pd.read_parquet(folder / f"{name}.parquet").drop(columns="fit_seconds", errors="ignore")
        for folder in (OLD / "results", run.path("results"))
    )
    pd.testing.assert_frame_equal(new[old.columns], old, rtol=1e-9)


def test_the_planner_answers_the_same_questions(upgraded):
    """Its laws are others now, so its answers are, too."""
    run, _ = upgraded
    old, new = (pd.read_parquet(folder / "budget.parquet") for folder in (OLD / "results", run.path("results")))
    pd.testing.assert_frame_equal(new[["sweep", "arch", "target"]], old[["sweep", "arch", "target"]])
    assert set(old.columns) <= set(new.columns)


def test_old_tables_are_read(upgraded, tmp_path):
    run, _ = upgraded
    old = OLD / "results"
    assert "no curve differs" in run.koct("compare", "results/cells.parquet", old / "cells.parquet").stdout
    given = [old / "curves.parquet", old / "calibration.parquet"]
    run.koct("product", "table_calibration", *given, "--out", tmp_path / "table.tex")
    made, before = (path.read_text() for path in (tmp_path / "table.tex", old / "table_calibration.tex"))
    assert made.startswith(before)
    run.koct("budget", old / "cells.parquet", "--metric", "mse", "--target", "0.01")


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("evaluate", ["fits/H4/ko/N4_seed1.npy", "--pool", "pools/H4/seed1.npy", "--out", "row.json"]),
        ("gram", ["--spec", '{"problem": {"source": "surrogate", "options": {"H": 4, "V": 5, "B": 4}}}']),
    ],
)
def test_a_verb_refuses_an_old_file(upgraded, verb, arguments, tmp_path):
    run, _ = upgraded
    old = [str(OLD / "results" / word) if word.endswith(".npy") else word for word in arguments]
    if verb == "gram":
        old += ["--pool", str(OLD / "results/pools/H4/seed1.npy"), "--out", str(tmp_path / "gram.npy")]
    done = run.koct(verb, *old, check=False)
    assert done.returncode == 2
    assert "is not a file of this version of koct: it has no stamp; `rm " in done.stderr


# Stamps of the first format


@pytest.fixture
def old_table(tmp_path):
    """A cells.parquet with a stamp of the first format."""
    path = tmp_path / "cells.parquet"
    text = b'{"koct-stamp": 1, "checksum": "00000000", "own": "", "content": "", "inputs": "", "spec": {}, "about": {}}'
    table = pq.ParquetFile(OLD / "results/cells.parquet").read()
    pq.write_table(table.replace_schema_metadata({stamps.TABLE_KEY: text}), path)
    data = path.read_bytes()
    place = data.rfind(text) + text.index(b"00000000")
    path.write_bytes(data[:place] + f"{zlib.crc32(data):08x}".encode() + data[place + 8 :])
    return path


VERBS = {
    "budget": ["--metric", "mse", "--target", "0.01"],
    "next": ["--metric", "mse", "--target", "0.01"],
    "planner": ["--metric", "mse", "--out", "page.html"],
    "compare": [OLD / "results/cells.parquet"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_tables_of_the_first_format_are_read_unless_they_are_damaged(koct, old_table, verb):
    assert koct(verb, old_table, *VERBS[verb])[0] == 0
    data = bytearray(old_table.read_bytes())
    data[len(data) // 3] ^= 1
    old_table.write_bytes(data)
    status, _, err = koct(verb, old_table, *VERBS[verb])
    assert status == 2
    assert "cells.parquet is damaged: its checksum is wrong" in err


def test_every_byte_of_a_file_of_the_first_format_is_checked(old_table):
    data = old_table.read_bytes()
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with pytest.raises(stamps.Damaged):
            stamps.check_table(old_table, bytes(changed))


def test_a_run_makes_results_of_the_first_format_again(old_table):
    with pytest.raises(
        stamps.Unstamped, match=r"was made by an older koct, and its checksum is of an older kind; `rm "
    ):
        stamps.check(old_table)
    assert Stale(SimpleNamespace()).stamp(str(old_table)) == "it is not of this version of koct"
