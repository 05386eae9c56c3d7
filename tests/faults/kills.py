"""Kills at a random moment of a run that begins with random parts of the results deleted.

After each, one plain `snakemake` gives the undisturbed results and computes no finished cell again.
"""

import os
import signal

from tests.faults import processes
from tests.faults.lab import SNAKEMAKE, artefacts, case, marks, problems, written_again

NAME = "kills"
TIMES = 100
SHORT = (6,)
PATIENCE = 60  # seconds in which a run that was told to end has to do so
TRIES = 8  # a run that has ended before its moment is started anew, with an earlier one


def cause(lab, number):
    rng = lab.random(NAME, number)
    title, kill = kill_of(lab, number)
    for attempt in range(TRIES):
        study = lab.copy(NAME, number)
        deleted = delete_parts(study, lab.random(NAME, number, "deleted"))
        moment = rng.uniform(0, seconds(lab, deleted) / 1.5**attempt)
        run = processes.OnTerminal([SNAKEMAKE], study.folder)
        if run.watch(moment) and kill(run, rng):
            break
        run.end()
    else:
        return case(title, [f"not killed: the run ended before its moment {TRIES} times"])
    choices = f"{len(deleted)} files deleted, killed after {run.seconds:.2f} s"
    found = []
    if run.watch(PATIENCE):
        found.append(f"does not end: {PATIENCE} s after the signal it still runs")
    run.end()
    found += restart(lab, study)
    return case(title, found, choices=choices, about=f"deleted were {', '.join(sorted(map(study.name, deleted)))}")


def restart(lab, study):
    """Start it again, with no flag, while orphans may still run: what is wrong then."""
    orphans = processes.commands_in(study.folder)  # first: what one of them writes from now on is not the restart's
    before = marks(study.finished_rows())
    again = study.run()
    found = [] if processes.wait_for_all_in(study.folder, PATIENCE) else ["orphans: some jobs never end"]
    found += problems(study, lab.finished.results, again, logs=False)
    mine = [path for path in written_again(before) if not any(study.name(path) in line for line in orphans)]
    if mine:
        found.append(f"finished cells again: {len(mine)} of {len(before)}: {', '.join(map(study.name, mine))}")
    return found


def seconds(lab, deleted):
    """About how long a run takes that has to make so many files."""
    share = min(1, 1.5 * len(deleted) / len(lab.finished.results))
    return lab.finished.seconds * (0.2 + 0.8 * share)


def delete_parts(study, rng):
    """Delete each result with a probability that is drawn first; at least one of those that are asked for.

    With a pool or a known operator go the cells that were made from it: else these are no finished cells.
    """
    files = artefacts(study.folder)
    asked = [path for path in files if path.parent.name == "results" or path in study.rows()]
    share = rng.choice([0.1, 0.3, 0.6, 0.9, 1.0])
    deleted = {path for path in files if rng.random() < share} | {rng.choice(asked)}
    for path in sorted(deleted):
        kind, sweep = path.relative_to(study.path("results")).parts[0], path.parent.name
        if kind in ("pools", "known"):
            name = f"N*_{path.stem}.json" if kind == "pools" else "N*.json"
            deleted |= set(study.path(f"results/cells/{sweep if kind == 'pools' else path.stem}").rglob(name))
    for path in deleted:
        path.unlink()
    return deleted


# Ways to kill; each says whether it has found something to kill


def kill_snakemake(run, rng):
    run.process.send_signal(signal.SIGKILL)
    return True


def kill_job(run, rng):
    """One of the jobs that run, as soon as there is one."""
    while run.running:
        if jobs := run.jobs():
            rng.choice(jobs).send_signal(signal.SIGKILL)
            return True
        run.watch(0.005)
    return False


def kill_group(run, rng):
    os.killpg(run.process.pid, signal.SIGKILL)
    return True


def close_terminal(run, rng):
    run.close_terminal()
    return True


def press_control_c(run, rng):
    run.press_control_c()
    return True


def terminate(run, rng):
    run.process.send_signal(signal.SIGTERM)
    return True


KILLS = {
    "SIGKILL to snakemake": kill_snakemake,
    "SIGKILL to one job": kill_job,
    "SIGKILL to the process group": kill_group,
    "SIGHUP, the terminal is closed": close_terminal,
    "SIGINT, Ctrl-C": press_control_c,
    "SIGTERM to snakemake": terminate,
}


def kill_of(lab, number):
    """Drawn without putting back until all have been drawn, so that each comes as often as the others."""
    order = lab.random(NAME, "order", number // len(KILLS)).sample(sorted(KILLS), len(KILLS))
    title = order[number % len(KILLS)]
    return title, KILLS[title]
