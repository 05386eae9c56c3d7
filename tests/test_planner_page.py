"""The planner page as a file: what it carries, what it refuses, its size, and that no name in it becomes markup."""

import base64
import json
import re
import shutil
import zlib

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, committed_stamp

from koct import Forecast
from koct.base import stamps
from koct.forecast.ensemble import STEP
from koct.forecast.pilot import read_pilots
from koct.report.planner import packed
from koct.workflow import sources, stages

REFERENCE = ROOT / "results/reference"
PILOT = ROOT / "docs/pilot.csv"


def carried(path):
    """The data of a page."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', path.read_text())
    return json.loads(data)


def unpacked(letters, n):
    """Curves as numbers.js unpacks them, shape (n_curves, n)."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(letters)), np.uint8).reshape(4, -1)
    steps = np.ascontiguousarray(planes.T).view("<i4").reshape(n, -1).T * STEP
    return steps[:, :1] - np.cumsum(np.where(np.arange(n) > 0, steps, 0.0), axis=1)


def test_the_page_carries_every_curve_to_the_last_bit(koct, tmp_path):
    assert koct("planner", PILOT, "--out", "page.html") == (0, "", "")
    (sweep,) = carried(tmp_path / "page.html")["sweeps"]
    for about in sweep["archs"]:
        forecast = Forecast(read_pilots(PILOT)[about["name"]])
        N = np.frombuffer(base64.b64decode(about["N"]))
        first = np.searchsorted(forecast.curves_.N, forecast.pilot.N[0])
        assert N.tolist() == forecast.curves_.N[first:].tolist()
        assert np.array_equal(unpacked(about["reached"], len(N)), forecast.curves_.reached[:, first:])
        assert np.array_equal(unpacked(about["spreads"], 1)[:, 0], forecast.spreads_)


def test_numbers_that_do_not_fit_are_not_packed():
    for wrong in ([[0.0, 1.0]], [[3000.0, 0.0]]):
        with pytest.raises(ValueError, match="must never rise"):
            packed.falling(np.array(wrong))


def test_the_committed_page_is_that_of_the_full_study_and_small(koct, tmp_path):
    assert koct("planner", REFERENCE / "cells.parquet", "--out", "page.html")[0] == 0
    made, kept = tmp_path / "page.html", REFERENCE / "planner.html"
    for page in (made, kept):
        assert f"has {page.stat().st_size / 1e6:.0f} MB" in (ROOT / "docs/how-many-samples.md").read_text()
    assert [sweep["name"] for sweep in carried(made)["sweeps"]] == list(
        dict.fromkeys(pd.read_parquet(REFERENCE / "cells.parquet")["sweep"])
    )
    content = committed_stamp(REFERENCE / "cells.parquet").content
    of_the_first_format = f"{zlib.crc32(content.encode()):08x}"
    assert committed_stamp(kept).inputs in (stamps.combined([content]), of_the_first_format)
    for ours, theirs in zip(carried(made)["sweeps"], carried(kept)["sweeps"], strict=True):
        for key in ("name", "label", "metric", "target"):
            assert ours[key] == theirs[key]


def test_the_same_pilot_gives_the_same_bytes(koct, tmp_path):
    pages = [tmp_path / name for name in ("one.html", "two.html")]
    for page in pages:
        assert koct("planner", PILOT, "--out", page)[0] == 0
        assert stamps.check(page).spec == {}
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_nothing_is_loaded_from_anywhere(koct, tmp_path):
    koct("planner", PILOT, "--out", "page.html")
    text = (tmp_path / "page.html").read_text()
    assert re.search(r"""<meta http-equiv="Content-Security-Policy"\s+content="default-src 'none';""", text)
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.findall(r"<link|<img|\bsrc=|@import|url\((?!#)", text)


BAD = '</script><script>document.title = "bad"</script>'


def test_names_cannot_end_the_data(koct, tmp_path):
    rows = [f'"{name}",{N},{0.1 / N}' for name in ("<!--<script>", BAD.replace('"', '""')) for N in (4, 8, 16)]
    (tmp_path / "pilot.csv").write_text("\n".join(["arch,N,error", *rows]) + "\n")
    assert koct("planner", "pilot.csv", "--out", "page.html")[0] == 0
    text = (tmp_path / "page.html").read_text()
    assert text.count("</script>") == text.count("<script") == 2
    (sweep,) = carried(tmp_path / "page.html")["sweeps"]
    assert [arch["name"] for arch in sweep["archs"]] == ["<!--<script>", BAD]


