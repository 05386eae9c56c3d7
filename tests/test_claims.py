"""The claims of the paper: the committed table, verdicts that follow the results, and the file that states them."""

import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest
from conftest import ROOT
from scipy import stats

from koct import cli
from koct.base.stamps import Stamp
from koct.config.sweep import PAPER
from koct.report.claims import verdicts as claims
from koct.report.measured import Study
from koct.report.pages import claims_page
from koct.study import results

REFERENCE = ROOT / "results/reference"
FILES = {name: getattr(results, name.upper()) for name in ("cells", "curves", "calibration", "budget")}
PRINTED = json.loads((ROOT / "koct/report/printed.json").read_text())
HOLDS, PART, FAILS, MISSING = claims.VERDICTS
CPU, GPU = ("H8", "H16", "H32"), ("H128", "H256")


def options(folder):
    return [f"{folder}/{name}.parquet" for name in FILES]


def judge(folder, name):
    """The row of a claim for the results in a folder."""
    study, _ = Study.read(*options(folder))
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


def test_the_committed_reference_gives_the_committed_table(committed, tmp_path, capsys):
    out = [str(tmp_path / f"claims{ending}") for ending in (".parquet", *claims_page.TEMPLATES)]
    assert cli.main(["product", "claims", *options(REFERENCE), "--out", *out]) == 0
    counts = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    judged = [row["verdict"] for row in committed.values()]
    assert counts == {verdict: str(judged.count(verdict)) for verdict in claims.VERDICTS}
    for row in results.read(out[0])[0]:
        kept = committed[row["id"]]
        for key in ("value", "value_low", "value_high"):
            assert row.pop(key) == (None if kept[key] is None else pytest.approx(kept[key], rel=1e-4, abs=1e-12))
        assert row == {key: kept[key] for key in row}
    for path in out[1:]:
        made, kept = (text.read_text() for text in (tmp_path / path, REFERENCE / path.rpartition("/")[2]))
        assert made.partition("koct-stamp")[0] == kept.partition("koct-stamp")[0]
    assert len(committed) == 128
    rows = [line for line in (tmp_path / "claims.md").read_text().splitlines() if line.startswith("| `")]
    assert {line.split("`")[1] for line in rows} == set(committed)
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 7 for line in rows)


def test_with_the_surrogate_alone_fan_beam_rows_are_not_computed(changed):
    for name in FILES:
        folder = changed(name, lambda row: row if row["sweep"] in CPU else None)
    study, _ = Study.read(*options(folder))
    for claim in claims.claims():
        row = claims.row(claim, study)
        text = json.dumps([claim.get("parts"), claim.get("items")])
        others = set(re.findall(r'"(H\d+(?:-exact)?)"', text)) - set(CPU)
        assert (row["verdict"] == MISSING) == bool(others), claim["id"]
        if others:
            assert row["why"] in {f"This study has no sweep {sweep}." for sweep in others}
            assert (row["computed"], row["value"], row["value_low"]) == ("", None, None)


# A changed result changes the verdict


def times(factor, column, **where):
    """Multiply a column in the rows that are meant."""

    def change(row):
        meant = all(row[key] in (value if isinstance(value, tuple) else (value,)) for key, value in where.items())
        return {**row, column: row[column] * factor} if meant and row[column] is not None else row

    return change


CHANGES = {
    "table-2-H128-ko-floor": ("calibration", times(1.5, "floor", sweep="H128", arch="ko"), HOLDS, FAILS),
    "table-1-512-parameters": ("calibration", times(2, "p", sweep="H512"), HOLDS, PART),
    "table-3-H8": ("curves", times(10, "error_mean", sweep="H8", arch="ko", N=32), HOLDS, FAILS),
    "table-3-H128": ("curves", times(2, "error_mean", sweep="H128", arch="fc", N=2048), HOLDS, PART),
    "tracks-H16-ko": ("curves", times(1.4, "error_mean", sweep="H16", arch="ko", N=(32, 64)), FAILS, HOLDS),
    "low-N-H8-ko": ("curves", times(0.5, "error_mean", sweep="H8", arch="ko", N=4), FAILS, HOLDS),
    "structural-2-10": ("calibration", times(2, "sigma", sweep="H256", arch="ko"), PART, HOLDS),
    "matched-H32": ("calibration", times(2, "sigma", sweep="H32", arch="ko"), FAILS, HOLDS),
    "invertible": ("calibration", times(2, "sigma", sweep=("H8", "H16"), arch="ko"), PART, HOLDS),
    "residual-correction-cpu": ("cells", times(4, "mse", sweep=CPU, arch="untrained"), FAILS, HOLDS),
    "plateau-fc": ("curves", times(1.6, "error_mean", arch="fc", N=(64, 2048)), FAILS, HOLDS),
    "lambda-gpu": ("cells", times(0.01, "lam", sweep=GPU, lam=1e4), FAILS, HOLDS),
    "metric-text": ("cells", times(0.21919, "rrmse_norm", sweep=GPU), FAILS, PART),
    "faithful-H256": ("cells", times(1.2, "rrmse_peak", sweep="H256", arch="ko", N=4), HOLDS, FAILS),
    "fc-catches-up": ("curves", times(0.5, "error_mean", sweep="H128", arch="fc", N=256), HOLDS, FAILS),
    "crosses-at-largest": ("curves", times(1.1, "error_mean", sweep="H128", arch="fc", N=1024), PART, HOLDS),
    "order-more-H256": ("calibration", times(0.5, "floor", sweep="H256", arch="fc"), FAILS, HOLDS),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_result_changes_the_verdict(changed, committed, name):
    file, change, before, after = CHANGES[name]
    assert committed[name]["verdict"] == before
    row = judge(changed(file, change), name)
    assert row["verdict"] == after, row["why"]
    assert row["why"] != committed[name]["why"]


def test_grids_settings_and_fits_that_are_missing(changed, committed):
    folder = changed("cells", lambda row: None if row["sweep"] == "H8" and row["seed"] == 5 else row)
    assert judge(folder, "grid-cpu")["verdict"] == PART
    folder = changed("calibration", times(2, "V", sweep=CPU))
    assert judge(folder, "setting-cpu")["verdict"] == PART
    assert judge(folder, "matched-H8")["why"] == "This study has another geometry in H8 than the paper."
    for file in ("cells", "curves"):
        folder = changed(file, lambda row: None if row["sweep"] == "H128" and row["N"] == 2048 else row)
    assert judge(folder, "four-orders")["verdict"] == FAILS
    row = judge(folder, "table-3-H128")
    assert (row["verdict"], row["why"]) == (MISSING, "This study has no N of 2,048 in H128.")


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, HOLDS), (1.1, FAILS)])
def test_the_row_on_fsdp_is_computed_where_such_cells_exist(changed, factor, verdict):
    folder = changed("cells", dict)
    for name in ("cells", "curves", "calibration"):
        rows, origin = results.read(folder / f"{name}.parquet")
        more = [{**row, "arch": "fc-fsdp"} for row in rows if (row["sweep"], row["arch"]) == ("H256", "fc")]
        more = [times(factor, "rrmse_peak")(row) if name == "cells" else row for row in more]
        results.write(rows + more, FILES[name], folder / f"{name}.parquet", origin, Stamp({}))
    row = judge(folder, "fc-by-fsdp")
    assert (row["verdict"], row["value"]) == (verdict, pytest.approx(factor))


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
    assert judge(folder, "table-2-H8-ko-floor")["value_low"] is None  # of one seed there is none


