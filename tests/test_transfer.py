"""Networks of one sweep on the test pairs of another, and those that start from another sweep's fits."""

import itertools
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import TINY, TINY_SWEEP
from made_up import cell

from koct.base import FRESH
from koct.base.files import read_json, write_json
from koct.base.stamps import Stamp
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.report import drawing
from koct.report.figures import fig_transfer
from koct.report.tables import table_transfer
from koct.study import paths, results
from koct.workflow import when
from koct.workflow.jobs import Jobs

SMALL = {"archs": ["unet"], "unet": {"channels": 2, "levels": 1, "steps": 2}}
FIRST = {**TINY_SWEEP, **SMALL, "H": 8, "B": 8, "N": [4, 8]}
SECOND = {**FIRST, "N": [2, 4], "unet": {**FIRST["unet"], "starts_from": "first"}}


def starting(first=FIRST, second=SECOND):
    return {"study": "s", "studies": {"s": ["first", "second"]}, "sweeps": {"first": first, "second": second}}


def test_a_fit_reads_the_one_that_it_starts_from_and_is_another_with_it():
    """That of the same seed, with the most samples; rows from elsewhere that started from another are refused."""
    cell = SimpleNamespace(sweep="second", arch="unet", N="2", seed="2")
    jobs = Jobs(starting())
    assert paths.fit("first", "unet", 8, "{seed}") in jobs.extra_input(cell)
    alone = Jobs(starting(second={**SECOND, "unet": FIRST["unet"]}))
    longer = Jobs(starting({**FIRST, "unet": {**FIRST["unet"], "steps": 3}}))
    fewer = Jobs(starting({**FIRST, "N": [2, 4]}))
    origins = [each._curve("second", "unet")["origin"]["read"] for each in (jobs, alone, longer, fewer)]
    assert len(set(map(str, origins))) == 4
    assert [when.origins(each.study) for each in (jobs, alone)] == [{"second": "first"}, {}]


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ({}, {"unet": {"starts_from": "third"}}, "= 'third' is no other sweep of this study with unet; take first"),
        ({"archs": ["fc"]}, {}, "is no other sweep of this study with unet; take nothing, since there is none"),
        ({"unet": {"starts_from": "second"}}, {}, "which starts from another sweep itself; take one that does not"),
        ({"seeds": [1]}, {}, "which has no seed 2; add it there, or remove it here"),
        ({"V": 6}, {}, r"have the shapes \(6, 8\) and \(8, 8\), and its own \(5, 8\)"),
    ],
)
def test_what_cannot_be_started_from_is_one_sentence(first, second, sentence):
    with pytest.raises(KoctError, match=f"sweeps.second.unet.starts_from .*{sentence}"):
        Jobs(starting({**FIRST, **first}, {**SECOND, **second}))


