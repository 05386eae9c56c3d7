"""Two runs in one folder: one works, the other ends at once with a sentence, and the results are right."""

import re
import shutil
import time

from tests.faults import processes
from tests.faults.lab import LIMIT, SNAKEMAKE, TRACEBACK, Run, case, problems

NAME = "two-runs"
TIMES = 10
SHORT = (0,)
AT_ONCE = 0.5  # of the time that the other one takes to make everything
SENTENCE = re.compile(r"another snakemake \S.* runs in this folder")


def cause(lab, number):
    rng = lab.random(NAME, number)
    study = lab.copy(NAME, number)
    shutil.rmtree(study.path("results"))
    pause = rng.uniform(0, 2) if number % 4 == 3 else 0
    runs = []
    for wait in (0, pause):
        time.sleep(wait)
        runs.append(processes.OnTerminal([SNAKEMAKE], study.folder))
    runs = ended(runs)
    found = []
    winners, losers = ([run for run in runs if (run.status == 0) is won] for won in (True, False))
    if len(winners) != 1:
        states = ", ".join(run.ended for run in runs)
        found.append(f"{len(winners)} runs work: they ended {states}:\n{runs[0].output}\n{runs[1].output}")
    else:
        (winner,), (loser,) = winners, losers
        found += problems_of_loser(loser, AT_ONCE * winner.seconds)
        found += problems(study, lab.finished.results, winner)
    found += [f"later, {problem}" for problem in problems(study, lab.finished.results, study.run())]
    title = "two runs started at the same moment" if not pause else "a run started during another one"
    choices = f"{pause:.2f} s between them"
    return case(title, found, "one works", choices)


def ended(runs):
    """Watch both until they end."""
    done = {}
    while len(done) < len(runs):
        for number, run in enumerate(runs):
            if number not in done and (not run.watch(0.02) or run.seconds > LIMIT):
                seconds = run.seconds
                run.end()
                done[number] = Run(run.process.returncode, run.output.decode(errors="replace"), seconds)
    return [done[number] for number in range(len(runs))]


def problems_of_loser(loser, seconds):
    found = []
    if loser.seconds > seconds:
        found.append(f"not at once: the other ended after {loser.seconds:.1f} s, not before {seconds:.1f} s")
    if not SENTENCE.search(loser.output):
        found.append(f"no sentence: the other says\n{loser.output}")
    if "unlock" in loser.output:
        found.append(f"unlock: the other asks for --unlock\n{loser.output}")
    if TRACEBACK in loser.output:
        found.append(f"traceback: the other says\n{loser.output}")
    return found
