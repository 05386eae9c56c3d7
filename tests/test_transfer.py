"""Networks of one sweep on the test pairs of another, and those that start from another sweep's fits."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import TINY, TINY_SWEEP

from koct.errors import KoctError
from koct.study import paths
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
    text = study.path("results/table_transfer.tex").read_text()
    assert text.count("tested on") == 2
    assert not study.plan()
