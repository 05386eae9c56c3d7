"""The committed references of the studies `ladder`, `dose` and `modalities`, and what the docs say of them."""

import itertools
import json
import re

import pandas as pd
import pytest
import yaml
from conftest import ROOT

from koct.report import conditions
from koct.risk.crossing import overtaken

REFERENCE = ROOT / "results/reference"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
STUDIES = ("ladder", "dose", "modalities")


def table(study, name):
    return pd.read_parquet(REFERENCE / study / f"{name}.parquet")


def curves(study):
    """{(sweep, arch): mean errors by N}."""
    found = table(study, "curves")
    return {key: rows.set_index("N")["error_mean"] for key, rows in found.groupby(["sweep", "arch"], sort=False)}


@pytest.mark.parametrize("study", STUDIES)
def test_every_cell_of_the_config_is_there(study):
    cells = table(study, "cells").groupby("sweep", sort=False)
    assert list(cells.groups) == CONFIG["studies"][study]
    for sweep, rows in cells:
        entry = CONFIG["sweeps"][sweep]
        expected = set(itertools.product(entry["archs"], entry["N"], entry["seeds"]))
        assert set(zip(rows["arch"], rows["N"], rows["seed"], strict=True)) == expected, sweep
        assert rows[["mse", "rrmse_peak", "rrmse_norm"]].gt(0).all(axis=None)


@pytest.mark.parametrize("study", STUDIES)
def test_it_says_what_made_it_and_is_small(study):
    about = json.loads((REFERENCE / study / "about.json").read_text())
    assert about["command"] == f"snakemake --profile profiles/gpu --config study={study}"
    assert re.fullmatch("[0-9a-f]{40}", about["commit"])
    assert about["changed files"] == "none"
    assert "H200" in about["machine"]["gpu"]
    sizes = {path.name: path.stat().st_size for path in (REFERENCE / study).iterdir()}
    assert sizes.pop("images.parquet", 0) < 4e6
    assert sum(size for name, size in sizes.items() if name != "planner.html") < 2e6


# The ladder


def test_ranks_and_verdicts_follow_from_the_cells(tmp_path):
    chains = json.loads((REFERENCE / "ladder/ladder.json").read_text())["sweeps"]
    rows = table("ladder", "ladder").set_index(["sweep", "N", "arch"])
    means = curves("ladder")
    for sweep in CONFIG["studies"]["ladder"]:
        entry = CONFIG["sweeps"][sweep]
        for N in entry["N"]:
            order = sorted(entry["archs"], key=lambda arch: means[sweep, arch][N])
            assert list(rows.loc[(sweep, N)].sort_values("rank").index) == order
        points = {point["N"]: point for point in chains[sweep]["N"]}
        assert {N: point["best"] for N, point in points.items()} == {
            N: min(entry["archs"], key=lambda arch: means[sweep, arch][N]) for N in entry["N"]
        }
        for pair in chains[sweep]["pairs"]:
            for point in pair["N"]:
                errors = [means[sweep, pair[side]][point["N"]] for side in ("container", "contained")]
                assert point["ratio"] == pytest.approx(errors[0] / errors[1])
                assert point["low"] < point["ratio"] < point["high"]
                won = "won" if point["high"] < 1 else "lost" if point["low"] > 1 else "undecided"
                assert point["verdict"] == won


def digits(value):
    """Three of them: 9.90, 30.2, 349."""
    return f"{value:#.3g}".removesuffix(".")


def ladder_errors(sweep):
    """The rows of docs/ladder.md: errors in 1e-4, the best in bold, a star where the seeds do not tell it apart."""
    rows = table("ladder", "ladder").set_index(["sweep", "arch", "N"]).loc[sweep]
    lines = []
    for arch in CONFIG["sweeps"][sweep]["archs"]:
        cells = [f"`{arch}`"]
        for N in CONFIG["sweeps"][sweep]["N"]:
            row = rows.loc[(arch, N)]
            text = digits(row["error_mean"] * 1e4)
            cells.append(f"**{text}**" if row["best"] else text if row["beyond"] else f"{text}*")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def ladder_verdicts():
    """The rows of the table of pairs: the verdict at every N, and the ratio at the largest."""
    found = json.loads((REFERENCE / "ladder/ladder.json").read_text())["sweeps"]
    lines = []
    for sweep, of in found.items():
        for pair in of["pairs"]:
            last, H = pair["N"][-1], CONFIG["sweeps"][sweep]["H"]
            cells = [f"`{pair['container']}`", f"`{pair['contained']}`", str(H)]
            cells += [point["verdict"] for point in pair["N"]]
            lines.append(f"| {' | '.join(cells)} | {last['ratio']:.3g} ({last['low']:.3g} to {last['high']:.3g}) |")
    return lines


