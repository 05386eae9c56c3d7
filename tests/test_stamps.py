"""Stamps: every format keeps its own, any changed bit is noticed, and other readers do not mind."""

import json
import os
import re

import matplotlib
import numpy as np
import pyarrow.parquet as pq
import pytest

from koct.base import stamps
from koct.base.files import read_array, read_json, read_record, write_array, write_json, write_record, write_text
from koct.base.stamps import Stamp
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.problems import pools
from koct.problems.surrogate import Surrogate
from koct.report import drawing
from koct.study import results

SIZES = Sizes(train=3, val=2, test=2)
PROBLEM = Surrogate(H=4, V=5, B=4, tikhonov=0.1)
STAMP = Stamp({"seed": 1, "code": "a-->b", "problem": {"options": {"H": 8}}}, "12345678", {"lam": 0.5})
ROW = {"sweep": "H8", "problem": "surrogate", "seed": 1, "H": 8, "V": 10, "B": 8, **dict.fromkeys(results.METRICS, 0.5)}


def draw(path, stamp):
    figure = drawing.plt.figure(figsize=(0.3, 0.3))
    figure.add_axes([0.2, 0.2, 0.6, 0.6])
    drawing.save(figure, [path], stamp, dpi=20)


WRITERS = {
    ".npy": lambda path, stamp: write_array(path, np.arange(6.0), stamp),
    ".json": lambda path, stamp: write_json(path, {"a": [1, 2.5, None], "b": "β"}, stamp),
    ".tex": lambda path, stamp: write_text(path, "\\begin{table}\n\\end{table}\n", stamp),
    ".md": lambda path, stamp: write_text(path, "# β\n", stamp),
    ".html": lambda path, stamp: write_text(path, "<!doctype html>\n<p>β</p>\n", stamp),
    ".png": draw,
    ".pdf": draw,
    ".parquet": lambda path, stamp: results.write([ROW], list(ROW), path, {}, stamp),
}


def assert_every_byte_counts(path):
    """One bit of every byte of a file is changed, and the file is refused; so it is if it is cut off or goes on."""
    data = path.read_bytes()
    changes = [data[:-1], data[: len(data) // 2], data[1:], data + b"\n", data + data, b""]
    for place in range(len(data)):
        changes.append(bytearray(data))
        changes[-1][place] ^= 1 << place % 8
    for changed in changes:
        with pytest.raises((stamps.Damaged, stamps.Unstamped)):
            stamps.check_bytes(path, bytes(changed))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_stamp_says_what_it_was_given_and_every_byte_changes_the_checksum(tmp_path, kind):
    path = tmp_path / f"made{kind}"
    WRITERS[kind](path, STAMP)
    found = stamps.check(path)
    assert found == stamps.read(path)
    assert (found.spec, found.inputs) == (STAMP.spec, STAMP.inputs)
    assert found.about.items() >= STAMP.about.items()
    assert found.content != stamps.BLANK
    assert os.listdir(tmp_path) == [path.name]  # no temporary file
    assert_every_byte_counts(path)


def test_every_byte_of_a_pool_changes_its_checksum_and_every_pair_its_content(tmp_path):
    path = tmp_path / "pool.npy"
    pools.make(PROBLEM, 3, SIZES, path)
    assert_every_byte_counts(path)
    records = np.load(path, mmap_mode="r")
    data, contents = path.read_bytes(), {stamps.read(path).content}
    for place in range(records.offset, records.offset + records.nbytes, records.itemsize):
        changed = bytearray(data[: data.rfind(stamps.PREFIX.encode()) - 1])
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        stamps.seal(str(path), STAMP, ".npy")
        contents.add(stamps.read(path).content)
    assert len(contents) == 1 + len(records)


def test_other_readers_pass_over_it(tmp_path):
    for kind, write in WRITERS.items():
        write(tmp_path / f"made{kind}", STAMP)
    np.testing.assert_array_equal(np.load(tmp_path / "made.npy"), np.arange(6.0))
    assert json.loads((tmp_path / "made.json").read_text())["a"] == [1, 2.5, None]
    assert pq.read_table(tmp_path / "made.parquet").to_pylist()[0]["H"] == 8
    assert matplotlib.image.imread(tmp_path / "made.png").shape == (6, 6, 4)
    assert (tmp_path / "made.tex").read_text().splitlines()[-1].startswith("% {")
    assert re.fullmatch(r"<!-- \{[^>]*\} -->", (tmp_path / "made.html").read_text().splitlines()[-1])
    assert b"%%EOF\n% {" in (tmp_path / "made.pdf").read_bytes()


def test_what_a_row_took_does_not_change_its_content(tmp_path):
    row = {"sweep": "H8", "mse": 0.5, "fit_seconds": 1.0, "device": "cpu"}
    contents, timed = set(), set()
    for change in ({}, {"fit_seconds": 2.0}, {"device": "cuda"}, {"mse": 0.25}):
        write_json(tmp_path / "row.json", {**row, **change}, STAMP)
        assert read_json(tmp_path / "row.json")[0] == {**row, **change}
        contents.add(stamps.read(tmp_path / "row.json").content)
        timed.add(stamps.made_from(tmp_path / "row.json", timed=True))
    assert len(contents) == 2
    assert len(timed) == 4  # but what tells times knows


def test_readers_refuse_what_is_no_result(tmp_path):
    path = tmp_path / "made.npy"
    write_record(path, STAMP, w=np.ones(3))
    assert read_record(path)[0]["w"].tolist() == [1, 1, 1]
    write_array(path, np.ones(3), STAMP)
    with pytest.raises(KoctError, match="holds no named arrays"):
        read_record(path)
    np.save(path, np.arange(3))
    for read in (read_array, read_record, read_json):
        with pytest.raises(KoctError, match=r"made\.npy is not a file of this version of koct: it has no stamp"):
            read(path)


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    target, link = tmp_path / "target.tex", tmp_path / "link.tex"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new\n", STAMP)
    assert link.is_symlink()
    assert target.read_text().startswith("new\n")
    write_text("/dev/null", "gone", STAMP)
    assert not os.path.isfile("/dev/null")
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path, "text", STAMP)
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="No space left on device") as caught:
            write_text("/dev/full", "text" * 10_000)
        assert caught.value.filename == "/dev/full"
