"""Damage to every kind of file of a finished study.

After each, plain `snakemake` makes the file again (healed), or ends with one sentence that names the file and says what
to type, which makes it again (named). What nothing reads may stay as it is (unused) until something has to read it.
"""

import json
import os
import re
import shutil

import matplotlib.image
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.lab import Case, artefacts, content, last_lines, phrase, problems, tracebacks

NAME = "corruption"
# Where the files of each kind lie in results/
KINDS = {
    "pool": "pools/T4/*.npy",
    "known operator": "known/*.npy",
    "fit": "fits/*/*/*.npy",
    "row": "cells/*/*/*.json",
    "predicted curve": "theory/*/*.json",
    "Parquet": "*.parquet",
    "LaTeX": "*.tex",
    "PNG": "*.png",
    "PDF": "*.pdf",
}
LONG = {"long pool": "pools/T5/*.npy"}  # too long to be read whole when a run is planned
INTERMEDIATE = {"pool", "long pool", "known operator", "fit"}  # these may stay damaged until something reads them
EXPECTED = "healed or named"


# Damages: each changes a file; `other` is one of the same kind, if there is one


def flip(path, rng, first, last):
    """One bit, in a part of the file that is given in shares of its length, as a disk would: the time stays."""
    data = bytearray(path.read_bytes())
    place = min(int(rng.uniform(first, last) * len(data)), len(data) - 1)
    data[place] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def flip_start(path, rng, other):
    flip(path, rng, 0, 0.02)


def flip_middle(path, rng, other):
    flip(path, rng, 0.1, 0.9)


def flip_end(path, rng, other):
    flip(path, rng, 0.98, 1)


def truncate(path, rng, other):
    path.write_bytes(path.read_bytes()[: int(rng.uniform(0.02, 0.98) * path.stat().st_size)])


def empty(path, rng, other):
    path.write_bytes(b"")


def garbage(path, rng, other):
    path.write_bytes(rng.randbytes(path.stat().st_size))


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


def copy_other(path, rng, other):
    shutil.copyfile(other, path)


def edit_json(key, change):
    """A value that somebody has edited by hand."""

    def edit(path, rng, other):
        document = json.loads(path.read_text())
        holder = _holder(document, key)
        holder[key] = change(holder[key])
        path.write_text(json.dumps(document, indent=1))

    return edit


def _holder(value, key):
    """The first object that has a key."""
    if isinstance(value, dict) and key in value:
        return value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if (found := _holder(inner, key)) is not None:
            return found
    return None


def edit_tex(path, rng, other):
    """Another digit in a number of a table's body."""
    head, rule, body = path.read_text().partition("\\midrule")
    digits = [found.start() for found in re.finditer("[0-9]", body.partition("\\bottomrule")[0])]
    place = rng.choice(digits)
    path.write_text(head + rule + body[:place] + str((int(body[place]) + 1) % 10) + body[place + 1 :])


def edit_table(path, rng, other):
    """Another number in a valid Parquet file that has all of its metadata."""
    table = pq.ParquetFile(path).read()
    name = rng.choice([field.name for field in table.schema if pa.types.is_floating(field.type)])
    values = table.column(name).to_pylist()
    place = rng.choice([number for number, value in enumerate(values) if value is not None])
    values[place] += 1
    at = table.column_names.index(name)
    pq.write_table(table.set_column(at, table.schema.field(name), [pa.array(values, table.column(name).type)]), path)


def _other(differs):
    """Chooses the other file: `differs` says which parts of its name are not the same."""

    def choose(path, files):
        mine = _parts(path)
        return [file for file in files if {key for key, value in _parts(file).items() if value != mine[key]} == differs]

    return choose


def _parts(path):
    """What the name of a fit, a row or a pool says."""
    numbers = re.fullmatch(r"(?:N(\d+)_)?seed(\d+)", path.stem)
    return {"sweep": path.parent.parent.name, "arch": path.parent.name, "N": numbers[1], "seed": numbers[2]}


def _any_other(path, files):
    return [file for file in files if file != path]


GENERAL = {
    "bit flipped at the start": flip_start,
    "bit flipped in the middle": flip_middle,
    "bit flipped at the end": flip_end,
    "truncated": truncate,
    "empty": empty,
    "garbage": garbage,
    "foreign but valid": foreign,
    "a directory in its place": directory,
    "a dangling link in its place": dangling,
}
FLIPS = (flip_start, flip_middle, flip_end)
# (kind, damage, how, which other file)
DAMAGES = [(kind, name, damage, None) for name, damage in GENERAL.items() for kind in KINDS]
DAMAGES += [(kind, name, damage, None) for name, damage in GENERAL.items() for kind in LONG if damage in FLIPS]
DAMAGES += [
    ("pool", "another seed's in its place", copy_other, _other({"seed"})),
    ("fit", "another N's in its place", copy_other, _other({"N"})),
    ("fit", "another seed's in its place", copy_other, _other({"seed"})),
    ("fit", "the other network's in its place", copy_other, _other({"arch"})),
    ("row", "another N's in its place", copy_other, _other({"N"})),
    ("row", "another seed's in its place", copy_other, _other({"seed"})),
    ("row", "the other network's in its place", copy_other, _other({"arch"})),
    ("row", "mse edited to NaN", edit_json("mse", lambda _: float("nan")), None),
    ("row", "mse edited to -1", edit_json("mse", lambda _: -1), None),
    ("row", "mse edited to 0", edit_json("mse", lambda _: 0), None),
    ("row", "mse edited to 1e9", edit_json("mse", lambda _: 1e9), None),
    ("row", "lambda edited", edit_json("lam", lambda value: 10 * (value or 1)), None),
    ("row", "N edited", edit_json("N", lambda value: 2 * value), None),
    ("Parquet", "another table in its place", copy_other, _any_other),
    ("Parquet", "a number edited", edit_table, None),
    ("LaTeX", "another table in its place", copy_other, _any_other),
    ("LaTeX", "a digit edited", edit_tex, None),
]
TIMES = len(DAMAGES)
IN_SHORT = {
    ("long pool", "bit flipped in the middle"),
    ("row", "mse edited to 1e9"),
}
SHORT = tuple(number for number, kind_and_name in enumerate(DAMAGES) if kind_and_name[:2] in IN_SHORT)

