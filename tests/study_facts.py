"""What the docs say of the other studies, computed: see page_facts.py, whose kind of functions these are."""

import json
import re

import numpy as np
import pandas as pd
from conftest import ROOT
from page_facts import (
    LADDER,
    benchmark,
    best,
    calibration,
    claims,
    errors,
    few_samples,
    fits,
    floors,
    forecasts,
    held_out,
    needed,
    predictions,
    predictions_in_the_figure,
    python,
    short,
    strangers,
    studies,
    table,
    three_more_things,
    wall,
    who_is_below,
)
from test_reference_studies import (
    CONFIG,
    REFERENCE,
    crossing,
    curves,
    dose_rows,
    ladder_budgets,
    ladder_errors,
    ladder_verdicts,
    modality_rows,
)

# docs/ladder.md


def ladder_tables(page):
    for sweep in LADDER.values():
        yield from ladder_errors(sweep)
    yield from ladder_verdicts()
    yield from ladder_budgets()
    p = table("cells", "ladder").groupby(["sweep", "arch"])["p"].first()[LADDER[128]]
    rows = re.findall(r"^(\| `([\w-]+)` \| [^|\d]+ \| )([\d,]+) \|", page, re.M)
    assert {arch for _, arch, _ in rows} == set(p.index)
    for start, arch, _ in rows:
        yield f"{start}{p[arch]:,} |"
    yield f"{CONFIG['sweeps'][LADDER[128]]['ko']['iterations']:,} steps from the analytic weights"


def ladder_fits(page):
    yield f"H = 32, {fits('ladder-small')} fits"
    yield f"H = 128 and 256, {fits('ladder')} fits: {wall('ladder')} on one H200"
    yield f"three seeds, {fits('ladder')} fits"


def ladder_findings(page):
    mean = curves("ladder")
    archs = CONFIG["sweeps"][LADDER[128]]["archs"]

    def ratio(H, one, other, N):
        below = min(mean[LADDER[H], arch][N] for arch in archs) if other is min else mean[LADDER[H], other][N]
        return mean[LADDER[H], one][N] / below

    def both(*case):
        return [ratio(H, *case) for H in LADDER]

    yield "has {:.0f} (H = 128) and {:.0f} times (H = 256) the error of the best network".format(*both("fc", min, 4))
    yield "and with 2,048 still {:.1f} and {:.1f} times.".format(*both("fc", min, 2048))
    n = needed("ladder", 1e-3)["n"]
    yield "It needs {:.0f} and {:.0f} times as many samples as `ko` for 10⁻³".format(
        *(n[sweep, "fc"] / n[sweep, "ko"] for sweep in LADDER.values())
    )
    assert ratio(128, "fc", "filter", 2048) < 1 < ratio(256, "fc", "filter", 2048)
    yield "at H = 128 even `fc` is better with 2,048."
    assert all(0.7 < value < 0.8 for value in both("filters", "ko-ridge", 4))
    later = [value - 1 for N in (64, 256, 1024, 2048) for value in both("filters", "ko-ridge", N)]
    low, high = 100 * min(later), 100 * max(later)
    yield f"at N = 4 `filters` is better by a quarter, from N = 64 on `ko-ridge` is, by {low:.0f} to {high:.0f} %."
    more = [100 * value - 100 for value in both("ko-ridge", "ko", 2048)]
    yield "`ko-ridge` has {:.0f} % (H = 128) and {:.0f} % (H = 256) more error".format(*more)
    assert all(3 <= value <= 4 for value in both("ko", "ko-ridge", 4))
    yield "at N = 4 the error of `ko` is three to four times that of `ko-ridge`"
    found = json.loads((REFERENCE / "ladder/ladder.json").read_text())["sweeps"]
    first, last = ([found[sweep]["N"][at]["rank_correlation"] for sweep in LADDER.values()] for at in (0, -1))
    assert round(first[0], 1) == round(first[1], 1)
    text = f"falls from {first[0]:.1f} at N = 4 to {last[0]:.2f} (H = 128) and {last[1]:.2f} (H = 256) at N = 2,048"
    yield text.replace("-", "−")


def taps(page):
    """The last but one up to N = 16, the second at the largest N, where it alone still improves."""
    rows = table("ladder", "ladder").set_index(["sweep", "arch", "N"])["rank"]
    mean = curves("ladder")
    for sweep in LADDER.values():
        archs = CONFIG["sweeps"][sweep]["archs"]
        assert [rows[sweep, "taps", N] for N in (4, 16, 2048)] == [len(archs) - 1, len(archs) - 1, 2]
        falls = [arch for arch in archs if arch != "fc" and mean[sweep, arch][2048] < 0.95 * mean[sweep, arch][1024]]
        assert falls == ["taps"]
    yield "is the last but one up to N = 16 and the second at N = 2,048"


# docs/conditions.md


def dose(page):
    yield from dose_rows()
    means = curves("dose")
    N = [f"{crossing(means, f'dose-{photons}', 'ko-ridge'):.0f}" for photons in ("3e3", "1e3", "3e2")]
    yield f"at N = {N[0]} with 3,000 photons, {N[1]} with 1,000, and {N[2]} with 300."
    more = means["dose-3e2", "fc"][1024] / means["dose-3e2", "filters"][1024]
    yield f"at 300 photons and 1,024 samples `fc` has {100 * more - 100:.0f} % more error"
    yield f"too, at N = {crossing(means, 'arc-90', 'filters'):.0f}, since it can learn"
    assert crossing(means, "dose-1e3", "ko-ridge") is not None  # README says both
    assert crossing(means, "arc-150", "filters") is None
    assert crossing(means, "arc-120", "filters") is None
    yield f"three arcs: {wall('dose')} on one H200"


