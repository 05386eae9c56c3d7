"""The claims of the paper: the committed table, verdicts that follow the results, and the file that states them."""

import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from scipy import ndimage, stats

from koct import cli
from koct.base.files import write_record
from koct.base.stamps import Stamp
from koct.report.claims import statistics
from koct.report.claims import verdicts as claims
from koct.report.measured import Study
from koct.report.pages import claims_page
from koct.study import results
from koct.workflow.when import PAPER

pytestmark = pytest.mark.thorough
REFERENCE = ROOT / "results/reference"
FILES = {name: getattr(results, name.upper()) for name in ("cells", "curves", "calibration", "crossings")}
HOLDS, PART, FAILS, UNDECIDED, MISSING = claims.VERDICTS
CPU = ("H8", "H16", "H32")


def options(folder):
    return [f"{folder}/{name}.parquet" for name in FILES]


def pictures(folder):
    return sorted(map(str, folder.glob("fig_recons_*.npy")))


def judge(folder, name):
    """The row of a claim for the results in a folder."""
    study = Study.read(*options(folder), pictures=pictures(REFERENCE))
    return next(claims.row(claim, study) for claim in claims.claims() if claim["id"] == name)


@pytest.fixture(scope="module")
def committed():
    return {row["id"]: row for row in results.read(REFERENCE / "claims.parquet")[0]}


@pytest.fixture
def changed(tmp_path):
    """Copies of the reference: `changed(file, change)` rewrites the rows of one of them."""
    for name in FILES:
        shutil.copy(REFERENCE / f"{name}.parquet", tmp_path)

    def change(name, how):
        path = tmp_path / f"{name}.parquet"
        rows, origin = results.read(path)
        results.write([row for row in map(how, rows) if row is not None], FILES[name], path, origin, Stamp({}))
        return tmp_path

    return change


@pytest.mark.parametrize("study", ["full", "crossing"])
def test_the_committed_reference_gives_the_committed_table(study, tmp_path, capsys):
    folder = REFERENCE / ("" if study == "full" else study)
    out = [str(tmp_path / f"claims{ending}") for ending in (".parquet", *claims_page.TEMPLATES)]
    assert cli.main(["product", "claims", *options(folder), *pictures(folder), "--out", *out]) == 0
    committed = {row["id"]: row for row in results.read(folder / "claims.parquet")[0]}
    counts = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    assert {verdict: int(count) for verdict, count in counts.items()} == claims_page.counts(committed.values())
    for row in results.read(out[0])[0]:
        kept = committed[row["id"]]
        for key in ("value", "value_low", "value_high"):
            assert row.pop(key) == (None if kept[key] is None else pytest.approx(kept[key], rel=1e-4, abs=1e-12))
        assert row == {key: kept[key] for key in row}
    for path in out[1:]:
        made, kept = (text.read_text() for text in (tmp_path / path, folder / path.rpartition("/")[2]))
        assert made.partition("koct-stamp")[0] == kept.partition("koct-stamp")[0]


def test_between_them_the_references_decide_every_claim(committed):
    other = {row["id"]: row for row in results.read(REFERENCE / "crossing/claims.parquet")[0]}
    missing = {name for name, row in committed.items() if row["verdict"] == MISSING}
    if not pictures(REFERENCE):  # of a run before arrays of reconstructions were kept
        missing -= {"fc-noisier", "fc-blurred"}
    assert missing == {"table-3-beyond", "sparse-view"}
    assert all(other[name]["verdict"] in (HOLDS, PART) for name in missing)