@pytest.mark.long
@pytest.mark.workflow
def test_networks_are_tested_on_other_pairs_without_a_fit(checkout):
    """On the same pairs by another name, errors are the same bits; on others they differ; nothing is fitted for it."""
    sweeps = {"T4": {**TINY_SWEEP, "tested_on": ["same", "other"]}, "same": TINY_SWEEP}
    sweeps["other"] = {**TINY_SWEEP, "seeds": [3]}
    config = {**TINY, "studies": {"tiny": list(sweeps)}, "sweeps": sweeps}
    study = checkout({**config, "sweeps": {**sweeps, "T4": TINY_SWEEP}})
    alone = study.plan()
    study.configure(config)
    plan = study.plan()
    more = {rule: count - alone.get(rule, 0) for rule, count in plan.items() if count != alone.get(rule)}
    assert more == {"transfer": 16, "collect_transfer": 1, "table_transfer": 1, "fig_transfer": 1}
    study.snakemake()
    cells, rows = study.table("cells"), study.table("transfer")
    assert "tested_on" not in cells
    key = ["arch", "N", "seed"]
    own = cells[(cells["sweep"] == "T4") & (cells["N"] > 0)].set_index(key)
    tested = rows[rows["tested_on"].notna()]
    assert len(tested) == 2 * len(own)
    for name, same in (("same", True), ("other", False)):
        there = tested[tested["tested_on"] == name].set_index(key).loc[own.index]
        assert np.array_equal(there[["mse", "rrmse_norm"]], own[["mse", "rrmse_norm"]]) == same
    row = study.path(paths.transfer("T4", "other", "ko", 4, 1))
    content = row.read_bytes()
    row.unlink()
    assert study.plan()["transfer"] == 1
    row.write_bytes(content)
    text = study.path("results/table_transfer.tex").read_text()
    assert text.count("tested on") == 2
    assert not study.plan()
    elsewhere = checkout(config)
    for made, brought in (("cells", "brought"), ("transfer", "brought/transfer")):
        shutil.copytree(study.path(f"results/{made}"), elsewhere.path(f"results/{brought}"))
    elsewhere.path(paths.brought_transfer("T4", "other", "ko", 4, 1)).unlink()
    changed = {"code": {"code": "another"}, "pairs": {"tested_seed": 4}}
    for arch, differs in (("ko", changed["code"]), ("fc", changed["pairs"])):
        row = elsewhere.path(paths.brought_transfer("T4", "same", arch, 8, 1))
        content, stamp = read_json(row)
        write_json(row, content, stamp._replace(spec={**stamp.spec, **differs}))
    jobs = elsewhere.plan()  # no edit of code alone makes a fit again
    assert (jobs["fit"], jobs["transfer"]) == (2, 2)
    elsewhere.snakemake("results/transfer.parquet")
    numbers = [*key, "sweep", "tested_on", "mse", "ssim"]
    assert elsewhere.table("transfer")[numbers].equals(rows[numbers])
    assert not elsewhere.plan("results/transfer.parquet")


# What samples of another kind are worth, and another dose costs

DOSES = {"head": 100, "head-low": 25}  # photons
SIZES = {"head": (4, 16, 64), "head-low": (4, 64), "head-discs": (16, 128, 1024), "head-after": (2, 8)}


def error(sweep, N, tested):
    """Four discs are worth one slice, and a slice after them four; a wrong dose costs a quarter."""
    slices = {"head-discs": N / 4, "head-after": 4 * N}.get(sweep, N)
    return slices**-0.5 * 10 / DOSES[tested] ** 0.5 * (1.25 if DOSES[tested] != DOSES.get(sweep, 100) else 1)


@pytest.fixture
def transfer(tmp_path):
    """Write the transfer.parquet of a study on slices and discs, at two doses."""
    rows = [cell("head", "fbp", 0, error=0.3), cell("head-low", "fbp", 0, error=0.6)]
    for sweep, tested in itertools.product(SIZES, DOSES):
        for N, seed in itertools.product(SIZES[sweep], (1,) if sweep in ("head-low", "head-after") else (1, 2)):
            told = {"seed": seed, "error": error(sweep, N, tested) * (1.2 if seed == 2 else 1)}
            rows.append(cell(sweep, "unet", N, tested_on=None if tested == sweep else tested, **told))
    labels = {sweep: f"scan, one patient, {photons} photons" for sweep, photons in DOSES.items()}
    labels |= {"head-discs": "discs, 100 photons", "head-after": labels["head"]}
    origin = {"koct.sweeps": json.dumps({sweep: {"label": label} for sweep, label in labels.items()})}
    results.write(rows, results.TRANSFER, tmp_path / "transfer.parquet", origin, Stamp({}))
    return tmp_path / "transfer.parquet"


