"""The claims of the paper: the committed table, verdicts that follow the results, and the file that states them."""

import json
import math
import re
import shutil

import numpy as np
import pytest
from conftest import ROOT
from scipy import ndimage, stats

from koct import cli
from koct.base.stamps import Stamp
from koct.report.claims import statistics
from koct.report.claims import verdicts as claims
from koct.report.figures import fig_recons
from koct.report.labels import Names
from koct.report.measured import NotComputedError, Study
from koct.report.pages import claims_page
from koct.study import results
from koct.workflow.when import PAPER

REFERENCE = ROOT / "results/reference"
FILES = {name: getattr(results, name.upper()) for name in ("cells", "curves", "calibration")}
HOLDS, PART, FAILS, MISSING = claims.VERDICTS
CPU, GPU = ("H8", "H16", "H32"), ("H128", "H256")


def options(folder):
    return [f"{folder}/{name}.parquet" for name in FILES]


def pictures(folder):
    return sorted(map(str, folder.glob("fig_recons_*.png")))


def judge(folder, name):
    """The row of a claim for the results in a folder."""
    study, _ = Study.read(*options(folder), pictures=pictures(REFERENCE))
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


# The reference


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
    rows = [line for line in (tmp_path / "claims.md").read_text().splitlines() if "`)" in line]
    assert {re.search(r"`([\w-]+)`\)", line)[1] for line in rows} == set(committed)
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in rows)


def test_between_them_the_references_decide_every_claim(committed):
    other = {row["id"]: row for row in results.read(REFERENCE / "crossing/claims.parquet")[0]}
    missing = [name for name, row in committed.items() if row["verdict"] == MISSING]
    assert missing == ["table-3-beyond", "sparse-view"]
    for name in missing:
        assert committed[name]["why"].endswith("; snakemake --config study=crossing decides it.")
        assert other[name]["verdict"] in (HOLDS, PART)


def test_twelve_claims_come_first_in_three_groups(committed):
    assert [len(ids) for ids in claims.GROUPS.values()] == [4, 4, 4]
    (_, groups), *rest = claims_page.sections(list(committed.values()))
    assert {name: [row["id"] for row in rows] for name, rows in groups} == claims.GROUPS
    assert max(len(row["why"]) for _, rows in groups for row in rows) < 220  # lines of one screen
    assert sum(len(rows) for _, places in rest for _, rows in places) == len(committed) - 12


def test_a_small_study_shows_what_it_decides_first_and_names_the_command_for_the_rest(changed):
    for name in FILES:
        folder = changed(name, lambda row: row if row["sweep"] in CPU else None)
    study, _ = Study.read(*options(folder))
    rows = []
    for claim in claims.claims():
        row = claims.row(claim, study)
        parts = [*claim.get("parts", []), *claim.get("items", [])]
        sweeps = {sweep for part in parts for sweep in part.get("sweeps", [part.get("sweep")])}
        there = not parts or not sweeps - {None} or sweeps & set(CPU)
        assert (row["verdict"] == MISSING) != bool(there), claim["id"]
        if there and sweeps - {None} - set(CPU):
            assert "Without the rest: this study has no sweep H" in row["why"]
        elif not there:
            assert row["why"].endswith(f"; snakemake --config study={claim['study']} decides it.")
            assert (row["computed"], row["value"], row["value_low"]) == ("", None, None)
        rows.append(row)
    *decided, (title, ((_, undecided),)) = claims_page.sections(rows)
    assert title == "What this study cannot decide"
    assert all(row["verdict"] == MISSING for row in undecided)
    assert len(decided[0][1]) == 3  # each group of the twelve has claims that the surrogate decides


# A changed result changes the verdict


def times(factor, column, **where):
    """Multiply a column in the rows that are meant."""

    def change(row):
        meant = all(row[key] in (value if isinstance(value, tuple) else (value,)) for key, value in where.items())
        return {**row, column: row[column] * factor} if meant and row[column] is not None else row

    return change


CHANGES = {
    "table-2": ("calibration", times(1.5, "floor"), PART, FAILS),
    "table-3": ("curves", times(10, "error_mean", sweep="H8", arch="ko", N=32), HOLDS, PART),
    "structural-2-10": ("calibration", times(2, "sigma", sweep="H256", arch="ko"), PART, HOLDS),
    "conclusion-low-data": ("curves", times(0.5, "error_mean", N=4), FAILS, HOLDS),
    "safe-side": ("calibration", times(10, "sigma"), FAILS, HOLDS),
    "rrmse": ("cells", times(1.5, "rrmse_peak", sweep="H128", N=2048), HOLDS, FAILS),
    "fc-catches-up": ("curves", times(0.5, "error_mean", sweep="H128", arch="fc", N=256), HOLDS, FAILS),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_result_changes_the_verdict(changed, committed, name):
    file, change, before, after = CHANGES[name]
    assert committed[name]["verdict"] == before
    row = judge(changed(file, change), name)
    assert row["verdict"] == after, row["why"]
    assert row["why"] != committed[name]["why"]


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([(3, 3)], HOLDS),
        ([(2, 3)], PART),
        ([(1, 2)], FAILS),
        ([(2, 10)], FAILS),
        ([(1, 1), (0, 1)], PART),
        ([(1, 3), (0, 1)], FAILS),
    ],
)
def test_one_rule_decides_statements_with_several_cases(parts, verdict):
    assert claims.judgement(parts) == verdict


