"""The ladder as a reader sees it: ranks, verdicts, figure and table, from made-up cells."""

import json

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from test_workflow import compiles

from koct import cli, ladder, results
from koct.errors import KoctError
from koct.files import write_json
from koct.report import ladder as report
from koct.stamps import Stamp
from koct.workflow import config
from koct.workflow.jobs import LEAST_OF_LADDER

SIZES, SEEDS = (4, 64, 1024), (1, 2, 3)
LAYERS = ("weights", "ramp filter", "backprojection")
LEARNED = {"few": {"weights": 100}, "two": {"weights": 100, "ramp filter": 9}, "sparse": {"backprojection": 5000}}
CHAINS = {
    arch: [{"name": name, "lipschitz": 1.0, "p": of.get(name, 0)} for name in LAYERS] for arch, of in LEARNED.items()
}
CHAINS["dense"] = [{"name": "M", "lipschitz": 1.0, "p": 10**6}]
ERRORS = {
    "few": (0.10, 0.09, 0.089),
    "two": (0.20, 0.08, 0.07),
    "sparse": (0.30, 0.20, 0.15),
    "dense": (0.90, 0.40, 0.02),
}
SPEC = {"metrics": {"A": "mse"}}


def write_cells(folder, errors=ERRORS, chains=CHAINS, spread=0.001, seeds=SEEDS):
    """cells.parquet and the chains of a sweep of four networks; errors of a seed lie `spread` apart."""
    rows = []
    for arch, curve in errors.items():
        for N, error in zip(SIZES, curve, strict=True):
            for seed in seeds:
                # the difference of two networks has a spread, too
                value = error + spread * (seed - 2) * (1 if arch == "few" else -1)
                about = {"sweep": "A", "problem": "made-up", "H": 8, "V": 6, "B": 8, "arch": arch, "N": N, "seed": seed}
                fitted = {
                    "lam": None,
                    "p": sum(layer["p"] for layer in CHAINS[arch]),
                    "fit_seconds": 1.0,
                    "device": "cpu",
                }
                rows.append({**about, **fitted, "val_mse": value, **dict.fromkeys(results.METRICS, value)})
    styles = {arch: {"label": arch.capitalize(), "colour": "", "marker": ""} for arch in errors}
    results.write(rows, results.CELLS, folder / "cells.parquet", {"koct.archs": json.dumps(styles)}, Stamp({}))
    write_json(folder / "chains.json", {"sweep": "A", "chains": chains}, Stamp({}))


def climb(folder, **settings):
    """(rows, verdicts by claim, points by N) of made-up cells."""
    write_cells(folder, **settings)
    ladder.compute(
        folder / "cells.parquet", [folder / "chains.json"], SPEC, folder / "ladder.parquet", folder / "ladder.json"
    )
    results.aggregate(folder / "cells.parquet", SPEC, folder / "curves.parquet", folder / "calibration.parquet")
    found = json.loads((folder / "ladder.json").read_text())["sweeps"]["A"]
    rows = pd.read_parquet(folder / "ladder.parquet").set_index(["N", "arch"])
    return rows, {claim["claim"]: claim for claim in found["claims"]}, {point["N"]: point for point in found["N"]}


def run(*arguments):
    assert not cli.main(list(arguments))


def changed(arch, N, error):
    curve = list(ERRORS[arch])
    curve[SIZES.index(N)] = error
    return {**ERRORS, arch: curve}


def test_every_network_has_its_rank_and_the_best_is_marked(tmp_path):
    rows, _, points = climb(tmp_path)
    for N, i in zip(SIZES, range(3), strict=True):
        expected = sorted(ERRORS, key=lambda arch: ERRORS[arch][i])
        assert rows.loc[N].sort_values("rank").index.tolist() == expected
        assert rows.loc[N]["best"].sum() == 1
        assert points[N]["best"] == expected[0]
    assert rows.loc[4, "two"]["behind"] == pytest.approx(0.1)
    assert rows.loc[64, "few"]["beyond"]
    assert rows["known"].groupby("arch").first().to_dict() == {"few": 2, "two": 1, "sparse": 2, "dense": 0}
    assert rows["learned"].groupby("arch").first().to_dict() == {"few": 1, "two": 2, "sparse": 1, "dense": 1}
    assert (rows["mean_low"] < rows["error_mean"]).all()
    assert (rows["mean_high"] > rows["error_mean"]).all()


def test_the_interval_is_students_over_seeds(tmp_path):
    rows, *_ = climb(tmp_path, spread=0.01)
    row = rows.loc[4, "few"]
    assert row["mean_high"] - row["error_mean"] == pytest.approx(2.919986 * 0.01 / 3**0.5, rel=1e-5)


def test_equal_networks_share_a_rank(tmp_path):
    rows, *_ = climb(tmp_path, errors=changed("two", 4, 0.10), spread=0.0)
    assert rows.loc[4]["rank"].to_dict() == {"few": 1, "two": 1, "sparse": 3, "dense": 4}
    assert rows.loc[4]["best"].sum() == 2