MISTAKES = {
    "no such file": ("nowhere.csv", None, []),
    "empty": ("pilot.csv", "", []),
    "no error": ("pilot.csv", "N,loss\n4,0.1\n8,0.1\n", []),
    "one N": ("pilot.csv", "N,error\n4,0.1\n4,0.2\n", []),
    "no number": ("pilot.csv", "N,error\n4,0.1\n8,x\n", []),
    "negative": ("pilot.csv", "N,error\n4,0.1\n8,-1\n", []),
    "no such sweep": ("pilot.csv", "sweep,N,error\na,4,0.1\na,8,0.2\n", ["--sweep", "b"]),
    "no such metric": ("pilot.csv", "N,error\n4,0.1\n8,0.2\n", ["--metric", "mse"]),
    "no rate": ("pilot.csv", "N,error\n4,2\n8,1.5\n", ["--test-size", "100"]),
    "damaged": ("pilot.parquet", "PAR1 and nothing else", []),
}


@pytest.mark.parametrize(("name", "text", "options"), MISTAKES.values(), ids=MISTAKES)
def test_a_bad_pilot_gets_the_sentence_of_budget(koct, tmp_path, name, text, options):
    if text is not None:
        (tmp_path / name).write_text(text)
    found = koct("planner", name, *options, "--out", "page.html")
    assert found == koct("budget", name, *options, "--target", 0.1)
    assert found[0] == 2
    assert not (tmp_path / "page.html").exists()


def test_every_sweep_of_a_file_is_on_the_page_with_its_cost(koct, tmp_path):
    rows = [f"{sweep},{N},{0.1 / N},{3 * N}" for sweep in ("b", "a") for N in (4, 8, 16)]
    (tmp_path / "pilot.csv").write_text("\n".join(["sweep,N,error,seconds", *rows]) + "\n")
    koct("planner", "pilot.csv", "--out", "page.html")
    sweeps = carried(tmp_path / "page.html")["sweeps"]
    assert [sweep["name"] for sweep in sweeps] == ["b", "a"]
    for sweep in sweeps:
        assert sweep["cost"] == {"column": "seconds", "unit": "s"}
        assert sweep["archs"][0]["cost"] == pytest.approx([3, 1])
        assert not sweep["archs"][0]["assurable"]
    koct("planner", "pilot.csv", "--sweep", "a", "--out", "page.html")
    assert [sweep["name"] for sweep in carried(tmp_path / "page.html")["sweeps"]] == ["a"]


def test_a_pilot_of_ten_thousand_rows(koct, tmp_path):
    """Takes a second or two; every run counts, and some are drawn."""
    rng, N = np.random.default_rng(0), np.geomspace(10, 10_000, 25).astype(int)
    rows = [f"{arch},{n},{s},{n**-0.4 * rng.lognormal(0, 0.1)}" for arch in "ab" for n in N for s in range(200)]
    assert len(rows) == 10_000
    (tmp_path / "pilot.csv").write_text("\n".join(["arch,N,seed,error", *rows]) + "\n")
    assert koct("planner", "pilot.csv", "--out", "page.html")[0] == 0
    (sweep,) = carried(tmp_path / "page.html")["sweeps"]
    assert [len(runs) for runs in sweep["archs"][0]["runs"]] == [80] * 25
    assert (tmp_path / "page.html").stat().st_size < 1e6


def test_scores_without_any_error_have_a_target_to_begin_with(koct, tmp_path):
    (tmp_path / "pilot.csv").write_text("N,r2\n4,0.9999999999999999\n8,1\n16,1\n")
    assert koct("planner", "pilot.csv", "--metric", "r2", "--out", "page.html")[0] == 0
    assert carried(tmp_path / "page.html")["sweeps"][0]["target"] == 0.5


@pytest.mark.parametrize("name", ["page.html", "page.css", "main.js", "numbers.js", "packed.py"])
def test_every_part_of_the_page_counts_as_its_code(tmp_path, monkeypatch, name):
    def code():
        for function in (*vars(sources).values(), stages.code):
            if hasattr(function, "cache_clear"):
                function.cache_clear()
        return stages.code("planner"), stages.code("budgets")

    copy = tmp_path / "koct"
    shutil.copytree(ROOT / "koct", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    page, budgets = code()
    path = copy / "report/planner" / name
    path.write_text(path.read_text() + ("\nOTHER = 1\n" if name.endswith(".py") else "\n"))
    changed, others = code()
    monkeypatch.undo()
    code()
    assert changed != page
    assert others == budgets


def test_the_workflow_makes_it_with_the_metrics_of_the_study(study):
    page = study.path("results/planner.html")
    assert stamps.check(page).spec["metrics"] == {"H8": "mse", "H16": "mse", "H32": "mse"}
    sweeps = carried(page)["sweeps"]
    assert [sweep["metric"] for sweep in sweeps] == ["mse"] * 3
    assert [[arch["label"] for arch in sweep["archs"]] for sweep in sweeps] == [["FC", "KO"]] * 3