def needed(study, sweep, target):
    """{arch: N in words} of the planner's answers."""
    rows = table(study, "budget")
    rows = rows[(rows["sweep"] == sweep) & (rows["target"] == target)]
    return {row["arch"]: f"{int(row['n']):,}" if row["reachable"] else "out of reach" for _, row in rows.iterrows()}


def test_the_docs_tell_the_ladder():
    text = (ROOT / "docs/ladder.md").read_text()
    for sweep in CONFIG["studies"]["ladder"]:
        for line in ladder_errors(sweep):
            assert line in text
    for line in ladder_verdicts():
        assert line in text
    for line in ladder_budgets():
        assert line in text


def ladder_budgets():
    """N for an error of 1e-3, a row for each size."""
    lines = []
    for sweep in CONFIG["studies"]["ladder"]:
        answers = needed("ladder", sweep, 1e-3)
        cells = [answers[arch] for arch in CONFIG["sweeps"][sweep]["archs"]]
        lines.append(f"| {CONFIG['sweeps'][sweep]['H']} | {' | '.join(cells)} |")
    return lines


# Dose and arc


def crossing(means, sweep, arch):
    """From which N on FC has the smaller error; None if not within the sweep."""
    known, dense = means[sweep, arch], means[sweep, "fc"]
    return overtaken(known.index, known, dense)


def test_fewer_photons_and_angles_let_the_dense_network_overtake_earlier():
    means = curves("dose")
    doses = [crossing(means, f"dose-{dose}", "ko-ridge") for dose in ("3e2", "1e3", "3e3", "1e4")]
    found = [N for N in doses if N is not None]
    assert len(found) >= 3
    assert found == sorted(found)
    assert doses == found + [None] * (len(doses) - len(found))
    assert crossing(means, "arc-90", "ko-ridge") < crossing(means, "arc-120", "ko-ridge")


def test_a_network_that_can_smooth_is_not_overtaken_by_noise():
    means = curves("dose")
    for sweep in CONFIG["studies"]["dose"]:
        if sweep.startswith("dose-") or sweep == "no-noise":
            assert crossing(means, sweep, "filters") is None


def test_the_table_of_conditions_follows_from_the_results(tmp_path):
    files = [REFERENCE / "dose" / f"{name}.parquet" for name in ("curves", "calibration", "budget")]
    conditions.table(*files, tmp_path / "table.tex")
    made, kept = (path.read_text() for path in (tmp_path / "table.tex", REFERENCE / "dose/table_conditions.tex"))
    assert made.partition(r"\end{table}")[0] == kept.partition(r"\end{table}")[0]


def dose_rows():
    """The rows of docs/conditions.md: errors in 1e-3 at the smallest and the largest N, and who overtakes whom."""
    means, names, lines = curves("dose"), {"no-noise": "no noise"}, []
    for sweep in CONFIG["studies"]["dose"]:
        entry = CONFIG["sweeps"][sweep]
        label = names.get(sweep) or (f"{entry['photons']:,.0f} photons" if entry["photons"] else f"arc {entry['arc']}°")
        cells = [label]
        for arch in entry["archs"]:
            errors = means[sweep, arch]
            cells += [digits(errors[N] * 1e3) for N in (4, 64, 1024)]
        answers = needed("dose", sweep, 5e-3)
        cells += [answers[arch] for arch in entry["archs"]]
        for arch in entry["archs"][:-1]:
            N = crossing(means, sweep, arch)
            cells.append("–" if N is None else f"{N:,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def test_the_docs_tell_what_dose_and_arc_do():
    text = (ROOT / "docs/conditions.md").read_text()
    for line in dose_rows():
        assert line in text


# Modalities


def modality_rows():
    """The rows of docs/modalities.md."""
    means, lines = curves("modalities"), []
    untrained = table("modalities", "untrained").groupby("sweep")["mse"].mean()
    p = table("modalities", "cells").groupby(["sweep", "arch"])["p"].first()
    for sweep, name in (("mri", "MRI"), ("deblur", "deblurring")):
        lines.append(f"| {name}, untrained | 0 | {untrained[sweep]:.1e} | | | |".replace("e-0", "e-"))
        for arch, other in (("ko", "fc"), ("fc", "ko")):
            cells = []
            for N, error in means[sweep, arch].items():
                text = f"{error:.1e}".replace("e-0", "e-")
                cells.append(f"**{text}**" if error < means[sweep, other][N] else text)
            lines.append(f"| {name}, {arch.upper()} | {p[sweep, arch]:,} | {' | '.join(cells)} |")
    return lines


def test_the_docs_tell_what_other_modalities_gave():
    text = (ROOT / "docs/modalities.md").read_text()
    for line in modality_rows():
        assert line in text
