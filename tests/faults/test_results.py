"""A few faults of results on disk, really caused; and that the suite sees what it looks for."""

import json
import shutil

import pytest

from tests.faults import corruption
from tests.faults.__main__ import KINDS, cases, report
from tests.faults.lab import TRACEBACK, Case, Run, content, marks, problems, temporaries, written_again

RESULTS = ["corruption", "elsewhere", "folders"]
DONE = Run(0, "", 1.0)


@pytest.fixture
def study(lab):
    """A copy of the finished study, to damage."""
    copy = lab.copy("damaged")
    yield copy
    shutil.rmtree(copy.folder)


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind in RESULTS for number in KINDS[kind].SHORT])
def test_results_stand_a_fault(lab, kind, number):
    ((_, case),) = cases(KINDS[kind], lab, [number])
    assert case.ok, f"{case.name}: {case.outcome}, expected {case.expected} ({case.choices})\n{case.detail}"


# The suite itself


def problems_of(lab, study, run=DONE):
    return problems(study, lab.finished.results, run)


def test_what_may_differ_between_two_runs_is_not_compared(lab, study):
    row = study.rows()[0]
    text = row.read_text()
    row.write_text(json.dumps({**json.loads(text), "fit_seconds": 1e3, "device": "another"}))
    assert row.read_text() != text
    assert problems_of(lab, study) == []


def test_every_damage_is_seen(lab, study):
    """But for bits and cuts: they may be in what is not compared, and then the bytes of the file are."""
    seen = 0
    for number, (kind, name, *_) in enumerate(corruption.DAMAGES):
        path, damaged, _ = corruption.damage(study, number, lab.random("seen", number))
        original = lab.finished.path(study.name(path))
        assert damaged != corruption.fingerprint(original)
        if "flipped" not in name and name != "truncated":
            seen += 1
            expected = lab.finished.results[str(path.relative_to(study.path("results")))]
            assert content(path) != expected, f"{kind}: {name}"
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copy2(original, path)
    assert seen == 62
    assert problems_of(lab, study) == []


def test_every_problem_is_seen(lab, study):
    study.path("results/cells/.1.row.json").write_text("half")
    study.path("results/logs/a.log").write_text(f"{TRACEBACK}:\n")
    study.rows()[0].unlink()
    found = problems_of(lab, study, Run(1, "remove it with --unlock", 1.0))
    begin = ["ended with exit status 1", "wrong results", "temporary files left", "traceback", "unlock"]
    assert [problem.partition(":")[0] for problem in found] == begin
    assert problems_of(lab, study, Run(None, "", 1.0))[0].startswith("ended not at all")


def test_a_file_that_is_written_again_is_seen(study):
    assert written_again(marks(study.rows())) == []
    before = marks(study.rows())
    first, second, third, *_ = study.rows()
    text = first.read_text()
    first.unlink()
    first.write_text(text)
    second.write_text(f"{text} ")
    third.touch()
    assert written_again(before) == [first, second]
    assert temporaries(study) == []


def test_the_exit_status_tells_a_failure(capsys):
    good, bad = Case("a fault", "right", True, "right"), Case("a fault", "wrong", False, "right", "chosen", "all of it")
    assert report([("kills", 1, good)], 1) == 0
    assert report([("kills", 1, good), ("kills", 2, bad)], 1) == 1
    assert report([], 1) == 1
    told = capsys.readouterr().out
    assert "--only kills --case 2 --seed 1" in told
    assert "right 1, wrong 1" in told


def test_a_trial_that_breaks_down_is_a_failure(lab):
    class Broken:
        @staticmethod
        def cause(lab, number):
            raise RuntimeError("no mount")

    ((number, case),) = cases(Broken, lab, [3])
    assert (number, case.ok) == (3, False)
    assert "no mount" in case.detail
