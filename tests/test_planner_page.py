"""The planner page as a file: its answers are those of `koct budget`, and no name in it becomes markup."""

import json
import re
import shlex

import numpy as np
import pytest
from conftest import ROOT

from koct.base import stamps
from koct.study import results

PILOT = ROOT / "docs/pilot.csv"
ENTRIES = ("n", "n_low", "n_high", "probability")  # of a row, behind its network


def carried(path):
    """The data of a page."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', path.read_text())
    return json.loads(data)


def scored(score):
    rng = np.random.default_rng(3)
    runs = [(arch, N, seed) for arch in ("resnet", "linear") for N in (50, 100, 200, 400) for seed in (1, 2, 3)]
    errors = [(1.5 * N**-0.5 if arch == "resnet" else N**-0.25) * rng.lognormal(0, 0.1) for arch, N, _ in runs]
    lines = [f"{arch},{N},{seed},{score(error)}" for (arch, N, seed), error in zip(runs, errors, strict=True)]
    return "\n".join(["arch,N,seed,value", *lines]) + "\n"


PILOTS = {
    "errors": (PILOT.read_text(), []),
    "per cent": (scored(lambda error: 100 - 100 * error), ["--metric", "value", "--higher", "100"]),
    "psnr": (scored(lambda error: -10 * np.log10(error / 100)).replace("value", "psnr"), ["--metric", "psnr"]),
}


@pytest.mark.parametrize(("text", "options"), PILOTS.values(), ids=PILOTS)
def test_answers_are_what_the_command_on_the_page_prints(koct, tmp_path, text, options):
    (tmp_path / "pilot.csv").write_text(text)
    status, said, err = koct("planner", "pilot.csv", *options, "--out", "page.html")
    assert (status, err) == (0, "")
    (sweep,) = carried(tmp_path / "page.html")["sweeps"]
    assert said.startswith(f"page.html answers for {len(sweep['targets'])} targets and 2 learning curves; open it")
    values = [float(target) for target in sweep["targets"]]
    assert values == sorted(set(values))
    assert 20 < len(values) <= 250
    assert values[0] < values[sweep["first"]] < values[-1]
    for question in sweep["questions"]:
        for i in (0, sweep["first"], len(values) - 1):
            command = sweep["command"].replace("{target}", sweep["targets"][i])
            if question["assurance"] is not None:
                command += f" --assurance {question['assurance']}"
            _, *arguments = shlex.split(command)
            rows, printed = question["answers"][i], koct(*arguments)[1]
            first = sweep["archs"][rows[0][0]]
            found = json.loads(koct(*arguments, "--at", ",".join(map(str, first["octaves"])), "--json")[1])
            answers = [each for each in found if "chances" not in each]
            chances = [each["chances"][0] for each in found if "chances" in each and each["arch"] == first["name"]]
            assert rows[0][-1] == [round(100 * chance) for chance in chances]
            assert [sweep["archs"][row[0]]["name"] for row in rows] == [answer["arch"] for answer in answers]
            for (_, *row), answer in zip(rows, answers, strict=True):
                assert row[:4] == [answer[key] for key in ENTRIES]
                error, low, high, ratio = row[5:9]
                assert f"{error} ({low} to {high}) at N = {answer['at']:,}" in printed
                assert ratio in ("", "1", "?") or f"{ratio} times as many" in printed or "about as many" in printed
                assert sweep["reasons"][row[-2]] == answer["reason"]
            assert question["goal"].replace("{target}", sweep["targets"][i]) in printed
            assert all(sentence in printed for sentence in sweep["factors"][i : i + 1])


BAD = ["<!--<script>", '</script><script>document.title = "bad"</script>']


def test_the_page_is_the_same_bytes_each_time_loads_nothing_and_names_cannot_end_its_data(koct, tmp_path):
    quoted = [name.replace('"', '""') for name in BAD]
    rows = [f'"{name}",{N},{0.1 / N}' for name in quoted for N in (4, 8, 16)]
    (tmp_path / "pilot.csv").write_text("\n".join(["arch,N,error", *rows]) + "\n")
    pages = [tmp_path / name for name in ("one.html", "two.html")]
    for page in pages:
        assert koct("planner", "pilot.csv", "--out", page)[0] == 0
        assert stamps.check(page).spec == {}
    text = pages[0].read_text()
    assert pages[1].read_text() == text
    assert re.search(r"""<meta http-equiv="Content-Security-Policy"\s+content="default-src 'none';""", text)
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.findall(r"<link|<img|\bsrc=|@import|url\((?!#)", text)
    assert text.count("</script>") == text.count("<script") == 2
    assert [arch["name"] for arch in carried(pages[0])["sweeps"][0]["archs"]] == BAD


def test_every_sweep_of_a_file_is_on_the_page_with_its_cost(koct, tmp_path):
    rows = [f"{sweep},{N},{0.1 / N},{3 * N}" for sweep in ("b", "a") for N in (4, 8, 16)]
    (tmp_path / "pilot.csv").write_text("\n".join(["sweep,N,error,seconds", *rows]) + "\n")
    koct("planner", "pilot.csv", "--out", "page.html")
    sweeps = carried(tmp_path / "page.html")["sweeps"]
    assert [sweep["name"] for sweep in sweeps] == ["b", "a"]
    for sweep in sweeps:
        assert [question["assurance"] for question in sweep["questions"]] == [None]  # no run is repeated
        n, cost = sweep["questions"][0]["answers"][sweep["first"]][0][1], sweep["cost"]["texts"][0][sweep["first"]][0]
        assert cost == f"{3 * n} s"
    koct("planner", "pilot.csv", "--sweep", "a", "--out", "page.html")
    assert [sweep["name"] for sweep in carried(tmp_path / "page.html")["sweeps"]] == ["a"]


def test_the_page_names_groups_where_n_counts_them_and_draws_some_of_many_runs(koct, tmp_path):
    rng, N = np.random.default_rng(0), np.geomspace(10, 10_000, 25).astype(int).tolist()
    runs = [{"arch": arch, "N": n, "seed": seed} for arch in "ab" for n in N for seed in range(200)]
    rows = [{"sweep": "A", **run, "mse": run["N"] ** -0.4 * rng.lognormal(0, 0.1)} for run in runs]
    told = {"koct.sweeps": json.dumps({"A": {"label": "scans", "metric": "mse", "counts": "groups"}})}
    results.write(rows, list(rows[0]), "pilot.parquet", told, stamps.Stamp({}))
    assert koct("planner", "pilot.parquet", "--out", "page.html")[0] == 0
    (sweep,) = carried(tmp_path / "page.html")["sweeps"]
    assert (sweep["counts"], sweep["title"]) == ("groups", "A (scans)")
    assert [len(runs) for runs in sweep["archs"][0]["runs"]] == [80] * 25
    assert (tmp_path / "page.html").stat().st_size < 2e5


def test_the_workflow_makes_it_with_the_metrics_of_the_study(study):
    page = study.path("results/planner.html")
    assert stamps.check(page).spec["metrics"] == {"H8": "mse", "H16": "mse"}
    sweeps = carried(page)["sweeps"]
    assert [sweep["metric"] for sweep in sweeps] == ["mse"] * 2
    assert [[arch["label"] for arch in sweep["archs"]] for sweep in sweeps] == [["FC", "KO"]] * 2
