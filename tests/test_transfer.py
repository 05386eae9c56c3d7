"""Networks of one sweep on the test pairs of another."""

import numpy as np
import pytest
from conftest import TINY, TINY_SWEEP

pytestmark = pytest.mark.workflow


@pytest.mark.slow
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