# What else happens before the next run


def nothing_else(study, path, kind, rng):
    pass


def without_metadata(study, path, kind, rng):
    shutil.rmtree(study.path(".snakemake"))


def deleted_downstream(study, path, kind, rng):
    for file in downstream(study, path, kind):
        file.unlink()


def touched_downstream(study, path, kind, rng):
    for file in downstream(study, path, kind):
        file.touch()


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


VARIANTS = {
    "": nothing_else,
    ".snakemake deleted": without_metadata,
    "files downstream deleted": deleted_downstream,
    "files downstream touched": touched_downstream,
}


def cause(lab, number):
    kind, name, change, _ = DAMAGES[number % len(DAMAGES)]
    rng = lab.random(NAME, number)
    study = lab.copy(NAME, number)
    path, damaged, how = damage(study, number, rng)
    variant = rng.choice(sorted(VARIANTS))
    VARIANTS[variant](study, path, kind, rng)
    outcome, found = judge(study, lab.finished.results, path, kind, damaged)
    title = name if change in GENERAL.values() else f"{kind}: {name}"
    choices = ", ".join(filter(None, [how, variant]))
    return Case(title, outcome, not found, EXPECTED, choices, "\n".join(found))


def damage(study, number, rng):
    """Damage a file: (the file, what is there now, what was chosen)."""
    kind, name, change, choose = DAMAGES[number % len(DAMAGES)]
    files = sorted(study.path("results").glob((KINDS | LONG)[kind]))
    others = {file: choose(file, files) if choose else [None] for file in files}
    path = rng.choice([file for file in files if others[file]])
    other = rng.choice(others[path])
    before, times = fingerprint(path), path.stat()
    change(path, rng, other)
    damaged = fingerprint(path)
    assert damaged != before, f"{name} has not changed {path}"
    how = [study.name(path), *([study.name(other)] if other else [])]
    if path.is_file() and (name.startswith("bit flipped") or rng.random() < 0.5):
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        how.append("time kept")
    return path, damaged, ", ".join(how)


def judge(study, expected, path, kind, damaged):
    """(outcome, what is wrong) of the next plain run."""
    run = study.run()
    if run.status != 0:
        return named(study, expected, path, run)
    if found := problems(study, expected | as_damaged(study, path, kind, damaged), run):
        return phrase(found), found
    if not is_damaged(path, damaged):
        return "healed", []
    if kind not in INTERMEDIATE:
        return "unnoticed", [f"unnoticed: {study.name(path)} is as damaged as before"]
    for row in study.rows():
        row.unlink()
    run = study.run()
    if run.status != 0:
        outcome, found = named(study, expected, path, run)
        return f"unused, then {outcome}", found
    found = problems(study, expected, run)
    if not found and is_damaged(path, damaged):
        found = [f"unnoticed: {study.name(path)} is as damaged as before, although all cells were computed"]
    return f"unused, then {phrase(found) or 'healed'}", found


def as_damaged(study, path, kind, damaged):
    """What the results are if nothing has read a damaged intermediate."""
    if kind not in INTERMEDIATE or not is_damaged(path, damaged):
        return {}
    files = [file for file in artefacts(study.folder) if file == path or path in file.parents]
    return {str(file.relative_to(study.path("results"))): content(file) for file in files}


def named(study, expected, path, run):
    """A run that failed has to name the file and say what to type, in one line; typing it has to help."""
    name = study.name(path)
    command = advice(run.output, name)
    found = []
    if traced := tracebacks(study, run):
        found.append(f"traceback: {', '.join(traced)}:\n{last_lines(run)}")
    if command is None:
        found.append(f"fails without advice: no line names {name} and says what to type:\n{last_lines(run)}")
        return phrase(found), found
    again = study.run(command=["bash", "-c", command])
    found += [f"after `{command}` {problem}" for problem in problems(study, expected, again)]
    return phrase(found) or "named", found


def advice(output, name):
    """The command in a sentence on a file."""
    for line in output.splitlines():
        if command := re.search(rf"\brm (-\w+ )?\S*{re.escape(name)} && snakemake\b", line):
            return command[0]
    return None


def fingerprint(path):
    """What is at a path: a link, a folder, or bytes."""
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return "a folder" if path.is_dir() else path.read_bytes() if path.exists() else "nothing"


def is_damaged(path, damaged):
    return fingerprint(path) == damaged
