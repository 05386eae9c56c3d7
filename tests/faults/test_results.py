"""Faults of results on disk, really caused: damaged files, lost metadata, results of another clone."""

import itertools
import os
import re
import shutil

import pytest

from tests.faults.lab import CONFIG, Study, assert_right, cases, marks, tracebacks, written_again

pytestmark = pytest.mark.slow

# Damage to every kind of file. Plain `snakemake` then makes the file again, or ends with one sentence that names the
# file and says what to type, which makes it again. What nothing reads may stay until something has to read it.

KINDS = {  # where the files of each kind lie in results/
    "pool": "pools/T4/*.npy",
    "known operator": "known/*.npy",
    "fit": "fits/*/*/*.npy",
    "row": "cells/*/*/*.json",
    "predicted curve": "theory/*/*.json",
    "Parquet": "*.parquet",
    "LaTeX": "*.tex",
    "PNG": "*.png",
    "PDF": "*.pdf",
    "long pool": "pools/T5/*.npy",  # too long to be read whole when a run is planned
}
UNREAD = {"pool", "long pool", "known operator", "fit"}  # these may stay damaged until something reads them

# Damages: each changes a file; `other` is another one of the same kind


def flip(path, rng, other):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def directory(path, rng, other):
    path.unlink()
    path.mkdir()
    (path / "something").write_text("in it\n")


def dangling(path, rng, other):
    path.unlink()
    path.symlink_to("nowhere/at-all")


DAMAGES = {
    "bit flipped": flip,
    "another bit flipped": flip,
    "truncated": lambda path, rng, other: os.truncate(path, rng.randrange(path.stat().st_size)),
    "garbage": lambda path, rng, other: path.write_bytes(rng.randbytes(path.stat().st_size)),
    "another of its kind": lambda path, rng, other: shutil.copyfile(other, path),
    "a directory in its place": directory,
    "a dangling link in its place": dangling,
}
ALL = itertools.product(KINDS, DAMAGES)


def cause(study, kind, damage, rng):
    """Damage a file, half the time with its old time, as a disk would; returns it, and what is there now."""
    files = sorted(study.path("results").glob(KINDS[kind]))
    path = rng.choice(files)
    before, times = fingerprint(path), path.stat()
    others = [file for file in files if file != path]
    (damage if others or damage is not DAMAGES["another of its kind"] else flip)(path, rng, rng.choice(others or files))
    assert fingerprint(path) != before
    if path.is_file() and rng.random() < 0.5:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    print("damaged:", study.name(path))
    return path, fingerprint(path)


def fingerprint(path):
    """What is at a path: a link, a folder, or bytes."""
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return "a folder" if path.is_dir() else path.read_bytes() if path.exists() else "nothing"


@pytest.mark.parametrize(("kind", "name"), cases(ALL, [("row", "another of its kind")]))
def test_a_damaged_file_is_healed_or_named(undisturbed, disturbed, rng, kind, name):
    study, expected = disturbed, undisturbed.results
    path, damaged = cause(study, kind, DAMAGES[name], rng)
    if rng.random() < 0.5:
        shutil.rmtree(study.path(".snakemake"))
    run = study.run()
    if run.status == 0 and fingerprint(path) == damaged:
        assert kind in UNREAD, "nobody has noticed"
        fits = study.path("results").glob("fits/*/*/*.npy") if kind != "fit" else ()  # which remember their errors
        for file in (*study.rows(), *study.path("results").glob(KINDS["predicted curve"]), *fits):
            file.unlink()  # a job has to read it now
        run = study.run()
    if run.status != 0:
        run = study.run(command=["bash", "-c", advice(study, path, run)])
    assert_right(study, expected, run)
    assert fingerprint(path) != damaged, "all that needs it was computed, and nobody has noticed"


def advice(study, path, run):
    """A run that failed has to name the file and say what to type, in one line; typing it has to help."""
    assert tracebacks(study, run) == [], run.output[-2000:]
    found = re.search(rf"\brm (-\w+ )?\S*{re.escape(study.name(path))} && snakemake\b", run.output)
    assert found, f"no line names {study.name(path)} and says what to type:\n{run.output[-2000:]}"
    return found[0]


# Results without Snakemake's metadata, and results from another clone: they are used


WAYS = {  # to copy a file; without times, a pool is newer than its cells
    "metadata gone": None,
    "another clone": shutil.copyfile,
    "another clone, times kept": shutil.copy2,
}


@pytest.mark.parametrize("way", cases(WAYS, ["another clone"]))
def test_results_from_elsewhere_are_used(undisturbed, disturbed, tmp_path, way):
    study = disturbed
    if copy := WAYS[way]:
        study = Study(tmp_path / "clone", CONFIG)
        shutil.copytree(disturbed.path("results"), study.path("results"), copy_function=copy)
    else:
        shutil.rmtree(study.path(".snakemake"))
    kept = [name for name in undisturbed.results if "/" in name.removeprefix("report/")]  # no tables and figures
    before = marks(study.path("results") / name for name in kept)
    assert_right(study, undisturbed.results, study.run())
    assert written_again(before) == []
