"""The ladder as a reader sees it: ranks, verdicts, figure and table, from made-up cells."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from made_up import cell, save
from test_workflow import compiles

from koct.base.files import write_json
from koct.base.stamps import Stamp
from koct.contracts import registry
from koct.errors import KoctError
from koct.study import ladder, results

SIZES = (4, 64, 1024)
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
SPEC = {"metrics": {"A": "mse"}, "contained": {"A": [["two", "few"], ["sparse", "fixed"]]}}


def climb(folder, errors=ERRORS, spread=0.001, noise=0.01):
    """(rows, pairs by their names) of made-up cells.

    Errors of a seed lie `spread` apart, those of images have a relative deviation of `noise`.
    """
    cells, rng = [], np.random.default_rng(0)
    sizes = {arch: SIZES if len(curve) > 1 else (0,) for arch, curve in errors.items()}
    points = [(arch, *point) for arch in errors for point in zip(sizes[arch], errors[arch], strict=True)]
    for (arch, N, error), seed in itertools.product(points, (1, 2, 3)):
        value = error + spread * (seed - 2) * (1 if arch == "few" else -1)  # the difference of two has a spread, too
        relative = 1 + noise * rng.standard_normal(40)
        values = (value * relative / relative.mean()).tolist()
        kept = {"same": True, "groups": None, **dict.fromkeys(results.METRICS, values)}
        cells.append(cell("A", arch, N, seed, value, p=sum(layer["p"] for layer in CHAINS[arch]), images=kept))
    save(folder, cells, archs=errors)
    results.write_images(cells, folder / "images.parquet", {}, Stamp({}))
    write_json(folder / "chains.json", {"sweep": "A", "chains": CHAINS}, Stamp({}))
    files = [folder / "ladder.parquet", folder / "ladder.json"]
    ladder.compute(folder / "cells.parquet", folder / "images.parquet", [folder / "chains.json"], SPEC, *files)
    found = json.loads((folder / "ladder.json").read_text())["sweeps"]["A"]
    rows = pd.read_parquet(folder / "ladder.parquet").set_index(["N", "arch"])
    return rows, {(pair["container"], pair["contained"]): pair for pair in found["pairs"]}


def outcomes(pair):
    return [point["verdict"] for point in pair["N"]]


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


GRADIENT = {"lr": 0.02, "iterations": 5000, "batch": 4}
CHOICES = {
    "ko": [{}, {"toward": "analytic"}, {"solver": "adagrad", **GRADIENT}, {"solver": "sgd", **GRADIENT}],
    **{arch: [{}, {"toward": "zero"}] for arch in ("ko-ridge", "filter", "filters")},
    "ko-filter": [{}, {"solver": "adagrad", **GRADIENT}],
    "ko-filter-adagrad": [GRADIENT, {**GRADIENT, "lr": 0.01}],
    "taps": [{}],
    "fc": [{}],
}


def test_verdicts_never_compare_networks_of_different_solvers():
    """A network that is fitted otherwise may be better for that reason alone."""
    archs = [registry.architecture(name)(**options) for name, found in CHOICES.items() for options in found]
    pairs = [(a, b) for a, b in itertools.permutations(archs, 2) if a.contains(b)]
    for container, contained in pairs:
        assert container.name != "fc"
        assert container.solver == contained.solver
        keys = ["toward"] if container.solver == "ridge" else GRADIENT
        assert all(getattr(container, key, "analytic") == getattr(contained, key) for key in keys)
    names = {(container.name, contained.name) for container, contained in pairs}
    expected = {("filters", "filter"), ("ko-filter", "filter"), ("ko-filter", "ko-ridge"), ("ko-filter-adagrad", "ko")}
    assert names >= expected


def test_the_verbs_make_figure_and_table(tmp_path, koct):
    climb(tmp_path)
    spec = json.dumps({**SPEC, "targets": {"A": [0.08, 1e-5]}})
    assert not koct("budgets", "--spec", spec, "--inputs", "cells.parquet", "--outputs", "budget.parquet")[0]
    assert not koct("product", "fig_ladder", "ladder.parquet", "curves.parquet", "--out", "figure.pdf", "figure.png")[0]
    files = [f"{name}.parquet" for name in ("ladder", "curves", "calibration", "budget")]
    assert not koct("product", "table_ladder", *files, "--out", "table.tex")[0]
    text = (tmp_path / "table.tex").read_text()
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.startswith(r"\quad ")]
    assert [[row[0].removeprefix(r"\quad "), row[1], row[2], row[-1]] for row in rows] == [
        ["Few", "$100$", "weights", "$4$"],
        ["Two", "$109$", "weights, ramp filter", "$64$"],
        ["Sparse", "$5{,}000$", "backprojection", ""],
        ["Dense", r"$1.00 \cdot 10^{6}$", "M", "$1{,}024$"],
    ]
    assert r"{$H = 8$ (A)} & " in text
    compiles([text], tmp_path)
    with pytest.raises(KoctError, match="three or more networks"):
        ladder.compute("cells.parquet", "images.parquet", [], {"contained": {}}, "l.parquet", "l.json")
