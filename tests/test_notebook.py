"""Python as in a notebook: tables in, plots and tables out; and the notebooks of the docs."""

import json
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from conftest import ROOT

import koct
from koct import Curve, Forecast, Pilot
from koct.errors import KoctError

PILOT = pd.read_csv(ROOT / "docs/pilot.csv").query("arch == 'ko'")


def test_a_pilot_comes_as_frame_lists_or_arrays():
    columns = {name: PILOT[name].to_numpy() for name in ("N", "error", "seed")}
    expected = Forecast(Pilot.from_points(*columns.values())).required(0.002)
    for table in (PILOT, columns, {name: column.tolist() for name, column in columns.items()}):
        assert Forecast(table).required(0.002) == expected


def test_a_table_that_is_no_pilot_is_refused_by_name():
    with pytest.raises(KoctError, match="no column error, but N, loss; name it so"):
        Pilot.from_table({"N": [4, 8], "loss": [1.0, 0.5]})
    with pytest.raises(KoctError, match="runs of fc, ko; take those of one network"):
        Forecast(pd.read_csv(ROOT / "docs/pilot.csv"))
    assert len(Pilot.from_table({"N": [4, 8], "loss": [1.0, 0.5]}, error="loss").N) == 2


def cells(html):
    return [re.findall("<td>(.*?)</td>", row) for row in html.split("<tr>")[2:]]


def test_objects_show_themselves_as_tables_and_plots():
    forecast = Forecast(PILOT)
    assert [row[0] for row in cells(forecast._repr_html_())] == ["32", "64", "128", "256"]
    assert next(row[:2] for row in cells(forecast.pilot._repr_html_())) == ["4", "5"]
    axis = forecast.plot(target=0.002)
    answer = forecast.required(0.002)
    assert f"N = {answer.n:,}" in [text.get_text() for text in axis.get_legend().get_texts()]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    curve = Curve(x, x @ rng.normal(size=(4, 2)) + 0.1 * rng.normal(size=(50, 2)))
    assert [row[0] for row in cells(curve._repr_html_())] == ["2", "4", "8", "16", "32", "50", "100", "200", "400"]
    assert curve.plot(axis=axis) is axis
    matplotlib.pyplot.close("all")
    assert all(getattr(koct, name) for name in koct.__all__)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plan", "curve", "fbp"])
def test_a_notebook_of_the_docs_runs(name, monkeypatch):
    monkeypatch.chdir(ROOT / "docs/notebooks")
    matplotlib.use("Agg")
    scope = {}
    for cell in json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), scope)
            assert not cell["outputs"], "keep notebooks without outputs"
    matplotlib.pyplot.close("all")