# Mistakes


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        ("curves", "cells", "lacks the column seed"),
        ("dose/curves", "curves", "are not of one study: H128 fc 4 is in one only"),
        ("dose/calibration", "calibration", "are not of one study: H128 fc is in one only"),
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_sentence(changed, capsys, source, target, sentence):
    folder = changed("cells", dict)
    assert cli.main(["product", "claims", *options(folder), "--out", f"{folder}/claims.csv"]) == 2
    assert "must end in .parquet, .md, .tex or .html" in capsys.readouterr().err
    shutil.copy(REFERENCE / f"{source}.parquet", folder / f"{target}.parquet")
    assert cli.main(["product", "claims", *options(folder), "--out", f"{folder}/claims.md"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) == 1
    assert not (folder / "claims.md").exists()


def test_a_curve_that_does_not_fall_is_not_judged(changed):
    folder = changed("calibration", times(0, "sigma", sweep="H8"))
    assert judge(folder, "tracks-H8-ko")["why"] == "This study has no falling curve of KO in H8."
    folder = changed("curves", times(0, "error_mean", sweep="H16"))
    assert judge(folder, "table-3-H16")["verdict"] == MISSING


# The statements


def test_every_claim_is_complete():
    listed, used = claims.claims(), set()
    assert len({claim["id"] for claim in listed}) == len(listed)
    for claim in listed:
        parts = [*claim.get("parts", []), *claim.get("items", []), *claim.get("facts", {}).values()]
        used |= {part["statistic"] for part in parts}
        text = json.dumps({key: value for key, value in claim.items() if key != "printed"}, ensure_ascii=False)
        assert not re.search(r"<\w+>|\"@", text), claim["id"]
        assert re.fullmatch(r"(Section \d|Table \d|Figure \d|Appendix [A-D](\.\d)?|Abstract)", claim["where"])
        assert ("items" in claim) != ("parts" in claim)
    assert used == set(claims.STATISTICS)


def test_printed_numbers_are_those_of_the_papers_tables():
    by_id = {claim["id"]: claim for claim in claims.claims()}
    for sweep, archs in PRINTED["calibration"].items():
        for arch, numbers in archs.items():
            for key, text in numbers.items():
                (item,) = by_id[f"table-2-{sweep}-{arch}-{key}"]["items"]
                assert (item["options"]["key"], float(item["printed"])) == (key, float(text))
    for i, point in enumerate(PRINTED["operating_points"]):
        column = [row[i] for row in PRINTED["fullscale"].values()]
        items = [by_id[f"table-1-{point['H']}-{part}"]["items"] for part in ("parameters", "memory")]
        assert [item["printed"] for part in items for item in part] == column
    assert tuple(PRINTED["calibration"]) == PAPER == tuple(claims.DATA["names"]["five"])


@pytest.mark.parametrize(
    ("number", "printed", "text"),
    [
        (6.326e-3, "6.32e-3", "6.33e-3"),
        (80 * 4 / 1024**3, "0.31 KiB", "0.31 KiB"),
        (1024, "1,024", "1,024"),
    ],
)
def test_numbers_are_written_as_the_printed_ones(number, printed, text):
    assert claims.in_print(number, printed)[2] == text


# The pages


def test_the_table_compiles(tmp_path):
    table = (REFERENCE / "claims.tex").read_text()
    assert table.isascii()
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed: the table was read but not compiled")
    packages = r"\usepackage{booktabs,longtable,array}\usepackage[margin=2cm]{geometry}"
    text = rf"\documentclass{{article}}{packages}\begin{{document}}{table}\end{{document}}"
    (tmp_path / "claims.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "claims.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout
