"""Cause faults, and see what comes of them: exit status 1 if one outcome is not as it should be.

python -m tests.faults                              all kinds, as often as each says
python -m tests.faults --short                      the few that the tests run
python -m tests.faults --only kills --times 20      one kind, so many of its cases
python -m tests.faults --only kills --case 7        one case again
"""

import argparse
import collections
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.faults import code_edits, corruption, disk_full, elsewhere, folders, kills, two_runs
from tests.faults.lab import Case, Lab

KINDS = {kind.NAME: kind for kind in (kills, two_runs, corruption, disk_full, elsewhere, code_edits, folders)}


def cases(kind, lab, numbers):
    """Cause faults of a kind: yields the number and the case. A trial that breaks down is a case that fails."""
    for number in numbers:
        try:
            case = kind.cause(lab, number)
        except Exception:
            case = Case("trial", "breaks down", False, "a result", "", traceback.format_exc())
        lab.tidy(case)
        yield number, case


def main():
    options = arguments()
    lab = Lab(Path(tempfile.mkdtemp(prefix="koct-faults-")), options.seed, options.keep)
    print(f"seed {lab.seed}, in {lab.folder}", flush=True)
    found = []
    try:
        for name in options.only or KINDS:
            started = time.perf_counter()
            for number, case in cases(KINDS[name], lab, wanted(KINDS[name], options)):
                found.append((name, number, case))
                print(line(name, number, case, time.perf_counter() - started), flush=True)
                started = time.perf_counter()
    finally:
        if not options.keep:
            shutil.rmtree(lab.folder, ignore_errors=True)
    return report(found, options.seed)


def wanted(kind, options):
    """The numbers of the cases to run."""
    if options.case is not None:
        return [options.case]
    return kind.SHORT if options.short else range(kind.TIMES if options.times is None else options.times)


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the few cases that the tests run")
    parser.add_argument("--only", action="append", choices=KINDS, help="this kind of fault; may be given again")
    parser.add_argument("--times", type=int, metavar="N", help="so many cases of each kind")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="one case of a kind")
    parser.add_argument("--seed", type=int, default=1, help="decides all that is random (default: 1)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of cases that fail")
    options = parser.parse_args()
    if options.case is not None and len(options.only or ()) != 1:
        parser.error("--case needs the one kind that --only names")
    return options


def line(kind, number, case, seconds):
    """A case that is over, with what was drawn at random for it."""
    about = f" ({case.choices})" if case.choices else ""
    return f"{'ok ' if case.ok else 'BAD'} {kind} {number:3} {seconds:5.1f} s  {case.name}: {case.outcome}{about}"


def report(found, seed):
    """Print failures in full and a table of all; the exit status."""
    bad = [(kind, number, case) for kind, number, case in found if not case.ok]
    for kind, number, case in bad:
        print(f"\npython -m tests.faults --only {kind} --case {number} --seed {seed}\n{case.name} ({case.choices})")
        print(case.detail)
    print()
    groups = {}
    for kind, _, case in found:
        groups.setdefault((f"{kind}: {case.name}", case.expected), []).append(case.outcome)
    rows = [("case", "times", "expected", "found")]
    for (name, expected), outcomes in groups.items():
        counts = collections.Counter(outcomes).most_common()
        rows.append((name, str(len(outcomes)), expected, ", ".join(f"{outcome} {count}" for outcome, count in counts)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    print(f"\n{len(found)} cases, {len(bad)} not as expected")
    return 1 if bad or not found else 0


if __name__ == "__main__":
    sys.exit(main())