def test_a_small_study_shows_what_it_decides_and_names_the_command_for_the_rest(changed):
    for name in FILES:
        folder = changed(name, lambda row: row if row["sweep"] in CPU else None)
    study = Study.read(*options(folder))
    for claim in claims.claims():
        row, parts = claims.row(claim, study), [*claim.get("parts", []), *claim.get("items", [])]
        sweeps = {sweep for part in parts for sweep in part.get("sweeps", [part.get("sweep")])} - {None}
        there = not sweeps or sweeps & set(CPU)
        assert (row["verdict"] == MISSING) != bool(there), claim["id"]
        if not there:
            assert row["why"].endswith(f"; snakemake --config study={claim['study']} decides it.")
            assert (row["computed"], row["value"], row["value_low"]) == ("", None, None)
        elif sweeps - set(CPU):
            assert "Without the rest: this study has no sweep H" in row["why"]


@pytest.mark.parametrize("kept", [CPU, ("H8", "H128", "H256"), ("H16", "H256", "H512"), ("H32",), PAPER])
def test_a_study_with_fewer_sweeps_never_contradicts_one_with_more(committed, changed, kept):
    """What it says is the verdict of the whole study, or that it lacks what would decide."""
    for name in FILES:
        folder = changed(name, lambda row: row if row["sweep"] in kept else None)
    study = Study.read(*options(folder))
    for claim in claims.claims():
        assert claims.row(claim, study)["verdict"] in (committed[claim["id"]]["verdict"], UNDECIDED, MISSING)


def times(factor, column, **where):
    """Multiply a column in the rows that are meant."""

    def change(row):
        meant = all(row[key] in (value if isinstance(value, tuple) else (value,)) for key, value in where.items())
        return {**row, column: row[column] * factor} if meant and row[column] is not None else row

    return change


def slopes_as_predicted(row):
    """Give FC the slope that Proposition 1 with equal κ expects."""
    study = Study.read(*options(REFERENCE))
    return (
        {**row, "sigma": row["sigma"] * statistics.reference_ratio(study, row["sweep"])} if row["arch"] == "fc" else row
    )