def test_what_samples_are_worth_and_a_dose_costs_is_below_the_panels(transfer):
    """Numbers are those of the law; all stay on the page, and each line of panels says that it is one patient."""
    with drawing.styled():
        figure = fig_transfer.figure(transfer, dict.fromkeys(SIZES, "mse"), {"head-after": "head-discs"})
        figure.canvas.draw()
        page = figure.bbox
        for text in itertools.chain(*(axis.texts for axis in figure.axes)):
            box = text.get_window_extent()
            assert page.contains(box.x0, box.y0), text
            assert page.contains(box.x1, box.y1), text
    slices, discs, after, doses, *others = figure.axes
    titles = ["trained on head", "trained on discs", "discs, then head"]
    assert [axis.get_title() for axis in (slices, discs, after)] == titles
    titles = ["trained on 64 of head", "trained on 1,024 of discs", "discs, then 8 of head"]
    assert [axis.get_title() for axis in (doses, *others)] == titles
    assert [label.get_text() for label in doses.get_xticklabels()] == ["25\nphotons", "100\nphotons"]
    for axis, expected in ((slices, "one patient"), (discs, "≤4 32 >64"), (after, "8 32"), (doses, "1.25 one patient")):
        written = {word for text in axis.texts for word in text.get_text().replace(",", "").split()}
        assert set(expected.split()) <= written
    drawing.plt.close(figure)


def test_a_network_that_the_last_panel_lacks_is_named_below(transfer):
    rows, origin = results.read(transfer)
    rows += [cell("head", "filter", N, error=0.2) for N in SIZES["head"]]
    results.write(rows, results.TRANSFER, transfer, {"koct.sweeps": origin["koct.sweeps"]}, Stamp({}))
    with drawing.styled():
        figure = fig_transfer.figure(transfer, dict.fromkeys(SIZES, "mse"), {"head-after": "head-discs"})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["FILTER"]
    drawing.plt.close(figure)


def test_what_was_chosen_at_an_edge_is_hollow_also_without_samples(transfer):
    rows, origin = results.read(transfer)
    styles = {"fbp": {"label": "FBP", "colour": "#777777", "marker": "2"}}  # a marker that has no inside
    told = {"koct.sweeps": origin["koct.sweeps"], "koct.archs": json.dumps(styles)}
    marked = [{**row, "edge": row["arch"] == "fbp"} for row in rows]
    results.write(marked, results.TRANSFER, transfer, told, Stamp({}))
    with drawing.styled():
        figure = fig_transfer.figure(transfer, dict.fromkeys(SIZES, "mse"), {"head-after": "head-discs"})
    hollow = [line for axis in figure.axes for line in axis.lines if line.get_markerfacecolor() == "white"]
    drawn = [line for line in hollow if len(line.get_xdata())]
    assert drawn
    assert {(line.get_marker(), line.get_color()) for line in drawn} == {("o", "#777777")}
    assert "Hollow: strength at an end" in figure.texts[-1].get_text()
    drawing.plt.close(figure)


def test_the_table_takes_fresh_samples_for_the_most_and_marks_what_was_not_finished(tmp_path):
    ended, cut = {"edge": False, "gain": 0.01}, {"edge": True, "gain": 0.2}
    rows = [cell("a", "unet", N, error=error, **ended) for N, error in ((4, 0.2), (64, 0.1))]
    moved = [(4, 0.8, ended), (64, 0.7, ended), (FRESH, 0.6, cut)]
    rows += [cell("b", "unet", N, error=error, tested_on="a", **end) for N, error, end in moved]
    results.write(rows, results.TRANSFER, tmp_path / "transfer.parquet", {}, Stamp({}))
    made = table_transfer.table(tmp_path / "transfer.parquet", {"a": "mse", "b": "mse"})
    _, one, other = made.body[-1]
    assert "dagger" not in one
    assert one.endswith("($64$)")
    assert r"^\ddagger" in other
    assert other.endswith("(fresh)")
    assert "not finished" in made.caption


@pytest.mark.parametrize(("error", "text"), [(0.11, "83"), (0.1, "100"), (1.0, "≤4"), (2.0, "≤4"), (0.01, ">256")])
def test_worth_is_where_a_curve_has_the_error_if_it_has(error, text):
    curve = {N: [{"mse": seed * N**-0.5, "seed": seed} for seed in (1, 2)] for N in (4, 16, 64, 256)}
    assert fig_transfer.worth(curve, [{"mse": error, "seed": 1}], CurveMetric("mse")) == text
    assert fig_transfer.worth(curve, [{"mse": error, "seed": 3}], CurveMetric("mse")) == ""
