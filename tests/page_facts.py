"""What README and docs say of the committed reference results, computed from them: the texts that the pages must have.

Every function takes a page and gives texts that must stand on it, word by word; what has no number is asserted.
"""

import importlib.util
import itertools
import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from conftest import ROOT
from test_reference_studies import (
    CONFIG,
    REFERENCE,
    curves,
)

from koct.risk.calibration import rate

WORDS = ["none", "one", "two", "three", "four", "five"]
PRINTED = json.loads((ROOT / "koct/report/printed.json").read_text())["calibration"]
LADDER = {128: "H128-ladder", 256: "H256-ladder"}
IMPORTANT = ["table-3-H256", "orders-measured", "conclusion-low-data", "sparse-view", "H512-does-not-fit"]
VERDICTS = ["holds", "holds in part", "does not hold", "not computed in this study"]


@cache
def table(name, study=""):
    return pd.read_parquet(REFERENCE / study / f"{name}.parquet")


def untrained_errors(study):
    return table("cells", study).query("arch == 'untrained'").groupby("sweep")["mse"].mean()


@cache
def benchmark(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def held_out():
    """What benchmarks/budget.py prints of the reference: (median error, that of the paper's rule, points, covered)."""
    rows = benchmark("budget").out_of_sample(pq.ParquetFile(REFERENCE / "cells.parquet").read().to_pylist())
    own, paper, _ = benchmark("budget").summary(rows)
    return f"{own:.0%}"[:-1], f"{paper:.0%}"[:-1], len(rows), sum(row["covered"] for row in rows)


def fits(study):
    sweeps = [CONFIG["sweeps"][name] for name in CONFIG["studies"][study]]
    return sum(len(sweep["archs"]) * len(sweep["N"]) * len(sweep["seeds"]) for sweep in sweeps)


def wall(study=""):
    """How long the reference took."""
    seconds = round(json.loads((REFERENCE / study / "about.json").read_text())["wall seconds"])
    return f"{seconds // 60} min {seconds % 60} s"


def short(value):
    """3.4e-3"""
    return f"{value:.1e}".replace("e-0", "e-")


def errors(sweep, arch, study=""):
    """Mean errors by N."""
    return curves(study)[sweep, arch]


def needed(study, target):
    """The planner's answers: {(sweep, arch): row}."""
    rows = table("budget", study)
    return rows[rows["target"] == target].set_index(["sweep", "arch"])


# README


def claims(page):
    rows = table("claims").set_index("id")
    counts = rows["verdict"].value_counts()
    yield f"koct checks {len(rows)} statements of the paper"
    yield f"| {' | '.join(str(counts[verdict]) for verdict in VERDICTS)} |"
    lines = re.findall(r"^\| .* \| \*\*.*\*\* \|$", page, re.M)
    assert len(lines) == len(IMPORTANT)
    for line, claim in zip(lines, IMPORTANT, strict=True):
        row = rows.loc[claim]
        assert line.endswith(f" | **{row['verdict']}** |")
        yield f"| {row['statement']} | {row['printed']} | {row['computed']}: "
    (inside,) = re.findall(r"(\d) of 5 lie between 10 and 100", rows.loc["orders-measured", "why"])
    yield f"times as many; the other {WORDS[int(inside)]} sweeps are in the range"


def who_is_below(page):
    """With exact rays KO at every N; with the printed ones FC from some N on at H = 128."""
    for H in (128, 256, 512):
        assert (errors(f"H{H}-exact", "ko") < errors(f"H{H}-exact", "fc")).all()
    ko, fc = errors("H128", "ko"), errors("H128", "fc")
    below = [N for N in ko.index if fc[N] < ko[N]]
    assert below == [N for N in ko.index if below[0] <= N]
    yield f"At H = 128 FC is below KO from N = {below[0]:,} on"


def few_samples(page):
    n = needed("ladder", 1e-3)["n"]
    most = max(n[sweep, arch] for sweep in LADDER.values() for arch in ("ko", "ko-ridge", "filters"))
    dense = min(n[sweep, "fc"] for sweep in LADDER.values())
    yield f"reaches an error of 10⁻³ with at most {most:.0f} samples. The dense matrix needs more than "
    yield f"needs more than {dense // 1000 * 1000:,.0f}."


def forecasts(page):
    own, paper, _, _ = held_out()
    yield f"paper's rule has a median error of {paper} %, and koct's planner {own} %"


def strangers(page):
    """As the table of how-many-samples.md has it, which benchmarks/priors.py prints."""
    other = (ROOT / "docs/how-many-samples.md").read_text()
    (covered,) = re.findall(r"^\| truth in the 90 % interval \| (\d+ %) \|", other, re.M)
    yield f"On {len(benchmark('curves').load('error'))} learning curves of others"
    yield f"the true error lies in the 90 % interval in {covered} of the cases"


def studies(page):
    yield f"runs the default study: {fits('surrogate')} fits"
    for study in ("surrogate", "paper"):
        yield f"| `{study}`, {fits(study)} cells |"
    yield f"| `full`, {fits('full')} cells | {wall()} |"


def python(page):
    (version,) = re.findall(r'requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text())
    yield f"Python {version} or newer"


# docs/results.md


def calibration(page):
    rows = table("calibration").set_index(["sweep", "arch"])
    for sweep in CONFIG["studies"]["full"]:
        name = sweep.replace("H", "H = ").replace("-", " ")
        values = [f"{rows.loc[(sweep, arch), key]:.2e}" for arch in ("ko", "fc") for key in ("floor", "sigma")]
        yield f"| {name} | {' | '.join(values)} |"
    cases = list(itertools.product(PRINTED, ("ko", "fc"), ("floor", "sigma")))
    other = [
        case
        for case in cases
        if f"{rows.loc[case[:2], case[2]]:.2e}" != f"{float(PRINTED[case[0]][case[1]][case[2]]):.2e}"
    ]
    assert other == [("H256", "ko", "sigma")]
    yield f"to all digits but one: σ of KO at H = 256 is printed as {float(PRINTED['H256']['ko']['sigma']):.2e}"
    p = table("cells").set_index(["sweep", "arch"])["p"].loc[("H512", "fc")].iloc[0]
    yield f"for its {p / 1e10:.1f}·10¹⁰ dense weights"


def floors(page):
    root = np.sqrt(table("calibration").set_index(["sweep", "arch"])["floor"])
    printed, exact = root["H128", "ko"], root["H128-exact", "ko"]
    yield f"the KO floor at H = 128 is {printed:.3f} rRMSE, and {exact:.3f} with line integrals"
    yield f"the floors nearly agree ({root['H512', 'ko']:.3f} and {root['H512-exact', 'ko']:.3f})"
    ko, fc = errors("H128", "ko"), errors("H128", "fc")
    yield f"| as printed | FC below KO from N = {min(N for N in ko.index if fc[N] < ko[N]):,} |"
    yield f"The largest N of the grid is {max(ko.index):,}"


def three_more_things(page):
    cells, rows = table("cells"), table("calibration").set_index(["sweep", "arch"])
    untrained = untrained_errors("")
    trained = cells[cells["arch"] == "ko"].groupby(["sweep", "N"])["mse"].mean()
    assert all(trained[sweep].min() > untrained[sweep] for sweep in CONFIG["studies"]["surrogate"])
    yield "At no N of the surrogate sweeps does the mean of the trained KO networks reach the untrained one"
    for sweep in CONFIG["studies"]["full"]:
        row = rows.loc[(sweep, "ko")]
        assert row["floor"] + row["sigma"] * rate(np.array([4.0]))[0] < errors(sweep, "ko")[4]
    yield 'At N = 4 the "bound" runs below the KO data in every sweep'
    dense = cells[(cells["arch"] == "fc") & (cells["problem"] == "fanbeam")]
    assert (dense["lam"] == max(CONFIG["sweeps"]["H128"]["lambdas"])).mean() > 0.5
    yield "the validation set picks the largest λ of the printed grid for most FC fan-beam cells"


@cache
def predicted(arch, study=""):
    """Points of the predicted curves at the λ that the cells chose, and the cells with their intervals."""
    columns = ["sweep", "arch", "N", "lam"]
    theory = table("theory", study)[[*columns, "predicted", "low", "high", "trusted"]]
    cells = table("cells", study).merge(theory, on=columns)
    cells = cells[cells["arch"] == arch]
    points = cells.groupby(["sweep", "N"]).agg(
        predicted=("predicted", "mean"), mse=("mse", "mean"), trusted=("trusted", "all")
    )
    points["miss"] = abs(points["predicted"] / points["mse"] - 1)
    return points, cells


@cache
def best(study=""):
    """The predicted point with the best λ of every curve and N."""
    theory = table("theory", study)
    return theory.loc[theory.groupby(["sweep", "arch", "N"])["predicted"].idxmin()].set_index(["sweep", "arch", "N"])


def predictions_in_the_figure(page):
    points, _ = predicted("fc")
    yield f"FC within {points['miss'].median():.1%}"[:-1] + " % of the mean squared error in the median"
    measured = table("curves").set_index(["sweep", "arch", "N"])["error_mean"]
    ratio = (best()["error"] / measured).dropna()
    fan = [sweep not in CONFIG["studies"]["surrogate"] for sweep, _, _ in ratio.index]
    assert 1.05 < ratio[fan].median() < 1.15
    yield f"share {CONFIG['sweeps']['H128']['pool']['test']} test images"


# docs/curve.md


def predictions(page):
    points, cells = predicted("fc")
    trusted = points["miss"][points["trusted"]]
    (flagged,) = points.index[~points["trusted"]]
    yield f"all nine FC curves of the reference ({len(points)} points)"
    yield (
        f"median {points['miss'].median() * 100:.1f} %, worst {trusted.max() * 100:.0f} %, "
        f"but for {flagged[0]} at N = {flagged[1]}, which is flagged"
    )
    covered = cells["mse"].between(cells["low"], cells["high"]).mean()
    yield f"90 % intervals covered {covered * 100:.0f} % of the {len(cells)} FC cells"
    chosen = [best().loc[(row.sweep, "fc", row.N), "lam"] == row.lam for row in cells.itertuples()]
    yield f"For {np.mean(chosen) * 100:.0f} % of the FC cells, the λ predicted to be best"
    points, cells = predicted("ko")
    yield f"`ko` of the surrogate by subsets ({len(points)} points)"
    miss = 100 * points["miss"]
    yield f"median {miss.median():.0f} %, worst {miss.max():.0f} % where one of five seeds"
    covered = cells["mse"].between(cells["low"], cells["high"]).mean()
    yield f"and {covered * 100:.0f} % of the {len(cells)} KO cells"
