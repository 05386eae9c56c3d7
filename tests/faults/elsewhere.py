"""Results without Snakemake's metadata, and results from another clone: what fits is used, the rest is made again."""

import copy
import shutil

from tests.faults.lab import CONFIG, Study, case, marks, problems, results, written_again

NAME = "elsewhere"
RIDGE = ("koct/networks/solvers.py", "diagonal + lam", "diagonal+2*lam")
DENSE = ("koct/networks/fc.py", "1 / (values + lam)", "1 / (values + 2 * lam)")

# Ways to lose the metadata: each takes a study, finished as its config was, and gives the folder where it goes on


def without_metadata(study, place):
    shutil.rmtree(study.path(".snakemake"))
    return study


def copied(study, place):
    """To another clone, file by file in the order of their names: a pool is then newer than its cells."""
    clone = Study(place)
    shutil.copytree(study.path("results"), clone.path("results"), copy_function=shutil.copyfile)
    return clone


def copied_with_times(study, place):
    clone = Study(place)
    shutil.copytree(study.path("results"), clone.path("results"))
    return clone


# Changes: each says which files it concerns


def no_change(study):
    pass


def other_option(sweep, **options):
    def change(study):
        config = copy.deepcopy(CONFIG)
        config["sweeps"][sweep].update(options)
        study.configure(config)

    return change


def other_code(name, old, new):
    def change(study):
        path = study.path(name)
        text = path.read_text()
        assert text.count(old) == 1, f"{name} has not one {old!r}"
        path.write_text(text.replace(old, new))

    return change


# What is changed: how, and the beginnings of the names of all that is made again
CHANGES = {
    "": (no_change, ()),
    "V changed": (
        other_option("T4", V=6),
        ("pools/T4", "known/T4", "fits/T4", "cells/T4", "theory/T4"),
    ),
    "lambdas changed": (other_option("T4", lambdas=[1.0e-3, 10.0]), ("fits/T4", "cells/T4", "theory/T4")),
    "pool changed": (
        other_option("T4", pool={"train": 8, "val": 4, "test": 5}),
        ("pools/T4", "fits/T4", "cells/T4", "theory/T4"),
    ),
    "tikhonov changed": (
        other_option("T4", tikhonov=0.2),
        ("known/T4", "fits/T4/ko", "cells/T4/ko", "theory/T4/ko", "fits/T4/untrained", "cells/T4/untrained"),
    ),
    "code of ko changed": (
        other_code(*RIDGE),
        tuple(f"{kind}/{sweep}/ko" for kind in ("fits", "cells", "theory") for sweep in ("T4", "T5")),
    ),
    "code of fc changed": (other_code(*DENSE), ("fits/T4/fc", "cells/T4/fc", "theory/T4/fc")),
}
WAYS = {"metadata gone": without_metadata, "another clone": copied, "another clone, times kept": copied_with_times}
CASES = [(way, change) for way in WAYS for change in CHANGES]
TIMES = len(CASES)
SHORT = (CASES.index(("another clone", "")),)


def cause(lab, number):
    way, change = CASES[number % len(CASES)]
    apply, affected = CHANGES[change]
    start = lab.copy(NAME, number)
    study = WAYS[way](start, lab.place(NAME, number, "clone"))
    apply(study)
    expected = reference(lab, change)
    names = [name for name in lab.finished.results if not concerned(name, affected) and not is_report(name)]
    before = marks(study.path("results") / name for name in names)
    found = problems(study, expected, study.run())
    if again := written_again(before):
        found.append(f"made again without need: {', '.join(map(study.name, again))}")
    return case(", ".join(filter(None, [way, change])), found)


def concerned(name, affected):
    """Whether a change concerns a file of this name in results/."""
    return any(name.startswith((f"{prefix}/", f"{prefix}.")) for prefix in affected)


def is_report(name):
    """Tables and figures: they take a second, and may be made again for any reason."""
    return "/" not in name.removeprefix("report/")


def reference(lab, change):
    """The results of a fresh clone with this change, which begins with what it does not concern.

    It has to change the rows that it concerns, and nothing that it does not.
    """
    before = lab.finished.results
    if not change:
        return before
    if change not in lab.references:
        apply, affected = CHANGES[change]
        study = Study(lab.place("reference", *change.split()))
        apply(study)
        for name in before:
            if not is_report(name) and not concerned(name, affected):
                target = study.path("results") / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(lab.finished.path("results") / name, target)
        run = study.run()
        assert run.status == 0, run.output
        found = results(study.folder)
        assert found.keys() == before.keys()
        for name in found:
            if not concerned(name, affected):
                assert found[name] == before[name] or is_report(name), f"{change} changes {name}"
            elif name.startswith("cells/"):
                assert found[name] != before[name], f"{change} does not change {name}"
        lab.references[change] = found
    return lab.references[change]
