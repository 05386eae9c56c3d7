"""A tiny study in folders of its own, really run, and what to compare it with."""

import functools
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.image
import numpy as np
import pyarrow.parquet as pq
import yaml

from tests.conftest import TINY_SWEEP, Checkout
from tests.faults import processes

SNAKEMAKE = str(Path(sys.executable).with_name("snakemake"))
LIMIT = 300  # seconds that a run of a tiny study may take
# Eight cells, and two of another sweep whose pool has more than a quarter of a million bytes.
LONG_POOL = {"train": 8, "val": 4, "test": 1000}
CONFIG = {
    "study": "tiny",
    "studies": {"tiny": ["T4", "T5"]},
    "sweeps": {
        "T4": TINY_SWEEP,
        "T5": {**TINY_SWEEP, "H": 5, "B": 5, "pool": LONG_POOL, "seeds": [1], "archs": ["ko"]},
    },
}
CELLS = 12
# What may differ between two runs that are both right.
PROVENANCE = {"fit_seconds", "device", "stamp", "evaluation"}
PROVENANCE |= {"cost"}  # of the planner page: seconds of fits
PROVENANCE |= {"sha256", "contentSize", "datePublished", "endTime"}  # of files, in the RO-Crate
STAMPS = (b'% {"koct-stamp"', b'<!-- {"koct-stamp"')
DATA = re.compile(r'(?<=<script type="application/json" id="data">).*?(?=</script>)', re.S)  # of the planner page
LEFT_OUT = {"logs", "benchmarks"}
INTERMEDIATE = {"pools", "known", "normal", "grams", "fits"}  # made when something needs them
UNREADABLE = "unreadable: "
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Case:
    """One fault that was caused, and what came of it."""

    name: str  # what was done; cases of one name are counted together
    outcome: str  # in a word or two
    ok: bool  # whether this outcome is allowed
    expected: str  # the outcomes that are
    choices: str = ""  # what was drawn at random
    detail: str = ""  # what is wrong, in full


@dataclass(frozen=True)
class Run:
    """A command that has ended, or that was ended after LIMIT seconds."""

    status: int | None
    output: str
    seconds: float

    @property
    def ended(self):
        return "not at all" if self.status is None else f"with exit status {self.status}"


class Study(Checkout):
    """A copy of the workflow with the config of a tiny study."""

    def __init__(self, folder):
        Path(folder).mkdir(parents=True)
        super().__init__(folder)
        self.configure(CONFIG)

    @classmethod
    def at(cls, folder):
        """One that is there already."""
        study = cls.__new__(cls)
        study.folder = Path(folder)
        return study

    @classmethod
    def copy_of(cls, other, folder):
        """With its results, its metadata and all times."""
        study = cls.at(folder)
        shutil.copytree(other.folder, study.folder, symlinks=True)
        return study

    def configure(self, config):
        self.path("config.yaml").write_text(yaml.safe_dump(config))

    def run(self, *arguments, command=None, folder=None, **settings):
        """Plain snakemake, or with arguments, or another command; the output goes to a file that nobody waits for."""
        command = command or [SNAKEMAKE, *map(str, arguments)]
        started = time.perf_counter()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command,
                cwd=folder or self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PATH": f"{Path(SNAKEMAKE).parent}{os.pathsep}{os.environ['PATH']}"},
                **settings,
            )
            try:
                status = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                processes.end_group(process)
                status = None
            seconds = time.perf_counter() - started
            output.seek(0)
            return Run(status, output.read().decode(errors="replace"), seconds)

    def rows(self):
        return sorted(self.path("results").glob("cells/*/*/*.json"))

    def finished_rows(self):
        """Rows with their fits: cells that nobody has to compute."""
        return [row for row in self.rows() if self.fit_of(row).exists()]

    def fit_of(self, row):
        return self.path("results/fits") / row.relative_to(self.path("results/cells")).with_suffix(".npy")

    def name(self, path):
        return str(Path(path).relative_to(self.folder))


@dataclass
class Lab:
    """Where studies are made, broken and thrown away. `seed` decides all that is random."""

    folder: Path
    seed: int = 1
    keep: bool = False
    made: Checkout | None = None  # the undisturbed study, if somebody has run it already
    references: dict = field(default_factory=dict)
    places: set = field(default_factory=set)

    def random(self, *key):
        """A generator of its own for every case, so that one can be repeated without the others."""
        return random.Random(f"{self.seed} {' '.join(map(str, key))}")

    @functools.cached_property
    def finished(self):
        """The study that nothing has disturbed. It is run once; cases work on copies."""
        if self.made:
            study = Study.at(self.made.folder)
            study.seconds = float(study.path("seconds").read_text())
        else:
            study = Study(self.folder / "undisturbed")
            run = study.run()
            assert run.status == 0, f"the undisturbed study fails:\n{run.output}"
            study.seconds = run.seconds
        study.results = results(study.folder)
        assert len(study.rows()) == len(study.finished_rows()) == CELLS
        assert not any(text.startswith(UNREADABLE) for text in study.results.values())
        return study

    def copy(self, *key):
        return Study.copy_of(self.finished, self.place(*key))

    def place(self, *key):
        """A folder that is not there yet; `tidy` throws it away."""
        place = self.folder / "-".join(map(str, key))
        _clear(place)
        self.places.add(place)
        return place

    def tidy(self, case):
        """End and throw away what a case has left, unless somebody wants to look at a failure."""
        for place in self.places:
            processes.end_all_in(place)
            if case.ok or not self.keep:
                _clear(place)
        self.places.clear()