# docs/modalities.md


def modalities(page):
    yield from modality_rows()
    yield f"{fits('modalities')} fits"
    answers = needed("modalities", 5e-4)
    fc, ko = answers.loc[("mri", "fc")], answers.loc[("mri", "ko")]
    yield f"needs {fc['n']:.0f} images (interval {fc['n_low']:.0f} to {fc['n_high']:.0f}) for the error 5e-4"
    yield f"which KO reaches with {ko['n']:.0f} ({ko['n_low']:.0f} to {ko['n_high']:.0f}); at N = 256"
    means, untrained = curves("modalities"), table("untrained", "modalities").groupby("sweep")["mse"].mean()
    filtered = short(untrained["deblur"])
    dense = short(means["deblur", "fc"][256])
    yield f"At N = 256 FC ({dense}) is still behind the filter before any learning ({filtered})"
    later = needed("modalities", 2e-3).loc[("deblur", "fc")]
    beyond = int(later["n_high"] // 1000 * 1000)
    yield f"the planner expects 2e-3 from it at N = {later['n']:.0f}, with an interval that reaches beyond {beyond:,}."
    assert 0.6 < means["mri", "ko"][4] / untrained["mri"] < 0.7
    yield "weights that beat those of theory by a third"
    measured = table("curves", "modalities").set_index(["sweep", "arch", "N"])["error_mean"]
    miss = abs(best("modalities")["predicted"] / measured - 1).dropna()
    assert len(miss) == 16
    yield f"all sixteen points within {np.ceil(100 * miss.max()):.0f} % of what was measured"
    cells = table("cells", "modalities").set_index(["sweep", "arch", "N", "seed"])["mse"]
    yield f"against {short(cells['mri', 'ko', 4, 1])}; seed 1)"
    sweeps = CONFIG["sweeps"]
    yield f"error on {sweeps['mri']['pool']['test']} test images. MRI: {sweeps['mri']['spokes']} spokes"
    yield f"{sweeps['mri']['spokes']} spokes of {sweeps['mri']['samples']} samples"
    yield f"would be enough, noise {sweeps['mri']['noise']}."
    yield f"blur {sweeps['deblur']['blur']:.0f} pixel, noise {sweeps['deblur']['noise']}, half of the light"


# docs/how-many-samples.md


def the_pilot(page):
    pilot = pd.read_csv(ROOT / "docs/pilot.csv")
    last = pilot[(pilot["arch"] == "ko") & (pilot["N"] == 32)]["error"].mean()
    assert pilot["N"].max() == 32
    yield f"The pilot stops at N = 32, where KO has an error of {last:.4f}."
    yield f"is such a pilot study: {len(pilot)} fits of two networks"
    ko, fc = errors("H32", "ko"), errors("H32", "fc")
    yield f"continues to N = {max(ko.index)}, where the error of KO is {ko[64]:.5f}: KO reaches"
    yield f"The error of FC there is {fc[64]:.4f}, still far"


def held_out_points(page):
    own, paper, points, covered = held_out()
    assert covered == points
    yield f"the median relative error is {own} %, against {paper} % for the paper's rule"
    yield f"all {points} held-out points lie in their 90 % intervals"


def gain_over_a_fit(page):
    """From the table above the sentence."""
    rows = {name: values for name, values in re.findall(r"^\| (.*?) \| ((?:0\.\d+ ?\|? ?){4})\|$", page, re.M)}
    own, fit = (
        np.array(rows[name].replace("|", " ").split(), float)
        for name in ("median of \\|log(forecast / truth)\\|", "the same, best of three laws, least squares")
    )
    better = 100 * (1 - own / fit)
    yield f"So the point of the forecast is {better.min():.0f} to {better.max():.0f} % better"


def the_curves(page):
    yield f"forecasts {len(benchmark('curves').load('error'))} learning curves that nobody here made"


# docs/your-pairs.md, docs/cluster.md


def transfer(page):
    """From the page's table, which test_pairs.py compares with a run."""
    rows = re.findall(r"^\| (FBP|KO|FC) \| (\d+|–) \| (.*) \|$", page, re.M)
    found = {(name, N): np.array(values.split(" | "), float) for name, N, values in rows}
    for values in found.values():
        assert abs(values[1:4].mean() / values[0] - values[4]) < 0.01
    means = [found[key][1:4].mean() for key in (("FBP", "–"), ("KO", "256"), ("FC", "256"))]
    yield "its mean over the slices is {:.2f}, that of KO with 256 phantoms {:.2f}, and FC's {:.2f}.".format(*means)
    yield f"with 256 phantoms the slices have {found['FC', '256'][4]} times the error of ellipses"


def dense_by_gradient(page):
    cells = table("cells").set_index(["sweep", "arch", "N", "seed"])["rrmse_peak"]
    yield f"that of the ridge, {cells['H256', 'fc', 2048, 1]:.5f}"


FACTS = {
    "README.md": [claims, who_is_below, few_samples, forecasts, strangers, studies, python],
    "docs/results.md": [calibration, floors, three_more_things, predictions_in_the_figure],
    "docs/curve.md": [predictions],
    "docs/ladder.md": [ladder_tables, ladder_fits, ladder_findings, taps],
    "docs/conditions.md": [dose],
    "docs/modalities.md": [modalities],
    "docs/how-many-samples.md": [the_pilot, held_out_points, gain_over_a_fit, the_curves],
    "docs/your-pairs.md": [transfer],
    "docs/cluster.md": [python, dense_by_gradient],
}
