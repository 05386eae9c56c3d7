"""Code that is edited during a run and changed back.

After one more plain `snakemake` the results are the undisturbed ones. The first run may fail, with a sentence.
"""

import os
import re
import shutil
import time

from tests.faults import processes
from tests.faults.elsewhere import RIDGE
from tests.faults.lab import LIMIT, SNAKEMAKE, Run, case, last_lines, problems, tracebacks

NAME = "code-edits"
TIMES = 12
SHORT = (8,)
AT_A_FIT = "at a fit"
PATIENCE = 60  # seconds that an edit waits for a job to see it
KO_CELLS = 6
SENTENCE = re.compile(r"code .*changed|changed .*code|changed (since|while|during)")


# How the file is changed back


def old_time(path, original, edited):
    os.utime(path, ns=(original.st_atime_ns, original.st_mtime_ns))


def new_time(path, original, edited):
    path.touch()


def same_time(path, original, edited):
    """As if both were written in one second; they are of one length, and Python tells compiled files by these two."""
    os.utime(path, ns=(edited.st_atime_ns, edited.st_mtime_ns))


RESTORES = {
    "changed back with its old time": old_time,
    "changed back with a new time": new_time,
    "changed back with the edit's time": same_time,
    "changed and changed back again and again": old_time,
}
AGAIN = list(RESTORES)[-1]


def cause(lab, number):
    rng = lab.random(NAME, number)
    title = list(RESTORES)[number % len(RESTORES)]
    study = lab.copy(NAME, number)
    shutil.rmtree(study.path("results"))
    whole = lab.finished
    moment = rng.choice([AT_A_FIT, rng.uniform(0, whole.seconds / 2)])
    pause = rng.uniform(0, 1.5)
    run = processes.OnTerminal([SNAKEMAKE], study.folder)
    file = File(study, RESTORES[title])
    if moment == AT_A_FIT:
        wait(run, study.path("results/known/T4.npy").exists)
    else:
        run.watch(moment)
    seen = flicker(study, run, file, rng) if title == AGAIN else edit(study, run, file, pause)
    run.watch(LIMIT)
    run.end()
    first = Run(run.process.returncode, run.output.decode(errors="replace"), run.seconds)
    found = []
    if moment == AT_A_FIT and not seen and first.status == 0:
        found.append("not seen: no cell was fitted while the code was another")
    if first.status != 0 and not SENTENCE.search(first.output):
        found.append(f"fails without a sentence: the code was changed:\n{last_lines(first)}")
    if traced := tracebacks(study, first):
        found.append(f"traceback in the first run: {', '.join(traced)}:\n{last_lines(first)}")
    found += problems(study, whole.results, study.run())
    when = moment if moment == AT_A_FIT else f"after {moment:.2f} s"
    choices = f"edited {when}, {seen} cells of ko meanwhile; pause {pause:.2f} s; the first run ended {first.ended}"
    return case(title, found, choices=choices)


class File:
    """The code of the ridge, with a number that can be changed and changed back."""

    def __init__(self, study, restore):
        name, self.old, self.new = RIDGE
        self.path, self.restore = study.path(name), restore
        self.text, self.original = self.path.read_text(), self.path.stat()
        assert self.text.count(self.old) == 1, f"{name} has not one {self.old!r}"
        assert len(self.old) == len(self.new)

    def change(self):
        self.path.write_text(self.text.replace(self.old, self.new))
        self.edited = self.path.stat()

    def change_back(self):
        self.path.write_text(self.text)
        self.restore(self.path, self.original, self.edited)


def edit(study, run, file, pause):
    """Change it until a cell is fitted with it, and a little longer; returns how many were."""
    before = rows_of_ko(study)
    file.change()
    wait(run, lambda: rows_of_ko(study) - before)
    run.watch(pause)
    seen = len(rows_of_ko(study) - before)
    file.change_back()
    return seen


def flicker(study, run, file, rng):
    """Change it and change it back until all cells are fitted: some job may read the one and be asked for the other."""
    before = rows_of_ko(study)
    until = time.perf_counter() + PATIENCE
    while run.running and time.perf_counter() < until and len(rows_of_ko(study)) < KO_CELLS:
        file.change()
        run.watch(rng.uniform(0.02, 0.2))
        file.change_back()
        run.watch(rng.uniform(0.02, 0.2))
    return len(rows_of_ko(study) - before)


def rows_of_ko(study):
    return {row for row in study.rows() if row.parent.name == "ko"}


def wait(run, true):
    """Until something is true, the run has ended, or patience has."""
    until = time.perf_counter() + PATIENCE
    while run.watch(0.02) and not true() and time.perf_counter() < until:
        pass