def _clear(place):
    processes.end_all_in(place)
    shutil.rmtree(place, ignore_errors=True)


# What the results are


def results(folder):
    """Every result by name, in a form that is equal if and only if the numbers are, to the last bit."""
    root = Path(folder, "results")
    return {str(path.relative_to(root)): content(path) for path in artefacts(folder)}


def artefacts(folder):
    """The files of the results, without logs and benchmarks."""
    root = Path(folder, "results")
    found = (path for path in root.rglob("*") if path.relative_to(root).parts[0] not in LEFT_OUT)
    return sorted(path for path in found if path.is_symlink() or not path.is_dir())


def content(path):
    """A result without its provenance, as text; an unreadable one says so."""
    try:
        return _hash(READERS.get(path.suffix, _bytes)(path))
    except Exception as error:  # whatever a reader of damaged files thinks of
        return f"{UNREADABLE}{type(error).__name__} {error}"


def _json(path):
    return json.dumps(_numbers(json.loads(path.read_text())), sort_keys=True)


def _numbers(value):
    """A JSON value without the keys that only say where it comes from."""
    if isinstance(value, dict):
        return {key: _numbers(inner) for key, inner in value.items() if key not in PROVENANCE}
    return [_numbers(inner) for inner in value] if isinstance(value, list) else value


def _array(path):
    array = np.load(path)
    fields = {name: array[name] for name in array.dtype.names} if array.dtype.names else {"": array}
    about = fields.pop("about", None)
    found = [f"{name} {value.dtype.str} {value.shape} {_hash(value.tobytes())}" for name, value in fields.items()]
    return "\n".join(found if about is None else [*found, json.dumps(_numbers(json.loads(about.flat[-1])))])


def _table(path):
    table = pq.ParquetFile(path).read()
    kept = [name for name in table.column_names if name not in PROVENANCE]
    return repr([(name, str(table.schema.field(name).type), table.column(name).to_pylist()) for name in kept])


def _picture(path):
    return matplotlib.image.imread(path).tobytes()


def _document(path):
    """A LaTeX, PDF, Markdown or HTML file without the comment that holds its stamp."""
    lines = path.read_bytes().split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith(STAMPS))


def _page(path):
    """An HTML file; the numbers in it, if it has any, like those of a JSON file."""
    return DATA.sub(lambda found: json.dumps(_numbers(json.loads(found[0]))), _document(path).decode())


def _bytes(path):
    return path.read_bytes()


READERS = {".json": _json, ".npy": _array, ".parquet": _table, ".png": _picture, ".html": _page}
READERS |= dict.fromkeys((".tex", ".pdf", ".md"), _document)


def _hash(value):
    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()


# What is wrong


def wrong_results(study, expected):
    """Results that differ from those expected, are missing, or are nobody's."""
    found = results(study.folder)
    wrong = [name for name in expected if name in found and found[name] != expected[name]]
    wrong += [f"{name} (missing)" for name in expected if name not in found and _is_final(name)]
    wrong += [f"{name} (unknown)" for name in found if name not in expected and not Path(name).name.startswith(".")]
    return wrong


def _is_final(name):
    return name.split("/")[0] not in INTERMEDIATE


def temporaries(study):
    """Files and folders that only a running job may have."""
    root = study.path("results")
    return [study.name(path) for path in root.rglob(".*") if not path.name.startswith(".snakemake")]


def said(study, run):
    """What a run printed, and what is in the logs of its jobs, by name; without a study, no logs."""
    logs = sorted(study.path("results/logs").rglob("*.log")) if study else []
    return {"the terminal": run.output} | {study.name(log): log.read_text(errors="replace") for log in logs}


def tracebacks(study, run):
    return [name for name, text in said(study, run).items() if TRACEBACK in text]


def problems(study, expected, run, logs=True):
    """All that is wrong with a study that `run` has finished, each with a phrase in front; none, if all is right.

    Without `logs`, those of jobs are left out: a job that was killed may have said anything.
    """
    found = []
    if run.status != 0:
        found.append(f"ended {run.ended}: {last_lines(run)}")
    if wrong := wrong_results(study, expected):
        found.append(f"wrong results: {', '.join(wrong)}")
    if left := temporaries(study):
        found.append(f"temporary files left: {', '.join(left)}")
    if traced := tracebacks(study if logs else None, run):
        found.append(f"traceback: in {', '.join(traced)}")
    if "unlock" in run.output:
        found.append("unlock: it asks for --unlock")
    return found


def case(name, found, expected="right", choices="", about=""):
    """A case from a list of problems: if there are none, its outcome is the expected one."""
    detail = "\n".join(filter(None, [*found, about]))
    return Case(name, phrase(found) or expected, not found, expected, choices, detail)


def phrase(found):
    """A list of problems in a few words."""
    return " + ".join(problem.partition(":")[0] for problem in found)


def marks(paths):
    """What tells files that are written again: they are opened, so that no other file gets their number, and read.

    The time of a file is none of it: a result that is older than its inputs gets a newer one.
    """
    return {path: (open(path, "rb"), path.read_bytes()) for path in paths}


def written_again(before):
    """Of the files in `marks`, those that are not the same any more."""
    again = []
    for path, (file, content) in before.items():
        same = path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())
        if not same or path.read_bytes() != content:
            again.append(path)
        file.close()
    return again


def last_lines(run):
    """The end of what a run printed, for a person."""
    return "\n".join(line for line in run.output.splitlines() if line.strip())[-2000:]