# Images


def test_images_are_read_back_from_the_picture_of_a_sweep(tmp_path):
    rng = np.random.default_rng(0)
    sizes = (4, 16, 64, 256)
    truth, made = rng.random((8, 8)), {(arch, N): rng.random((8, 8)) for arch in ("ko", "fc") for N in sizes}
    made["tv", 0] = made["nnls", 0] = truth
    path = tmp_path / "fig_recons_S.png"
    styles = {arch: {"label": arch, "colour": "#000000", "marker": "o"} for arch in ("ko", "fc", "tv", "nnls")}
    fig_recons.draw(truth, made, Names({"koct.archs": json.dumps(styles)}), [str(path)])
    cells = {("S", arch): [{"N": N} for N in sizes] for arch in ("ko", "fc")}
    curves = {key: dict.fromkeys(sizes, 1.0) for key in cells}
    fitted = {key: {"H": 8} for key in cells}
    free = {("S", arch): [{"N": 0}] for arch in ("tv", "nnls")}
    study = Study(cells, curves, fitted, free, {}, None, {"S": str(path)})
    for (arch, N), image in made.items():
        for pair in study.images("S", arch, N) if N else []:
            for read, wanted in zip(pair, (truth, image), strict=True):
                np.testing.assert_allclose(read, np.clip(wanted / truth.max(), 0, 1), atol=2 / 255)
    assert len(study.images("S", "ko", 16)) == 1
    with pytest.raises(NotComputedError, match="no picture of the reconstructions of S at N = 32"):
        study.images("S", "ko", 32)


def test_noise_is_no_detail_and_blur_is_no_spread():
    """An image that is blurred loses detail, one with noise keeps it and spreads in flat regions."""
    truth = np.kron(np.array([[0, 2, 3, 0], [0, 1, 3, 0], [0, 1, 2, 0], [0, 0, 0, 0]]), np.ones((16, 16))) / 3
    images = {
        "ko": truth + 0.1 * np.random.default_rng(0).standard_normal(truth.shape),
        "fc": ndimage.gaussian_filter(truth, 3),
    }

    class Pictures:
        known, dense = "ko", "fc"

        def images(self, sweep, arch, N):
            return [(truth, images[arch])]

    share = {arch: statistics.detail(Pictures(), "S", arch, 4) for arch in images}
    assert share["fc"] < 0.3 < 0.9 < share["ko"]
    assert statistics.spread_ratio(Pictures(), "S", 4) < 0.2


# Intervals


def test_the_interval_of_a_mean_is_students(changed):
    study, _ = Study.read(*options(REFERENCE))
    errors = [row["mse"] for row in study.rows("H16", "fc") if row["N"] == 4]
    low, high = study.interval(lambda study: study.error("H16", "fc", 4) - 1, ["H16"])  # negative: no logarithms
    margin = stats.t.ppf(0.95, 4) * np.std(errors, ddof=1) / math.sqrt(5)
    assert (low, high) == pytest.approx((np.mean(errors) - 1 - margin, np.mean(errors) - 1 + margin))
    low, high = study.interval(lambda study: study.error("H16", "fc", 4), ["H16"])
    assert math.sqrt(low * high) == pytest.approx(np.mean(errors))
    assert math.log(high / low) == pytest.approx(2 * margin / np.mean(errors), rel=0.05)
    folder = changed("cells", lambda row: row if row["sweep"] != "H8" or row["seed"] == 1 else None)
    assert judge(folder, "floors-cpu")["value_low"] is None  # of one seed there is none


# Mistakes


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


# The statements


def test_every_claim_is_complete():
    listed, used = claims.claims(), set()
    assert len({claim["id"] for claim in listed}) == len(listed)
    for claim in listed:
        parts = [*claim.get("parts", []), *claim.get("items", []), *claim.get("facts", {}).values()]
        used |= {part["statistic"] for part in parts}
        assert re.fullmatch(
            r"(Section \d|Table \d|Figure \d|Appendix [A-D](\.\d)?|Abstract), lines? .*", claim["where"]
        )
        assert ("items" in claim) + ("parts" in claim) + ("verdict" in claim) == 1
    assert all("verdict" not in claim for claim in claims.DATA["claims"])  # those are computed
    helpers = {"reference", "sample_ratio", "rrmse"}  # of other statistics
    assert used | helpers == set(claims.STATISTICS)
    assert [len(claim["items"]) for claim in listed if claim["id"] in ("table-2", "table-1")] == [20, 42]
    assert tuple(claims.DATA["names"]["five"]) == PAPER
