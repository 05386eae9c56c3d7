"""Faults of results on disk, really caused: damaged files, lost metadata, results of another clone.

`make faults` causes all of them, the tests a few. KOCT_FAULTS_SEED decides all that is random.
"""

import json
import os
import re
import shutil
from functools import partial

import matplotlib.image
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.lab import (
    Study,
    artefacts,
    cases,
    content,
    marks,
    problems,
    tracebacks,
    written_again,
)

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


def flip(first, last, path, rng, other):
    """One bit, in a part of the file that is given in shares of its length."""
    data = bytearray(path.read_bytes())
    data[min(int(rng.uniform(first, last) * len(data)), len(data) - 1)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def foreign(path, rng, other):
    """A file of the same format that koct has not made."""
    match path.suffix:
        case ".npy":
            np.save(path, np.arange(12.0).reshape(3, 4))
        case ".json":
            path.write_text(json.dumps(rng.choice([{"a": 1}, [{"mse": 0.5}], 3, []])))
        case ".parquet":
            pq.write_table(pa.table({"sweep": ["T4"], "mse": [0.5]}), path)
        case ".tex":
            path.write_text("\\begin{table}\\end{table}\n")
        case ".png":
            matplotlib.image.imsave(path, np.zeros((4, 4)))
        case ".pdf":
            path.write_bytes(b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n")


def directory(path, rng, other):
    path.unlink()
    path.mkdir()
    if rng.random() < 0.5:
        (path / "something").write_text("in it\n")


def dangling(path, rng, other):
    path.unlink()
    path.symlink_to("nowhere/at-all")


GENERAL = {
    "bit flipped at the start": partial(flip, 0, 0.02),
    "bit flipped in the middle": partial(flip, 0.1, 0.9),
    "bit flipped at the end": partial(flip, 0.98, 1),
    "truncated": lambda path, rng, other: os.truncate(path, int(rng.uniform(0.02, 0.98) * path.stat().st_size)),
    "empty": lambda path, rng, other: os.truncate(path, 0),
    "garbage": lambda path, rng, other: path.write_bytes(rng.randbytes(path.stat().st_size)),
    "foreign but valid": foreign,
    "another of its kind": lambda path, rng, other: shutil.copyfile(other, path),
    "a directory in its place": directory,
    "a dangling link in its place": dangling,
}
DAMAGES = {(kind, name): damage for name, damage in GENERAL.items() for kind in KINDS if kind != "long pool"}
DAMAGES |= {("long pool", name): damage for name, damage in GENERAL.items() if "flipped" in name}


def cause(study, damage, rng):
    """Damage a file; returns it, and what is there now."""
    files = sorted(study.path("results").glob(KINDS[damage[0]]))
    path = rng.choice(files)
    before, times = fingerprint(path), path.stat()
    DAMAGES[damage](path, rng, rng.choice([file for file in files if file != path] or [path]))
    damaged = fingerprint(path)
    assert damaged != before
    if path.is_file() and ("flipped" in damage[1] or rng.random() < 0.5):  # as a disk would
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    print("damaged:", study.name(path))
    return path, damaged


def fingerprint(path):
    """What is at a path: a link, a folder, or bytes."""
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return "a folder" if path.is_dir() else path.read_bytes() if path.exists() else "nothing"


def downstream(study, path, kind):
    """Files that are made from this one, and asked for by name."""
    root = study.path("results")
    if kind in ("pool", "long pool", "known operator"):
        return [*study.rows(), *root.glob(KINDS["predicted curve"])]
    if kind == "fit":
        return [root / "cells" / path.relative_to(root / "fits").with_suffix(".json")]
    if kind in ("row", "predicted curve"):
        return sorted(root.glob("*.parquet"))
    return [file for file in sorted(root.iterdir()) if file.suffix in (".tex", ".png", ".pdf") and file != path]


@pytest.mark.parametrize(("kind", "name"), cases(DAMAGES, [("row", "another of its kind")]))
def test_a_damaged_file_is_healed_or_named(undisturbed, disturbed, rng, kind, name):
    study, expected = disturbed, undisturbed.results
    path, damaged = cause(study, (kind, name), rng)
    match rng.choice(["", ".snakemake deleted", "files downstream deleted", "files downstream touched"]):
        case ".snakemake deleted":
            shutil.rmtree(study.path(".snakemake"))
        case "files downstream deleted":
            for file in downstream(study, path, kind):
                file.unlink()
        case "files downstream touched":
            for file in downstream(study, path, kind):
                file.touch()
    run = study.run()
    if run.status != 0:
        return assert_named(study, expected, path, run)
    still = fingerprint(path) == damaged
    assert kind in UNREAD or not still, "nobody has noticed"
    unread = [file for file in artefacts(study) if still and path in (file, *file.parents)]
    left = {str(file.relative_to(study.path("results"))): content(file) for file in unread}
    assert problems(study, expected | left, run) == []
    if not still:
        return None
    for file in {*study.rows(), *downstream(study, path, kind)}:  # a pool may serve predictions alone
        file.unlink()
    run = study.run()
    if run.status != 0:
        return assert_named(study, expected, path, run)
    assert problems(study, expected, run) == []
    assert fingerprint(path) != damaged, "all that needs it was computed, and nobody has noticed"
    return None


def assert_named(study, expected, path, run):
    """A run that failed has to name the file and say what to type, in one line; typing it has to help."""
    assert tracebacks(study, run) == [], run.last_lines
    advice = re.search(rf"\brm (-\w+ )?\S*{re.escape(study.name(path))} && snakemake\b", run.output)
    assert advice, f"no line names {study.name(path)} and says what to type:\n{run.last_lines}"
    assert problems(study, expected, study.run(command=["bash", "-c", advice[0]])) == []


# Results without Snakemake's metadata, and results from another clone: they are used


def without_metadata(study, place):
    shutil.rmtree(study.path(".snakemake"))
    return study


def copied(copy_function, study, place):
    """To another clone, file by file in the order of their names: without times, a pool is newer than its cells."""
    clone = Study(place)
    shutil.copytree(study.path("results"), clone.path("results"), copy_function=copy_function)
    return clone


WAYS = {
    "metadata gone": without_metadata,
    "another clone": partial(copied, shutil.copyfile),
    "another clone, times kept": partial(copied, shutil.copy2),
}


def is_report(name):
    """Tables and figures: they take a second, and may be made again for any reason."""
    return "/" not in name.removeprefix("report/")


@pytest.mark.parametrize("way", cases(WAYS, ["another clone"]))
def test_results_from_elsewhere_are_used(undisturbed, disturbed, tmp_path, way):
    study = WAYS[way](disturbed, tmp_path / "clone")
    before = marks(study.path("results") / name for name in undisturbed.results if not is_report(name))
    assert problems(study, undisturbed.results, study.run()) == []
    assert written_again(before) == []
