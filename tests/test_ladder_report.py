"""The ladder as a reader sees it: ranks, verdicts, figure and table, from made-up cells."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from test_workflow import compiles

from koct import cli
from koct.base.files import write_json
from koct.base.stamps import Stamp
from koct.config import study_file as config
from koct.contracts import registry
from koct.errors import KoctError
from koct.study import ladder, results
from koct.workflow import when

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
CONTAINED = [["two", "few"], ["sparse", "fixed"]]
SPEC = {"metrics": {"A": "mse"}, "contained": {"A": CONTAINED}}
IMAGES = 40


def write_cells(folder, errors=ERRORS, chains=CHAINS, spread=0.001, seeds=SEEDS, noise=0.01):
    """cells.parquet, images.parquet and the chains of a sweep of four networks.

    Errors of a seed lie `spread` apart, those of images have a relative deviation of `noise`.
    """
    rows = []
    rng = np.random.default_rng(0)
    for arch, curve in errors.items():
        for N, error in zip(SIZES if len(curve) > 1 else (0,), curve, strict=True):
            for seed in seeds:
                # the difference of two networks has a spread, too
                value = error + spread * (seed - 2) * (1 if arch == "few" else -1)
                about = {"sweep": "A", "problem": "made-up", "H": 8, "V": 6, "B": 8, "arch": arch, "N": N, "seed": seed}
                about |= {"lam": None, "p": sum(layer["p"] for layer in CHAINS[arch]), "val_mse": value}
                relative = 1 + noise * rng.standard_normal(IMAGES)
                values = (value * relative / relative.mean()).tolist()
                kept = {"same": True, "groups": None, **dict.fromkeys(results.METRICS, values)}
                errors_of = {**dict.fromkeys(results.METRICS, value), "images": kept}
                rows.append({**about, "fit_seconds": 1.0, "device": "cpu", **errors_of})
    styles = {arch: {"label": arch.capitalize(), "colour": "", "marker": ""} for arch in errors}
    origin = {"koct.archs": json.dumps(styles)}
    results.write(rows, results.CELLS, folder / "cells.parquet", origin, Stamp({}))
    results.write_images(rows, folder / "images.parquet", origin, Stamp({}))
    write_json(folder / "chains.json", {"sweep": "A", "chains": chains}, Stamp({}))


def climb(folder, **settings):
    """(rows, pairs by their names) of made-up cells."""
    write_cells(folder, **settings)
    files = [folder / "ladder.parquet", folder / "ladder.json"]
    ladder.compute(folder / "cells.parquet", folder / "images.parquet", [folder / "chains.json"], SPEC, *files)
    results.aggregate(folder / "cells.parquet", SPEC, folder / "curves.parquet", folder / "calibration.parquet")
    found = json.loads((folder / "ladder.json").read_text())["sweeps"]["A"]
    rows = pd.read_parquet(folder / "ladder.parquet").set_index(["N", "arch"])
    return rows, {(pair["container"], pair["contained"]): pair for pair in found["pairs"]}


def outcomes(pair):
    return [point["verdict"] for point in pair["N"]]


def run(*arguments):
    assert not cli.main(list(arguments))


def test_every_network_has_its_rank_and_the_best_is_marked(tmp_path):
    rows, _ = climb(tmp_path)
    for N, i in zip(SIZES, range(3), strict=True):
        expected = sorted(ERRORS, key=lambda arch: ERRORS[arch][i])
        assert rows.loc[N].sort_values("rank").index.tolist() == expected
        assert rows.loc[N].query("best").index.tolist() == expected[:1]
    assert rows.loc[4, "two"]["behind"] == pytest.approx(0.1)
    assert rows.loc[64, "few"]["beyond"]
    assert rows["known"].groupby("arch").first().to_dict() == {"few": 2, "two": 1, "sparse": 2, "dense": 0}
    assert rows["learned"].groupby("arch").first().to_dict() == {"few": 1, "two": 2, "sparse": 1, "dense": 1}
    assert ((rows["mean_low"] < rows["error_mean"]) & (rows["error_mean"] < rows["mean_high"])).all()


def test_the_interval_is_students_over_seeds_and_covers_test_images(tmp_path):
    rows, _ = climb(tmp_path, spread=0.01, noise=0.0)
    row = rows.loc[4, "few"]
    assert row["mean_high"] - row["error_mean"] == pytest.approx(2.919986 * 0.01 / 3**0.5, rel=0.1)  # of 2,000 draws
    rows, _ = climb(tmp_path, spread=0.0, noise=0.3)  # seeds that agree, on images that differ
    row = rows.loc[64, "few"]
    assert row["mean_high"] - row["mean_low"] > 0.05 * row["error_mean"]


def test_a_pair_says_what_was_learned_and_what_was_won(tmp_path):
    _, pairs = climb(tmp_path)
    pair = pairs["two", "few"]
    assert outcomes(pair) == ["lost", "won", "won"]
    assert pair["learned"] == {"container": ["weights", "ramp filter"], "contained": ["weights"]}
    first = pair["N"][0]
    assert (first["p_container"], first["p_contained"]) == (109, 100)
    assert first["ratio"] == pytest.approx(2)
    assert first["low"] < 2 < first["high"]
    assert "two (weights, ramp filter; p = 109) learns more than few (weights; p = 100): " in pair["sentence"]
    assert "won at N = 64, 1,024; lost at N = 4. At N = 1,024 it has 0.787 times the error" in pair["sentence"]


def test_a_network_without_samples_has_no_rank_and_is_compared_at_every_N(tmp_path, monkeypatch):
    monkeypatch.setitem(CHAINS, "fixed", [{"name": name, "lipschitz": 1.0, "p": 0} for name in LAYERS])
    rows, pairs = climb(tmp_path, errors={**ERRORS, "fixed": (0.2,)})
    assert "fixed" not in rows.index.get_level_values("arch")
    pair = pairs["sparse", "fixed"]
    assert [point["N"] for point in pair["N"]] == list(SIZES)
    assert [outcomes(pair)[0], outcomes(pair)[2]] == ["lost", "won"]
    assert "fixed (nothing; p = 0)" in pair["sentence"]


def test_verdicts_never_compare_networks_of_different_solvers():
    """A network that is fitted otherwise may be better for that reason alone."""
    gradient = {"lr": 0.02, "iterations": 5000, "batch": 4}
    choices = {
        "ko": [{}, {"toward": "analytic"}, {"solver": "adagrad", **gradient}, {"solver": "sgd", **gradient}],
        "ko-ridge": [{}, {"toward": "zero"}],
        "filter": [{}, {"toward": "zero"}],
        "filters": [{}, {"toward": "zero"}],
        "ko-filter": [{}, {"solver": "adagrad", **gradient}],
        "ko-filter-adagrad": [gradient, {**gradient, "lr": 0.01}],
        "taps": [{}],
        "fc": [{}],
    }
    archs = [registry.architecture(name)(**options) for name, found in choices.items() for options in found]
    pairs = [(a, b) for a, b in itertools.permutations(archs, 2) if a.contains(b)]
    assert len(pairs) > 5
    for container, contained in pairs:
        assert container.name != "fc"
        assert container.solver == contained.solver
        if container.solver == "ridge":
            assert getattr(container, "toward", "analytic") == contained.toward
        else:
            assert [getattr(container, key) == getattr(contained, key) for key in gradient] == [True] * 3
    names = {(container.name, contained.name) for container, contained in pairs}
    assert names >= {("filters", "filter"), ("ko-filter", "filter"), ("ko-filter", "ko-ridge")}
    assert ("ko-filter-adagrad", "ko") in names


def test_the_verbs_make_figure_and_table(tmp_path):
    climb(tmp_path)
    spec = json.dumps({**SPEC, "targets": {"A": [0.08, 1e-5]}})
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("cells", "curves", "calibration", "budget", "ladder")}
    run("budgets", "--spec", spec, "--inputs", files["cells"], "--outputs", files["budget"])
    out = [str(tmp_path / f"figure.{kind}") for kind in ("pdf", "png")]
    run("product", "fig_ladder", files["ladder"], files["curves"], "--out", *out)
    table = tmp_path / "table.tex"
    given = [files[name] for name in ("ladder", "curves", "calibration", "budget")]
    run("product", "table_ladder", *given, "--out", str(table))
    text = table.read_text()
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.startswith(r"\quad ")]
    assert [row[0].removeprefix(r"\quad ") for row in rows] == ["Few", "Two", "Sparse", "Dense"]
    assert r"{$H = 8$ (A)} & " in text
    assert [row[1] for row in rows] == ["$100$", "$109$", "$5{,}000$", r"$1.00 \cdot 10^{6}$"]
    assert [row[2] for row in rows] == ["weights", "weights, ramp filter", "backprojection", "M"]
    assert [row[-1] for row in rows] == ["$4$", "$64$", "", "$1{,}024$"]
    compiles([text], tmp_path)


def test_a_study_without_three_networks_has_no_ladder(tmp_path):
    text = yaml.safe_load((ROOT / "config.yaml").read_text())
    for study in ("surrogate", "ladder-small"):
        assert bool(when.ladder(config.read({**text, "study": study}))) == (study != "surrogate")
    write_cells(tmp_path)
    files = [tmp_path / name for name in ("cells.parquet", "images.parquet")]
    with pytest.raises(KoctError, match="three or more networks"):
        ladder.compute(*files, [], {"contained": {}}, tmp_path / "l.parquet", tmp_path / "l.json")