CHANGES = {
    "table-2": ("calibration", times(1.5, "floor"), PART, FAILS),
    "table-3": ("curves", times(10, "error_mean", sweep="H8", arch="ko", N=32), HOLDS, PART),
    "structural-2-10": ("calibration", times(2, "sigma", sweep="H256", arch="ko"), PART, HOLDS),
    "conclusion-low-data": ("curves", times(0.5, "error_mean", N=4), FAILS, HOLDS),
    "safe-side": ("calibration", times(10, "sigma"), FAILS, HOLDS),
    "rrmse": ("cells", times(1.5, "rrmse_peak", sweep="H128", N=2048), HOLDS, FAILS),
    "predicted-scaling": ("calibration", slopes_as_predicted, FAILS, HOLDS),
    "order-fewer": ("curves", times(2, "error_mean", arch="fc", N=(64, 2048)), UNDECIDED, FAILS),  # FC falls no more
    "fc-catches-up": ("crossings", times(5, "N", sweep="H128", arch="fc", versus="ko"), HOLDS, FAILS),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_result_changes_the_verdict(changed, committed, name):
    file, change, before, after = CHANGES[name]
    assert committed[name]["verdict"] == before
    row = judge(changed(file, change), name)
    assert row["verdict"] == after, row["why"]
    assert row["why"] != committed[name]["why"]


def test_one_rule_decides_statements_with_several_cases():
    for verdict, cases in {
        HOLDS: [[(3, 3)]],
        PART: [[(2, 3)], [(1, 1), (0, 1)]],
        FAILS: [[(1, 2)], [(2, 10)], [(1, 3), (0, 1)]],
    }.items():
        assert [claims.judgement(parts) for parts in cases] == [verdict] * len(cases)


def test_noise_is_no_detail_and_blur_is_no_spread():
    """An image that is blurred loses detail, one with noise keeps it and spreads in flat regions."""
    truth, images = noisy_and_blurred(2)
    pictures = SimpleNamespace(known="ko", dense="fc", images=lambda sweep, arch, N: (truth, images[arch]))
    share = {arch: statistics.detail(pictures, "S", arch, 4) for arch in images}
    assert share["fc"] < 0.3 < 0.9 < share["ko"]
    assert statistics.ratio(pictures, "S", "spread", N=4) < 0.2
    for arch, of in images.items():  # several images are no other than one of them, where all are the same
        one = SimpleNamespace(images=lambda *which, of=of: (truth[:1], of[:1]))
        same = SimpleNamespace(images=lambda *which, of=of: (truth[[0, 0, 0]], of[[0, 0, 0]]))
        for statistic in (statistics.detail, statistics.spread):
            assert statistic(one, "S", arch, 4) == pytest.approx(statistic(same, "S", arch, 4), rel=1e-12)


def noisy_and_blurred(count):
    """(The truth, what two networks make of it), each (count, 64, 64)."""
    image = np.kron(np.array([[0, 2, 3, 0], [0, 1, 3, 0], [0, 1, 2, 0], [0, 0, 0, 0]]), np.ones((16, 16))) / 3
    truth = np.stack([np.roll(image, 3 * i, axis=0) for i in range(count)])
    noisy = truth + 0.1 * np.random.default_rng(0).standard_normal(truth.shape)
    return truth, {"ko": noisy, "fc": ndimage.gaussian_filter(truth, (0, 3, 3))}


def test_how_images_look_is_decided_by_arrays_of_several(tmp_path):
    path = tmp_path / "fig_recons_H256.npy"
    for count, verdict in ((16, HOLDS), (1, UNDECIDED), (0, MISSING)):
        truth, images = noisy_and_blurred(max(count, 1))
        write_record(path, Stamp({}), truth=truth, **{f"{arch} 2048": images[arch] for arch in images})
        study = Study.read(*options(REFERENCE), pictures=[str(path)] if count else [])
        row = next(claims.row(claim, study) for claim in claims.claims() if claim["id"] == "fc-blurred")
        assert row["verdict"] == verdict
        assert str(count) in row["why"] or not count


# Intervals; test_products.py has those of positive numbers


def test_the_interval_of_a_mean_is_students(changed):
    study = Study.read(*options(REFERENCE))
    errors = np.array([row["mse"] for row in study.rows("H16", "fc") if row["N"] == 4]) - 1
    margin = stats.t.ppf(0.95, 4) * np.std(errors, ddof=1) / math.sqrt(5)
    found = study.interval(lambda of: statistics.error(of, "H16", "fc", 4) - 1, ["H16"])  # negative: no logarithms
    assert found == pytest.approx((errors.mean() - margin, errors.mean() + margin))
    folder = changed("cells", lambda row: row if row["sweep"] != "H8" or row["seed"] == 1 else None)
    assert judge(folder, "floors-cpu")["value_low"] is None  # of one seed there is none


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        ("curves", "cells", "lacks the column seed"),
        ("dose/curves", "curves", "curves.parquet has, so they are not of one study"),
        ("dose/calibration", "calibration", "calibration.parquet has, so they are not of one study"),
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_sentence(changed, capsys, source, target, sentence):
    folder = changed("cells", dict)
    assert cli.main(["product", "claims", *options(folder), "--out", f"{folder}/claims.csv"]) == 2
    assert "must end in .parquet, .md or .html" in capsys.readouterr().err
    shutil.copy(REFERENCE / f"{source}.parquet", folder / f"{target}.parquet")
    assert cli.main(["product", "claims", *options(folder), "--out", f"{folder}/claims.md"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) == 1
    assert not (folder / "claims.md").exists()


def test_every_claim_is_there_once_and_every_number_of_the_tables():
    listed = {claim["id"]: claim for claim in claims.claims()}
    assert len(listed) == len(claims.claims())
    assert all("verdict" not in claim for claim in claims.DATA["claims"])  # those are computed
    assert [len(listed[table]["items"]) for table in ("table-2", "table-1")] == [20, 42]
    assert tuple(claims.DATA["names"]["five"]) == PAPER