def test_both_claims_are_confirmed_and_one_result_refutes_either(tmp_path):
    _, claims, points = climb(tmp_path)
    assert {claim["verdict"] for claim in claims.values()} == {"confirmed"}
    assert "0.1)" in claims[ladder.MORE]["because"]
    assert (points[4]["pairs"], points[4]["pairs_won"], points[4]["pairs_lost"]) == (5, 4, 1)
    assert points[4]["ratio"] == pytest.approx(2)
    assert points[4]["rank_correlation"] > 0.9
    assert points[1024]["rank_correlation"] < 0.5

    _, claims, _ = climb(tmp_path, errors=changed("two", 4, 0.05))
    assert {name: claim["verdict"] for name, claim in claims.items()} == {
        ladder.MORE: "refuted",
        ladder.FEWER: "confirmed",
    }
    errors = {**ERRORS, "few": (0.10, 0.09, 0.01)}
    _, claims, _ = climb(tmp_path, errors=errors)
    assert {name: claim["verdict"] for name, claim in claims.items()} == {
        ladder.MORE: "confirmed",
        ladder.FEWER: "refuted",
    }


@pytest.mark.parametrize("settings", [{"spread": 0.2}, {"seeds": (1,)}])
def test_what_the_seeds_do_not_tell_is_undecided(tmp_path, settings):
    rows, claims, points = climb(tmp_path, **settings)
    assert {claim["verdict"] for claim in claims.values()} == {"undecided"}
    assert "the seeds do not tell them apart" in claims[ladder.MORE]["because"]
    if len(settings.get("seeds", SEEDS)) == 1:
        assert rows["mean_low"].isna().all()
        assert points[4]["ties"] == []
    else:
        assert "two" in points[4]["ties"]


def test_networks_without_a_chain_are_ranked_and_not_judged(tmp_path):
    rows, claims, points = climb(tmp_path, chains={"few": CHAINS["few"], "sparse": []})
    assert not claims
    assert rows.loc[4]["rank"].to_dict() == {"few": 1, "two": 2, "sparse": 3, "dense": 4}
    assert rows["known"].isna().sum() == 9
    assert "more" not in points[4]
    report.figure(tmp_path / "ladder.parquet", tmp_path / "curves.parquet", [tmp_path / "fig.png"])


def test_the_verbs_make_figure_and_table_and_the_same_bytes_again(tmp_path):
    climb(tmp_path)
    wanted = {"A": {"metric": "mse", "targets": [0.08, 1e-5]}}
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("cells", "curves", "calibration", "budget", "ladder")}
    run("budgets", files["cells"], "--spec", json.dumps({"wanted": wanted}), "--out", files["budget"])
    made = []
    for name in ("first", "second"):
        out = [str(tmp_path / f"{name}.{kind}") for kind in ("pdf", "png")]
        run("figure-ladder", "--ladder", files["ladder"], "--curves", files["curves"], "--out", *out)
        made.append([(tmp_path / f"{name}.{kind}").read_bytes() for kind in ("pdf", "png")])
    assert made[0] == made[1]
    table = tmp_path / "table.tex"
    run(
        *("table-ladder", "--ladder", files["ladder"], "--curves", files["curves"]),
        *("--calibration", files["calibration"], "--budgets", files["budget"], "--out", str(table)),
    )
    text = table.read_text()
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.startswith(r"\quad ")]
    assert [row[0].removeprefix(r"\quad ") for row in rows] == ["Few", "Two", "Sparse", "Dense"]
    assert r"{$H = 8$ (A)} \\" in text
    assert [row[1] for row in rows] == ["$100$", "$109$", "$5{,}000$", r"$1.00 \cdot 10^{6}$"]
    assert [row[2] for row in rows] == ["weights", "weights, ramp filter", "backprojection", "M"]
    assert [row[-1] for row in rows] == ["$4$", "$64$", "--", "$1{,}024$"]
    compiles([text], tmp_path)


def test_a_study_without_a_ladder_says_so(tmp_path):
    write_cells(tmp_path)
    with pytest.raises(KoctError, match="three or more networks"):
        ladder.compute(tmp_path / "cells.parquet", [], {"metrics": {}}, tmp_path / "l.parquet", tmp_path / "l.json")


@pytest.mark.parametrize(("study", "made"), [("surrogate", False), ("ladder", True), ("ladder-small", True)])
def test_only_a_study_of_three_networks_plans_a_ladder(checkout, study, made):
    jobs = checkout().plan("--config", f"study={study}", "memory_gb=1000")
    assert [rule in jobs for rule in ("ladder", "chains", "figure_ladder", "table_ladder")] == [made] * 4


def test_the_studies_are_those_of_the_page():
    text = yaml.safe_load((ROOT / "config.yaml").read_text())
    for study in ("ladder", "ladder-small"):
        for sweep in config.read({**text, "study": study}):
            assert len(sweep.archs) >= LEAST_OF_LADDER
            assert len(sweep.seeds) == 3
            assert not sweep.theory
