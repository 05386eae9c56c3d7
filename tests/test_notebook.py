"""Python as in a notebook: tables in, plots and tables out; and the notebooks of the docs."""

import inspect
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


def test_a_pilot_of_several_networks_is_a_path_or_a_frame_and_one_of_them():
    expected, path = Forecast(PILOT).required(0.002), ROOT / "docs/pilot.csv"
    for table in (path, str(path), pd.read_csv(path), pd.read_csv(path).rename(columns={"arch": "model"})):
        assert Forecast(table, arch="ko").required(0.002) == expected
    strange = pd.read_csv(path).rename(columns={"N": "size", "error": "y"})
    assert Forecast(strange, arch="ko", columns={"N": "size", "error": "y"}).required(0.002) == expected


def test_a_score_is_forecast_as_a_score():
    errors = Forecast(PILOT)
    dice = Forecast(PILOT.assign(dice=1 - PILOT["error"]).drop(columns="error"), metric="dice")
    answer, expected = dice.required(0.998), errors.required(0.002)
    assert (answer.n, answer.target) == (expected.n, 0.998)
    np.testing.assert_allclose(dice.predict([64]), 1 - np.array(errors.predict([64]))[[0, 2, 1]])
    assert dice.chance(0.998, [64]) == errors.chance(0.002, [64])
    assert answer.error_low < answer.error < answer.error_high < 1
    axis = dice.plot(target=0.998)
    assert (axis.get_ylabel(), axis.get_yscale()) == ("dice", "linear")
    matplotlib.pyplot.close("all")


WRONG = {
    "no error": ({"N": [4, 8], "y": [1.0, 0.5]}, {}, "say which it is with --columns error=COLUMN"),
    "two networks": (ROOT / "docs/pilot.csv", {}, 'has runs of fc, ko; choose one, like Forecast(…, arch="fc")'),
    "no such network": (ROOT / "docs/pilot.csv", {"arch": "cnn"}, "has no arch cnn; choose one of fc, ko"),
    "no table": ([0.5, 0.25], {}, "a pilot is a path, a DataFrame or {column: values}, and not of type list"),
    "no columns": ({"N": 4, "error": 1.0}, {}, "a column is not a list of values"),
    "lengths": ({"N": [4, 8], "error": [1.0]}, {}, "the columns have different lengths"),
    "read already": (Pilot.from_table(PILOT), {"metric": "dice"}, "say how to read a table, and a Pilot is read; omit"),
}


@pytest.mark.parametrize(("table", "options", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_pilot_is_refused_with_the_fix(table, options, message):
    with pytest.raises(KoctError, match=re.escape(message)):
        Forecast(table, **options)


def test_types_are_published():
    kinds = {parameter.kind for parameter in inspect.signature(Forecast).parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    assert (ROOT / "koct/py.typed").exists()


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
@pytest.mark.parametrize("name", ["plan", "curve", pytest.param("fbp", marks=pytest.mark.long)])
def test_a_notebook_of_the_docs_runs_and_shows_what_it_prints_and_draws(name, monkeypatch, capsys):
    """But for the digits, which may differ on other machines. To renew: jupyter execute --inplace docs/notebooks/*"""
    monkeypatch.chdir(ROOT / "docs/notebooks")
    matplotlib.use("Agg")
    scope, outputs = {}, []
    for cell in json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), scope)
            shown = "".join("".join(output.get("text", "")) for output in cell["outputs"])
            assert re.sub(r"\d+", "0", capsys.readouterr().out) == re.sub(r"\d+", "0", shown)
            outputs += cell["outputs"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    matplotlib.pyplot.close("all")
